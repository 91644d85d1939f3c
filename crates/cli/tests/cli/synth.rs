//! `synth`, as it is typed.

use std::fs;

use crate::program::deltafin;

fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("made").to_str().expect("UTF-8").to_owned();
    (folder, out)
}

#[test]
fn a_small_checkpoint_opens_and_runs() {
    let (_folder, out) = folder();
    let said = deltafin(&["synth", "--preset", "tiny", "--out", &out]).ok();
    assert!(said.contains("7 shards"), "{said}");
    let inspected = deltafin(&["inspect", &out]).ok();
    assert!(inspected.contains('6'), "{inspected}");
    let run = ["run", "--model", &out, "--prompt-ids", "1,2,3", "--ids", "--max-new", "4"];
    let ids = deltafin(&[&run[..], &["--ignore-eos"]].concat()).ok();
    assert_eq!(ids.split_whitespace().count(), 4, "{ids}");
}

#[test]
fn overrides_change_the_dimensions() {
    let (_folder, out) = folder();
    let flags = ["--layers", "3", "--experts", "12", "--top-k", "3", "--vocab", "1K"];
    deltafin(&[&["synth", "--preset", "tiny", "--sparse", "--out", &out][..], &flags].concat())
        .ok();
    let config = fs::read_to_string(format!("{out}/config.json")).expect("a configuration");
    for field in [
        "\"num_hidden_layers\": 3,",
        "\"num_experts\": 12,",
        "\"num_experts_per_token\": 3,",
        "\"vocab_size\": 1024,",
    ] {
        assert!(config.contains(field), "{field} in {config}");
    }
}

#[test]
fn what_cannot_be_is_refused_and_leaves_nothing() {
    let (folder, out) = folder();
    let line = deltafin(&["synth", "--out", &out, "--preset", "tiny", "--top-k", "65"]).refusal();
    assert!(line.contains("--top-k: num_experts_per_token is 65"), "{line}");
    let args = ["synth", "--out", &out, "--preset", "tiny", "--sparse"];
    for layers in ["18446744073709551615", "4294967296", "200"] {
        let line = deltafin(&[&args[..], &["--layers", layers]].concat()).refusal();
        assert!(line.starts_with("--layers: ") && line.contains(layers), "{line}");
    }
    let said = deltafin(&["synth", "--out", &out, "--overlap", "2"]).usage();
    assert!(said.contains("from 0 to 1"), "{said}");
    let taken = folder.path().to_str().expect("UTF-8");
    fs::write(folder.path().join("letter"), "dear").expect("written");
    let line = deltafin(&["synth", "--out", taken, "--preset", "tiny"]).refusal();
    assert!(line.contains(taken) && line.contains("not empty"), "{line}");
    let letter = format!("{taken}/letter");
    let line = deltafin(&["synth", "--out", &letter, "--preset", "tiny"]).refusal();
    assert!(line.contains("is a file: give a new directory"), "{line}");
    assert!(!fs::exists(&out).expect("looked"), "no directory was made");
}
