//! Clients that go away.

use std::io::BufReader;
use std::net::Shutdown;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use deltafin_server::Settings;
use serde_json::json;

use crate::script::{Act, Rig, early_status, quick, soon, start, start_wide, start_with};
use crate::wire::{chat, chat_bytes, get, head, said};

#[track_caller]
fn cancelled(rig: &Rig, reason: &str) {
    let line = format!("deltafin_cancelled_total{{reason=\"{reason}\"}} 1");
    soon(&line, || get(rig.at, "/metrics", "").text().contains(&line));
}

#[track_caller]
fn given_up(rig: &Rig) {
    rig.until_idle();
    assert!(rig.log.broken_off.load(Ordering::SeqCst));
    cancelled(rig, "client_left");
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
    for (settings, wait_ms) in [(quick(), 30), (early_status(), 400)] {
        let rig = start_with(settings, &[Act::Forever(20)]);
        let socket = said(rig.at, &chat_bytes(json!({})));
        rig.until_busy();
        sleep(Duration::from_millis(wait_ms));
        drop(socket);
        given_up(&rig);
    }
}

/// A reset needs no second proof.
#[test]
fn by_a_reset() {
    let rig = start(&[Act::Forever(20)]);
    let socket = said(rig.at, &chat_bytes(json!({})));
    rig.until_busy();
    socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
    drop(socket);
    given_up(&rig);
}

/// Who has finished sending still listens.
#[test]
fn closing_one_side_is_not_leaving() {
    let acts = [Act::Wait(500), Act::Say("x"), Act::Stop];
    for settings in [quick(), early_status()] {
        let rig = start_with(settings, &acts);
        let socket = said(rig.at, &chat_bytes(json!({})));
        socket.shutdown(Shutdown::Write).unwrap();
        let reply = head(BufReader::new(socket)).json();
        assert_eq!(reply["choices"][0]["message"]["content"], "x");
        assert!(!rig.log.broken_off.load(Ordering::SeqCst));
    }
}

/// Where it was asked for, or where nothing may be sent to find out.
#[test]
fn closing_one_side_is_leaving() {
    let asked = Settings { cancel_on_eof: true, ..quick() };
    let asked_late = Settings { cancel_on_eof: true, ..early_status() };
    let held = Settings { status_hold: Duration::MAX, ..quick() };
    let stream = json!({ "stream": true });
    for (settings, wait_ms, more) in [
        (asked, 0, json!({})),
        (asked_late, 400, json!({})),
        (held, 0, json!({})),
        (quick(), 0, stream),
    ] {
        let rig = start_with(settings, &[Act::Forever(20)]);
        let socket = said(rig.at, &chat_bytes(more));
        rig.until_busy();
        sleep(Duration::from_millis(wait_ms));
        socket.shutdown(Shutdown::Write).unwrap();
        given_up(&rig);
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
