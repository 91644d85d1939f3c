//! The end of a server.

use std::net::TcpStream;
use std::thread::spawn;
use std::time::{Duration, Instant};

use deltafin_server::Settings;
use serde_json::json;

use crate::script::{Act, quick, start, start_with};
use crate::wire::chat;

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
