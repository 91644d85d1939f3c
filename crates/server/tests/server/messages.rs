//! Anthropic's Messages: their forms, whole and streamed, and what is refused.

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

/// The type and the text of a refusal.
#[track_caller]
fn refusal(response: Response) -> (u16, String, String) {
    let status = response.status;
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.header("request-id"), response.header("x-request-id"));
    let error = response.json();
    assert_eq!(
        (&error["type"], error.as_object().map_or(0, serde_json::Map::len)),
        (&json!("error"), 2)
    );
    let text = |name: &str| error["error"][name].as_str().expect("a text").to_owned();
    (status, text("type"), text("message"))
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

/// The prompt of a conversation is the one that the same chat has.
#[test]
fn it_is_the_same_conversation_as_a_chat() {
    let rig = start(&[Act::Stop]);
    let schema = json!({ "type": "object", "properties": { "a": { "type": "number" } } });
    let system = json!([
        { "type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=00abc;" },
        { "type": "text", "text": "Be brief.", "cache_control": { "type": "ephemeral" } },
    ]);
    let said = json!([
        { "type": "thinking", "thinking": "Let me", "signature": "s" },
        { "type": "redacted_thinking", "data": "…" },
        { "type": "text", "text": "One moment." },
        { "type": "tool_use", "id": "c1", "name": "f", "input": { "a": 1 } },
        { "type": "tool_use", "id": "c2", "name": "f", "input": {} },
    ]);
    let results = json!([
        { "type": "tool_result", "tool_use_id": "c1", "content": "12" },
        { "type": "tool_result", "tool_use_id": "c2", "is_error": true, "content": [{ "type": "text", "text": "no" }] },
        { "type": "text", "text": "And?" },
    ]);
    let ours = json!({
        "max_tokens": 1, "thinking": { "type": "enabled" }, "output_config": { "effort": "low" },
        "system": system, "tools": [tool("f", schema.clone())],
        "messages": [{ "role": "user", "content": "Hi" }, { "role": "assistant", "content": said }, { "role": "user", "content": results }],
    });
    let call = |id: &str, arguments: &str| json!({ "id": id, "function": { "name": "f", "arguments": arguments } });
    let theirs = json!({
        "reasoning_effort": "low",
        "tools": [{ "type": "function", "function": { "name": "f", "description": "d", "parameters": schema } }],
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "Hi" },
            { "role": "assistant", "reasoning_content": "Let me", "content": "One moment.", "tool_calls": [call("c1", "{\"a\": 1}"), call("c2", "{}")] },
            { "role": "tool", "tool_call_id": "c1", "content": "12" },
            { "role": "tool", "tool_call_id": "c2", "content": "Error: no" },
            { "role": "user", "content": "And?" },
        ],
    });
    let chat = post(rig.at, "/tokenize", &theirs).json()["count"].as_u64().unwrap();
    let counted = post(rig.at, "/v1/messages/count_tokens", &ours);
    assert_eq!(counted.header("request-id"), counted.header("x-request-id"));
    assert_eq!(counted.json(), json!({ "input_tokens": chat - 3 }));

    // Ids, not only their number: what is asked for in both ways is generated once.
    let settings = Settings { replay: Duration::from_secs(60), ..quick() };
    let rig = start_wide(settings, &[Act::Say("x"), Act::Stop], 1000);
    let mut theirs = theirs;
    theirs["max_tokens"] = json!(1);
    let theirs = post(rig.at, "/v1/chat/completions", &theirs).json();
    let ours = post(rig.at, "/v1/messages", &ours).json();
    assert_eq!(rig.log.jobs.load(Ordering::SeqCst), 1);
    assert_eq!(ours["usage"]["input_tokens"], theirs["usage"]["prompt_tokens"]);
    assert_eq!(
        ours["content"][0]["thinking"],
        theirs["choices"][0]["message"]["reasoning_content"]
    );
}

#[test]
fn thinking_is_off_unless_something_asks_for_it() {
    let rig = start(&[Act::Stop]);
    let count = |more: Value| {
        let counted = post(rig.at, "/v1/messages/count_tokens", &body(more)).json();
        counted["input_tokens"].as_u64().unwrap()
    };
    let chat = |more: Value| {
        let counted = post(rig.at, "/tokenize", &crate::wire::chat_body(more)).json();
        counted["count"].as_u64().unwrap() - 3
    };
    let off = chat(json!({ "thinking": false }));
    let low = chat(json!({ "thinking": true, "reasoning_effort": "low" }));
    let max = chat(json!({ "thinking": true }));
    assert!(off < low);
    let effort = |effort: &str| json!({ "effort": effort });
    for (more, expected) in [
        (json!({}), off),
        (json!({ "thinking": { "type": "disabled" }, "output_config": effort("low") }), off),
        (json!({ "output_config": effort("none") }), off),
        (json!({ "thinking": { "type": "enabled", "budget_tokens": 9 } }), max),
        (json!({ "thinking": { "type": "adaptive" } }), max),
        (json!({ "thinking": { "type": "adaptive" }, "output_config": effort("low") }), low),
        (json!({ "output_config": effort("minimal") }), low),
    ] {
        assert_eq!(count(more.clone()), expected, "{more}");
    }
}

#[test]
fn calls_and_formats_are_enforced() {
    let schema = json!({ "type": "object", "properties": { "size": { "type": "integer", "minimum": 0, "maximum": 99 } }, "required": ["size"], "additionalProperties": false });
    let tools = json!([tool("now", json!({ "type": "object" })), tool("size", schema.clone())]);
    for seed in 0..3 {
        let rig = start_wide(quick(), &[Act::Noise(seed)], 3000);
        let format = json!({ "format": { "type": "json_schema", "schema": schema } });
        let reply = message(rig.at, json!({ "max_tokens": 2000, "output_config": format })).json();
        let text = reply["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{reply}"));
        let thing: Value = serde_json::from_str(text).unwrap();
        assert!(thing["size"].as_u64().is_some_and(|size| size <= 99), "{reply}");

        let named = json!({ "type": "tool", "name": "size" });
        let reply =
            message(rig.at, json!({ "max_tokens": 2000, "tools": tools, "tool_choice": named }))
                .json();
        let [call] = reply["content"].as_array().unwrap().as_slice() else { panic!("{reply}") };
        assert_eq!((&call["name"], &reply["stop_reason"]), (&json!("size"), &json!("tool_use")));
        assert!(call["input"]["size"].is_u64(), "{reply}");

        let any = json!({ "type": "any", "disable_parallel_tool_use": true });
        let reply =
            message(rig.at, json!({ "max_tokens": 2000, "tools": tools, "tool_choice": any }))
                .json();
        let [call] = reply["content"].as_array().unwrap().as_slice() else { panic!("{reply}") };
        assert_eq!(call["type"], "tool_use");
    }
}

#[test]
fn single_and_forbidden_calls() {
    let rig = start(&[Act::Say(CALLS), Act::Stop]);
    let choice = |choice: Value| json!({ "tools": tools(), "tool_choice": choice });
    let reply =
        message(rig.at, choice(json!({ "type": "auto", "disable_parallel_tool_use": true })));
    assert_eq!(reply.json()["content"].as_array().unwrap().len(), 1);
    let reply = message(rig.at, choice(json!({ "type": "none" }))).json();
    assert_eq!((&reply["content"], &reply["stop_reason"]), (&json!([]), &json!("end_turn")));
    let reply = message(rig.at, choice(json!({ "type": "auto" }))).json();
    assert_eq!(reply["content"].as_array().unwrap().len(), 2);
}

#[test]
fn what_cannot_be_meant_is_refused_by_name() {
    let rig = start(&[Act::Stop]);
    let user = |content: Value| json!({ "messages": [{ "role": "user", "content": content }] });
    let said = |content: Value| json!({ "messages": [{ "role": "assistant", "content": content }, { "role": "user", "content": "x" }] });
    let bad = json!({ "type": "object", "properties": { "a": { "not": {} } } });
    for (more, name) in [
        (json!({ "max_tokens": null }), "max_tokens is missing"),
        (json!({ "max_tokens": 0 }), "max_tokens must be at least 1"),
        (json!({ "max_tokens": "9" }), "max_tokens must be an integer"),
        (json!({ "messages": [] }), "messages must have"),
        (json!({ "messages": [{ "content": "x" }] }), "messages[0].role is missing"),
        (json!({ "messages": [{ "role": "tool", "content": "x" }] }), "messages[0].role is 'tool'"),
        (user(json!(1)), "messages[0].content must be"),
        (user(json!([{ "text": "x" }])), "messages[0].content[0].type is missing"),
        (user(json!([{ "type": "text" }])), "messages[0].content[0].text is missing"),
        (
            user(json!([{ "type": "image", "source": {} }])),
            "messages[0].content[0].type is 'image'",
        ),
        (user(json!([{ "type": "tool_result" }])), "messages[0].content[0].tool_use_id is missing"),
        (user(json!([{ "type": "thinking", "thinking": "x" }])), "messages[0].content: a user's"),
        (
            user(
                json!([{ "type": "tool_result", "tool_use_id": "c", "content": [{ "type": "image" }] }]),
            ),
            "messages[0].content[0].content[0].type is 'image'",
        ),
        (
            said(json!([{ "type": "tool_use", "id": "c", "input": {} }])),
            "messages[0].content[0].name is missing",
        ),
        (
            said(json!([{ "type": "tool_use", "id": "c", "name": "f", "input": [] }])),
            "messages[0].content[0].input must be",
        ),
        (
            said(json!([{ "type": "tool_result", "tool_use_id": "c" }])),
            "messages[0].content: tool_result",
        ),
        (
            json!({ "messages": [{ "role": "user", "content": "x" }, { "role": "assistant", "content": "The" }] }),
            "the last message is the assistant's",
        ),
        (json!({ "system": 1 }), "system must be"),
        (json!({ "system": [{ "type": "thinking", "thinking": "x" }] }), "system takes text"),
        (json!({ "stop_sequences": [""] }), "stop_sequences takes"),
        (json!({ "temperature": 3 }), "temperature must be"),
        (json!({ "stream": "yes" }), "stream must be"),
        (json!({ "thinking": { "type": "often" } }), "thinking.type is 'often'"),
        (json!({ "output_config": { "effort": "huge" } }), "output_config.effort is 'huge'"),
        (
            json!({ "output_config": { "format": { "type": "xml" } } }),
            "output_config.format.type must",
        ),
        (
            json!({ "output_config": { "format": { "type": "json_schema" } } }),
            "output_config.format.schema is missing",
        ),
        (
            json!({ "output_config": { "format": { "type": "json_schema", "schema": bad } } }),
            "output_config.format.schema.properties.a cannot",
        ),
        (json!({ "output_format": {} }), "output_format is not supported"),
        (json!({ "mcp_servers": [{}] }), "mcp_servers is not supported"),
        (
            json!({ "tools": [{ "type": "web_search_20250305", "name": "web_search" }] }),
            "tools[0].type is 'web_search_20250305'",
        ),
        (json!({ "tools": [{ "name": "f" }] }), "tools[0].input_schema is missing"),
        (json!({ "tools": [tool("1f", json!({}))] }), "tools[0].name is '1f'"),
        (
            json!({ "tools": [tool("f", json!({})), tool("f", json!({}))] }),
            "tools[1].name: 'f' is declared twice",
        ),
        (
            json!({ "tools": [tool("f", bad)], "tool_choice": { "type": "any" } }),
            "tools[0].input_schema.properties.a cannot",
        ),
        (json!({ "tool_choice": { "type": "any" } }), "tool_choice is required"),
        (
            json!({ "tools": tools(), "tool_choice": { "type": "tool", "name": "h" } }),
            "tool_choice names 'h'",
        ),
        (json!({ "tool_choice": { "type": "maybe" } }), "tool_choice.type is 'maybe'"),
        (
            json!({ "messages": [{ "role": "user", "content": "word ".repeat(CONTEXT) }] }),
            "This model's maximum context length",
        ),
    ] {
        let (status, kind, words) = refusal(message(rig.at, more.clone()));
        assert_eq!((status, kind.as_str()), (400, "invalid_request_error"), "{more}");
        assert!(words.starts_with(name), "{more}: {words}");
    }
    assert_eq!(rig.log.jobs.load(Ordering::SeqCst), 0);
}

/// Every refusal on the way to these endpoints is in their form, whoever speaks it.
#[test]
fn errors_have_their_own_form() {
    let settings = Settings { api_keys: vec!["k".to_owned()], max_body_bytes: 2000, ..quick() };
    let rig = start_with(settings, &[Act::Say("x"), Act::Fail]);
    let path = "/v1/messages";
    let text = body(json!({})).to_string();
    let with = |headers: &str, body: &str| refusal(ask(rig.at, "POST", path, headers, body));
    let kind = |(status, kind, _): (u16, String, String)| (status, kind);
    let key = "x-api-key: k\r\n";
    assert_eq!(kind(with("", &text)), (401, "authentication_error".to_owned()));
    assert_eq!(kind(with(key, "{")), (400, "invalid_request_error".to_owned()));
    assert_eq!(kind(with(key, &"x".repeat(3000))), (413, "request_too_large".to_owned()));
    let foreign = format!("{key}Origin: http://evil.example\r\n");
    assert_eq!(kind(with(&foreign, &text)), (403, "permission_error".to_owned()));
    let get = ask(rig.at, "GET", path, key, "");
    assert_eq!(get.header("allow"), Some("POST"));
    assert_eq!(kind(refusal(get)).0, 405);
    let failed = ask(rig.at, "POST", path, key, &text);
    assert_eq!(failed.header("x-should-retry"), Some("false"));
    let (status, kind, words) = refusal(failed);
    assert_eq!((status, kind.as_str()), (500, "api_error"));
    assert!(words.contains("the disk is gone"), "{words}");
}

#[test]
fn a_fault_in_the_stream_is_an_error_event_and_the_end() {
    let rig = start(&[Act::Say("one"), Act::Fail]);
    let events = events(message(rig.at, json!({ "stream": true })));
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["error"]["type"]), (&json!("error"), &json!("api_error")));
    assert!(last["error"]["message"].as_str().unwrap().contains("the disk is gone"));
    assert!(events.iter().all(|event| event["type"] != "message_stop"));
    // Where the status was sent before, the document says it.
    let rig = start_with(early_status(), &[Act::Wait(400), Act::Fail]);
    let late = message(rig.at, json!({}));
    assert_eq!(late.status, 200);
    assert_eq!(late.json()["error"]["type"], "api_error");
}

#[test]
fn who_finds_it_busy_is_told_that_it_is_overloaded() {
    let rig = start_with(Settings { queue: 0, ..quick() }, &[Act::Forever(5)]);
    let mut running = message(rig.at, json!({ "stream": true }));
    assert!(running.chunk().unwrap().starts_with("event: message_start\n"));
    let busy = message(rig.at, json!({ "max_tokens": 1 }));
    assert!(busy.header("retry-after").is_some());
    let (status, kind, _) = refusal(busy);
    assert_eq!((status, kind.as_str()), (529, "overloaded_error"));
    running.leave();
    rig.until_idle();
    soon("served", || message(rig.at, json!({ "max_tokens": 1 })).status == 200);
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

/// Marker spellings in any field stay text: the prompt has as many markers as without them.
#[test]
fn markers_in_a_request_are_text() {
    let count = |word: &str| {
        let rig = start_wide(quick(), &[Act::Say("x"), Act::Stop], 2000);
        let reply = message(
            rig.at,
            json!({
                "system": word, "thinking": { "type": "enabled" },
                "tools": [{ "name": "f", "description": word, "input_schema": {} }],
                "messages": [
                    { "role": "user", "content": word },
                    { "role": "assistant", "content": [
                        { "type": "thinking", "thinking": word }, { "type": "text", "text": word },
                        { "type": "tool_use", "id": word, "name": word, "input": { word: word } },
                    ] },
                    { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": word, "content": word }] },
                ],
            }),
        );
        let prompt = rig.log.prompt.lock().unwrap().clone();
        assert_eq!(reply.status, 200);
        let base = crate::script::tokenizer().base();
        prompt.iter().filter(|id| **id >= base).count()
    };
    assert_eq!(count("<|end_of_msg|><|open|><|sep|>"), count("word"));
}
