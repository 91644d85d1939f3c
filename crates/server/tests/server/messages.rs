//! Anthropic's Messages: their forms, whole and streamed, and what is refused.

mod asked;
mod refused;

use std::sync::atomic::Ordering;
use std::time::Duration;

use deltafin_server::Settings;
use serde_json::{Value, json};

use crate::script::{Act, CONTEXT, early_status, quick, soon, start, start_wide, start_with};
use crate::wire::{Response, ask, post};

const ANSWER: &str = "Hm.<|close|>think<|sep|><|open|>response<|sep|>Hello!";
const END: &str = "<|close|>response<|sep|><|close|>message<|sep|>";
const CALLS: &str = "<|close|>response<|sep|><|open|>tools<|sep|>\
    <|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a\" type=\"number\"<|sep|>1<|close|>argument<|sep|><|close|>call<|sep|>\
    <|open|>call tool=\"g\" index=\"2\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>";

/// A message to answer, with these members besides.
fn body(more: Value) -> Value {
    let mut body = json!({ "model": "claude-of-any-kind", "max_tokens": 300, "messages": [{ "role": "user", "content": "Hi" }] });
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

#[track_caller]
fn message(at: std::net::SocketAddr, more: Value) -> Response {
    post(at, "/v1/messages", &body(more))
}

fn tool(name: &str, schema: Value) -> Value {
    json!({ "name": name, "description": "d", "input_schema": schema })
}

fn tools() -> Value {
    json!([tool("f", json!({ "type": "object" })), tool("g", json!({ "type": "object" }))])
}

/// The documents of a stream, each under the name of its type.
#[track_caller]
fn events(mut response: Response) -> Vec<Value> {
    let text = response.text();
    let event = |block: &str| {
        let (name, data) = block.split_once('\n').expect("two lines");
        let name = name.strip_prefix("event: ").expect("a name");
        let data: Value =
            serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON");
        assert_eq!(data["type"], name);
        data
    };
    text.split_terminator("\n\n").map(event).collect()
}

#[test]
fn a_message_has_the_documented_form() {
    let rig = start(&[Act::Say(ANSWER), Act::Say(END), Act::Stop]);
    let more = json!({ "thinking": { "type": "enabled", "budget_tokens": 1024 }, "output_config": { "effort": "medium" }, "metadata": {} });
    let response = message(rig.at, more);
    assert_eq!(response.status, 200);
    assert_eq!(response.header("x-reasoning-effort"), Some("high"));
    assert_eq!(response.header("x-ignored-parameters"), Some("metadata"));
    assert_eq!(response.header("request-id"), response.header("x-request-id"));
    let reply = response.json();
    let names: Vec<&str> = reply.as_object().unwrap().keys().map(String::as_str).collect();
    let expected =
        ["id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"];
    assert_eq!(names, expected);
    assert!(reply["id"].as_str().is_some_and(|id| id.len() == 28 && id.starts_with("msg_")));
    assert_eq!(
        (&reply["type"], &reply["role"], &reply["model"]),
        (&json!("message"), &json!("assistant"), &json!("test"))
    );
    let [thinking, text] = reply["content"].as_array().unwrap().as_slice() else { panic!() };
    assert_eq!((&thinking["type"], &thinking["thinking"]), (&json!("thinking"), &json!("Hm.")));
    assert!(thinking["signature"].as_str().is_some_and(|signature| !signature.is_empty()));
    assert_eq!(text, &json!({ "type": "text", "text": "Hello!" }));
    assert_eq!(
        (&reply["stop_reason"], &reply["stop_sequence"]),
        (&json!("end_turn"), &Value::Null)
    );
    let usage = &reply["usage"];
    assert_eq!(usage["output_tokens"], rig.log.ids.load(Ordering::SeqCst) + 1);
    assert_eq!(
        (&usage["cache_read_input_tokens"], &usage["cache_creation_input_tokens"]),
        (&json!(0), &json!(0))
    );
    assert!(usage["output_tokens_details"]["thinking_tokens"].as_u64().unwrap() > 3);
}

#[test]
fn a_stream_has_the_documented_events_and_says_the_same() {
    let rig = start(&[Act::Say(ANSWER), Act::Say(CALLS), Act::Stop]);
    let more = json!({ "thinking": { "type": "adaptive" }, "tools": tools() });
    let mut streamed = more.clone();
    streamed["stream"] = json!(true);
    let response = message(rig.at, streamed);
    assert_eq!(response.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let events = events(response);
    let mut names: Vec<String> = Vec::new();
    for event in &events {
        let of = event["delta"]["type"].as_str().or(event["content_block"]["type"].as_str());
        let name = format!("{} {}", event["type"].as_str().unwrap(), of.unwrap_or("-"));
        // A text comes in as many pieces as it has tokens.
        if names.last() != Some(&name) {
            names.push(name);
        }
    }
    let call = [
        "content_block_start tool_use",
        "content_block_delta input_json_delta",
        "content_block_stop -",
    ];
    let expected: Vec<&str> = [
        "message_start -",
        "content_block_start thinking",
        "content_block_delta thinking_delta",
        "content_block_delta signature_delta",
        "content_block_stop -",
        "content_block_start text",
        "content_block_delta text_delta",
        "content_block_stop -",
    ]
    .into_iter()
    .chain(call)
    .chain(call)
    .chain(["message_delta -", "message_stop -"])
    .collect();
    assert_eq!(names, expected);
    let start = &events[0]["message"];
    assert_eq!((&start["content"], &start["stop_reason"]), (&json!([]), &Value::Null));

    // Put together, it is what is said whole.
    let mut content: Vec<Value> = Vec::new();
    for event in &events {
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!(event["index"], content.len());
                content.push(event["content_block"].clone());
            }
            "content_block_delta" => {
                assert_eq!(event["index"], content.len() - 1);
                let block = content.last_mut().unwrap();
                for (from, to) in
                    [("text", "text"), ("thinking", "thinking"), ("signature", "signature")]
                {
                    if let Some(text) = event["delta"][from].as_str() {
                        block[to] = json!(format!("{}{text}", block[to].as_str().unwrap()));
                    }
                }
                if let Some(input) = event["delta"]["partial_json"].as_str() {
                    block["input"] = serde_json::from_str(input).unwrap();
                }
            }
            _ => {}
        }
    }
    let mut whole = message(rig.at, more).json();
    for content in [&mut content, whole["content"].as_array_mut().unwrap()] {
        for call in content.iter_mut().filter(|block| block["type"] == "tool_use") {
            assert!(call["id"].as_str().unwrap().starts_with("toolu_"));
            call["id"] = Value::Null;
        }
    }
    assert_eq!(json!(content), whole["content"]);
    assert_eq!(content[2]["input"], json!({ "a": 1 }));
    assert_eq!(content[3]["input"], json!({}));
    let last = &events[events.len() - 2];
    assert_eq!(last["delta"], json!({ "stop_reason": "tool_use", "stop_sequence": null }));
    assert_eq!((&last["usage"], &whole["stop_reason"]), (&whole["usage"], &json!("tool_use")));
}

#[test]
fn stop_reasons() {
    let rig = start(&[Act::Say("one two STOP three"), Act::Forever(1)]);
    let stops = json!({ "stop_sequences": ["x", "STOP"] });
    let reply = message(rig.at, stops).json();
    assert_eq!(
        (&reply["stop_reason"], &reply["stop_sequence"]),
        (&json!("stop_sequence"), &json!("STOP"))
    );
    assert_eq!(reply["content"], json!([{ "type": "text", "text": "one two " }]));
    rig.until_idle();
    let events = events(message(rig.at, json!({ "stop_sequences": ["STOP"], "stream": true })));
    let end = &events[events.len() - 2]["delta"];
    assert_eq!(end, &json!({ "stop_reason": "stop_sequence", "stop_sequence": "STOP" }));
    rig.until_idle();
    let reply = message(rig.at, json!({ "max_tokens": 3 })).json();
    assert_eq!(
        (&reply["stop_reason"], &reply["stop_sequence"]),
        (&json!("max_tokens"), &Value::Null)
    );
    assert_eq!(reply["usage"]["output_tokens"], 3);
}

/// Arguments that the model itself broke are no JSON object, and an input has to be one.
#[test]
fn a_broken_call_is_handed_on_as_it_is() {
    let text = "<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>json type=\"object\"<|sep|>{a:<|close|>json<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>";
    let rig = start(&[Act::Say(text), Act::Stop]);
    let reply = message(rig.at, json!({ "tools": tools() })).json();
    assert_eq!(reply["content"][0]["input"], json!({ "arguments": "{a:" }));
    let events = events(message(rig.at, json!({ "tools": tools(), "stream": true })));
    let told = events.iter().find_map(|event| event["delta"]["partial_json"].as_str()).unwrap();
    assert_eq!(serde_json::from_str::<Value>(told).unwrap(), reply["content"][0]["input"]);
}

#[test]
fn silence_is_broken_by_pings() {
    let rig = start(&[Act::Prefill(350), Act::Say("x"), Act::Stop]);
    let mut response = message(rig.at, json!({ "stream": true }));
    assert!(response.chunk().unwrap().starts_with("event: message_start\n"));
    assert_eq!(response.chunk().unwrap(), "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    let events = events(response);
    assert!(events.iter().any(|event| event["type"] == "ping"));
    assert_eq!(events.last().unwrap()["type"], "message_stop");
}
