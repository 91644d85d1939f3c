//! `plan`: what memory buys.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::program::{command, deltafin, fixture, linked, ran, spawn};

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

/// The same flags divide memory in the same way, a context that nobody asked for included.
#[test]
fn what_is_planned_is_what_runs() {
    let model = fixture("k3-micro");
    let pinned = ["--context", "100", "--slabs", "12", "--pin", "64K", "--prefetch", "off"];
    for more in [&[][..], &pinned] {
        let flags = [&["--model", &model, "--memory", "64M", "--json"], more].concat();
        let planned = deltafin(&[&["plan", "--drive-gbps", "1"], &flags[..]].concat()).json();
        let run = ["run", "--prompt-ids", "1,2", "--ids", "--max-new", "1"];
        let ran = deltafin(&[&run, &flags[..]].concat()).json();
        let (plan, stats) = (&planned["outlook"]["plan"], &ran["stats"]);
        assert_eq!(planned["context"], stats["context"], "{planned} {ran}");
        assert_eq!(planned["context_short_of"].is_u64(), more.is_empty());
        for (plans, runs) in [
            ("budget", "budget_bytes"),
            ("snapshots", "snapshot_bytes"),
            ("spine_resident_bytes", "spine_resident_bytes"),
            ("spine_stream_bytes", "spine_stream_bytes"),
            ("expert_slabs", "expert_slots"),
            ("pinned", "pinned"),
            ("experts", "experts"),
            ("chunk_rows", "chunk"),
        ] {
            assert_eq!(plan[plans], stats["plan"][runs], "{plans}: {planned} {ran}");
        }
    }
}

/// What a server keeps of conversations is a part of the memory, in the plan as in the server.
#[test]
fn a_server_s_snapshots_are_planned_with() {
    let model = fixture("k3-micro");
    let plan = |more: &[&str]| {
        let args = ["plan", "--model", &model, "--memory", "64M", "--drive-gbps", "1"];
        deltafin(&[&args, more].concat())
    };
    let text = plan(&["--snapshot-memory", "auto"]).ok();
    assert!(text.contains("  snapshots ") && text.contains("of earlier conversations"), "{text}");
    let line = plan(&["--snapshot-memory", "60M"]).refusal();
    assert!(line.contains("too small"), "{line}");
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

#[test]
fn a_pack_on_disk_is_what_is_planned_with() {
    let (_folder, model) = linked();
    let plan = |more: &[&str]| {
        let args = ["plan", "--model", &model, "--memory", "1G", "--drive-gbps", "1", "--json"];
        deltafin(&[&args, more].concat())
    };
    let released = plan(&[]).json();
    assert_eq!(released["spine"], "bf16");
    assert!(released["outlook"]["int8_spine"].is_object());
    assert!(plan(&["--spine", "int8"]).refusal().contains("deltafin convert"));

    deltafin(&["convert", "--spine", "int8", "--model", &model]).ok();
    let packed = plan(&[]).json();
    assert_eq!(packed["spine"], "int8");
    assert!(packed["outlook"]["int8_spine"].is_null(), "it is that already");
    let bytes = |report: &serde_json::Value| {
        report["outlook"]["plan"]["spine_resident_bytes"].as_u64().expect("a number")
    };
    assert!(bytes(&packed) < bytes(&released));
    assert_eq!(plan(&["--spine", "bf16"]).json()["spine"], "bf16");
}

#[test]
fn the_released_model_is_planned_with_either_spine() {
    let k3 = ["plan", "--k3", "--memory", "16G", "--drive-gbps", "4"];
    let text = deltafin(&[&k3[..], &["--spine", "int8"]].concat()).ok();
    assert!(text.contains("spine int8") && text.contains("GB/s of int8 spine"), "{text}");
    assert!(!text.contains("with the spine as int8"), "{text}");
    let line = deltafin(&[&k3[..], &["--spine", "/some/pack"]].concat()).refusal();
    assert!(line.contains("give bf16 or int8"), "{line}");
}

#[test]
fn an_interrupted_measurement_leaves_no_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().to_str().expect("UTF-8");
    let child = spawn(command().args(["plan", "--k3", "--memory", "16G", "--drive", path]));
    let files = || fs::read_dir(dir.path()).expect("a folder").count();
    while files() == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    assert_eq!(ran(child.wait_with_output().expect("ends")).code, Some(130));
    assert_eq!(files(), 0);
}

#[test]
fn what_earlier_runs_learned_is_reckoned_with() {
    let state = tempfile::tempdir().expect("a folder");
    let model = fixture("k3-micro");
    let run = |args: &[&str]| {
        let mut program = command();
        program.args(args).args(["--model", &model]).env("XDG_STATE_HOME", state.path());
        ran(program.output().expect("runs"))
    };
    let plan = ["plan", "--memory", "1G", "--drive-gbps", "1"];
    assert!(!run(&plan).ok().contains("going by earlier runs"));
    // Not all experts fit, so that there is something to learn.
    run(&["run", "--prompt-ids", "1,2,3", "--max-new", "3", "--slabs", "12", "--ids"]).ok();
    assert!(run(&plan).ok().contains("going by earlier runs"));
}
