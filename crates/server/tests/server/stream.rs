//! Streams, chunk by chunk.

use serde_json::{Value, json};

use crate::script::{Act, quick, start, start_with};
use crate::wire::chat;

fn deltas(events: &[Value]) -> Vec<Value> {
    events.iter().map(|event| event["choices"][0]["delta"].clone()).collect()
}

#[test]
fn chunks_come_in_the_documented_order() {
    let rig = start(&[
        Act::Say("Hm<|close|>think<|sep|><|open|>response<|sep|>Hé"),
        Act::Say(
            "<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>",
        ),
        Act::Stop,
    ]);
    let tools = json!([{ "type": "function", "function": { "name": "f" } }]);
    let body = json!({ "stream": true, "thinking": true, "tools": tools, "stream_options": { "include_usage": true } });
    let response = chat(rig.at, body.clone());
    assert_eq!(response.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(response.header("cache-control"), Some("no-cache"));
    let events = response.events();
    let told = deltas(&events);
    assert_eq!(told[0], json!({ "role": "assistant", "content": "" }));
    let text =
        |name: &str| -> String { told.iter().filter_map(|delta| delta[name].as_str()).collect() };
    assert_eq!((text("reasoning_content").as_str(), text("reasoning").as_str()), ("Hm", "Hm"));
    assert_eq!(text("content"), "Hé");
    let kinds: String = told
        .iter()
        .map(|delta| match delta.as_object().and_then(|members| members.keys().next()) {
            Some(name) if name == "reasoning_content" && delta["reasoning"] == "" => 'b',
            Some(name) => name.chars().next().unwrap_or('?'),
            None => '.',
        })
        .collect();
    let kinds = kinds.replace("rr", "r").replace("rr", "r").replace("cc", "c");
    assert_eq!(kinds, "rrbctt...".replace("rr", "r"), "{told:?}");
    let calls: Vec<&Value> = told.iter().filter_map(|delta| delta.get("tool_calls")).collect();
    assert_eq!(
        (&calls[0][0]["index"], &calls[0][0]["function"]),
        (&json!(0), &json!({ "name": "f", "arguments": "" }))
    );
    assert_eq!(calls[1], &json!([{ "index": 0, "function": { "arguments": "{}" } }]));
    let [.., last, usage, done] = &events[..] else { panic!() };
    assert_eq!(last["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(last["choices"][0]["usage"], usage["usage"]);
    assert_eq!((&usage["choices"], done), (&json!([]), &json!("[DONE]")));
    let earlier = &events[..events.len() - 3];
    assert!(earlier.iter().all(|event| event["choices"][0]["finish_reason"].is_null()));
    assert!(events[..events.len() - 1].iter().all(|event| event["id"] == events[0]["id"]));

    // The whole says the same.
    let mut plain = body;
    plain["stream"] = json!(false);
    let whole = chat(rig.at, plain).json();
    assert_eq!(whole["usage"], usage["usage"]);
    assert_eq!(whole["choices"][0]["message"]["reasoning_content"], "Hm");
}

#[test]
fn usage_is_told_only_when_asked_for() {
    let rig = start(&[Act::Say("x"), Act::Stop]);
    let events = chat(rig.at, json!({ "stream": true })).events();
    assert_eq!(events.len(), 4, "{events:?}");
    assert!(events.iter().all(|event| event.get("usage").is_none()));
}

#[test]
fn characters_are_never_cut() {
    let rig = start(&[Act::Say("漢😀é"), Act::Stop]);
    let events = chat(rig.at, json!({ "stream": true })).events();
    let told = deltas(&events);
    assert!(!format!("{told:?}").contains('\u{fffd}'));
    let text: String = told.iter().filter_map(|delta| delta["content"].as_str()).collect();
    assert_eq!(text, "漢😀é");
}

#[test]
fn a_stop_sequence_never_leaks() {
    let rig = start(&[Act::Say("one STAY two STOP three"), Act::Forever(1)]);
    let events = chat(rig.at, json!({ "stream": true, "stop": "STOP" })).events();
    let told = deltas(&events);
    let text: String = told.iter().filter_map(|delta| delta["content"].as_str()).collect();
    assert_eq!(text, "one STAY two ");
    rig.until_idle();
}

#[test]
fn headers_and_role_come_before_the_first_token_and_silence_is_commented() {
    let rig = start(&[Act::Prefill(350), Act::Wait(250), Act::Say("x"), Act::Wait(250), Act::Stop]);
    let began = std::time::Instant::now();
    let mut response = chat(rig.at, json!({ "stream": true }));
    let role = response.chunk().unwrap();
    assert!(role.contains("\"role\""), "{role}");
    assert!(began.elapsed().as_millis() < 300, "{:?}", began.elapsed());
    let rest: Vec<String> = std::iter::from_fn(|| response.chunk()).collect();
    let comments = rest.iter().filter(|chunk| chunk.starts_with(": keep-alive")).count();
    assert!(comments >= 5, "{rest:?}");
    assert!(rest.iter().any(|chunk| chunk.starts_with(": keep-alive prefill 1/")), "{rest:?}");
    // Every piece is one whole event or comment.
    assert!(rest.iter().all(|c| c.ends_with("\n\n") && c.matches("\n").count() == 2), "{rest:?}");
    assert_eq!(rest.last().map(String::as_str), Some("data: [DONE]\n\n"));
}

#[test]
fn no_comments_where_they_are_switched_off() {
    let settings =
        deltafin_server::Settings { ping_interval: std::time::Duration::ZERO, ..quick() };
    let rig = start_with(settings, &[Act::Wait(300), Act::Say("x"), Act::Stop]);
    assert!(!chat(rig.at, json!({ "stream": true })).text().contains(": keep"));
    assert!(chat(rig.at, json!({})).text().starts_with('{'));
}

#[test]
fn a_fault_in_the_stream_is_one_event_and_the_end() {
    let rig = start(&[Act::Say("one two"), Act::Fail]);
    let response = chat(rig.at, json!({ "stream": true }));
    assert_eq!(response.status, 200);
    let events = response.events();
    let last = events.last().unwrap();
    assert_eq!(last["error"]["code"], "engine_error");
    assert!(last["error"]["message"].as_str().unwrap().contains("the disk is gone"));
    assert!(events[..events.len() - 1].iter().all(|event| event.get("error").is_none()));
    assert_eq!(chat(rig.at, json!({ "stream": true })).status, 200);
}

#[test]
fn a_refused_stream_is_plain_json() {
    let rig = start(&[Act::Stop]);
    let response = chat(rig.at, json!({ "stream": true, "temperature": 3 }));
    assert_eq!(response.refusal(), (400, "invalid_value".to_owned(), json!("temperature")));
}
