//! Which model is used, and that it is said.

use std::path::Path;

use crate::program::{Ran, command, deltafin, fixture, ran};

const ARGS: [&str; 6] = ["run", "--prompt-ids", "1,2", "--ids", "--max-new", "2"];

fn with(variables: &[(&str, &str)], more: &[&str]) -> Ran {
    let output = command().args(ARGS).args(more).envs(variables.iter().copied()).output();
    ran(output.expect("the binary starts"))
}

#[test]
fn the_flag_needs_no_words() {
    assert_eq!(with(&[("DELTAFIN_MODEL", "/nowhere")], &["--model", "demo"]).said(), "");
}

#[test]
fn the_environment_is_named() {
    let directory = fixture("k3-micro");
    let run = with(&[("DELTAFIN_MODEL", &directory)], &[]);
    assert_eq!(run.said(), format!("deltafin: model: {directory} (DELTAFIN_MODEL)\n"));
    assert_eq!(run.ok(), with(&[], &["--model", &directory]).ok());
    let empty = with(&[("DELTAFIN_MODEL", "")], &[]);
    assert!(empty.err.contains("built-in demo"), "{empty:?}");
}

fn installed(configuration: &Path, text: &str) -> Ran {
    std::fs::create_dir_all(configuration.join("deltafin")).expect("made");
    std::fs::write(configuration.join("deltafin/model"), text).expect("written");
    with(&[("XDG_CONFIG_HOME", configuration.to_str().expect("UTF-8"))], &[])
}

#[test]
fn the_installed_model_comes_before_the_demo() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = fixture("k3-micro");
    let run = installed(folder.path(), &format!("{directory}\n"));
    assert_eq!(run.said(), format!("deltafin: model: {directory} (installed by setup)\n"));
    assert_eq!(run.ok(), with(&[], &["--model", &directory]).ok());
}

#[test]
fn an_installed_model_that_is_gone_is_not_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = installed(folder.path(), "somewhere\n").refusal();
    assert!(line.contains("'somewhere'") && line.contains("absolute"), "{line}");
    let line = installed(folder.path(), "/gone\n").refusal();
    assert!(line.contains("'/gone'") && line.contains("--model"), "{line}");
}

#[test]
fn every_engine_flag_has_a_twin() {
    let run = with(
        &[("DELTAFIN_ISA", "scalar"), ("DELTAFIN_THREADS", "1"), ("DELTAFIN_STATS", "1")],
        &[],
    );
    assert!(run.err.contains("isa scalar, threads 1"), "{run:?}");
    let run =
        with(&[("DELTAFIN_CHUNK", "3"), ("DELTAFIN_CONTEXT", "1K"), ("DELTAFIN_JSON", "yes")], &[]);
    let stats = &run.json()["stats"];
    assert_eq!((&stats["chunk"], &stats["context"]), (&3.into(), &1024.into()));
    let run = with(
        &[("DELTAFIN_CONTEXT", "1K"), ("DELTAFIN_STATS", "0")],
        &["--context", "2K", "--json"],
    );
    assert_eq!(run.json()["stats"]["context"], 2048);
    assert!(with(&[("DELTAFIN_THREADS", "many")], &[]).usage().contains("many"));
    let said = with(&[("DELTAFIN_STATS", "maybe")], &[]).usage();
    assert!(said.contains("'maybe'") && said.contains("DELTAFIN_STATS"), "{said}");
}

#[test]
fn a_profile_has_a_variable_of_two_names() {
    let profile = "prefill: 2 tokens";
    for name in ["DELTAFIN_PROFILE", "K3_PROFILE"] {
        assert!(with(&[(name, "1")], &[]).err.contains(profile), "{name}");
        let said = with(&[(name, "perhaps")], &[]).usage();
        assert!(said.contains(name) && said.contains("'perhaps'"), "{said}");
    }
    let run = with(&[("DELTAFIN_PROFILE", "0"), ("K3_PROFILE", "1")], &[]);
    assert!(!run.err.contains(profile), "{run:?}");
    assert!(!run.err.contains("ignored"), "{run:?}");
}

/// As a script's unset variable leaves it: the demo must not answer in another model's place.
#[test]
fn an_empty_name_is_no_model() {
    for (args, flag) in [
        (&["run", "--prompt", "x", "--model", ""][..], "--model"),
        (&["run", "--prompt", "x", "--spine="], "--spine"),
        (&["inspect", ""], "[DIR|demo]"),
        (&["eval", "compare", "@int8", "demo", "--ids", "1,2"], "<A>"),
        (&["eval", "compare", "demo", "", "--ids", "1,2"], "<B>"),
        (&["tokenize", "--model=", "x"], "--model"),
    ] {
        let said = deltafin(args).usage();
        assert!(said.contains(flag) && said.contains("empty"), "{args:?}: {said}");
    }
    let said = deltafin(&["eval", "compare", "demo@int4", "demo", "--ids", "1,2"]).usage();
    assert!(said.contains("'int4'") && said.contains("int8"), "{said}");
}

#[test]
fn a_directory_called_demo_is_reached_by_its_path() {
    let line = deltafin(&["run", "--model", "./demo", "--prompt", "x"]).refusal();
    assert!(line.contains("./demo"), "{line}");
}

#[test]
fn an_empty_variable_is_none() {
    let names = ["SPINE", "THREADS", "ISA", "CHUNK", "CONTEXT", "STATS", "JSON"];
    let names = names.map(|name| format!("DELTAFIN_{name}"));
    let empty = names.each_ref().map(|name| (name.as_str(), ""));
    assert_eq!(with(&empty, &["--model", "demo"]).ok(), with(&[], &["--model", "demo"]).ok());
}

#[test]
fn a_refused_variable_is_named() {
    for (name, value) in
        [("DELTAFIN_THREADS", "many"), ("DELTAFIN_ISA", "sse9"), ("DELTAFIN_CONTEXT", "0")]
    {
        let said = with(&[(name, value)], &[]).usage();
        assert!(said.contains(name) && said.contains(value), "{said}");
    }
    let typed = with(&[("DELTAFIN_THREADS", "2")], &["--threads=x"]).usage();
    assert!(!typed.contains("DELTAFIN_THREADS"), "{typed}");
}

/// A misspelled variable would otherwise do nothing, and nobody would know.
#[test]
fn a_variable_that_no_flag_has_is_named() {
    let ours = ["--model", "demo"];
    let run = with(&[("DELTAFIN_THREAD", "1"), ("DELTAFIN_ISA", "scalar")], &ours);
    assert!(run.err.starts_with("deltafin: DELTAFIN_THREAD is ignored"), "{run:?}");
    assert_eq!(run.said().lines().count(), 1, "{run:?}");
    assert_eq!(run.ok(), with(&[], &ours).ok());
}

#[test]
fn what_setup_remembers_is_a_path_in_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = installed(folder.path(), &"x".repeat(1 << 17)).refusal();
    assert!(line.contains("longer than any path") && line.len() < 1000, "{line}");
}
