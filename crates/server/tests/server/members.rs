//! What single members of a request mean, and how what has no meaning is told.

use deltafin_server::Settings;
use serde_json::{Value, json};

use crate::script::{Act, Rig, quick, start, start_wide, start_with};
use crate::wire::{ask, chat, chat_body, get, post};

fn say() -> Rig {
    start(&[Act::Say("x"), Act::Stop])
}

fn tool(name: &str) -> Value {
    json!({ "type": "function", "function": { "name": name } })
}

/// The prompt of a chat with these members, and how its effort was mapped.
#[track_caller]
fn prompt(rig: &Rig, body: &Value) -> (Vec<u32>, Option<String>) {
    let mut response = post(rig.at, "/v1/chat/completions", body);
    let (status, mapped) =
        (response.status, response.header("x-reasoning-effort").map(str::to_owned));
    assert_eq!(status, 200, "{body}: {}", response.text());
    response.text();
    (rig.log.prompt.lock().expect("whole").clone(), mapped)
}

#[test]
fn efforts_have_other_names_and_places() {
    let rig = start(&[Act::Say("H<|close|>think<|sep|><|open|>response<|sep|>x"), Act::Stop]);
    let talk = json!([{ "role": "user", "content": "Hi" }]);
    let told = |more: Value| {
        let mut body = json!({ "messages": talk });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        prompt(&rig, &body)
    };
    let [off, low, high, max] = [
        json!({ "thinking": false }),
        json!({ "reasoning_effort": "low" }),
        json!({ "reasoning_effort": "high" }),
        json!({ "reasoning_effort": "max" }),
    ]
    .map(|body| told(body).0);
    for (body, wanted, mapped) in [
        (json!({}), &max, None),
        (json!({ "reasoning_effort": "none" }), &off, None),
        (json!({ "reasoning_effort": "off" }), &off, None),
        (json!({ "reasoning_effort": "minimal" }), &off, None),
        (json!({ "reasoning_effort": "medium" }), &high, Some("high")),
        (json!({ "reasoning_effort": "xhigh" }), &max, Some("max")),
        (json!({ "reasoning_effort": " low\t" }), &low, None),
        (json!({ "thinking": true }), &max, None),
        (json!({ "thinking": { "type": "disabled", "keep": "none" } }), &off, None),
        (json!({ "thinking": { "effort": "low" } }), &low, None),
        (json!({ "thinking": { "effort": "low" }, "reasoning_effort": "high" }), &low, None),
        (
            json!({ "thinking": { "type": "enabled", "effort": "medium" }, "reasoning_effort": "low" }),
            &high,
            Some("high"),
        ),
        (json!({ "reasoning_effort": "low", "reasoning": { "effort": "high" } }), &low, None),
        (json!({ "reasoning": { "effort": "xhigh" } }), &max, Some("max")),
        (json!({ "chat_template_kwargs": { "thinking_effort": "low" } }), &low, None),
        (json!({ "chat_template_kwargs": { "reasoning_effort": "high" } }), &high, None),
        (
            json!({ "chat_template_kwargs": { "thinking_effort": "low", "reasoning_effort": "high" } }),
            &low,
            None,
        ),
        (
            json!({ "reasoning": { "effort": "high" }, "chat_template_kwargs": { "thinking_effort": "low" } }),
            &high,
            None,
        ),
        (json!({ "chat_template_kwargs": { "enable_thinking": false } }), &off, None),
        (json!({ "enable_thinking": false }), &off, None),
        (json!({ "enable_thinking": false, "thinking": true }), &max, None),
    ] {
        let given = told(body.clone());
        assert_eq!((&given.0, given.1.as_deref()), (wanted, mapped), "{body}");
    }
}

#[test]
fn seeds_have_64_bits() {
    let settings = Settings { allow_sampling: true, ..quick() };
    let rig = start_with(settings, &[Act::Say("x"), Act::Stop]);
    for (seed, told) in [
        (json!(0), "0"),
        (json!(7.0), "7"),
        (json!(i64::MAX), "9223372036854775807"),
        (json!(1_u64 << 63), "9223372036854775808"),
        (json!(u64::MAX), "18446744073709551615"),
        (json!(-1), "18446744073709551615"),
    ] {
        let response = chat(rig.at, json!({ "seed": seed, "temperature": 1 }));
        assert_eq!((response.status, response.header("x-seed")), (200, Some(told)), "{seed}");
    }
    for rig in [rig, say()] {
        for seed in ["18446744073709551616", "-9223372036854775809", "1e300", "0.5", "\"7\""] {
            let body = chat_body(json!({ "seed": "SEED" })).to_string().replace("\"SEED\"", seed);
            let refusal = ask(rig.at, "POST", "/v1/chat/completions", "", &body).refusal();
            assert_eq!(refusal, (400, "invalid_value".to_owned(), json!("seed")), "{seed}");
        }
        assert_eq!(chat(rig.at, json!({ "seed": u64::MAX })).status, 200);
    }
}

#[test]
fn what_is_ignored_is_told_whatever_it_is_called() {
    let rig = say();
    for (body, told) in [
        (json!({ "user": "u", "made_up": 1, "store": null }), "user, made_up"),
        (
            json!({ "a\u{1}b": 1, "é, \\": 1, "😀": 1 }),
            "a\\u0001b, \\u00e9\\u002c \\u005c, \\ud83d\\ude00",
        ),
        (json!({ "stream_options": { "other": 1 }, "metadata": {} }), "metadata"),
    ] {
        let response = chat(rig.at, body.clone());
        assert_eq!((response.status, response.header("x-ignored-parameters")), (200, Some(told)));
    }
    assert_eq!(chat(rig.at, json!({ "x": null })).header("x-ignored-parameters"), None);
    let long = chat(rig.at, json!({ "\u{1}".repeat(500): 1 }));
    assert_eq!(long.header("x-ignored-parameters").map(str::len), Some(1000));
}

#[test]
fn of_two_keys_one_has_to_be_right() {
    let settings = Settings { api_keys: vec!["one".to_owned()], ..quick() };
    let rig = start_with(settings, &[Act::Stop]);
    for (headers, status) in [
        ("Authorization: Bearer junk\r\nx-api-key: one\r\n", 200),
        ("Authorization: Bearer one\r\nx-api-key: junk\r\n", 200),
        ("Authorization: Basic b25l\r\nx-api-key: one\r\n", 200),
        ("Authorization: Bearer one\r\nx-api-key: one\r\n", 200),
        ("Authorization: Bearer junk\r\nx-api-key: junk\r\n", 401),
        ("Authorization: Bearer one,junk\r\nx-api-key: one two\r\n", 401),
    ] {
        assert_eq!(get(rig.at, "/v1/models", headers).status, status, "{headers}");
    }
}

/// A result that answers nothing is named by its own message, however the dialect counts.
#[test]
fn a_result_without_a_call_is_named() {
    let rig = say();
    let user = json!({ "role": "user", "content": "Hi" });
    let stray = json!({ "role": "tool", "tool_call_id": "c9", "content": "12" });
    let call = json!({ "id": "c1", "function": { "name": "f", "arguments": "{}" } });
    let called = json!({ "role": "assistant", "tool_calls": [call] });
    let result = json!({ "role": "tool", "tool_call_id": "c1", "content": "12" });
    let block = json!({ "type": "tool_result", "tool_use_id": "c9", "content": "12" });
    let output = json!({ "type": "function_call_output", "call_id": "c9", "output": "12" });
    let message = json!({ "role": "user", "content": [{ "type": "text", "text": "x" }, block] });
    for (path, body, param) in [
        ("/v1/chat/completions", json!({ "messages": [user, stray] }), "messages[1].tool_call_id"),
        (
            "/v1/chat/completions",
            json!({ "messages": [user, called, result, user, called, result, stray] }),
            "messages[6].tool_call_id",
        ),
        ("/tokenize", json!({ "messages": [user, stray] }), "messages[1].tool_call_id"),
        (
            "/v1/responses",
            json!({ "instructions": "Be brief.", "input": [user, output] }),
            "input[1].call_id",
        ),
        (
            "/v1/messages",
            json!({ "max_tokens": 9, "system": "Be brief.", "messages": [user, message] }),
            "messages[1].content[1].tool_use_id",
        ),
    ] {
        let mut response = post(rig.at, path, &body);
        assert_eq!(response.status, 400, "{body}");
        let error: Value = serde_json::from_str(&response.text()).expect("JSON");
        let words = error["error"]["message"].as_str().expect("words");
        assert!(words.starts_with(&format!("{param} answers no call")), "{words}");
        if path != "/v1/messages" {
            assert_eq!(error["error"]["param"], param);
        }
    }
    // A name of its own is enough.
    let named = json!({ "role": "tool", "tool_call_id": "c9", "name": "f", "content": "12" });
    assert_eq!(chat(rig.at, json!({ "messages": [user, named] })).status, 200);
}

#[test]
fn some_of_the_tools_may_be_the_only_ones() {
    let tools = json!([tool("f"), tool("g"), tool("h")]);
    let allowed = |mode: &str, tools: Value| json!({ "type": "allowed_tools", "allowed_tools": { "mode": mode, "tools": tools } });
    for seed in 0..6 {
        let rig = start_wide(quick(), &[Act::Noise(seed)], 3000);
        let body = json!({ "tools": tools, "tool_choice": allowed("required", json!([tool("g"), tool("h")])), "parallel_tool_calls": false });
        let reply = chat(rig.at, body).json();
        let name = &reply["choices"][0]["message"]["tool_calls"][0]["function"]["name"];
        assert!(name == "g" || name == "h", "{reply}");
        let flat: Vec<Value> = ["f", "g", "h"]
            .map(|name| json!({ "type": "function", "name": name, "parameters": {} }))
            .to_vec();
        let choice = json!({ "type": "allowed_tools", "mode": "required", "tools": [{ "type": "function", "name": "h" }] });
        let body = json!({ "input": "Hi", "tools": flat, "tool_choice": choice, "parallel_tool_calls": false });
        let reply = post(rig.at, "/v1/responses", &body).json();
        let output = reply["output"].as_array().expect("items");
        assert_eq!(output.last().expect("one")["name"], "h", "{reply}");
    }
    // The model says something and wants to call what it may not; or it calls nothing.
    let wants = "Well.<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"f";
    let rig = start_wide(quick(), &[Act::Say(wants), Act::Noise(5)], 3000);
    let body = json!({ "tools": tools, "tool_choice": allowed("auto", json!([tool("g")])) });
    let message = chat(rig.at, body.clone()).json()["choices"][0]["message"].clone();
    assert_eq!(
        (&message["content"], &message["tool_calls"][0]["function"]["name"]),
        (&json!("Well."), &json!("g"))
    );
    let says = "No.<|close|>response<|sep|><|close|>message<|sep|>";
    let rig = start(&[Act::Say(says), Act::Stop]);
    assert_eq!(chat(rig.at, body).json()["choices"][0]["message"]["content"], "No.");
    let path = "tool_choice.allowed_tools";
    for (choice, param) in [
        (json!({ "type": "allowed_tools" }), path.to_owned()),
        (allowed("none", json!([tool("f")])), format!("{path}.mode")),
        (allowed("auto", json!([])), format!("{path}.tools")),
        (allowed("auto", json!(["f"])), format!("{path}.tools[0]")),
        (allowed("auto", json!([{ "type": "custom" }])), format!("{path}.tools[0].type")),
        (allowed("auto", json!([tool("x")])), format!("{path}.tools[0].function.name")),
    ] {
        let refusal = chat(rig.at, json!({ "tools": tools, "tool_choice": choice })).refusal();
        assert_eq!((refusal.0, refusal.2), (400, json!(param)), "{choice}");
    }
}

/// Whoever cuts the thinking short before it has begun gets an answer that has none.
#[test]
fn a_stream_that_waits_can_be_steered() {
    let rig = start(&[Act::Wait(300), Act::Say("one two"), Act::Forever(1)]);
    let _running = chat(rig.at, json!({ "stream": true, "max_tokens": 200 }));
    rig.until_busy();
    let mut waiting = chat(rig.at, json!({ "stream": true, "thinking": true, "max_tokens": 20 }));
    let role = waiting.chunk().expect("a chunk");
    let role: Value = serde_json::from_str(role.trim_start_matches("data: ")).expect("JSON");
    assert!(waiting.chunk().expect("a comment").starts_with(": queued 1"));
    let steered = |action: &str| {
        post(rig.at, "/v1/chat/completions/control", &json!({ "id": role["id"], "action": action }))
    };
    assert_eq!(steered("reasoning_end").json()["applied"], true);
    assert_eq!(steered("stop").refusal().2, json!("action"));
    let told: Vec<Value> =
        waiting.events().into_iter().map(|event| event["choices"][0]["delta"].clone()).collect();
    let text =
        |name: &str| -> String { told.iter().filter_map(|delta| delta[name].as_str()).collect() };
    assert_eq!(text("reasoning"), "", "{told:?}");
    assert!(!text("content").is_empty(), "{told:?}");
}
