//! `chat` driven by a script.

use serde_json::Value;

use crate::program::{Ran, command, deltafin, deltafin_on, ran, spawn};

const CHAT: [&str; 3] = ["chat", "--model", "demo"];

#[test]
fn every_line_is_a_turn() {
    let run = deltafin_on("Hello!\n\nMy name is Anna.\nWhat is my name?", &CHAT);
    assert_eq!(run.said(), "");
    let answers = run.ok();
    let answers: Vec<&str> = answers.lines().collect();
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert_eq!(answers[2], "Your name is Anna.");
}

fn turns(input: &str, more: &[&str]) -> Vec<Value> {
    let run = deltafin_on(input, &[&CHAT[..], &["--json"], more].concat());
    run.ok().lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

/// Continuing a conversation says what a cold start on the whole of it would say.
#[test]
fn the_state_is_reused_and_changes_nothing() {
    let input = "My name is Anna.\nWhat is my name?\nHello!\n";
    let warm = turns(input, &[]);
    assert_eq!(warm.len(), 3);
    assert_eq!(warm[0]["stats"]["reused_tokens"], 0);
    assert!(warm[1]["stats"]["reused_tokens"].as_u64() > Some(0), "{}", warm[1]);

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("talk.json");
    let save = format!("My name is Anna.\n/save {}\n", path.display());
    turns(&save, &[]);
    let mut request: Value =
        serde_json::from_slice(&std::fs::read(&path).expect("saved")).expect("JSON");
    let said = serde_json::json!({ "role": "user", "content": "What is my name?" });
    request["messages"].as_array_mut().expect("messages").push(said);
    std::fs::write(&path, request.to_string()).expect("written");

    let path = path.to_str().expect("UTF-8");
    let ids = deltafin(&["tokenize", "--model", "demo", "--chat", path]).ok();
    assert_eq!(
        serde_json::from_str::<Vec<u32>>(&ids).expect("ids").len() as u64,
        warm[1]["stats"]["prompt_tokens"].as_u64().expect("a count")
    );
    let cold = deltafin(&["run", "--model", "demo", "--prompt-ids", &ids, "--json"]).json();
    assert_eq!(cold["ids"], warm[1]["ids"]);
}

#[test]
fn reset_forgets() {
    let replies = turns("My name is Anna.\n/reset\nHello!\n", &[]);
    let fresh = turns("Hello!\n", &[]);
    assert_eq!(replies[1]["ids"], fresh[0]["ids"]);
    assert_eq!(replies[1]["stats"]["prompt_tokens"], fresh[0]["stats"]["prompt_tokens"]);
}

#[test]
fn a_system_message_begins_anew() {
    let typed = turns("Hello!\n/system Be brief.\nHello!\n", &[]);
    let given = turns("Hello!\n", &["--system", "Be brief."]);
    assert_eq!(typed[1]["ids"], given[0]["ids"]);
    assert_eq!(typed[1]["stats"]["prompt_tokens"], given[0]["stats"]["prompt_tokens"]);
    let none = turns("/system\nHello!\n", &["--system", "Be brief."]);
    assert_eq!(
        none[0]["stats"]["prompt_tokens"],
        turns("Hello!\n", &[])[0]["stats"]["prompt_tokens"]
    );
}

/// What was asked for and shows no other way is confirmed, beside the replies and not among them.
#[test]
fn commands_that_succeed_say_so_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("talk.json");
    let save = format!("/save {}", path.display());
    for (typed, said) in [
        ("/reset".to_owned(), "the conversation is forgotten".to_owned()),
        (
            "/system".to_owned(),
            "there is no system message; the conversation begins anew".to_owned(),
        ),
        (
            "/system Be brief.".to_owned(),
            "the system message is set; the conversation begins anew".to_owned(),
        ),
        (
            "/system Be brief.\n/reset".to_owned(),
            "the conversation is forgotten; the system message is kept".to_owned(),
        ),
        (format!("/system Be brief.\n{save}"), format!("1 message saved in {}", path.display())),
        (save, format!("0 messages saved in {}", path.display())),
    ] {
        let run = deltafin_on(&format!("{typed}\n"), &CHAT);
        assert_eq!((run.code, run.out.as_str()), (Some(0), ""), "{run:?}");
        let wanted = format!("deltafin: {said}");
        assert_eq!(run.said().lines().last(), Some(wanted.as_str()), "{run:?}");
        assert_eq!(run.said().lines().count(), typed.lines().count(), "{run:?}");
    }
}

#[test]
fn quit_ends_and_help_helps() {
    let run = deltafin_on("/help\n/quit\nHello!\n", &CHAT);
    assert!(run.err.contains("/save FILE"), "{}", run.err);
    assert_eq!(run.ok(), "");
}

/// The conversation goes on, and the exit code says that not all was done.
#[test]
fn a_refused_command_is_named_and_ends_nothing() {
    for (command, named) in [
        ("/frobnicate", "'/frobnicate'"),
        ("/save", "needs a file name"),
        ("/save /no/such/folder/talk.json", "/no/such/folder/talk.json"),
    ] {
        let run = deltafin_on(&format!("{command}\nHello!\n"), &CHAT);
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(run.err.contains(named) && run.said().lines().count() == 1, "{run:?}");
        assert_eq!(run.out, deltafin_on("Hello!\n", &CHAT).ok());
    }
}

fn on_bytes(input: &[u8]) -> Ran {
    use std::io::Write as _;
    let mut child = spawn(command().args(CHAT).stdin(std::process::Stdio::piped()));
    child.stdin.take().expect("piped").write_all(input).expect("read");
    ran(child.wait_with_output().expect("ends"))
}

/// One bad line stays one bad line.
#[test]
fn a_line_that_is_no_text_is_named_and_ends_nothing() {
    let run = on_bytes(b"\n\xff\nHello!\n");
    assert_eq!(run.code, Some(1), "{run:?}");
    let said = run.said();
    assert!(said.contains("line 2 of standard input is not UTF-8") && said.lines().count() == 1);
    assert_eq!(run.out, deltafin_on("Hello!\n", &CHAT).ok());
}

/// A pipe has nobody at its other end to take what is saved.
#[test]
fn a_conversation_is_saved_in_an_ordinary_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo runs").success());
    let run = deltafin_on(&format!("/save {}\n", pipe.display()), &CHAT);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.err.contains("not an ordinary file"), "{run:?}");
}

/// A doubled slash says a slash.
#[test]
fn a_line_may_begin_with_a_slash() {
    let one = turns("//etc\n", &[]);
    let count = deltafin(&["tokenize", "--model", "demo", "/etc"]).json();
    let none = turns("x\n", &[]);
    let length = |replies: &[Value]| replies[0]["stats"]["prompt_tokens"].as_u64().unwrap_or(0);
    assert_eq!(length(&one) + 1, length(&none) + count.as_array().map_or(0, Vec::len) as u64);
}

#[test]
fn a_limit_is_kept_per_reply() {
    let replies = turns("Hello!\nHello!\n", &["--max-new", "2"]);
    assert!(replies.iter().all(|reply| reply["ids"].as_array().map(Vec::len) == Some(2)));
    assert!(replies.iter().all(|reply| reply["finish"] == "length"));
}

#[test]
fn a_full_context_ends_a_script() {
    let line = deltafin_on("Hello!\n", &[&CHAT[..], &["--context", "20"]].concat()).refusal();
    assert!(line.contains("20") && line.contains("--context"), "{line}");
}
