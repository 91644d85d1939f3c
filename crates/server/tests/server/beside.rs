//! What goes on beside a form that takes long to compile.

use std::sync::atomic::Ordering;
use std::thread;

use deltafin_server::Settings;
use serde_json::{Map, Value, json};

use crate::script::{Act, quick, start_wide};
use crate::wire::{chat, get, post};

/// An object of many members, each with a type of its own.
fn wide(number: usize) -> Value {
    let member =
        |at: usize| (format!("m{at}_{number}"), json!({ "type": ["string", "integer", "null"] }));
    let schema =
        json!({ "type": "object", "properties": (0..300).map(member).collect::<Map<_, _>>() });
    json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema } })
}

#[test]
fn nobody_else_waits_for_a_wide_form() {
    // The model is told all of it.
    let rig = start_wide(quick(), &[Act::Say("x"), Act::Stop], 100_000);
    let at = rig.at;
    let ask = |number| {
        move || chat(at, json!({ "response_format": wide(number), "max_tokens": 2 })).status
    };
    let wide: Vec<_> = (0..4).map(|number| thread::spawn(ask(number))).collect();
    while !wide.iter().all(thread::JoinHandle::is_finished) {
        for path in ["/health", "/v1/models", "/metrics"] {
            assert_eq!(get(at, path, "").status, 200, "{path}");
        }
        assert_eq!(post(at, "/tokenize", &json!({ "content": "a b" })).status, 200);
        assert_eq!(chat(at, json!({ "n": 2 })).status, 400);
    }
    for asked in wide {
        assert_eq!(asked.join().expect("no panic"), 200);
    }
}

/// Neither forms that are compiled nor those that wait for it outstay a full queue.
#[test]
fn where_the_queue_is_full_forms_are_turned_away_too() {
    let rig = start_wide(Settings { queue: 0, ..quick() }, &[Act::Forever(5)], 100_000);
    let at = rig.at;
    let _running = chat(at, json!({ "stream": true }));
    rig.until_busy();
    let ask = |number| {
        move || {
            let response = chat(at, json!({ "response_format": wide(number), "max_tokens": 2 }));
            assert!(response.header("retry-after").is_some());
            response.refusal().1
        }
    };
    let asked: Vec<_> = (10..14).map(|number| thread::spawn(ask(number))).collect();
    for asked in asked {
        assert_eq!(asked.join().expect("no panic"), "server_busy");
    }
    assert_eq!(rig.log.jobs.load(Ordering::SeqCst), 1);
}
