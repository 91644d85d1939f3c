//! Clients that go away.

use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::script::{Act, Rig, early_status, quick, soon, start, start_wide, start_with};
use crate::wire::{chat, chat_body, get};

#[track_caller]
fn cancelled(rig: &Rig, reason: &str) {
    let line = format!("deltafin_cancelled_total{{reason=\"{reason}\"}} 1");
    soon(&line, || get(rig.at, "/metrics", "").text().contains(&line));
}

#[test]
fn while_tokens_come() {
    let rig = start(&[Act::Forever(20)]);
    let mut stream = chat(rig.at, json!({ "stream": true }));
    stream.chunk();
    stream.chunk();
    stream.leave();
    sleep(Duration::from_millis(10));
    let then = rig.log.ids.load(Ordering::SeqCst);
    rig.until_idle();
    assert!(rig.log.ids.load(Ordering::SeqCst) <= then + 2);
    assert!(rig.log.broken_off.load(Ordering::SeqCst));
    cancelled(&rig, "client_left");
}

#[test]
fn in_the_prompt() {
    let acts: Vec<Act> = vec![Act::Prefill(30); 200];
    let rig = start(&acts);
    let stream = chat(rig.at, json!({ "stream": true }));
    rig.until_busy();
    stream.leave();
    rig.until_idle();
    assert!(rig.log.broken_off.load(Ordering::SeqCst));
    assert_eq!(rig.log.ids.load(Ordering::SeqCst), 0);
}

/// Neither before the head of a plain response nor among its blanks is a client owed work.
#[test]
fn from_a_plain_request() {
    for wait_ms in [30, 400] {
        let rig = start_with(early_status(), &[Act::Forever(20)]);
        let body = chat_body(json!({})).to_string();
        let mut socket = std::net::TcpStream::connect(rig.at).unwrap();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        std::io::Write::write_all(&mut socket, (head + &body).as_bytes()).unwrap();
        rig.until_busy();
        sleep(Duration::from_millis(wait_ms));
        drop(socket);
        rig.until_idle();
        assert!(rig.log.broken_off.load(Ordering::SeqCst));
        cancelled(&rig, "client_left");
    }
}

/// It is still connected, and its buffers are full.
#[test]
fn one_that_takes_nothing_is_given_up() {
    let rig = start_wide(quick(), &[Act::Forever(0)], 10_000_000);
    let stream = chat(rig.at, json!({ "stream": true }));
    rig.until_busy();
    let patience = Instant::now() + Duration::from_secs(20);
    while rig.log.busy.load(Ordering::SeqCst) && Instant::now() < patience {
        sleep(Duration::from_millis(20));
    }
    assert!(rig.log.broken_off.load(Ordering::SeqCst));
    assert!(rig.log.ids.load(Ordering::SeqCst) < 1_000_000);
    cancelled(&rig, "client_left");
    drop(stream);
}
