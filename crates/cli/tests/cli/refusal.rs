//! What is refused: with one line that names the thing, before anything is generated.

use crate::program::{command, deltafin, deltafin_on, fixture, ran};

#[test]
fn misuse_exits_with_2() {
    for (args, named) in [
        (&["run"][..], "--prompt"),
        (&["run", "--prompt", "x", "--prompt-ids", "1"], "cannot be used with"),
        (&["run", "--prompt", "x", "--frobnicate"], "--frobnicate"),
        (&["run", "--prompt", "x", "--isa", "sse9"], "sse9"),
        (&["run", "--prompt", "x", "--threads", "0"], "--threads"),
        (&["run", "--prompt", "x", "--chunk", "0"], "--chunk"),
        (&["run", "--prompt", "x", "--context", "1T"], "1T"),
        (&["run", "--prompt", "x", "--max-new", "-1"], "-1"),
        (&["run", "--prompt", "x", "--system", "y"], "--chat"),
        (&["run", "--prompt", "x", "--chat", "--effort", "medium"], "medium"),
        (&["run", "--prompt", "x", "--chat", "--effort", "low", "--no-thinking"], "--no-thinking"),
        (&["run", "--prompt-ids", "1", "--chat"], "--chat"),
        (&["run", "--prompt-ids", "1,99999999999"], "99999999999"),
        (&["run", "--prompt-ids", "1,-2"], "'-2' (number 2"),
        (&["run", "--prompt-ids", "1.5"], "'1.5'"),
        (&["run", "--prompt", "x", "--threads", "+2"], "--threads"),
        (&["frobnicate"], "frobnicate"),
        (&["tokenize"], "nothing to tokenize"),
        (&["tokenize", "x", "--batch"], "--batch"),
        (&["tokenize", "x", "--render"], "--chat"),
        (&["tokenize", "x", "--start", "think"], "--parse"),
        (&["tokenize", "--decode", "x"], "'x'"),
        (&["tokenize", "--decode", "--", "x"], "'x'"),
        (&["tokenize", "--decode", "1", "--", "2"], "in one place"),
        (&["tokenize", "--decode", "1,2,,3"], "number 3 of the list is missing"),
        (&["run", "--prompt-ids", "1,2,,3"], "number 3 of the list is missing"),
        (&["tokenize", "--model", "demo", "--tokenizer", ".", "x"], "--tokenizer"),
        (&["eval", "logits", "--ids", "1"], "--out"),
    ] {
        let said = deltafin(args).usage();
        assert!(said.contains(named), "{args:?}: {said}");
    }
}

/// Also where the refusal is ours and not the parser's.
#[test]
fn misuse_points_at_the_help_of_its_command() {
    for (args, command) in [
        (&["run"][..], "run"),
        (&["run", "--prompt", "x", "--no-thinking"], "run"),
        (&["tokenize"], "tokenize"),
        (&["eval", "logits", "--ids", "1"], "eval logits"),
        (&["serve", "--json"], "serve"),
        (&["run", "--prompt", "x", "--threads", "0"], "run"),
    ] {
        let said = deltafin(args).usage();
        assert!(said.ends_with(&format!("; try 'deltafin {command} --help'")), "{said}");
    }
}

#[test]
fn an_instruction_set_of_another_machine_is_refused() {
    let foreign = if cfg!(target_arch = "aarch64") { "avx2" } else { "neon" };
    let line = deltafin(&["run", "--prompt", "x", "--isa", foreign]).refusal();
    assert!(line.contains(foreign) && line.contains("scalar"), "{line}");
    let line = deltafin(&["bench", "kernels", "--isa", foreign]).refusal();
    assert!(line.contains(foreign) && line.contains("scalar"), "{line}");
}

#[test]
fn a_model_that_is_none_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().to_str().expect("UTF-8");
    let line = deltafin(&["run", "--model", empty, "--prompt", "x"]).refusal();
    assert!(line.contains(empty) && line.contains("config.json"), "{line}");
    let line = deltafin(&["run", "--model", "/no/such", "--prompt", "x"]).refusal();
    assert!(line.contains("/no/such"), "{line}");
    for more in [&[][..], &["--deep"], &["--repair"]] {
        let line = deltafin(&[&["verify", "/no/such"], more].concat()).refusal();
        assert!(line.contains("/no/such: no such folder"), "{line}");
    }
    let line = deltafin(&["tokenize", "--model", empty, "x"]).refusal();
    assert!(line.contains("tiktoken.model"), "{line}");
    let line = deltafin(&["tokenize", "--tokenizer", "/no/such", "x"]).refusal();
    assert!(line.contains("/no/such") && line.contains("no such directory"), "{line}");
}

#[test]
fn an_empty_prompt_is_refused() {
    assert!(deltafin(&["run", "--prompt", ""]).refusal().contains("empty"));
    assert!(deltafin(&["run", "--prompt-ids", ""]).refusal().contains("empty"));
    assert!(deltafin(&["run", "--chat", "--prompt", ""]).refusal().contains("empty"));
    assert!(deltafin_on("\n", &["run", "--prompt", "-"]).refusal().contains("empty"));
}

#[test]
fn ids_outside_the_vocabulary_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("logits.safetensors");
    for args in [
        &["run", "--prompt-ids", "1,2304", "--ids"][..],
        &["eval", "logits", "--ids", "1,2304", "--out", out.to_str().expect("UTF-8")],
    ] {
        let line = deltafin(args).refusal();
        assert!(line.contains("2304") && line.contains("0 to 2303"), "{line}");
        assert!(line.contains("deltafin tokenize"), "{line}");
    }
    assert!(!out.exists());
    let line = deltafin(&["tokenize", "--model", "demo", "--decode", "1,2304"]).refusal();
    assert!(line.contains("2304"), "{line}");
}

#[test]
fn a_prompt_that_does_not_fit_is_refused_with_both_lengths() {
    let args = ["run", "--prompt-ids", "1,2,3,4,5,6,7", "--ids", "--context", "6"];
    let line = deltafin(&args).refusal();
    assert!(line.contains('7') && line.contains('6') && line.contains("--context"), "{line}");
}

#[test]
fn a_context_beyond_the_model_is_refused() {
    let line = deltafin(&["run", "--prompt", "x", "--context", "2M"]).refusal();
    assert!(line.contains("2097152") && line.contains("1048576"), "{line}");
}

#[test]
fn bad_files_are_named() {
    let line = deltafin(&["run", "--prompt-ids", "no-such-file"]).refusal();
    assert!(line.contains("no-such-file"), "{line}");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ids");
    std::fs::write(&path, "1 2 three").expect("written");
    let path = path.to_str().expect("UTF-8");
    let line = deltafin(&["run", "--prompt-ids", path]).refusal();
    assert!(line.contains(path) && line.contains("'three'"), "{line}");
    let line = deltafin(&["tokenize", "--chat", path]).refusal();
    assert!(line.contains(path), "{line}");
    let micro = fixture("k3-micro");
    let out = "/no/such/folder/out.safetensors";
    let line =
        deltafin(&["eval", "logits", "--model", &micro, "--ids", "1", "--out", out]).refusal();
    assert!(line.contains(out), "{line}");
}

/// An empty file is most likely another command's failure: it is named.
#[test]
fn empty_files_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nothing");
    std::fs::write(&path, "").expect("written");
    let path = path.to_str().expect("UTF-8");
    let line = deltafin(&["run", "--ids", "--prompt-ids", path]).refusal();
    assert!(line.contains(path) && line.contains("empty"), "{line}");
    let line = deltafin(&["eval", "ppl", "--model", "demo", "--text", path]).refusal();
    assert!(line.contains(path) && line.contains("has 0"), "{line}");
}

/// A dash is no file that anybody wants to have.
#[test]
fn a_dash_is_no_name_of_a_file_to_write() {
    let model = fixture("k3-micro");
    let run = ["run", "--model", &model, "--prompt-ids", "1", "--ids", "--max-new", "1"];
    let logits = ["eval", "logits", "--model", &model, "--ids", "1"];
    for args in [
        [&run[..], &["--trace", "-"]].concat(),
        [&run[..], &["--route-trace", "-"]].concat(),
        [&logits[..], &["--out", "-"]].concat(),
    ] {
        let line = deltafin(&args).refusal();
        assert!(line.starts_with("cannot write -: ") && line.contains("./-"), "{line}");
    }
    assert!(!std::path::Path::new("-").exists());
}

/// What has no end is not read until memory is gone.
#[test]
fn endless_input_is_refused() {
    let line = deltafin(&["run", "--ids", "--prompt-ids", "/dev/zero"]).refusal();
    assert!(line.contains("/dev/zero: ") && line.contains("is not a token id"), "{line}");
    for (args, named) in [
        (&["run", "--prompt", "-"][..], "standard input"),
        (&["tokenize", "--model", "demo", "--batch"], "line 1 of standard input"),
        (&["chat", "--model", "demo"], "line 1 of standard input"),
    ] {
        let zeros = std::fs::File::open("/dev/zero").expect("the device");
        let run = ran(command().args(args).stdin(zeros).output().expect("runs"));
        let line = run.refusal();
        assert!(line.starts_with(named) && line.contains("longer than"), "{line}");
    }
}

/// A model is not written over, nor written beside.
#[test]
fn the_model_s_own_files_are_not_replaced() {
    let folder = mixed("k3-micro", &[], "");
    let model = folder.path().to_str().expect("UTF-8");
    let config = folder.path().join("config.json");
    let before = std::fs::read(&config).expect("read");
    let args = ["eval", "logits", "--model", model, "--ids", "1,2", "--out"];
    for name in ["config.json", "new.safetensors"] {
        let out = folder.path().join(name);
        let line = deltafin(&[&args[..], &[out.to_str().expect("UTF-8")]].concat()).refusal();
        assert!(line.contains(name) && line.contains("another name"), "{line}");
    }
    assert_eq!(std::fs::read(&config).expect("read"), before);
    assert!(!folder.path().join("new.safetensors").exists());
}

/// Nor is what a run records.
#[test]
fn records_do_not_replace_the_model_s_own_files() {
    let folder = mixed("k3-micro", &[], "");
    let model = folder.path().to_str().expect("UTF-8");
    let config = folder.path().join("config.json");
    let before = std::fs::read(&config).expect("read");
    for flag in ["--trace", "--route-trace"] {
        for name in ["config.json", "new.json"] {
            let out = folder.path().join(name);
            let args = ["run", "--model", model, "--prompt-ids", "1", "--ids", flag];
            let line = deltafin(&[&args[..], &[out.to_str().expect("UTF-8")]].concat()).refusal();
            assert!(line.contains(name) && line.contains("another name"), "{line}");
        }
    }
    assert_eq!(std::fs::read(&config).expect("read"), before);
    assert!(!folder.path().join("new.json").exists());
}

/// A full disk is a fault, not a closed pipe.
#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_a_fault() {
    let full = std::fs::File::create("/dev/full").expect("the device");
    let args = ["run", "--model", "demo", "--prompt", "The capital of France is"];
    let run = ran(command().args(args).stdout(full).output().expect("runs"));
    assert!(run.refusal().starts_with("cannot write the output: "));
    let full = std::fs::File::create("/dev/full").expect("the device");
    let run = ran(command().args(["run", "--help"]).stdout(full).output().expect("runs"));
    assert!(run.refusal().starts_with("cannot write the output: "));
}

/// The parser does not say which.
#[test]
fn what_is_no_text_is_named() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let odd = OsStr::from_bytes(b"\xff");
    let run = ran(command().args(["run", "--prompt"]).arg(odd).output().expect("runs"));
    let said = run.usage();
    assert!(said.contains("--prompt is not UTF-8 text"), "{said}");
    let mut run = command();
    run.args(["run", "--prompt", "x"]).env("DELTAFIN_THREADS", odd);
    let said = ran(run.output().expect("runs")).usage();
    assert!(said.contains("DELTAFIN_THREADS is not UTF-8 text"), "{said}");
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("text");
    std::fs::write(&path, b"caf\xe9").expect("written");
    let path = path.to_str().expect("UTF-8");
    let line = deltafin(&["eval", "ppl", "--model", "demo", "--text", path]).refusal();
    assert!(line.contains(path) && line.contains("byte 3"), "{line}");
}

#[test]
fn more_than_any_machine_has_use_for_is_refused() {
    for (args, named) in [
        (&["run", "--prompt", "x", "--threads", "20000"][..], "1024"),
        (&["bench", "kernels", "--threads", "30000"], "1024"),
        (&["bench", "kernels", "--rows", "18446744073709551615"], "4096"),
        (&["bench", "kernels", "--seconds", "1M"], "3600"),
    ] {
        let said = deltafin(args).usage();
        assert!(said.contains(&format!("at most {named}")), "{args:?}: {said}");
    }
}

/// The engine's flags are one group; those that act on a model say that there is none.
#[test]
fn a_benchmark_of_kernels_names_flags_that_do_nothing() {
    let args = ["--kernel", "f32", "--rows", "1", "--seconds", "1", "--threads", "1"];
    let idle = ["--model", "demo", "--chunk", "3"];
    let run = deltafin(&[&["bench", "kernels"][..], &args, &idle].concat());
    assert_eq!(run.code, Some(0));
    assert!(run.err.contains("--model has no effect") && run.err.contains("--chunk has no effect"));
}

/// A copy of a fixture with some files of another model.
fn mixed(of: &str, files: &[&str], from: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for entry in std::fs::read_dir(fixture(of)).expect("the fixture") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name");
        std::fs::copy(&path, folder.path().join(name)).expect("copied");
    }
    for name in files {
        std::fs::copy(format!("{from}/{name}"), folder.path().join(name)).expect("copied");
    }
    folder
}

#[test]
fn the_tokenizer_of_another_model_is_refused_where_text_is_used() {
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../demo/model");
    let folder = mixed("k3-micro", &["tiktoken.model", "tokenizer_config.json"], demo);
    let model = folder.path().to_str().expect("UTF-8");
    let line = deltafin(&["run", "--model", model, "--prompt", "x"]).refusal();
    assert!(line.contains("tiktoken.model has 2048 ranks"), "{line}");
    for args in [
        &["tokenize", "--model", model, "x"][..],
        &["chat", "--model", model],
        &["serve", "--model", model, "--port", "0"],
    ] {
        let line = deltafin(args).refusal();
        assert!(line.contains("tiktoken.model has 2048 ranks"), "{args:?}: {line}");
    }
    deltafin(&["tokenize", "--tokenizer", model, "x"]).ok();
    let ids = ["run", "--model", model, "--prompt-ids", "1,2", "--ids", "--max-new", "2"];
    assert_eq!(deltafin(&ids).ok().split(' ').count(), 2);
    let inspected = deltafin(&["inspect", model]);
    assert_eq!(inspected.code, Some(1));
    assert!(inspected.out.contains("tiktoken.model has 2048 ranks"), "{}", inspected.out);
}

#[test]
fn a_pipe_in_place_of_a_file_is_refused_without_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("tiktoken.model");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    let model = folder.path().to_str().expect("UTF-8");
    let line = deltafin(&["tokenize", "--tokenizer", model, "x"]).refusal();
    assert!(line.contains("not an ordinary file"), "{line}");
    let args =
        ["eval", "logits", "--model", "demo", "--ids", "1", "--out", pipe.to_str().expect("UTF-8")];
    let line = deltafin(&args).refusal();
    assert!(line.contains("not an ordinary file"), "{line}");
}

/// A name is foreign text: it neither commands the terminal nor passes for lines of ours.
#[test]
fn names_with_controls_stay_on_their_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let odd = folder.path().join("a\x1b[31m\nproblems      none");
    std::fs::create_dir(&odd).expect("made");
    let model = odd.to_str().expect("UTF-8");
    let line = deltafin(&["run", "--model", model, "--prompt-ids", "1", "--ids"]).refusal();
    assert!(line.contains("a␛[31m␊problems"), "{line}");
    let inspected = deltafin(&["inspect", model]);
    assert!(inspected.out.starts_with("model "), "{inspected:?}");
    assert!(!inspected.out.contains('\x1b'), "{inspected:?}");
    assert!(!inspected.out.lines().any(|line| line == "problems      none"), "{inspected:?}");
    let named =
        command().args(["run", "--prompt-ids", "1", "--ids"]).env("DELTAFIN_MODEL", model).output();
    assert_eq!(ran(named.expect("runs")).err.lines().count(), 2);
}
