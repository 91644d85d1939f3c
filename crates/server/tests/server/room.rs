//! Requests that take more memory than there is for them.

use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use deltafin_server::Settings;
use serde_json::json;

use crate::script::{Act, Rig, quick, soon, start_wide, start_with, tokenizer};
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

/// Half a body, and one that trickles, hold up nobody who sends all of it.
#[test]
fn who_falls_behind_gives_its_room_to_who_goes_on() {
    let settings =
        Settings { max_body_bytes: LARGEST, body_lag_limit: Duration::from_millis(50), ..quick() };
    let rig = start_with(settings, &[Act::Stop]);
    let halves: Vec<_> = (0..4).map(|_| begun(&rig, LARGEST - 100)).collect();
    let trickles = begun(&rig, LARGEST - 100);
    let text = format!("{{\"content\":\"{}\"}}", "a ".repeat(LARGEST / 3));
    soon("a place", || {
        let _ = (&trickles).write_all(b" ");
        ask(rig.at, "POST", "/tokenize", "", &text).status == 200
    });
    // Whoever had to leave is told, as those that found no place.
    let has_answer = |socket: &&TcpStream| {
        socket.set_nonblocking(true).expect("set");
        let has_answer = socket.peek(&mut [0]).is_ok();
        socket.set_nonblocking(false).expect("set");
        has_answer
    };
    let told = || halves.iter().chain([&trickles]).filter(has_answer);
    soon("four answers", || told().count() >= 4);
    let told: Vec<_> = told().map(|socket| socket.try_clone().expect("a handle")).collect();
    for socket in told {
        let answer = head(BufReader::new(socket));
        assert!(answer.header("retry-after").is_some());
        assert_eq!(answer.refusal().1, "server_busy");
    }
}

/// A few ids may stand for much text.
#[test]
fn ids_whose_text_would_be_too_much_are_refused() {
    let settings = Settings { max_body_bytes: LARGEST, ..quick() };
    let rig = start_wide(settings, &[Act::Stop], 1 << 20);
    let tokenizer = tokenizer();
    let length = |id: &u32| tokenizer.token_bytes(*id).expect("an id").len();
    let longest = (0..tokenizer.vocab_size()).max_by_key(length).expect("an id");
    let detokenize = |count: usize| {
        let body = json!({ "tokens": vec![longest; count] }).to_string();
        assert!(body.len() < LARGEST);
        ask(rig.at, "POST", "/detokenize", "", &body)
    };
    let most = LARGEST / length(&longest);
    let whole = detokenize(most).json();
    assert_eq!(whole["content"].as_str().expect("a text").len(), most * length(&longest));
    assert_eq!(whole["prompt"], whole["content"]);
    let (status, code, _) = detokenize(most + 1).refusal();
    assert_eq!((status, code.as_str()), (413, "request_too_large"));
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
