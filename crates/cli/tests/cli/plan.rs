//! `plan`: what memory buys.

use crate::program::{command, deltafin, fixture, ran};

#[test]
fn the_released_model_is_planned_without_weights() {
    let text = deltafin(&["plan", "--k3", "--memory", "16G", "--drive-gbps", "4"]).ok();
    for words in [
        "Kimi K3 as released",
        "4.00 GB/s, not measured",
        "memory budget    16.00 GiB",
        "of 93 layers and the output head stay",
        // By what depends on the machine that the test runs on.
        "limited by the ",
        "with 1 GiB more memory",
        "with a second drive like this",
        "with the spine as int8",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_checkpoint_is_planned_for_machines() {
    let args = ["plan", "--model", &fixture("k3-micro"), "--memory", "1G", "--json"];
    let object = deltafin(&args).json();
    let outlook = &object["outlook"];
    let plan = &outlook["plan"];
    assert_eq!(plan["budget"], 1 << 30);
    // It is a few megabytes: all of it stays, and nothing would make it faster.
    assert_eq!(plan["cache"], plan["experts"]);
    assert_eq!(outlook["estimate"]["spine_read_bytes"], 0);
    assert_eq!(outlook["estimate"]["expert_read_bytes"], 0);
    assert!(outlook["more_memory"].is_null());
    assert!(outlook["estimate"]["token_seconds"].as_f64().is_some_and(|s| s > 0.0));
    let drive = &object["machine"]["drive"];
    assert!(drive["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{drive}");
    assert!(object["machine"]["drive_gbps"].as_f64().is_some_and(|gbps| gbps > 0.0));
}

#[test]
fn the_model_inside_the_program_is_on_no_drive() {
    let text = deltafin(&["plan", "--model", "demo", "--context", "256"]).ok();
    assert!(text.contains("GB/s, not measured"), "{text}");
    assert!(text.contains("layers and the output head stay"), "{text}");
}

#[test]
fn too_little_memory_is_refused_at_once_with_what_would_do() {
    let refusal = deltafin(&["plan", "--k3", "--memory", "2G"]).refusal();
    assert!(refusal.starts_with("a memory budget of 2.00 GiB is too small"), "{refusal}");
    assert!(refusal.contains("give --memory "), "{refusal}");
}

#[test]
fn what_does_not_go_together_is_misuse() {
    let both = deltafin(&["plan", "--k3", "--model", &fixture("k3-micro")]).usage();
    assert!(both.contains("leave --model out"), "{both}");
    let drive = deltafin(&["plan", "--drive", "."]).usage();
    assert!(drive.contains("--drive is for --k3"), "{drive}");
    for gbps in ["0", "-1", "fast", "nan", "inf"] {
        assert!(
            deltafin(&["plan", "--k3", &format!("--drive-gbps={gbps}")]).usage().contains("GB/s")
        );
    }
    assert!(deltafin(&["plan", "--k3", "--memory", "lots"]).usage().contains("or auto"));
}

#[test]
fn a_model_in_the_environment_does_not_stand_in_the_way_of_k3() {
    let run = command()
        .args(["plan", "--k3", "--memory", "2G"])
        .env("DELTAFIN_MODEL", "/nonexistent")
        .output();
    assert!(ran(run.expect("runs")).refusal().contains("too small"));
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let refusal =
        deltafin(&["plan", "--k3", "--memory", "8G", "--drive", "/nonexistent/place"]).refusal();
    assert!(
        refusal.contains("/nonexistent/place") && refusal.contains("another place"),
        "{refusal}"
    );
}
