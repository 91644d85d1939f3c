//! What is accepted, ignored and refused, row by row.

use serde_json::{Value, json};

use crate::script::{Act, CONTEXT, start};
use crate::wire::{chat, post};

fn tool(name: &str) -> Value {
    json!({ "type": "function", "function": { "name": name } })
}

fn user(content: Value) -> Value {
    json!([{ "role": "user", "content": content }])
}

#[test]
fn accepted() {
    let rig = start(&[Act::Say("x"), Act::Stop]);
    for body in [
        json!({ "model": "" }),
        json!({ "model": null, "n": null, "tools": null, "stop": null, "temperature": null }),
        json!({ "temperature": 0, "top_p": 1, "top_k": 5, "seed": 7, "min_p": 0.1 }),
        json!({ "temperature": 2, "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "repetition_penalty": 1 }),
        json!({ "n": 1, "logprobs": false, "top_logprobs": 0, "modalities": ["text"] }),
        json!({ "thinking": { "type": "enabled", "effort": "low", "keep": "all" } }),
        json!({ "thinking": null, "chat_template_kwargs": { "thinking": false } }),
        json!({ "thinking": null, "reasoning": { "effort": "none" } }),
        json!({ "tools": [], "tool_choice": "auto" }),
        json!({ "tools": [tool("f")], "tool_choice": "required" }),
        json!({ "tools": [tool("f"), tool("g")], "tool_choice": { "type": "function", "function": { "name": "f" } } }),
        json!({ "response_format": { "type": "text" }, "stream_options": { "include_usage": true } }),
        json!({ "max_tokens": 3.0, "stop": [], "functions": null }),
        json!({ "max_tokens": 18_446_744_073_709_551_615_u64 }),
        json!({ "max_tokens": 1e30, "max_completion_tokens": 1.7e308 }),
        json!({ "messages": [
            { "role": "developer", "content": "Be brief." },
            { "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "input_text", "text": "b" }], "name": "n" },
            { "role": "assistant", "tool_calls": [{ "id": "1", "type": "function", "function": { "name": "f", "arguments": "{}" } }], "reasoning": "r" },
            { "role": "tool", "tool_call_id": "1", "content": [{ "type": "text", "text": "c" }] },
            { "role": "system", "tools": [tool("g")] },
            { "role": "assistant", "content": null, "reasoning_details": [{ "text": "d" }] },
        ] }),
    ] {
        let mut response = chat(rig.at, body.clone());
        let (status, said) = (response.status, response.text());
        assert_eq!(status, 200, "{body}: {said}");
    }
}

#[test]
fn refused() {
    let rig = start(&[Act::Say("x"), Act::Stop]);
    let (bad, missing, unsupported) =
        ("invalid_value", "missing_required_parameter", "unsupported_parameter");
    let content = "unsupported_content";
    for (body, code, param) in [
        (json!({ "model": 1 }), bad, "model"),
        (json!({ "messages": null }), missing, "messages"),
        (json!({ "messages": [] }), missing, "messages"),
        (json!({ "messages": "Hi" }), bad, "messages"),
        (json!({ "messages": ["Hi"] }), bad, "messages[0]"),
        (json!({ "messages": [{ "content": "x" }] }), missing, "messages[0].role"),
        (json!({ "messages": [{ "role": "critic" }] }), bad, "messages[0].role"),
        (json!({ "messages": user(json!(1)) }), bad, "messages[0].content"),
        (
            json!({ "messages": user(json!([{ "text": "x" }])) }),
            missing,
            "messages[0].content[0].type",
        ),
        (json!({ "messages": user(json!([{ "type": 1 }])) }), bad, "messages[0].content[0].type"),
        (
            json!({ "messages": user(json!([{ "type": "text" }])) }),
            missing,
            "messages[0].content[0].text",
        ),
        (json!({ "max_tokens": -1e30 }), bad, "max_tokens"),
        (
            json!({ "messages": user(json!([{ "type": "image_url" }])) }),
            content,
            "messages[0].content[0].type",
        ),
        (
            json!({ "messages": user(json!([{ "type": "input_audio" }])) }),
            content,
            "messages[0].content[0].type",
        ),
        (
            json!({ "messages": [{ "role": "assistant", "partial": true }] }),
            unsupported,
            "messages[0].partial",
        ),
        (
            json!({ "messages": [{ "role": "tool", "content": "x" }] }),
            missing,
            "messages[0].tool_call_id",
        ),
        (
            json!({ "messages": [{ "role": "assistant", "tool_calls": [{}] }] }),
            missing,
            "messages[0].tool_calls[0].function",
        ),
        (
            json!({ "messages": [{ "role": "assistant", "tool_calls": [{ "function": { "name": "f", "arguments": "[1]" } }] }] }),
            bad,
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            json!({ "messages": [{ "role": "user", "content": "x", "tools": [tool("f")] }] }),
            bad,
            "messages[0].tools",
        ),
        (
            json!({ "messages": [{ "role": "system", "content": "x", "tools": [tool("f")] }] }),
            bad,
            "messages[0].tools",
        ),
        (json!({ "max_tokens": 0 }), bad, "max_tokens"),
        (json!({ "max_tokens": "9" }), bad, "max_tokens"),
        (json!({ "max_completion_tokens": 1.5 }), bad, "max_completion_tokens"),
        (json!({ "stream": "yes" }), bad, "stream"),
        (json!({ "stream_options": true }), bad, "stream_options"),
        (json!({ "temperature": 2.1 }), bad, "temperature"),
        (json!({ "top_p": -0.1 }), bad, "top_p"),
        (json!({ "seed": "x" }), bad, "seed"),
        (json!({ "presence_penalty": 1 }), unsupported, "presence_penalty"),
        (json!({ "frequency_penalty": 0.1 }), unsupported, "frequency_penalty"),
        (json!({ "repetition_penalty": 0 }), unsupported, "repetition_penalty"),
        (json!({ "logit_bias": { "1": 1 } }), unsupported, "logit_bias"),
        (json!({ "n": 2 }), unsupported, "n"),
        (json!({ "stop": "" }), bad, "stop"),
        (json!({ "stop": [1] }), bad, "stop[0]"),
        (json!({ "stop": vec!["x"; 17] }), bad, "stop"),
        (json!({ "reasoning_effort": "huge" }), bad, "reasoning_effort"),
        (json!({ "reasoning_effort": "LOW" }), bad, "reasoning_effort"),
        (json!({ "thinking": false, "reasoning_effort": "low" }), bad, "reasoning_effort"),
        (json!({ "thinking": { "type": "maybe" } }), bad, "thinking.type"),
        (json!({ "thinking": { "type": "enabled", "keep": "none" } }), bad, "thinking.keep"),
        (json!({ "tools": [1] }), bad, "tools[0]"),
        (json!({ "tools": [{ "type": "x" }] }), bad, "tools[0].type"),
        (
            json!({ "tools": [{ "type": "function", "function": {} }] }),
            missing,
            "tools[0].function.name",
        ),
        (json!({ "tools": [tool("1f")] }), bad, "tools[0].function.name"),
        (json!({ "tools": [tool("f"), tool("f")] }), bad, "tools[1].function.name"),
        (json!({ "tool_choice": "always" }), bad, "tool_choice"),
        (json!({ "tool_choice": "required" }), bad, "tool_choice"),
        (
            json!({ "tools": [tool("f")], "tool_choice": { "type": "function", "function": { "name": "g" } } }),
            bad,
            "tool_choice.function.name",
        ),
        (json!({ "response_format": { "type": "xml" } }), bad, "response_format.type"),
        (
            json!({ "response_format": { "type": "json_schema" } }),
            missing,
            "response_format.json_schema",
        ),
        (
            json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "x" } } }),
            missing,
            "response_format.json_schema.schema",
        ),
        (json!({ "top_logprobs": 2 }), bad, "top_logprobs"),
        (json!({ "logprobs": 1 }), bad, "logprobs"),
        (json!({ "top_logprobs": 21 }), bad, "top_logprobs"),
        (json!({ "modalities": ["audio"] }), unsupported, "modalities"),
        (json!({ "audio": {} }), unsupported, "audio"),
        (json!({ "functions": [] }), unsupported, "functions"),
        (json!({ "function_call": "auto" }), unsupported, "function_call"),
        (json!({ "web_search_options": {} }), unsupported, "web_search_options"),
        (json!({ "max_reasoning_tokens": -1 }), bad, "max_reasoning_tokens"),
        (json!({ "deltafin": true }), unsupported, "deltafin"),
    ] {
        let refusal = chat(rig.at, body.clone()).refusal();
        assert_eq!(refusal, (400, code.to_owned(), json!(param)), "{body}");
    }
    assert_eq!(rig.log.jobs.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[test]
fn a_format_is_told_to_the_model() {
    let rig = start(&[Act::Say("{}"), Act::Stop]);
    let schema = json!({ "name": "x", "schema": { "type": "object" }, "strict": true });
    let plain = chat(rig.at, json!({})).json()["usage"]["prompt_tokens"].as_u64();
    for format in
        [json!({ "type": "json_object" }), json!({ "type": "json_schema", "json_schema": schema })]
    {
        let reply = chat(rig.at, json!({ "response_format": format })).json();
        assert!(reply["usage"]["prompt_tokens"].as_u64() > plain);
    }
}

#[test]
fn what_cannot_be_enforced_is_named() {
    let rig = start(&[Act::Say("x"), Act::Stop]);
    let bad = json!({ "type": "object", "properties": { "a": { "not": {} } } });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": bad } });
    let function = json!({ "name": "f", "parameters": bad });
    let tools = json!([tool("g"), { "type": "function", "function": function }]);
    for (body, param) in [
        (json!({ "response_format": format }), "response_format.json_schema.schema.properties.a"),
        (
            json!({ "tools": tools, "tool_choice": "required" }),
            "tools[1].function.parameters.properties.a",
        ),
    ] {
        let refusal = chat(rig.at, body.clone()).refusal();
        assert_eq!(refusal, (400, "invalid_value".to_owned(), json!(param)), "{body}");
    }
    assert_eq!(rig.log.jobs.load(std::sync::atomic::Ordering::SeqCst), 0);
    // Where nothing has to be called, the model is only told.
    assert_eq!(chat(rig.at, json!({ "tools": tools })).status, 200);
}

#[test]
fn completions() {
    let rig = start(&[Act::Say("x"), Act::Stop]);
    for (body, code, param) in [
        (json!({}), "missing_required_parameter", "prompt"),
        (json!({ "prompt": "" }), "invalid_value", "prompt"),
        (json!({ "prompt": ["a", "b"] }), "invalid_value", "prompt"),
        (json!({ "prompt": [1, 2] }), "invalid_value", "prompt"),
        (json!({ "prompt": "a", "echo": true }), "unsupported_parameter", "echo"),
        (json!({ "prompt": "a", "suffix": "b" }), "unsupported_parameter", "suffix"),
        (json!({ "prompt": "a", "logprobs": 21 }), "invalid_value", "logprobs"),
        (json!({ "prompt": "a", "best_of": 2 }), "unsupported_parameter", "best_of"),
    ] {
        let refusal = post(rig.at, "/v1/completions", &body).refusal();
        assert_eq!(refusal, (400, code.to_owned(), json!(param)), "{body}");
    }
}

#[test]
fn a_prompt_that_does_not_fit_is_refused_with_both_lengths() {
    let rig = start(&[Act::Stop]);
    let long = "word ".repeat(CONTEXT);
    for (path, body) in [
        ("/v1/chat/completions", json!({ "messages": user(json!(long)) })),
        ("/v1/completions", json!({ "prompt": long })),
    ] {
        let error = post(rig.at, path, &body).json()["error"].clone();
        assert_eq!(error["code"], "context_length_exceeded");
        let words = error["message"].as_str().unwrap();
        assert!(words.contains(&format!("maximum context length is {CONTEXT} tokens")), "{words}");
    }
}

/// Marker spellings in any field stay text: the prompt has as many markers as without them.
#[test]
fn markers_in_a_request_are_text() {
    let rig = start(&[Act::Stop]);
    let tokenizer = crate::script::tokenizer();
    let count = |word: &str| {
        let body = json!({ "thinking": false, "messages": [
            { "role": "system", "content": word, "name": word },
            { "role": "user", "content": [{ "type": "text", "text": word }] },
            { "role": "assistant", "content": word, "reasoning_content": word,
              "tool_calls": [{ "id": word, "function": { "name": word, "arguments": json!({ word: word }).to_string() } }] },
            { "role": "tool", "tool_call_id": word, "content": word },
        ], "tools": [{ "type": "function", "function": { "name": "f", "description": word } }] });
        let reply = post(rig.at, "/tokenize", &body).json();
        let ids: Vec<u64> =
            reply["tokens"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
        ids.iter().filter(|id| **id >= u64::from(tokenizer.base())).count()
    };
    assert_eq!(count("<|end_of_msg|><|open|><|sep|>"), count("word"));
}
