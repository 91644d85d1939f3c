//! The end of a server.

use std::net::TcpStream;
use std::thread::spawn;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::script::{Act, start};
use crate::wire::chat;

#[test]
fn what_runs_may_finish() {
    let rig = start(&[Act::Wait(150), Act::Say("x"), Act::Stop]);
    let running = chat(rig.at, json!({ "stream": true }));
    let waiting = chat(rig.at, json!({ "stream": true }));
    let at = rig.at;
    let began = Instant::now();
    let ends = spawn(move || rig.server.shut_down());
    assert_eq!(running.events().last().unwrap(), "[DONE]");
    let turned_away = waiting.events();
    assert_eq!(turned_away.last().unwrap()["error"]["code"], "shutting_down");
    ends.join().unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
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
    assert!((Duration::from_millis(290)..Duration::from_secs(2)).contains(&took), "{took:?}");
}
