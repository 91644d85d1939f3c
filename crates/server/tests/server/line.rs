//! Connections over time: idle ones, slow heads, sides that close.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use deltafin_server::Settings;
use serde_json::json;

use crate::script::{Act, Rig, quick, start, start_with};
use crate::wire::{chat_bytes, head, said};

const HEALTH: &[u8] = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
const SHORT: Duration = Duration::from_millis(100);
/// For limits within which a client must come to say something, also on a busy machine.
const LONGER: Duration = Duration::from_secs(1);

fn with(idle_limit: Duration, head_limit: Duration) -> Rig {
    start_with(Settings { idle_limit, head_limit, ..quick() }, &[Act::Say("x"), Act::Stop])
}

/// Asks for the state, and leaves nothing of the answer behind.
#[track_caller]
fn ask_on(socket: &TcpStream) {
    let mut asking = socket;
    asking.write_all(HEALTH).expect("sent");
    let mut response = head(BufReader::new(socket.try_clone().expect("a second handle")));
    assert_eq!((response.status, response.text().contains("ok")), (200, true));
}

/// The server ends it, without another word.
#[track_caller]
fn ends(mut socket: &TcpStream) {
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).expect("an end");
    assert_eq!(rest, b"");
}

#[test]
fn a_slow_head_ends_its_connection_and_no_idle_one() {
    let rig = with(Duration::MAX, SHORT);
    let fresh = said(rig.at, b"");
    let used = said(rig.at, b"");
    ask_on(&used);
    let slow = said(rig.at, b"GET /health HTTP/1.1\r\nHost: local");
    let slow_later = said(rig.at, b"");
    ask_on(&slow_later);
    (&slow_later).write_all(b"G").unwrap();
    ends(&slow);
    ends(&slow_later);
    sleep(2 * SHORT);
    ask_on(&fresh);
    ask_on(&used);
}

#[test]
fn an_idle_connection_ends_and_no_slow_head() {
    let rig = with(LONGER, Duration::MAX);
    let (half, rest) = HEALTH.split_at(HEALTH.len() / 2);
    let slow = said(rig.at, half);
    ends(&said(rig.at, b""));
    sleep(LONGER / 2);
    (&slow).write_all(rest).unwrap();
    assert_eq!(head(BufReader::new(slow.try_clone().unwrap())).status, 200);
}

#[test]
fn neither_limit_is_for_requests_under_way() {
    let settings = Settings { idle_limit: LONGER, head_limit: SHORT, ..quick() };
    let rig = start_with(settings, &[Act::Wait(1200), Act::Say("x"), Act::Stop]);
    for more in [json!({}), json!({ "stream": true })] {
        let mut response = head(BufReader::new(said(rig.at, &chat_bytes(more))));
        assert!(response.text().contains("\"x\""));
    }
}

#[test]
fn who_has_finished_sending_is_answered() {
    let rig = start(&[Act::Stop]);
    let cut_short =
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{";
    for (request, status) in [(HEALTH, 200), (cut_short, 400)] {
        let socket = said(rig.at, request);
        socket.shutdown(Shutdown::Write).unwrap();
        assert_eq!(head(BufReader::new(socket.try_clone().unwrap())).status, status);
    }
}
