//! A build without the built-in model: says so in one line, and runs what it is given.
//! `cargo test -p deltafin --no-default-features`.
#![cfg(not(feature = "demo"))]

#[path = "cli/program.rs"]
#[allow(dead_code)] // the tests of the usual build need more of it
mod program;

use program::{command, deltafin, fixture, ran};

#[test]
fn a_command_without_a_model_says_what_to_do() {
    for args in [
        &["run", "--prompt", "x"][..],
        &["run", "--model", "demo", "--prompt", "x"],
        &["chat"],
        &["serve", "--port", "0"],
        &["inspect"],
        &["inspect", "demo"],
        &["tokenize", "x"],
        &["eval", "logits", "--ids", "1", "--out", "out.safetensors"],
    ] {
        let line = deltafin(args).refusal();
        assert!(line.contains("carries no demo model"), "{args:?}: {line}");
        assert!(line.contains("--model DIR"), "{args:?}: {line}");
    }
    let named = command().args(["run", "--prompt", "x"]).env("DELTAFIN_MODEL", "demo").output();
    assert!(ran(named.expect("runs")).refusal().contains("carries no demo model"));
}

#[test]
fn a_checkpoint_runs() {
    let model = fixture("k3-micro");
    let ids = ["--prompt-ids", "1,2", "--ids", "--max-new", "3", "--ignore-eos"];
    let printed = deltafin(&[&["run", "--model", &model][..], &ids].concat()).ok();
    assert_eq!(printed.split_whitespace().count(), 3, "{printed}");
    assert!(deltafin(&["inspect", &model]).ok().contains("problems      none"));
}

#[test]
fn help_offers_no_demo() {
    for command in ["run", "inspect", "tokenize"] {
        let help = deltafin(&[command, "--help"]).ok();
        assert!(!help.contains("DIR|demo") && !help.contains("'demo'"), "{help}");
        assert!(help.contains("carries no demo model"), "{help}");
    }
}
