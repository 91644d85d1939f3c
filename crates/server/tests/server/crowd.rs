//! More connections than there are places.

use std::cell::RefCell;
use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpStream;

use deltafin_server::Settings;
use serde_json::json;

use crate::script::{Act, Rig, quick, soon, start_with};
use crate::wire::{Response, chat, get, head, said};

const HALF_HEAD: &[u8] = b"GET /health HTTP/1.1\r\nHost: local";
const HALF_BODY: &[u8] =
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{";

fn with(connections: usize, acts: &[Act]) -> Rig {
    start_with(Settings { connections, ..quick() }, acts)
}

/// Waits until so many connections wait for the rest of a request; the one that asks is answered.
#[track_caller]
fn until_asking(rig: &Rig, count: usize) {
    let line = format!("deltafin_connections{{state=\"asking\"}} {count}");
    soon(&line, || get(rig.at, "/metrics", "").text().contains(&line));
}

/// The server has ended it.
#[track_caller]
fn ends(mut socket: &TcpStream) {
    assert_eq!(socket.read(&mut [0]).expect("an end"), 0);
}

/// It was left alone, and finishes what it began.
#[track_caller]
fn goes_on(socket: TcpStream, rest: &[u8]) -> Response {
    (&socket).write_all(rest).expect("sent");
    head(BufReader::new(socket))
}

#[test]
fn a_newcomer_takes_the_place_of_who_has_been_idle_longest() {
    let rig = with(4, &[Act::Stop]);
    let [first, _second, _third, last] = [(); 4].map(|()| said(rig.at, b""));
    assert_eq!(get(rig.at, "/health", "").status, 200);
    ends(&first);
    let request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(goes_on(last, request).status, 200);
}

#[test]
fn a_flood_of_silent_connections_locks_nobody_out() {
    let rig = with(8, &[Act::Say("x"), Act::Stop]);
    let flood: Vec<TcpStream> = (0..200).map(|_| said(rig.at, b"")).collect();
    assert_eq!(get(rig.at, "/health", "").status, 200);
    let reply = chat(rig.at, json!({})).json();
    assert_eq!(reply["choices"][0]["message"]["content"], "x");
    drop(flood);
}

#[test]
fn half_a_request_outlasts_silence_and_half_a_body_half_a_head() {
    let rig = with(8, &[Act::Stop]);
    let body = said(rig.at, HALF_BODY);
    let heads = [(); 2].map(|()| said(rig.at, HALF_HEAD));
    until_asking(&rig, 3);
    let _silent: Vec<TcpStream> = (0..50).map(|_| said(rig.at, b"")).collect();
    assert_eq!(get(rig.at, "/health", "").status, 200);
    let [older, newer] = heads;
    assert_eq!(goes_on(newer, b"host\r\n\r\n").status, 200);
    let more = RefCell::new(Vec::new());
    older.set_nonblocking(true).expect("set");
    soon("an end", || {
        more.borrow_mut().push(said(rig.at, HALF_HEAD));
        older.peek(&mut [0]).is_ok_and(|count| count == 0)
    });
    assert_eq!(goes_on(body, b"\"n\": 2 }").status, 400);
}

#[test]
fn where_all_are_at_work_a_newcomer_is_told_to_come_back() {
    let rig = with(2, &[Act::Forever(20)]);
    let streams = [1, 2].map(|n| chat(rig.at, json!({ "stream": true, "max_tokens": 90 + n })));
    for _ in 0..40 {
        let response = chat(rig.at, json!({}));
        assert!(response.header("retry-after").is_some());
        assert_eq!(response.header("connection"), Some("close"));
        let (status, code, _) = response.refusal();
        assert_eq!((status, code.as_str()), (503, "server_busy"));
    }
    for path in ["/health", "/v1/models", "/metrics"] {
        assert_eq!(get(rig.at, path, "").status, 200);
    }
    // Silent guests are the first to go, and nobody at work is.
    let guests: Vec<TcpStream> = (0..40).map(|_| said(rig.at, b"")).collect();
    assert_eq!(get(rig.at, "/health", "").status, 200);
    for mut stream in streams {
        assert!(stream.chunk().is_some());
        stream.leave();
    }
    drop(guests);
}
