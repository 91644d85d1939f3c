//! Under limits of the system a command works or is refused in one line. It is never ended by a signal.
#![cfg(target_os = "linux")] // Elsewhere the shell cannot limit addresses.

use std::process::{Command, Stdio};

use crate::program::{Ran, command, deltafin, fixture, ran, spawn, wait_until};

/// Runs the program where a shell has set a limit.
fn within(limit: &str, args: &[&str]) -> Ran {
    piped("exec", limit, args)
}

/// The same, with words of the shell before the program.
fn piped(before: &str, limit: &str, args: &[&str]) -> Ran {
    let deltafin = command();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("ulimit {limit}; {before} \"$0\" \"$@\"")])
        .arg(deltafin.get_program());
    for (name, value) in deltafin.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // All that is said under a limit fits into a pipe.
    let mut child = spawn(&mut shell);
    wait_until(&mut child, "its end", |child| child.try_wait().expect("asked").is_some());
    ran(child.wait_with_output().expect("ended"))
}

const RUN: [&str; 7] =
    ["run", "--model", "demo", "--prompt", "The capital of France is", "--max-new", "3"];

#[test]
fn too_few_addresses_are_refused_and_end_nothing() {
    let run = |kib: u32, threads| {
        within(&format!("-v {kib}"), &[&RUN[..], &["--threads", threads]].concat())
    };
    let mut refused = Vec::new();
    for (kib, threads) in [(110_000, "2"), (300_000, "2"), (160_000, "64"), (600_000, "64")] {
        let run = run(kib, threads);
        match run.code {
            Some(0) => assert_eq!(run.out, " Paris.\n", "{run:?}"),
            _ => refused.push(run.refusal()),
        }
    }
    assert!(!refused.is_empty());
    for line in refused {
        assert!(line.contains("--memory") || line.contains("--threads"), "{line}");
    }
    // An arena of the allocator for each thread would take them all.
    assert_eq!(run(400_000, "64").ok(), " Paris.\n");
    assert_eq!(run(4 << 20, "2").ok(), " Paris.\n");
}

/// Whatever is left when the last thread has its stack: it is enough for that thread to begin, or there is none.
#[test]
fn a_thread_without_addresses_is_not_begun() {
    let threads = [&RUN[..], &["--threads", "200"]].concat();
    for kib in (300_000..302_100).step_by(300) {
        let line = within(&format!("-v {kib}"), &threads).refusal();
        assert!(line.contains("the system allows") && line.contains("ulimit -v"), "{line}");
    }
}

#[test]
fn a_measurement_without_memory_is_refused() {
    let args = ["bench", "kernels", "--kernel", "f32", "--rows", "1", "--seconds", "1"];
    let line = within("-v 70000", &args).refusal();
    assert!(line.contains("measuring takes") && line.contains("ulimit -v"), "{line}");
    assert!(line.ends_with("raise that limit"), "{line}");
    // Enough for what is measured with, but for the threads.
    let run = within("-v 110000", &args);
    if run.code != Some(0) {
        let line = run.refusal();
        assert!(line.contains("measuring takes") && line.contains("ulimit -v"), "{line}");
    }
}

/// No budget helps there, so none is named.
#[test]
fn a_plan_without_addresses_to_measure_in_says_so() {
    let args = ["plan", "--model", &fixture("k3-micro"), "--memory", "64M"];
    for kib in [90_000, 120_000, 200_000, 400_000] {
        let run = within(&format!("-v {kib}"), &args);
        if run.code != Some(0) {
            let line = run.refusal();
            assert!(line.contains("ulimit -v") && !line.contains("smaller --memory"), "{line}");
        }
    }
}

/// A record that may not grow is a write that fails.
#[test]
fn a_limit_of_file_sizes_is_a_fault() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    let path = path.to_str().expect("UTF-8");
    let run = within("-f 0", &[&RUN[..], &["--trace", path]].concat());
    assert_eq!((run.code, run.out.as_str()), (Some(1), " Paris.\n"), "{run:?}");
    assert!(run.said().starts_with(&format!("deltafin: cannot write {path}: ")), "{run:?}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

/// What was saved before stays until the new is whole.
#[test]
fn a_conversation_that_cannot_be_saved_spares_the_one_that_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("talk.json");
    std::fs::write(&path, "precious").expect("written");
    let said = format!("echo '/save {}' |", path.display());
    let run = piped(&said, "-f 0", &["chat", "--model", "demo"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.err.contains("cannot write") && run.err.contains("talk.json"), "{run:?}");
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), "precious");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

/// The file that was asked for is named, not the one in the making.
#[test]
fn a_drive_that_is_full_is_told_by_the_name_that_was_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.safetensors").display().to_string();
    let model = fixture("k3-micro");
    let line =
        within("-f 0", &["eval", "logits", "--model", &model, "--ids", "1,2,3", "--out", &out])
            .refusal();
    assert!(line.starts_with(&format!("cannot write {out}: ")), "{line}");
    assert!(!line.contains(".partial"), "{line}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

/// Whatever is far too long for the context is refused before it is in memory: in less than it would take.
#[test]
fn input_that_is_too_long_is_not_held() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, words: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, words.repeat((48 << 20) / words.len())).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let (text, ids) = (file("text", "some words "), file("ids", "12, 345\n"));
    let out = folder.path().join("logits").display().to_string();
    let (model, memory) = (fixture("k3-micro"), ["--memory", "96M", "--threads", "1"]);
    let engine = [&["--model", &model][..], &memory].concat();
    let from = format!("exec < {text}; exec");
    for (before, args) in [
        (from.as_str(), [&["run", "--chat", "--prompt", "-"][..], &engine].concat()),
        (&from, [&["run", "--prompt", "-"][..], &engine].concat()),
        (&from, [&["chat"][..], &engine].concat()),
        ("exec", [&["run", "--ids", "--prompt-ids", &ids][..], &engine].concat()),
        ("exec", [&["eval", "logits", "--out", &out, "--ids", &ids][..], &engine].concat()),
        ("exec", [&["eval", "ppl", "--text", &text][..], &engine].concat()),
        ("exec", [&["eval", "compare", &model, &model, "--text", &text][..], &memory].concat()),
    ] {
        let run = piped(before, "-v 260000", &args);
        assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
        let line = run.err.lines().last().unwrap_or_default();
        assert!(
            line.contains("longer than") && line.contains("raise --context"),
            "{args:?}: {line}"
        );
    }
}

/// The smallest budget is told what else helps: whatever it lacks addresses for.
#[test]
fn the_smallest_budget_is_not_to_be_smaller() {
    let model = fixture("k3-micro");
    let on = ["run", "--model", &model, "--prompt", "hi", "--max-new", "1", "--context", "1K"];
    let run = |limit: &str, memory: &str| {
        within(limit, &[&on[..], &["--threads", "1", "--memory", memory]].concat())
    };
    let line = run("-v unlimited", "1M").refusal();
    let named = line.split("give --memory ").nth(1).and_then(|rest| rest.split(',').next());
    let least = named.unwrap_or_else(|| panic!("{line}"));
    let mut refused = 0;
    for kib in (96_000..=112_000).step_by(2000) {
        let run = run(&format!("-v {kib}"), least);
        if run.code != Some(0) {
            let line = run.refusal();
            assert!(
                line.contains("raise that limit") || line.contains("raise the limit"),
                "{line}"
            );
            assert!(!line.contains("--memory"), "{line}");
            refused += 1;
        }
    }
    assert!(refused > 0);
}

/// A budget that is more than there is, where even all there is would not be enough: no other one is named.
#[test]
fn no_smaller_budget_is_named_where_none_is_enough() {
    let args = ["run", "--model", &fixture("k3-micro"), "--prompt", "hi", "--threads", "1"];
    for memory in ["auto", "64M"] {
        let line = within("-v 70000", &[&args[..], &["--memory", memory]].concat()).refusal();
        assert!(line.contains("the smallest plan takes") && line.contains("ulimit -v"), "{line}");
        assert!(!line.contains("give"), "{line}");
    }
}

/// The budget that is named is accepted as it is typed, and one byte less is not.
#[test]
fn the_smallest_budget_is_sharp() {
    let model = fixture("k3-micro");
    let run = |memory: &str| {
        let on = ["run", "--model", &model, "--prompt", "hi", "--max-new", "1"];
        deltafin(&[&on[..], &["--memory", memory]].concat())
    };
    let named = |line: &str| -> u64 {
        let rest = line.split("give --memory ").nth(1).and_then(|rest| rest.split('M').next());
        rest.and_then(|mib| mib.parse().ok()).unwrap_or_else(|| panic!("{line}"))
    };
    let mib = named(&run("1").refusal());
    let less = (mib << 20) - 1;
    let refusal = run(&less.to_string()).refusal();
    assert!(refusal.contains(&format!("budget of {less} B is too small")), "{refusal}");
    assert_eq!(named(&refusal), mib);
    run(&format!("{mib}M")).ok();
}

/// A context that holds more tokens than a message may have bytes: a longer one would be no remedy.
#[test]
fn a_message_that_is_too_long_to_be_rendered_is_told_its_own_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("text");
    std::fs::write(&path, "word ".repeat(1 << 18)).expect("written");
    let from = format!("exec < {}; exec", path.display());
    let on = ["--model", "demo", "--context", "256K"];
    for (words, instead) in [
        (&["run", "--chat", "--prompt", "-"][..], "leave --chat out"),
        (&["chat"], "in several messages"),
    ] {
        let run = piped(&from, "-v unlimited", &[words, &on].concat());
        assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
        let line = run.err.lines().last().unwrap_or_default();
        assert!(line.contains("longer than 1.00 MiB") && line.ends_with(instead), "{line}");
    }
}
