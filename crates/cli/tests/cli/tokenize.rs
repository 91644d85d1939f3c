//! `tokenize`: the fixtures of the text crate, through the program.

use std::fs;

use serde_json::{Value, json};

use crate::program::{Ran, command, deltafin, deltafin_on, ran, spawn, text_fixture};

fn goldens(name: &str) -> Value {
    serde_json::from_slice(&fs::read(text_fixture(name)).expect("a fixture")).expect("JSON")
}

/// A directory that holds the tiny tokenizer under the names of a release, and nothing else.
fn tiny() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (from, to) in [
        ("tokenizer/tiny.tiktoken.model", "tiktoken.model"),
        ("tokenizer/tiny.tokenizer_config.json", "tokenizer_config.json"),
    ] {
        fs::copy(text_fixture(from), folder.path().join(to)).expect("copied");
    }
    folder
}

/// One value per line in, one out.
fn batch(inputs: &[Value], args: &[&str]) -> (Option<i32>, Vec<Value>) {
    let folder = tiny();
    let input: String = inputs.iter().map(|value| format!("{value}\n")).collect();
    let directory = folder.path().to_str().expect("UTF-8");
    let head = ["tokenize", "--tokenizer", directory, "--batch"];
    let Ran { code, out, .. } = deltafin_on(&input, &[&head, args].concat());
    let values: Vec<Value> =
        out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(values.len(), inputs.len());
    (code, values)
}

fn column(cases: &Value, name: &str) -> Vec<Value> {
    cases.as_array().expect("cases").iter().map(|case| case[name].clone()).collect()
}

#[test]
fn text_to_ids_and_back() {
    let cases = &goldens("tokenizer/tiny.goldens.json")["encode"];
    let (texts, ids) = (column(cases, "text"), column(cases, "ids"));
    assert_eq!(batch(&texts, &[]), (Some(0), ids.clone()));
    assert_eq!(batch(&ids, &["--decode"]), (Some(0), texts));
    let cases = &goldens("tokenizer/tiny.goldens.json")["decode"];
    assert_eq!(batch(&column(cases, "ids"), &["--decode"]), (Some(0), column(cases, "text")));
}

#[test]
fn chats_to_ids_and_text() {
    let cases = goldens("chat/render.json")["cases"].clone();
    let cases = cases.as_array().expect("cases");
    let inputs: Vec<Value> = cases.iter().map(|case| case["input"].clone()).collect();
    for (args, wanted) in [(&["--chat"][..], "ids_tiny"), (&["--chat", "--render"], "rendered")] {
        let (code, printed) = batch(&inputs, args);
        assert_eq!(code, Some(1), "some of the cases must be refused");
        for (case, printed) in cases.iter().zip(printed) {
            match case.get("error") {
                Some(_) => assert!(printed["error"].is_string(), "{}: {printed}", case["name"]),
                None => assert_eq!(printed, case[wanted], "{}", case["name"]),
            }
        }
    }
}

#[test]
fn replies_to_their_parts() {
    let cases = goldens("chat/parse.json")["cases"].clone();
    for start in ["think", "response"] {
        let spelled = |case: &&Value| case["start"] == start && case.get("raw").is_some();
        let cases: Vec<&Value> = cases.as_array().expect("cases").iter().filter(spelled).collect();
        assert!(!cases.is_empty());
        let inputs: Vec<Value> = cases.iter().map(|case| case["raw"].clone()).collect();
        let (code, answers) = batch(&inputs, &["--parse", "--start", start]);
        assert_eq!(code, Some(0));
        for (case, answer) in cases.iter().zip(answers) {
            let expect = &case["expect"];
            assert_eq!(answer["reasoning_content"], expect["reasoning"], "{}", case["name"]);
            assert_eq!(answer["content"], expect["content"], "{}", case["name"]);
            assert_eq!(answer["tool_calls"], expect["tool_calls"], "{}", case["name"]);
            assert_eq!(
                answer["finish"] == "length",
                expect["finished"] == false,
                "{}",
                case["name"]
            );
        }
    }
}

#[test]
fn one_at_a_time() {
    let ids = deltafin(&["tokenize", "--model", "demo", "The capital of France is"]).json();
    assert_eq!(ids, json!([298, 393, 306, 1861, 413, 282]));
    let typed =
        deltafin_on("The capital of France is", &["tokenize", "--model", "demo", "-"]).json();
    assert_eq!(typed, ids);
    for words in [&["298", "393", "306"][..], &["298,393,306"], &["[298, 393, 306]"]] {
        let args = [&["tokenize", "--model", "demo", "--decode"], words].concat();
        assert_eq!(deltafin(&args).ok(), "The capital of\n");
    }
    let list = ids.to_string();
    let france = list.as_str();
    for args in [&["--decode", "--", france][..], &["--decode", "--", "-"], &[france, "--decode"]] {
        let args = [&["tokenize", "--model", "demo"][..], args].concat();
        assert_eq!(deltafin_on(france, &args).ok(), "The capital of France is\n", "{args:?}");
    }
    let decode = ["tokenize", "--model", "demo", "--decode", "-"];
    assert_eq!(deltafin_on(&ids.to_string(), &decode).ok(), "The capital of France is\n");
}

/// A prompt that holds nothing of what was given must not pass for one.
#[test]
fn a_chat_without_messages_is_refused() {
    for input in ["{}", "{\"prompt\": \"Hi\"}"] {
        let line = deltafin_on(input, &["tokenize", "--model", "demo", "--chat", "-"]).refusal();
        assert!(line.contains("missing field `messages`"), "{line}");
    }
}

/// What a user spells is never control.
#[test]
fn spelled_markers_are_text() {
    let ids = deltafin(&["tokenize", "--model", "demo", "<|end_of_msg|>"]).json();
    let ids = ids.as_array().expect("ids");
    assert!(ids.len() > 1 && ids.iter().all(|id| id.as_u64() < Some(2048)), "{ids:?}");
}

#[test]
fn a_reply_comes_as_text_or_ids() {
    let text = "hm<|close|>think<|sep|><|open|>response<|sep|>Yes<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>";
    let wanted =
        json!({ "reasoning_content": "hm", "content": "Yes", "tool_calls": [], "finish": "stop" });
    assert_eq!(deltafin(&["tokenize", "--model", "demo", "--parse", text]).json(), wanted);
    // "moons" and a cut: 767 is one ordinary token. Without brackets a number is an answer.
    for (typed, content) in [("[767]", " moons"), ("767,", "767,"), ("42", "42")] {
        let args = ["tokenize", "--model", "demo", "--parse", "--start", "response", typed];
        let answer = deltafin(&args).json();
        assert_eq!((&answer["content"], &answer["finish"]), (&json!(content), &json!("length")));
    }
}

#[test]
fn a_bad_line_spoils_only_itself() {
    let (code, values) = batch(&[json!("a"), json!(3), json!("b")], &[]);
    assert_eq!(code, Some(1));
    assert!(values[0].is_array() && values[1]["error"].is_string() && values[2].is_array());
    let out_of_range = goldens("tokenizer/tiny.goldens.json")["decode_out_of_range"].clone();
    let lines: Vec<Value> =
        out_of_range.as_array().expect("ids").iter().map(|id| json!([id])).collect();
    let (code, values) = batch(&lines, &["--decode"]);
    assert_eq!(code, Some(1));
    assert!(values.iter().all(|value| value["error"].is_string()), "{values:?}");
}

/// Bytes that are no text are one line's fault.
#[test]
fn a_line_that_is_not_utf8_spoils_only_itself() {
    use std::io::Write as _;
    use std::process::Stdio;
    let args = ["tokenize", "--model", "demo", "--batch"];
    let mut child = spawn(command().args(args).stdin(Stdio::piped()));
    child.stdin.take().expect("piped").write_all(b"\"a\"\n\"\xff\"\n\"b\"\n").expect("read");
    let run = ran(child.wait_with_output().expect("ends"));
    let lines: Vec<Value> =
        run.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((run.code, lines.len()), (Some(1), 3));
    assert!(lines[0].is_array() && lines[1]["error"].is_string() && lines[2].is_array());
}
