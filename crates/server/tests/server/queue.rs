//! One at a time: who waits, who is turned away, and what never waits.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use deltafin_server::Settings;
use serde_json::json;

use crate::script::{Act, quick, soon, start, start_with};
use crate::wire::{chat, get, post};

/// A stream that shares nothing with one of another number.
fn numbered(number: usize) -> serde_json::Value {
    json!({ "stream": true, "max_tokens": 100 + number })
}

fn depth(at: std::net::SocketAddr) -> String {
    let page = get(at, "/metrics", "").text();
    let line = page.lines().find(|line| line.starts_with("deltafin_queue_depth "));
    line.unwrap_or_default().to_owned()
}

#[test]
fn the_fifth_that_would_wait_is_turned_away_at_once() {
    let rig = start(&[Act::Forever(20)]);
    let mut streams = vec![chat(rig.at, numbered(0))];
    rig.until_busy();
    for waiting in 1..=4 {
        let mut stream = chat(rig.at, numbered(waiting));
        assert_eq!(stream.status, 200);
        assert!(stream.chunk().unwrap().contains("\"role\""));
        let comment = stream.chunk().unwrap();
        assert_eq!(comment, format!(": queued {waiting}\n\n"));
        streams.push(stream);
    }
    assert_eq!(depth(rig.at), "deltafin_queue_depth 4");
    let began = Instant::now();
    let response = chat(rig.at, json!({}));
    let retry: u64 = response.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&retry));
    let (status, code, _) = response.refusal();
    assert_eq!((status, code.as_str()), (429, "server_busy"));
    for path in ["/health", "/v1/models", "/metrics", "/version"] {
        assert_eq!(get(rig.at, path, "").status, 200);
    }
    let tokens = post(rig.at, "/tokenize", &json!({ "content": "a b" })).json();
    assert_eq!(tokens["count"], tokens["tokens"].as_array().unwrap().len());
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());

    // Whoever leaves the queue frees a place, and was never given to the engine.
    streams.remove(2).leave();
    soon("a place", || depth(rig.at) == "deltafin_queue_depth 3");
    assert_eq!(rig.log.jobs.load(Ordering::SeqCst), 1);
    assert_eq!(chat(rig.at, numbered(5)).status, 200);
}

#[test]
fn without_a_queue_the_second_is_turned_away() {
    let settings = Settings { queue: 0, ..quick() };
    let rig = start_with(settings, &[Act::Wait(200), Act::Say("x"), Act::Stop]);
    let first = chat(rig.at, numbered(0));
    assert_eq!(chat(rig.at, json!({})).status, 429);
    assert_eq!(first.events().last().unwrap(), "[DONE]");
    // Who has seen the end may ask again at once.
    for _ in 0..3 {
        assert!(chat(rig.at, json!({})).json()["choices"][0]["message"]["content"] == "x");
    }
}

#[test]
fn waiting_requests_are_served_in_order() {
    let rig = start(&[Act::Wait(50), Act::Say("x"), Act::Stop]);
    let streams: Vec<_> = (0..4).map(|number| chat(rig.at, numbered(number))).collect();
    for stream in streams {
        assert_eq!(stream.events().last().unwrap(), "[DONE]");
    }
    assert_eq!(rig.log.jobs.load(Ordering::SeqCst), 4);
}

#[test]
fn bad_requests_do_not_wait() {
    let rig = start(&[Act::Forever(20)]);
    let _running = chat(rig.at, json!({ "stream": true }));
    let began = Instant::now();
    assert_eq!(chat(rig.at, json!({ "n": 2 })).status, 400);
    assert!(began.elapsed() < Duration::from_millis(500));
}
