//! What becomes known after the head of an answer, or only to the log.

use std::io::BufReader;

use serde_json::json;

use crate::script::{Act, early_status, quick, soon, start_logged, start_with};
use crate::wire::{chat, chat_bytes, head, said};

#[test]
fn a_failure_under_an_early_status_is_an_error_in_the_body_and_in_the_log() {
    let (rig, log) = start_logged(early_status(), &[Act::Wait(400), Act::Fail]);
    let mut response = chat(rig.at, json!({}));
    assert_eq!(response.status, 200);
    let text = response.text();
    assert!(text.starts_with(' '), "{text}");
    let error: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(error["error"]["code"], "engine_error");
    let log = log.lock().expect("whole");
    assert!(log.iter().any(|line| line.starts_with("late_error an error was sent")), "{log:?}");
}

#[test]
fn a_plain_request_in_the_queue_is_kept_alive() {
    let rig = start_with(early_status(), &[Act::Forever(20)]);
    let running = chat(rig.at, json!({ "stream": true }));
    rig.until_busy();
    let mut waiting = chat(rig.at, json!({ "max_tokens": 2 }));
    assert_eq!((waiting.status, waiting.header("transfer-encoding")), (200, Some("chunked")));
    assert_eq!(waiting.chunk().as_deref(), Some(" "));
    running.leave();
    let reply: serde_json::Value = serde_json::from_str(&waiting.text()).expect("JSON");
    assert_eq!(reply["usage"]["completion_tokens"], 2);
}

#[test]
fn the_log_says_who_asked_what_and_who_left() {
    let (rig, log) = start_logged(quick(), &[Act::Forever(20)]);
    let has = |words: &str| log.lock().expect("whole").iter().any(|line| line.contains(words));
    let request = chat_bytes(json!({ "stream": true }));
    let socket = said(rig.at, &request);
    let id = head(BufReader::new(socket.try_clone().expect("a handle")));
    let id = id.header("x-request-id").expect("a name").to_owned();
    soon("asked", || has(&format!("request {id} POST /v1/chat/completions 200")));
    socket.shutdown(std::net::Shutdown::Both).expect("closed");
    soon("left", || has(&format!("generation {id} 499 client_closed_request")));
}
