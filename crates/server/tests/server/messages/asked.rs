//! What Messages ask for: the same conversations as chats, thinking, calls and formats.

use super::*;

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
