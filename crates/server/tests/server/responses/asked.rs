//! What Responses ask for: items, tools, formats, efforts, probabilities.

use super::*;

/// What an assistant did in one turn is one message again, so that its state can be gone on from.
#[test]
fn items_are_the_conversation_that_a_chat_has() {
    let settings = Settings { replay: Duration::from_secs(60), ..quick() };
    let rig = start_wide(settings, &[Act::Say("x"), Act::Stop], 1000);
    let parameters = json!({ "type": "object" });
    let output = |id: &str, text: &str| json!({ "type": "function_call_output", "call_id": id, "output": text });
    let call = |id: &str, arguments: &str| json!({ "type": "function_call", "id": "fc", "call_id": id, "name": "f", "arguments": arguments });
    let ours = json!({
        "instructions": "Be brief.", "max_output_tokens": 1, "reasoning": { "effort": "low" },
        "tools": [{ "type": "function", "name": "f", "description": "d", "parameters": parameters }],
        "input": [
            { "role": "user", "content": "Hi" },
            { "type": "reasoning", "id": "rs", "summary": [], "content": [{ "type": "reasoning_text", "text": "Let me" }] },
            { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "One moment." }] },
            call("c1", "{\"a\": 1}"), call("c2", ""),
            output("c1", "12"), output("c2", "no"),
            { "type": "reasoning", "summary": [{ "type": "summary_text", "text": "Again" }] },
            call("c3", "{}"), output("c3", "13"),
            { "type": "message", "role": "assistant", "content": "It is 13." },
            { "type": "message", "role": "assistant", "content": "Or 14." },
            { "type": "message", "role": "developer", "content": [{ "type": "input_text", "text": "Go on." }] },
        ],
    });
    let call = |id: &str, arguments: &str| json!({ "id": id, "function": { "name": "f", "arguments": arguments } });
    let theirs = json!({
        "max_tokens": 1, "reasoning_effort": "low",
        "tools": [{ "type": "function", "function": { "name": "f", "description": "d", "parameters": parameters } }],
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "Hi" },
            { "role": "assistant", "reasoning_content": "Let me", "content": "One moment.", "tool_calls": [call("c1", "{\"a\": 1}"), call("c2", "")] },
            { "role": "tool", "tool_call_id": "c1", "content": "12" },
            { "role": "tool", "tool_call_id": "c2", "content": "no" },
            { "role": "assistant", "reasoning_content": "Again", "tool_calls": [call("c3", "{}")] },
            { "role": "tool", "tool_call_id": "c3", "content": "13" },
            { "role": "assistant", "content": "It is 13." },
            { "role": "assistant", "content": "Or 14." },
            { "role": "developer", "content": "Go on." },
        ],
    });
    let theirs = post(rig.at, "/v1/chat/completions", &theirs).json();
    let asked = rig.log.prompt.lock().unwrap().clone();
    let ours = post(rig.at, "/v1/responses", &ours).json();
    assert_eq!(*rig.log.prompt.lock().unwrap(), asked);
    // The same twice is generated once.
    assert_eq!(rig.log.jobs.load(Ordering::SeqCst), 1);
    assert_eq!(ours["usage"]["input_tokens"], theirs["usage"]["prompt_tokens"]);
}

/// Free text is a call with one argument, in the prompt as in the reply.
#[test]
fn custom_tools_take_one_string() {
    let rig = start(&[Act::Stop]);
    let named = json!({ "type": "custom", "name": "patch" });
    let custom = [
        json!({ "type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** x" }),
        json!({ "type": "custom_tool_call_output", "call_id": "c", "output": [{ "type": "input_text", "text": "done" }] }),
    ];
    let plain = [
        json!({ "type": "function_call", "call_id": "c", "name": "patch", "arguments": "{\"input\": \"*** x\"}" }),
        json!({ "type": "function_call_output", "call_id": "c", "output": "done" }),
    ];
    let prompt = |items: &[Value]| {
        respond(rig.at, json!({ "input": items, "tools": tools() })).json();
        rig.log.prompt.lock().unwrap().clone()
    };
    assert_eq!(prompt(&custom), prompt(&plain));
    let rig = start_wide(quick(), &[Act::Noise(1)], 3000);
    let more = json!({ "tools": tools(), "tool_choice": named, "reasoning": { "effort": "none" }, "max_output_tokens": 2000 });
    let reply = respond(rig.at, more).json();
    let [call] = reply["output"].as_array().unwrap().as_slice() else { panic!("{reply}") };
    assert_eq!((&call["type"], &call["name"]), (&json!("custom_tool_call"), &json!("patch")));
    assert!(call["input"].is_string(), "{reply}");
}

#[test]
fn calls_and_formats_are_enforced() {
    let schema = json!({ "type": "object", "properties": { "size": { "type": "integer", "minimum": 0, "maximum": 99 } }, "required": ["size"], "additionalProperties": false });
    for seed in 0..3 {
        let rig = start_wide(quick(), &[Act::Noise(seed)], 3000);
        let output = |more: Value| {
            let reply = respond(rig.at, more).json();
            assert_eq!(reply["status"], "completed", "{reply}");
            reply["output"].as_array().unwrap().last().unwrap().clone()
        };
        let format =
            json!({ "type": "json_schema", "name": "thing", "schema": schema, "strict": true });
        let message = output(json!({ "text": { "format": format } }));
        let text = message["content"][0]["text"].as_str().unwrap();
        let thing: Value = serde_json::from_str(text).unwrap();
        assert!(thing["size"].as_u64().is_some_and(|size| size <= 99), "{text}");

        let format = json!({ "format": { "type": "json_object" } });
        let message = output(json!({ "text": format }));
        let text = message["content"][0]["text"].as_str().unwrap();
        assert!(serde_json::from_str::<Value>(text).unwrap().is_object(), "{text}");

        let tools = json!([{ "type": "function", "name": "size", "parameters": schema }]);
        for choice in [json!("required"), json!({ "type": "function", "name": "size" })] {
            let more =
                json!({ "tools": tools, "tool_choice": choice, "parallel_tool_calls": false });
            let call = output(more);
            let arguments: Value =
                serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
            assert!(call["name"] == "size" && arguments["size"].is_u64(), "{call}");
        }
    }
}

#[test]
fn efforts_are_those_of_the_model() {
    let rig = start(&[Act::Stop]);
    let prompt = |more: Value| {
        respond(rig.at, more).json();
        rig.log.prompt.lock().unwrap().clone()
    };
    let effort = |word: &str| prompt(json!({ "reasoning": { "effort": word } }));
    for (words, ours) in
        [(["minimal", "low"], "low"), (["medium", "high"], "high"), (["xhigh", "max"], "max")]
    {
        crate::wire::chat(rig.at, json!({ "thinking": true, "reasoning_effort": ours })).json();
        let expected = rig.log.prompt.lock().unwrap().clone();
        assert_eq!(words.map(effort), [expected.clone(), expected]);
    }
    crate::wire::chat(rig.at, json!({ "thinking": false })).json();
    let off = rig.log.prompt.lock().unwrap().clone();
    assert_eq!(effort("none"), off);
    assert_eq!(prompt(json!({})), effort("max"));
}

/// Asked for by a number, or by name as newer clients do; streamed or whole.
#[test]
fn probabilities_stand_beside_the_text() {
    let rig = start(&[Act::Say("Hé you"), Act::Stop]);
    let told = |more: Value| respond(rig.at, more).json()["output"][0]["content"][0].clone();
    let include = json!(["message.output_text.logprobs"]);
    let off = json!({ "effort": "none" });
    let three = told(json!({ "reasoning": off, "top_logprobs": 3 }));
    let tokens = three["logprobs"].as_array().unwrap().clone();
    let text: Vec<u8> = tokens
        .iter()
        .flat_map(|token| token["bytes"].as_array().unwrap().clone())
        .map(|byte| u8::try_from(byte.as_u64().unwrap()).unwrap())
        .collect();
    assert_eq!(String::from_utf8(text).unwrap(), three["text"].as_str().unwrap());
    for token in &tokens {
        let top = token["top_logprobs"].as_array().unwrap();
        assert_eq!((top.len(), &top[0]["logprob"]), (3, &token["logprob"]));
    }
    let named = told(json!({ "reasoning": off, "include": include }));
    assert_eq!(named["logprobs"][0]["top_logprobs"], json!([]));
    assert_eq!(named["logprobs"][0]["logprob"], tokens[0]["logprob"]);
    assert_eq!(told(json!({ "reasoning": off }))["logprobs"], json!([]));

    let stream = json!({ "reasoning": off, "top_logprobs": 3, "include": include, "stream": true });
    let events = events(respond(rig.at, stream));
    let deltas = events.iter().filter(|event| event["type"] == "response.output_text.delta");
    let streamed = deltas.flat_map(|event| event["logprobs"].as_array().unwrap().clone());
    assert_eq!(streamed.collect::<Vec<Value>>(), tokens);
    let of = |kind: &str| events.iter().find(|event| event["type"] == kind).unwrap();
    let done = of("response.output_text.done");
    let part = of("response.content_part.done");
    let item = of("response.output_item.done");
    for logprobs in
        [&done["logprobs"], &part["part"]["logprobs"], &item["item"]["content"][0]["logprobs"]]
    {
        assert_eq!(logprobs, &json!(tokens));
    }

    let response = respond(rig.at, json!({ "include": ["message.output_text.logprobs", "x"] }));
    assert_eq!(response.header("x-ignored-parameters"), Some("include[1]"));
    let refusal = respond(rig.at, json!({ "top_logprobs": 21 })).refusal();
    assert_eq!(refusal, (400, "invalid_value".to_owned(), json!("top_logprobs")));
}
