//! Replies that must keep to a form, from an engine that wants anything but.

use std::sync::atomic::Ordering;

use deltafin_server::Settings;
use serde_json::{Value, json};

use crate::script::{Act, Rig, quick, start_wide};
use crate::wire::chat;

/// Room for a reply that finds its end by chance.
const ROOM: usize = 3000;

fn babbling(seed: u64) -> Rig {
    start_wide(quick(), &[Act::Noise(seed)], ROOM)
}

fn format() -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "maxLength": 10 },
            "size": { "type": "integer", "minimum": 0, "maximum": 99 },
            "color": { "enum": ["red", "green"] },
        },
        "required": ["name", "size", "color"],
        "additionalProperties": false,
    });
    json!({ "type": "json_schema", "json_schema": { "name": "thing", "schema": schema, "strict": true } })
}

#[track_caller]
fn assert_is_a_thing(text: &str) {
    let thing: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let members: Vec<&String> = thing.as_object().expect("an object").keys().collect();
    assert_eq!(members, ["name", "size", "color"], "{text}");
    assert!(thing["name"].as_str().expect("a string").chars().count() <= 10, "{text}");
    assert!(thing["size"].as_u64().expect("an integer") <= 99, "{text}");
    assert!(["red", "green"].contains(&thing["color"].as_str().expect("a string")), "{text}");
}

fn tools() -> Value {
    let tool = |name: &str, parameters: Value| json!({ "type": "function", "function": { "name": name, "parameters": parameters } });
    let city = json!({ "city": { "type": "string", "maxLength": 8 }, "days": { "type": "integer", "minimum": 1, "maximum": 9 } });
    json!([
        tool("now", Value::Null),
        tool("weather", json!({ "type": "object", "properties": city, "required": ["city"] })),
    ])
}

fn content(reply: &Value) -> &str {
    reply["choices"][0]["message"]["content"].as_str().expect("content")
}

#[test]
fn noise_becomes_json_of_the_schema() {
    for seed in 0..6 {
        let rig = babbling(seed);
        for thinking in [false, true] {
            let reply =
                chat(rig.at, json!({ "thinking": thinking, "response_format": format() })).json();
            assert_eq!(reply["choices"][0]["finish_reason"], "stop", "{reply}");
            assert_is_a_thing(content(&reply));
        }
    }
}

#[test]
fn an_object_is_an_object_streamed_or_whole() {
    let rig = babbling(3);
    let body = json!({ "thinking": true, "response_format": { "type": "json_object" } });
    let whole = chat(rig.at, body.clone()).json();
    assert!(serde_json::from_str::<Value>(content(&whole)).unwrap().is_object(), "{whole}");
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let events = chat(rig.at, streamed).events();
    let text: String =
        events.iter().filter_map(|e| e["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, content(&whole));
}

#[test]
fn a_limit_cuts_in_the_middle_and_says_so() {
    let rig = babbling(1);
    let reply = chat(rig.at, json!({ "response_format": format(), "max_tokens": 4 })).json();
    assert_eq!(reply["choices"][0]["finish_reason"], "length");
    assert_eq!(reply["usage"]["completion_tokens"], 4);
    assert!(format!("{:?}", content(&reply)).starts_with("\"{"), "{reply}");
}

#[test]
fn a_call_that_is_required_comes() {
    for seed in 0..6 {
        let rig = babbling(seed);
        let body = json!({ "thinking": true, "tools": tools(), "tool_choice": "required", "parallel_tool_calls": false });
        let choice = chat(rig.at, body).json()["choices"][0].clone();
        assert_eq!(
            (&choice["finish_reason"], &choice["message"]["content"]),
            (&json!("tool_calls"), &Value::Null)
        );
        let calls = choice["message"]["tool_calls"].as_array().unwrap();
        assert_eq!(calls.len(), 1);
        let function = &calls[0]["function"];
        let arguments: Value =
            serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        match function["name"].as_str().unwrap() {
            "now" => assert_eq!(arguments, json!({})),
            "weather" => assert!(arguments["city"].as_str().unwrap().chars().count() <= 8),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_named_function_is_called_and_no_other() {
    for name in ["now", "weather"] {
        let rig = babbling(2);
        let named = json!({ "type": "function", "function": { "name": name } });
        let reply = chat(rig.at, json!({ "tools": tools(), "tool_choice": named })).json();
        let calls = reply["choices"][0]["message"]["tool_calls"].as_array().unwrap();
        assert_eq!((calls.len(), &calls[0]["function"]["name"]), (1, &json!(name)));
    }
}

/// Nothing has to be called; what is called has the arguments that were declared strictly.
#[test]
fn strict_tools_are_called_as_declared() {
    let mut tools = tools();
    tools[1]["function"]["strict"] = json!(true);
    let text = "Well.<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"weather\" index=\"1\"<|sep|><|open|>argument key=\"town\"";
    let rig = start_wide(quick(), &[Act::Say(text), Act::Noise(5)], ROOM);
    let reply = chat(rig.at, json!({ "tools": tools })).json();
    let message = &reply["choices"][0]["message"];
    assert_eq!(message["content"], "Well.");
    let arguments = message["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    let arguments: Value = serde_json::from_str(arguments).unwrap();
    assert!(arguments["city"].is_string() && arguments.get("town").is_none(), "{arguments}");
    let rig = start_wide(
        quick(),
        &[Act::Say("No.<|close|>response<|sep|><|close|>message<|sep|>"), Act::Noise(5)],
        ROOM,
    );
    let reply = chat(rig.at, json!({ "tools": tools })).json();
    assert_eq!((content(&reply), &reply["choices"][0]["finish_reason"]), ("No.", &json!("stop")));
}

#[test]
fn chance_and_probabilities_keep_to_the_form() {
    let settings = Settings { allow_sampling: true, ..quick() };
    let rig = start_wide(settings, &[Act::Noise(4)], ROOM);
    let body = json!({ "response_format": format(), "temperature": 2, "top_p": 0.9, "seed": 3, "logprobs": true, "top_logprobs": 2 });
    let reply = chat(rig.at, body).json();
    assert_is_a_thing(content(&reply));
    let tokens = reply["choices"][0]["logprobs"]["content"].as_array().unwrap();
    let text: String = tokens.iter().map(|token| token["token"].as_str().unwrap()).collect();
    assert_eq!(text, content(&reply));
}

#[test]
fn reasoning_that_is_cut_short_is_followed_by_the_form() {
    let rig = start_wide(quick(), &[Act::Say("a lot of thought"), Act::Noise(6)], ROOM);
    for limit in [0, 2] {
        let body =
            json!({ "thinking": true, "max_reasoning_tokens": limit, "response_format": format() });
        let reply = chat(rig.at, body).json();
        assert_is_a_thing(content(&reply));
        let told = reply["choices"][0]["message"]["reasoning_content"].as_str().unwrap();
        assert_eq!(told.is_empty(), limit == 0, "{told}");
    }
}

/// Ends, other channels and other messages are no way out of the reasoning.
#[test]
fn reasoning_cannot_be_left_for_anything_else() {
    for way in ["<|end_of_msg|>", "<|open|>tools<|sep|>", "<|sep|>", "<|close|>message<|sep|>"] {
        let text: &'static str = Box::leak(format!("Hm.{way}").into_boxed_str());
        let rig = start_wide(quick(), &[Act::Say(text), Act::Noise(8)], ROOM);
        let reply = chat(rig.at, json!({ "thinking": true, "response_format": format() })).json();
        assert_is_a_thing(content(&reply));
    }
}

/// Passes are saved, and not a letter is another one; where probabilities are told, each id is looked at.
#[test]
fn what_must_come_is_said_at_once_and_is_the_same() {
    let settings = || Settings { allow_sampling: true, ..quick() };
    let mut passed_over = 0;
    for seed in 0..4 {
        let patient = start_wide(settings(), &[Act::Noise(seed)], ROOM);
        let hasty = start_wide(settings(), &[Act::Hasty, Act::Noise(seed)], ROOM);
        for body in [
            json!({ "response_format": format() }),
            json!({ "tools": tools(), "tool_choice": "required", "parallel_tool_calls": false }),
            json!({ "tools": tools(), "tool_choice": "required", "max_tokens": 40 }),
            json!({ "thinking": true, "max_reasoning_tokens": 2, "max_tokens": 60 }),
            json!({ "thinking": true, "max_reasoning_tokens": 3, "response_format": format() }),
            json!({ "response_format": format(), "temperature": 2, "seed": 5 }),
        ] {
            let told = [&patient, &hasty].map(|rig| {
                let mut choice = chat(rig.at, body.clone()).json();
                let calls = &mut choice["choices"][0]["message"]["tool_calls"];
                calls.as_array_mut().into_iter().flatten().for_each(|call| call["id"] = json!(0));
                (choice["choices"].clone(), choice["usage"].clone())
            });
            assert_eq!(told[0], told[1], "{seed}: {body}");
        }
        passed_over += hasty.log.forced.swap(0, Ordering::SeqCst);
        chat(hasty.at, json!({ "response_format": format(), "logprobs": true })).json();
        assert_eq!(hasty.log.forced.load(Ordering::SeqCst), 0);
    }
    assert!(passed_over > 50, "{passed_over}");
}
