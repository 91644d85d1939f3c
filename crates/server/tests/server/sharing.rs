//! The same request again: one generation for all who ask for it.

use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

use deltafin_server::Settings;
use serde_json::{Value, json};

use crate::script::{Act, Rig, quick, soon, start, start_with};
use crate::wire::{Response, chat, get, post};

/// Slow enough for others to come while it speaks.
const SPEECH: [Act; 5] = [
    Act::Say("one two"),
    Act::Wait(300),
    Act::Say(" three<|close|>response<|sep|>"),
    Act::Say("<|close|>message<|sep|>"),
    Act::Stop,
];

fn jobs(rig: &Rig) -> usize {
    rig.log.jobs.load(Ordering::SeqCst)
}

fn streamed() -> Value {
    json!({ "stream": true })
}

/// What a stream says, and the chunks it takes.
#[track_caller]
fn said(response: Response) -> (String, Vec<Value>) {
    let events = response.events();
    assert_eq!(events.last(), Some(&json!("[DONE]")));
    let text = events.iter().filter_map(|e| e["choices"][0]["delta"]["content"].as_str()).collect();
    (text, events)
}

#[track_caller]
fn until(rig: &Rig, line: &str) {
    soon(line, || get(rig.at, "/metrics", "").text().contains(line));
}

#[test]
fn who_comes_later_hears_everything_from_the_start() {
    let rig = start(&SPEECH);
    let mut first = chat(rig.at, streamed());
    first.chunk();
    first.chunk();
    let second = chat(rig.at, streamed());
    let whole = chat(rig.at, json!({ "user": "changes nothing" })).json();
    let (text, events) = said(second);
    assert_eq!(text, "one two three");
    assert_eq!(whole["choices"][0]["message"]["content"], text);
    assert!(said(first).0.ends_with(" three"));
    assert_eq!(jobs(&rig), 1);
    // Each has a name of its own, and the usage of the one generation.
    assert_ne!(events[0]["id"], whole["id"]);
    let last = &events[events.len() - 2]["choices"][0];
    assert_eq!((&last["usage"], &last["finish_reason"]), (&whole["usage"], &json!("stop")));
}

#[test]
fn it_goes_on_while_anybody_listens() {
    let rig = start(&SPEECH);
    let first = chat(rig.at, streamed());
    rig.until_busy();
    let second = chat(rig.at, streamed());
    first.leave();
    assert_eq!(said(second).0, "one two three");
    assert_eq!(jobs(&rig), 1);
    assert!(!rig.log.broken_off.load(Ordering::SeqCst));
    assert!(!get(rig.at, "/metrics", "").text().contains("client_left"));
}

#[test]
fn it_ends_with_the_last_who_leaves() {
    let rig = start(&[Act::Forever(10)]);
    let listeners = [chat(rig.at, streamed()), chat(rig.at, streamed())];
    rig.until_busy();
    listeners.into_iter().for_each(Response::leave);
    rig.until_idle();
    assert!(rig.log.broken_off.load(Ordering::SeqCst));
    until(&rig, "deltafin_cancelled_total{reason=\"client_left\"} 1");
    // What was broken off is told to nobody.
    let mut again = chat(rig.at, streamed());
    again.chunk();
    soon("a second job", || jobs(&rig) == 2);
    again.leave();
    rig.until_idle();
}

#[test]
fn a_place_in_the_queue_is_shared_and_survives_who_took_it() {
    let rig = start_with(Settings { queue: 1, ..quick() }, &SPEECH);
    let running = chat(rig.at, json!({ "stream": true, "max_tokens": 300 }));
    rig.until_busy();
    let first = chat(rig.at, streamed());
    until(&rig, "deltafin_queue_depth 1");
    let mut second = chat(rig.at, streamed());
    assert_eq!((first.status, second.status), (200, 200));
    second.chunk();
    assert_eq!(second.chunk().as_deref(), Some(": queued 1\n\n"));
    first.leave();
    assert_eq!(said(running).0, "one two three");
    let (text, _) = said(second);
    assert_eq!((text.as_str(), jobs(&rig)), ("one two three", 2));

    let running = chat(rig.at, json!({ "stream": true, "max_tokens": 200 }));
    rig.until_busy();
    let waiting = [chat(rig.at, streamed()), chat(rig.at, streamed())];
    until(&rig, "deltafin_queue_depth 1");
    waiting.into_iter().for_each(Response::leave);
    until(&rig, "deltafin_queue_depth 0");
    until(&rig, "deltafin_cancelled_total{reason=\"client_left_queue\"} 1");
    drop(running);
}

#[test]
fn whatever_changes_the_reply_begins_another() {
    let settings = Settings { queue: 20, allow_sampling: true, ..quick() };
    let rig = start_with(settings, &[Act::Forever(5)]);
    let mut open = vec![chat(rig.at, streamed())];
    rig.until_busy();
    let tool = json!({ "type": "function", "function": { "name": "f" } });
    for (count, more) in (1..).zip([
        json!({ "max_tokens": 7 }),
        json!({ "stop": "x" }),
        json!({ "logprobs": true }),
        json!({ "logprobs": true, "top_logprobs": 1 }),
        json!({ "thinking": true }),
        json!({ "thinking": true, "max_reasoning_tokens": 3 }),
        json!({ "response_format": { "type": "json_object" } }),
        json!({ "tools": [tool] }),
        json!({ "tools": [tool], "parallel_tool_calls": false }),
        json!({ "temperature": 1, "seed": 1 }),
        json!({ "temperature": 1, "seed": 2 }),
        // Without a seed, chance is another one each time.
        json!({ "temperature": 1 }),
        json!({ "temperature": 1 }),
    ]) {
        let mut body = more.clone();
        body["stream"] = json!(true);
        open.push(chat(rig.at, body));
        let line = format!("deltafin_queue_depth {count}\n");
        assert!(get(rig.at, "/metrics", "").text().contains(&line), "{more}");
    }
    open.push(chat(rig.at, json!({ "stream": true, "temperature": 1, "seed": 2 })));
    open.push(chat(rig.at, json!({ "stream": true, "seed": 5, "user": "u" })));
    assert!(get(rig.at, "/metrics", "").text().contains("deltafin_queue_depth 13\n"));
    let prompt = json!({ "prompt": "Hi", "stream": true });
    open.push(post(rig.at, "/v1/completions", &prompt));
    open.push(post(rig.at, "/v1/completions", &prompt));
    until(&rig, "deltafin_queue_depth 14\n");
}

#[test]
fn what_has_just_ended_is_told_again() {
    let settings = Settings { replay: Duration::from_secs(60), ..quick() };
    let rig = start_with(settings, &[Act::Say("once"), Act::Stop]);
    let first = chat(rig.at, json!({})).json();
    let again = chat(rig.at, json!({})).json();
    assert_eq!(jobs(&rig), 1);
    assert_eq!((&first["choices"], &first["usage"]), (&again["choices"], &again["usage"]));
    assert_eq!(said(chat(rig.at, streamed())).0, "once");
    assert_eq!(jobs(&rig), 1);

    let short = Settings { replay: Duration::from_millis(20), ..quick() };
    for settings in [short, quick()] {
        let rig = start_with(settings, &[Act::Say("once"), Act::Stop]);
        chat(rig.at, json!({})).json();
        sleep(Duration::from_millis(30));
        chat(rig.at, json!({})).json();
        assert_eq!(jobs(&rig), 2);
    }
}

#[test]
fn what_failed_is_tried_again() {
    let settings = Settings { replay: Duration::from_secs(60), ..quick() };
    let rig = start_with(settings, &[Act::Say("x"), Act::Fail]);
    for count in 1..=2 {
        assert_eq!(chat(rig.at, json!({})).refusal().0, 500);
        assert_eq!(jobs(&rig), count);
    }
}

#[test]
fn what_was_steered_is_not_what_others_ask_for() {
    let rig = start(&[Act::Forever(10)]);
    let body = json!({ "stream": true, "thinking": true });
    let mut first = chat(rig.at, body.clone());
    let mut second = chat(rig.at, body.clone());
    let id = |response: &mut Response| {
        let chunk = response.chunk().expect("a chunk");
        let chunk: Value = serde_json::from_str(chunk.trim_start_matches("data: ")).expect("JSON");
        chunk["id"].clone()
    };
    let (_, id) = (id(&mut first), id(&mut second));
    let control = json!({ "id": id, "action": "reasoning_end" });
    soon("steered", || {
        post(rig.at, "/v1/chat/completions/control", &control).json()["applied"] == true
    });
    // Both hear the answer; a third one begins anew and waits.
    for response in [&mut first, &mut second] {
        while !response.chunk().expect("a chunk").contains("\"content\":\"a\"") {}
    }
    let third = chat(rig.at, body);
    until(&rig, "deltafin_queue_depth 1");
    [first, second, third].into_iter().for_each(Response::leave);
    rig.until_idle();
}
