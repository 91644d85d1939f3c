//! The end of a server.

use std::io::{BufReader, Read as _};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::thread::spawn;
use std::time::{Duration, Instant};

use deltafin_server::Settings;
use serde_json::json;

use crate::script::{Act, quick, soon, start, start_with};
use crate::wire::{chat, chat_bytes, get, head, said, send};

const HEALTH: &[u8] = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn what_runs_may_finish() {
    // A grace that a busy machine does not use up: what is tested is that nobody waits for its end.
    let grace = Duration::from_secs(30);
    let settings = Settings { shutdown_grace: grace, ..quick() };
    let rig = start_with(settings, &[Act::Wait(150), Act::Say("x"), Act::Stop]);
    let running = chat(rig.at, json!({ "stream": true }));
    let waiting = chat(rig.at, json!({ "stream": true, "max_tokens": 9 }));
    let at = rig.at;
    let began = Instant::now();
    let ends = spawn(move || rig.server.shut_down());
    assert_eq!(running.events().last().unwrap(), "[DONE]");
    let turned_away = waiting.events();
    assert_eq!(turned_away.last().unwrap()["error"]["code"], "shutting_down");
    ends.join().unwrap();
    assert!(began.elapsed() < grace, "{:?}", began.elapsed());
    assert!(TcpStream::connect(at).is_err());
}

#[test]
fn what_does_not_finish_is_broken_off_after_the_grace() {
    let rig = start(&[Act::Wait(3000), Act::Say("x"), Act::Stop]);
    let running = chat(rig.at, json!({ "stream": true }));
    let began = Instant::now();
    let ends = spawn(move || rig.server.shut_down());
    assert_eq!(running.events().last().unwrap()["error"]["code"], "shutting_down");
    ends.join().unwrap();
    let took = began.elapsed();
    assert!((Duration::from_millis(290)..Duration::from_millis(2900)).contains(&took), "{took:?}");
}

/// Whoever comes while a reply may still finish hears why there is none, and that the server goes.
#[test]
fn newcomers_are_told_that_the_server_ends_until_it_has() {
    let grace = Duration::from_secs(60);
    let settings = Settings { shutdown_grace: grace, ..quick() };
    let rig = start_with(settings, &[Act::Forever(100)]);
    let running = chat(rig.at, json!({ "stream": true }));
    rig.until_busy();
    let (at, log) = (rig.at, rig.log.clone());
    let began = Instant::now();
    let ends = spawn(move || rig.server.shut_down());
    soon("the end begins", || get(at, "/health", "").status == 503);
    // A newcomer that says nothing holds up nothing.
    let silent = said(at, b"");
    for bytes in [HEALTH.to_vec(), chat_bytes(json!({})), chat_bytes(json!({ "stream": true }))] {
        let told = send(at, &bytes);
        assert_eq!(told.header("connection"), Some("close"));
        assert!(told.header("retry-after").is_some());
        let (status, code, _) = told.refusal();
        assert_eq!((status, code.as_str()), (503, "shutting_down"));
    }
    assert_eq!(log.jobs.load(Ordering::SeqCst), 1);
    running.leave();
    ends.join().unwrap();
    assert!(began.elapsed() < grace, "{:?}", began.elapsed());
    assert!(TcpStream::connect(at).is_err());
    drop(silent);
}

/// Only a generation has the grace: neither silence nor half a request holds up the end.
#[test]
fn nobody_waits_for_the_rest_of_a_request() {
    let grace = Duration::from_secs(60);
    let settings = Settings { shutdown_grace: grace, ..quick() };
    let rig = start_with(settings, &[Act::Wait(1500), Act::Say("x"), Act::Stop]);
    let running = chat(rig.at, json!({ "stream": true }));
    let silent = said(rig.at, b"");
    let used = said(rig.at, HEALTH);
    let mut answer = head(BufReader::new(used.try_clone().expect("a handle")));
    assert!(answer.text().contains("ok"));
    let half_head = said(rig.at, &HEALTH[..30]);
    let post = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{";
    let half_body = said(rig.at, post);
    soon("both", || get(rig.at, "/metrics", "").text().contains("{state=\"asking\"} 2"));
    let began = Instant::now();
    let ends = spawn(move || rig.server.shut_down());
    let told = head(BufReader::new(half_body));
    assert_eq!(told.header("connection"), Some("close"));
    assert_eq!(told.refusal().1, "shutting_down");
    for mut socket in [silent, used, half_head] {
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
        assert_eq!(rest, b"");
    }
    assert_eq!(running.events().last().unwrap(), "[DONE]");
    ends.join().unwrap();
    assert!(began.elapsed() < grace, "{:?}", began.elapsed());
}
