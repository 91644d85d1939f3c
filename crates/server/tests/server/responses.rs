//! Responses: items whole and streamed, and what is refused.

mod asked;
mod refused;

use std::sync::atomic::Ordering;
use std::time::Duration;

use deltafin_server::Settings;
use serde_json::{Value, json};

use crate::script::{Act, CONTEXT, early_status, quick, start, start_wide, start_with};
use crate::wire::{Response, post};

const ANSWER: &str = "Hm.<|close|>think<|sep|><|open|>response<|sep|>Hello!";
const END: &str = "<|close|>response<|sep|><|close|>message<|sep|>";
const CALLS: &str = "<|close|>response<|sep|><|open|>tools<|sep|>\
    <|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a\" type=\"number\"<|sep|>1<|close|>argument<|sep|><|close|>call<|sep|>\
    <|open|>call tool=\"patch\" index=\"2\"<|sep|><|open|>argument key=\"input\" type=\"string\"<|sep|>*** x<|close|>argument<|sep|><|close|>call<|sep|>\
    <|close|>tools<|sep|><|close|>message<|sep|>";

#[track_caller]
fn respond(at: std::net::SocketAddr, more: Value) -> Response {
    let mut body = json!({ "input": "Hi" });
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    post(at, "/v1/responses", &body)
}

fn tools() -> Value {
    json!([
        { "type": "function", "name": "f", "parameters": { "type": "object" }, "strict": false },
        { "type": "web_search" },
        { "type": "custom", "name": "patch", "description": "d", "format": { "type": "grammar", "syntax": "lark", "definition": "start: x" } },
    ])
}

/// The documents of a stream, each under the name of its type and with its number.
#[track_caller]
fn events(mut response: Response) -> Vec<Value> {
    let text = response.text();
    let event = |(at, block): (usize, &str)| {
        let (name, data) = block.split_once('\n').expect("two lines");
        let data = data.strip_prefix("data: ").expect("data");
        let data: Value = serde_json::from_str(data).expect("JSON");
        assert_eq!(name, format!("event: {}", data["type"].as_str().expect("a type")));
        assert_eq!(data["sequence_number"], at);
        data
    };
    text.split_terminator("\n\n").enumerate().map(event).collect()
}

/// Items without what differs each time.
fn without_ids(output: &Value) -> Value {
    let mut output = output.clone();
    for item in output.as_array_mut().expect("items") {
        for name in ["id", "call_id"] {
            let members = item.as_object_mut().expect("an object");
            if let Some(id) = members.remove(name) {
                let id = id.as_str().expect("an id").to_owned();
                assert!(id.split_once('_').is_some_and(|(_, digits)| digits.len() == 24), "{id}");
            }
        }
    }
    output
}

#[test]
fn a_response_has_the_documented_form() {
    let rig = start(&[Act::Say(ANSWER), Act::Say(END), Act::Stop]);
    let more = json!({ "reasoning": { "effort": "medium" }, "store": true, "instructions": "Be brief.", "temperature": 0.5 });
    let response = respond(rig.at, more);
    assert_eq!(response.status, 200);
    assert_eq!(response.header("x-reasoning-effort"), Some("high"));
    assert_eq!(response.header("x-ignored-parameters"), Some("store"));
    let reply = response.json();
    assert!(reply["id"].as_str().is_some_and(|id| id.len() == 29 && id.starts_with("resp_")));
    for (name, value) in [
        ("object", json!("response")),
        ("status", json!("completed")),
        ("model", json!("test")),
        ("error", Value::Null),
        ("incomplete_details", Value::Null),
        ("instructions", json!("Be brief.")),
        ("reasoning", json!({ "effort": "medium" })),
        ("parallel_tool_calls", json!(true)),
        ("previous_response_id", Value::Null),
        ("store", json!(false)),
        ("temperature", json!(0.5)),
        ("text", json!({ "format": { "type": "text" } })),
        ("tool_choice", json!("auto")),
        ("tools", json!([])),
    ] {
        assert_eq!(reply[name], value, "{name}");
    }
    let text =
        json!({ "type": "output_text", "text": "Hello!", "annotations": [], "logprobs": [] });
    assert_eq!(
        without_ids(&reply["output"]),
        json!([
            { "type": "reasoning", "summary": [], "content": [{ "type": "reasoning_text", "text": "Hm." }], "status": "completed" },
            { "type": "message", "role": "assistant", "content": [text], "status": "completed" },
        ])
    );
    let usage = &reply["usage"];
    let new = rig.log.ids.load(Ordering::SeqCst) + 1;
    assert_eq!(usage["output_tokens"], new);
    assert_eq!(usage["total_tokens"], usage["input_tokens"].as_u64().unwrap() + new as u64);
    assert_eq!(usage["input_tokens_details"]["cached_tokens"], 0);
    assert!(usage["output_tokens_details"]["reasoning_tokens"].as_u64().unwrap() > 3);
}

#[test]
fn a_stream_has_the_documented_events_and_says_the_same() {
    let rig = start(&[Act::Say(ANSWER), Act::Say(CALLS), Act::Stop]);
    let more = json!({ "tools": tools() });
    let mut streamed = more.clone();
    streamed["stream"] = json!(true);
    let response = respond(rig.at, streamed);
    assert_eq!(response.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(response.header("x-ignored-parameters"), Some("tools[1]"));
    let events = events(response);
    let mut names: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    // A text comes in as many pieces as it has tokens.
    names.dedup();
    let item = |middle: &[&'static str]| {
        let around = ["response.output_item.added", "response.output_item.done"];
        [&around[..1], middle, &around[1..]].concat()
    };
    let expected = [
        vec!["response.created", "response.in_progress"],
        item(&[
            "response.content_part.added",
            "response.reasoning_text.delta",
            "response.reasoning_text.done",
            "response.content_part.done",
        ]),
        item(&[
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
        ]),
        item(&["response.function_call_arguments.delta", "response.function_call_arguments.done"]),
        item(&["response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"]),
        vec!["response.completed"],
    ];
    assert_eq!(names, expected.concat());
    assert_eq!(events[0]["response"]["status"], "in_progress");

    // Items are begun and ended under one id and one index, and pieces belong to them.
    let last = &events.last().unwrap()["response"];
    let output = last["output"].as_array().unwrap();
    for event in &events {
        let Some(index) = event["output_index"].as_u64() else { continue };
        let id = event.get("item_id").unwrap_or(&event["item"]["id"]);
        assert_eq!(id, &output[index as usize]["id"], "{event}");
        if event["type"] == "response.output_item.done" {
            assert_eq!(event["item"], output[index as usize]);
        }
    }
    let text = |kind: &str| -> String {
        let of = events.iter().filter(|event| event["type"] == kind);
        of.map(|event| event["delta"].as_str().unwrap()).collect()
    };
    assert_eq!(text("response.output_text.delta"), output[1]["content"][0]["text"]);
    assert_eq!(text("response.reasoning_text.delta"), output[0]["content"][0]["text"]);
    assert_eq!(text("response.function_call_arguments.delta"), output[2]["arguments"]);
    assert_eq!(text("response.custom_tool_call_input.delta"), output[3]["input"]);
    assert_eq!(output[3]["input"], "*** x");

    let whole = respond(rig.at, more).json();
    assert_eq!(without_ids(&whole["output"]), without_ids(&last["output"]));
    assert_eq!((&whole["usage"], &whole["tools"]), (&last["usage"], &tools()));
    assert_eq!(whole["status"], "completed");
}

#[test]
fn a_limit_leaves_it_incomplete() {
    let rig = start(&[Act::Forever(0)]);
    let off = json!({ "effort": "none" });
    let reply = respond(rig.at, json!({ "reasoning": off, "max_output_tokens": 3 })).json();
    assert_eq!((&reply["status"], &reply["error"]), (&json!("incomplete"), &Value::Null));
    assert_eq!(reply["incomplete_details"], json!({ "reason": "max_output_tokens" }));
    assert_eq!(reply["output"][0]["status"], "incomplete");
    assert_eq!(reply["output"][0]["content"][0]["text"], "aaa");
    let more = json!({ "reasoning": off, "max_output_tokens": 3, "stream": true });
    let events = events(respond(rig.at, more));
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.incomplete");
    assert_eq!(without_ids(&last["response"]["output"]), without_ids(&reply["output"]));
    assert_eq!(last["response"]["usage"], reply["usage"]);
}

/// Comments do not count for agents that wait for events.
#[test]
fn silence_is_broken_by_events() {
    let rig = start(&[Act::Prefill(350), Act::Say("x"), Act::Stop]);
    let events = events(respond(rig.at, json!({ "stream": true })));
    let beats = events.iter().filter(|event| event["type"] == "response.in_progress").count();
    assert!(beats >= 3, "{events:?}");
    assert_eq!(events.last().unwrap()["type"], "response.completed");
}
