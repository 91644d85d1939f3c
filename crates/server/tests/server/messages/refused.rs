//! What Messages are refused, and how it is told.

use super::*;

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
        (
            user(json!([{ "type": "thinking", "thinking": "x" }])),
            "messages[0].content[0].type is 'thinking': a user's",
        ),
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
            "messages[0].content[0].type is 'tool_result'",
        ),
        (
            json!({ "messages": [{ "role": "user", "content": "x" }, { "role": "assistant", "content": "The" }] }),
            "the last message is the assistant's",
        ),
        (user(json!([{ "type": "video" }])), "messages[0].content[0].type is 'video'"),
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
