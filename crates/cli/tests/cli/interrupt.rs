//! Interrupts: what was said is kept, and the exit code says what happened.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command};
use std::time::Duration;

use crate::program::{Ran, command, ran, spawn};

fn send(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

fn interrupt(child: &Child) {
    send(child, "-INT");
}

/// Waits until the program has computed for a while, however busy the machine is. Where the system
/// does not tell, time must do.
fn wait_until_computing(child: &Child) {
    const TICKS: u64 = 40; // 0.4 s of processor time; loading the demo takes a tenth of that
    let stat = format!("/proc/{}/stat", child.id());
    loop {
        let Ok(text) = std::fs::read_to_string(&stat) else {
            return std::thread::sleep(Duration::from_secs(3));
        };
        let after_name = text.rsplit(')').next().expect("a name in brackets");
        let ticks = after_name.split_whitespace().skip(11).take(2);
        if ticks.map(|n| n.parse::<u64>().expect("ticks")).sum::<u64>() >= TICKS {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until the program has a handler for the interrupt.
fn wait_until_handled(child: &Child) {
    const SIGINT_BIT: u64 = 1 << 1;
    let status = format!("/proc/{}/status", child.id());
    loop {
        let Ok(text) = std::fs::read_to_string(&status) else {
            return std::thread::sleep(Duration::from_secs(3));
        };
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask");
        if u64::from_str_radix(caught.trim(), 16).expect("hexadecimal") & SIGINT_BIT != 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts, waits for output to begin, interrupts, and returns everything.
fn interrupted(args: &[&str]) -> Ran {
    let mut child = spawn(command().args(["run", "--model", "demo", "--ignore-eos"]).args(args));
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let begun = stdout.fill_buf().expect("output").to_vec();
    assert!(!begun.is_empty());
    interrupt(&child);
    let mut out = String::new();
    stdout.read_to_string(&mut out).expect("UTF-8");
    let run = ran(child.wait_with_output().expect("ends"));
    Ran { out, ..run }
}

#[test]
fn text_is_kept() {
    let run = interrupted(&["--prompt", "The capital of France is"]);
    assert_eq!((run.code, run.said().as_str()), (Some(130), ""));
    assert!(run.out.starts_with(" Par") && run.out.ends_with('\n'), "{}", run.out);
}

#[test]
fn what_was_recorded_is_kept_and_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (trace, routes) = (at("trace.json"), at("routes.jsonl"));
    let run = interrupted(&["--prompt", "The", "--trace", &trace, "--route-trace", &routes]);
    assert_eq!(run.code, Some(130));
    let read = |path: &str| std::fs::read_to_string(path).expect("a file");
    let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    assert!(parsed(&read(&trace))["traceEvents"].is_array());
    let lines: Vec<serde_json::Value> = read(&routes).lines().map(parsed).collect();
    assert!(lines.len() > 1, "{lines:?}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2);
}

#[test]
fn ids_are_kept() {
    let run = interrupted(&["--prompt", "The capital of France is", "--ids"]);
    assert_eq!(run.code, Some(130));
    let ids = run.out.strip_suffix('\n').expect("a line");
    assert!(ids.split(' ').all(|id| id.parse::<u32>().is_ok()), "{ids}");
}

#[test]
fn json_is_kept() {
    let mut child = spawn(
        command()
            .args(["run", "--model", "demo", "--ignore-eos", "--json"])
            .args(["--prompt", "The capital of France is"]),
    );
    wait_until_computing(&child);
    interrupt(&child);
    let mut out = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut out).expect("UTF-8");
    assert_eq!(child.wait().expect("ends").code(), Some(130));
    let object: serde_json::Value = serde_json::from_str(&out).expect("one object");
    assert_eq!(object["finish"], "cancelled");
}

#[test]
fn a_prompt_can_be_interrupted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ids");
    std::fs::write(&path, "298 ".repeat(30_000)).expect("written");
    let mut child =
        spawn(command().args(["run", "--model", "demo", "--prompt-ids"]).arg(path).arg("--ids"));
    wait_until_computing(&child);
    interrupt(&child);
    let mut out = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut out).expect("UTF-8");
    assert_eq!(child.wait().expect("ends").code(), Some(130));
    assert_eq!(out.trim_end(), "");
}

/// Begins to write logits, sends signals, and returns the exit code and what is left lying about.
fn evaluation_ended_by(signals: &[&str]) -> (Option<i32>, usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let (ids, out) = (folder.path().join("ids"), folder.path().join("out.safetensors"));
    std::fs::write(&ids, "298 ".repeat(30_000)).expect("written");
    let mut child = spawn(
        command()
            .args(["eval", "logits", "--model", "demo", "--ids"])
            .arg(&ids)
            .arg("--out")
            .arg(&out),
    );
    let files = || std::fs::read_dir(folder.path()).expect("the folder").count();
    while files() < 2 {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(200));
    signals.iter().for_each(|signal| send(&child, signal));
    (child.wait().expect("ends").code(), files() - 1)
}

/// A file that is not complete does not get its name, nor does anything else stay.
#[test]
fn an_evaluation_that_is_ended_leaves_no_file() {
    assert_eq!(evaluation_ended_by(&["-INT"]), (Some(130), 0));
    assert_eq!(evaluation_ended_by(&["-INT", "-INT"]), (Some(130), 0));
    assert_eq!(evaluation_ended_by(&["-TERM"]), (Some(143), 0));
}

#[test]
fn an_interrupt_ends_a_scripted_chat() {
    let mut child = spawn(
        command().args(["chat", "--model", "demo", "--json"]).stdin(std::process::Stdio::piped()),
    );
    // No line, no end of input: it waits.
    wait_until_handled(&child);
    std::thread::sleep(Duration::from_millis(300));
    interrupt(&child);
    assert_eq!(child.wait().expect("ends").code(), Some(130));
}
