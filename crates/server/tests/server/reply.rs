//! Whole replies: their form, their counts, their ends.

use serde_json::{Value, json};

use crate::script::{Act, early_status, start, start_with};
use crate::wire::{chat, post};

const END: &str = "<|close|>response<|sep|><|close|>message<|sep|>";
const CALLS: &str = "<|close|>response<|sep|><|open|>tools<|sep|>\
    <|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a\" type=\"number\"<|sep|>1<|close|>argument<|sep|><|close|>call<|sep|>\
    <|open|>call tool=\"g\" index=\"2\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>";

fn tools() -> Value {
    json!(["f", "g"].map(|name| json!({ "type": "function", "function": { "name": name } })))
}

#[test]
fn a_chat_has_the_documented_form() {
    let rig = start(&[
        Act::Say("Hm.<|close|>think<|sep|><|open|>response<|sep|>Hello!"),
        Act::Say(END),
        Act::Stop,
    ]);
    let response = chat(
        rig.at,
        json!({ "thinking": null, "reasoning_effort": "medium", "user": "u", "made_up": 1 }),
    );
    assert_eq!(response.status, 200);
    assert_eq!(response.header("x-reasoning-effort"), Some("high"));
    assert_eq!(response.header("x-ignored-parameters"), Some("user, made_up"));
    let reply = response.json();
    let choice = &reply["choices"][0];
    assert_eq!(
        choice["message"],
        json!({ "role": "assistant", "content": "Hello!", "reasoning_content": "Hm.", "reasoning": "Hm.", "refusal": null })
    );
    assert_eq!(choice["finish_reason"], "stop");
    assert!(reply["id"].as_str().is_some_and(|id| id.len() == 33 && id.starts_with("chatcmpl-")));
    assert_eq!((&reply["object"], &reply["model"]), (&json!("chat.completion"), &json!("test")));
    let usage = &reply["usage"];
    let new = rig.log.ids.load(std::sync::atomic::Ordering::SeqCst) + 1;
    assert_eq!(usage["completion_tokens"], new);
    assert_eq!(usage["total_tokens"], usage["prompt_tokens"].as_u64().unwrap() + new as u64);
    assert!(usage["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap() > 3);
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 0);
}

#[test]
fn prompt_tokens_leave_out_the_opening() {
    let rig = start(&[Act::Say("x"), Act::Stop]);
    let body = json!({ "messages": [{ "role": "user", "content": "Hi" }], "thinking": false });
    let count = post(rig.at, "/tokenize", &body).json()["count"].as_u64().unwrap();
    assert_eq!(chat(rig.at, json!({})).json()["usage"]["prompt_tokens"], count - 3);
}

#[test]
fn without_thinking_there_is_no_reasoning_member() {
    let rig = start(&[Act::Say("Hello!"), Act::Say(END), Act::Stop]);
    let message = chat(rig.at, json!({})).json()["choices"][0]["message"].clone();
    assert_eq!(message, json!({ "role": "assistant", "content": "Hello!", "refusal": null }));
}

#[test]
fn calls_have_ids_of_their_own() {
    let rig = start(&[Act::Say(CALLS), Act::Stop]);
    let choice = chat(rig.at, json!({ "tools": tools() })).json()["choices"][0].clone();
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("tool_calls"), &Value::Null)
    );
    let calls = choice["message"]["tool_calls"].as_array().unwrap();
    assert_eq!(calls[0]["function"], json!({ "name": "f", "arguments": "{\"a\": 1}" }));
    assert_eq!(calls[1]["function"], json!({ "name": "g", "arguments": "{}" }));
    assert_ne!(calls[0]["id"], calls[1]["id"]);
    assert_eq!(calls[0]["type"], "function");
}

#[test]
fn without_parallel_calls_generation_ends_with_the_first() {
    let rig = start(&[Act::Say(CALLS), Act::Forever(1)]);
    let reply = chat(rig.at, json!({ "tools": tools(), "parallel_tool_calls": false })).json();
    assert_eq!(reply["choices"][0]["message"]["tool_calls"].as_array().unwrap().len(), 1);
    assert_eq!(reply["choices"][0]["finish_reason"], "tool_calls");
    rig.until_idle();
}

#[test]
fn a_forbidden_call_is_not_published() {
    let rig = start(&[Act::Say(CALLS), Act::Stop]);
    let reply = chat(rig.at, json!({ "tools": tools(), "tool_choice": "none" })).json();
    assert_eq!(reply["choices"][0]["finish_reason"], "stop");
    assert!(reply["choices"][0]["message"].get("tool_calls").is_none());
}

#[test]
fn stop_sequences_cut_exactly_and_end_the_work() {
    let rig = start(&[Act::Say("one two STOP three"), Act::Forever(1)]);
    for stop in [json!("STOP"), json!(["x", " STOP", "STOP th"])] {
        let kept = if stop.is_string() { "one two " } else { "one two" };
        let reply = chat(rig.at, json!({ "stop": stop })).json();
        assert_eq!(reply["choices"][0]["message"]["content"], kept);
        assert_eq!(reply["choices"][0]["finish_reason"], "stop");
        rig.until_idle();
    }
}

#[test]
fn limits_count_every_token() {
    let rig = start(&[Act::Forever(0)]);
    for body in [json!({ "max_tokens": 5 }), json!({ "max_completion_tokens": 5, "max_tokens": 9 })]
    {
        let reply = chat(rig.at, body).json();
        assert_eq!(reply["usage"]["completion_tokens"], 5);
        assert_eq!(reply["choices"][0]["finish_reason"], "length");
        assert_eq!(reply["choices"][0]["message"]["content"], "aaaaa");
    }
    // −1 is no limit; then the context is.
    let reply = chat(rig.at, json!({ "max_tokens": -1 })).json();
    let usage = &reply["usage"];
    assert_eq!(usage["total_tokens"], crate::script::CONTEXT - 3);
}

#[test]
fn a_completion_has_the_documented_form() {
    let rig = start(&[Act::Say("a<|open|>b"), Act::Stop]);
    let reply = post(rig.at, "/v1/completions", &json!({ "prompt": ["Hi"] })).json();
    assert_eq!(reply["object"], "text_completion");
    assert_eq!(
        reply["choices"],
        json!([{ "text": "ab", "index": 0, "logprobs": null, "finish_reason": "stop" }])
    );
    let rig = start(&[Act::Forever(0)]);
    let reply = post(rig.at, "/completions", &json!({ "prompt": "Hi" })).json();
    assert_eq!(reply["usage"]["completion_tokens"], 16);
    let body = json!({ "prompt": "Hi", "stream": true, "max_tokens": 2, "stream_options": { "include_usage": true } });
    let events = post(rig.at, "/v1/completions", &body).events();
    let texts: Vec<&Value> = events[..3].iter().map(|event| &event["choices"][0]["text"]).collect();
    assert_eq!(texts, ["a", "a", ""]);
    assert_eq!(events[2]["choices"][0]["finish_reason"], "length");
    assert_eq!((&events[3]["choices"], &events[4]), (&json!([]), &json!("[DONE]")));
}

#[test]
fn a_slow_plain_reply_is_kept_alive_with_blanks() {
    let rig = start_with(early_status(), &[Act::Wait(500), Act::Say("late"), Act::Stop]);
    let mut response = chat(rig.at, json!({}));
    assert_eq!((response.status, response.header("transfer-encoding")), (200, Some("chunked")));
    let text = response.text();
    assert!(text.starts_with("  "), "{text}");
    let reply: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(reply["choices"][0]["message"]["content"], "late");
}

#[test]
fn an_old_client_waits_for_the_length() {
    let rig = start_with(early_status(), &[Act::Wait(400), Act::Say("late"), Act::Stop]);
    let body = crate::wire::chat_body(json!({})).to_string();
    let head =
        format!("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
    let response = crate::wire::send(rig.at, (head + &body).as_bytes());
    assert!(response.header("content-length").is_some());
    assert_eq!(response.json()["choices"][0]["message"]["content"], "late");
}

#[test]
fn failures_say_so_and_the_next_request_is_served() {
    for act in [Act::Fail, Act::Panic, Act::Id(9999)] {
        let rig = start(&[Act::Say("x"), act]);
        for _ in 0..2 {
            let response = chat(rig.at, json!({}));
            assert_eq!(response.header("x-should-retry"), Some("false"));
            assert_eq!(response.refusal(), (500, "engine_error".to_owned(), Value::Null));
        }
    }
}
