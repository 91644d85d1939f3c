//! Requests that take more memory than there is for them.

use std::io::{BufReader, Read as _, Write as _};
use std::time::Duration;

use deltafin_server::Settings;
use serde_json::json;

use crate::script::{Act, Rig, quick, start_with};
use crate::wire::{ask, chat, head, said};

const LARGEST: usize = 64 << 10;

fn rig() -> Rig {
    let settings = Settings { max_body_bytes: LARGEST, ..quick() };
    start_with(settings, &[Act::Say("x"), Act::Stop])
}

/// A request of which the head and so many bytes of the body were sent.
fn begun(rig: &Rig, bytes: usize) -> std::net::TcpStream {
    let path = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n";
    let mut socket = said(rig.at, format!("{path}Content-Length: {LARGEST}\r\n\r\n").as_bytes());
    socket.write_all(&vec![b' '; bytes]).expect("sent");
    socket
}

#[test]
fn what_was_announced_and_has_not_come_takes_no_room() {
    let rig = rig();
    let _silent: Vec<_> = (0..20).map(|_| begun(&rig, 1)).collect();
    let body = format!("{{\"content\":\"{}\"}}", "a ".repeat(LARGEST / 3));
    assert_eq!(ask(rig.at, "POST", "/tokenize", "", &body).status, 200);
}

#[test]
fn beyond_the_room_a_body_is_refused_and_small_ones_are_not() {
    let rig = rig();
    let mut begun: Vec<_> = (0..4).map(|_| begun(&rig, LARGEST - 1)).collect();
    // Two of them have room, whichever they are. The others hear of it and come back.
    for socket in &mut begun {
        socket.set_read_timeout(Some(Duration::from_secs(1))).expect("set");
    }
    let (refused, waiting): (Vec<_>, Vec<_>) =
        begun.into_iter().partition(|socket| socket.peek(&mut [0]).is_ok_and(|count| count > 0));
    assert!(refused.len() >= 2, "{}", refused.len());
    for socket in refused {
        let response = head(BufReader::new(socket));
        assert_eq!(response.header("connection"), Some("close"));
        assert!(response.header("retry-after").is_some());
        let (status, code, _) = response.refusal();
        assert_eq!((status, code.as_str()), (503, "server_busy"));
    }
    assert_eq!(chat(rig.at, json!({})).status, 200);
    for mut socket in waiting {
        socket.write_all(b" ").expect("sent");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
        assert_eq!(head(BufReader::new(socket)).refusal().1, "invalid_json");
    }
    // All of it was given back.
    let [first, second] = [(); 2].map(|()| self::begun(&rig, LARGEST));
    for mut socket in [first, second] {
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 400");
    }
}

#[test]
fn a_body_that_would_become_too_much_is_refused_unread() {
    let rig = rig();
    let ones = format!("{{\"tokens\":[{}1]}}", "1,".repeat(LARGEST / 2 - 20));
    let refusal = ask(rig.at, "POST", "/detokenize", "", &ones).refusal();
    assert_eq!((refusal.0, refusal.1.as_str()), (413, "request_too_large"));
    let text = format!("{{\"content\":\"{}\"}}", ",[{".repeat(LARGEST / 3 - 20));
    assert_eq!(ask(rig.at, "POST", "/tokenize", "", &text).status, 200);
}

#[test]
fn a_body_that_trickles_is_given_up() {
    let settings = Settings { body_pause_limit: Duration::from_millis(300), ..quick() };
    let rig = start_with(settings, &[Act::Stop]);
    let mut socket = begun(&rig, 1);
    socket.set_nonblocking(true).expect("set");
    while socket.peek(&mut [0]).is_err() {
        let _ = socket.write_all(b" ");
        std::thread::sleep(Duration::from_millis(50));
    }
    socket.set_nonblocking(false).expect("set");
    assert_eq!(head(BufReader::new(socket)).refusal().0, 408);
}
