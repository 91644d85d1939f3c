//! Rows of the interface that say what a member's value may be, each with a value on either side.

use serde_json::{Value, json};

use crate::script::{Act, start};
use crate::wire::{chat, post};

fn tool(name: &str) -> Value {
    json!({ "type": "function", "function": { "name": name } })
}

fn function(more: &Value) -> Value {
    let mut function = json!({ "name": "f" });
    function.as_object_mut().expect("one").extend(more.as_object().expect("one").clone());
    json!([{ "type": "function", "function": function }])
}

fn format(schema: &Value) -> Value {
    json!({ "type": "json_schema", "json_schema": schema })
}

fn user(content: &Value) -> Value {
    json!([{ "role": "user", "content": content }])
}

fn call(call: &Value) -> Value {
    json!([{ "role": "user" }, { "role": "assistant", "tool_calls": [call] }])
}

#[test]
fn accepted() {
    let rig = start(&[Act::Say("x"), Act::Stop]);
    let schema = json!({ "type": "object" });
    for body in [
        json!({ "typical_p": 0.5, "top_k": -1, "min_p": 0 }),
        json!({ "best_of": 1, "n": 1.0 }),
        json!({ "max_completion_tokens": -1, "max_tokens": null }),
        json!({ "stop": vec!["s"; 16] }),
        json!({ "thinking": { "type": "disabled", "keep": "some" } }),
        json!({ "thinking": { "keep": "all" } }),
        json!({ "max_reasoning_tokens": 0 }),
        json!({ "top_logprobs": 20, "logprobs": true }),
        json!({ "audio": null, "function_call": null, "web_search_options": null }),
        json!({ "modalities": [], "deltafin": false }),
        json!({ "tools": [tool("_a.b-c9"), tool(&"n".repeat(256))] }),
        json!({ "tools": function(&json!({ "description": "d", "parameters": {}, "strict": false, "other": 1 })) }),
        json!({ "tools": [tool("f")], "tool_choice": "none", "parallel_tool_calls": true }),
        json!({ "response_format": format(&json!({ "name": "x", "schema": schema, "strict": null, "description": "d" })) }),
        json!({ "messages": [{ "role": "user" }] }),
        json!({ "messages": user(&json!([{ "type": "refusal", "refusal": "No." }, { "type": "output_text", "text": "a" }, { "type": "text", "text": "" }])) }),
        json!({ "messages": [{ "role": "user", "content": "a" }, { "role": "assistant", "content": "b", "partial": false }] }),
        json!({ "messages": [{ "role": "system", "content": "a", "tools": [] }, { "role": "developer", "tools": [tool("f")] }] }),
        json!({ "messages": call(&json!({ "function": { "name": "f", "arguments": { "a": 1 } }, "index": 0 })) }),
        json!({ "messages": call(&json!({ "function": { "name": "f" } })) }),
        json!({ "messages": call(&json!({ "function": { "name": "f", "arguments": "{broken" } })) }),
    ] {
        let mut response = chat(rig.at, body.clone());
        let (status, said) = (response.status, response.text());
        assert_eq!(status, 200, "{body}: {said}");
    }
    for body in [
        json!({ "prompt": "a", "echo": false, "suffix": null, "logprobs": null, "best_of": 1 }),
        json!({ "prompt": "a", "max_tokens": 1, "stream_options": {}, "user": "u" }),
    ] {
        assert_eq!(post(rig.at, "/v1/completions", &body).status, 200, "{body}");
    }
}

#[test]
fn refused() {
    let rig = start(&[Act::Say("x"), Act::Stop]);
    let (bad, missing, unsupported) =
        ("invalid_value", "missing_required_parameter", "unsupported_parameter");
    let schema = json!({ "type": "object" });
    let declared = json!([{ "role": "system", "tools": [tool("g"), tool("f")] }, { "role": "user", "content": "Hi" }]);
    let name = "response_format.json_schema";
    for (body, code, param) in [
        (json!({ "typical_p": "x" }), bad, "typical_p"),
        (json!({ "top_k": 1.5 }), bad, "top_k"),
        (json!({ "top_k": "5" }), bad, "top_k"),
        (json!({ "min_p": true }), bad, "min_p"),
        (json!({ "temperature": "1" }), bad, "temperature"),
        (json!({ "temperature": -0.1 }), bad, "temperature"),
        (json!({ "top_p": 1.1 }), bad, "top_p"),
        (json!({ "best_of": 2 }), unsupported, "best_of"),
        (json!({ "best_of": "1" }), bad, "best_of"),
        (json!({ "n": 0 }), unsupported, "n"),
        (json!({ "presence_penalty": "0" }), bad, "presence_penalty"),
        (json!({ "logit_bias": [] }), bad, "logit_bias"),
        (json!({ "max_tokens": -2 }), bad, "max_tokens"),
        (json!({ "max_completion_tokens": true }), bad, "max_completion_tokens"),
        (json!({ "stream_options": { "include_usage": 1 } }), bad, "stream_options.include_usage"),
        (json!({ "stop": 1 }), bad, "stop"),
        (json!({ "stop": ["a", ""] }), bad, "stop"),
        (json!({ "reasoning_effort": 1 }), bad, "reasoning_effort"),
        (json!({ "thinking": null, "reasoning_effort": "" }), bad, "reasoning_effort"),
        (json!({ "thinking": 1 }), bad, "thinking"),
        (json!({ "thinking": { "effort": "some" } }), bad, "thinking.effort"),
        (json!({ "thinking": { "keep": 1 } }), bad, "thinking.keep"),
        (json!({ "thinking": true, "reasoning_effort": "none" }), bad, "reasoning_effort"),
        (
            json!({ "thinking": null, "enable_thinking": false, "reasoning": { "effort": "low" } }),
            bad,
            "reasoning_effort",
        ),
        (json!({ "reasoning": "low" }), bad, "reasoning"),
        (json!({ "reasoning": { "effort": "x" } }), bad, "reasoning.effort"),
        (
            json!({ "chat_template_kwargs": { "thinking_effort": "x" } }),
            bad,
            "chat_template_kwargs.thinking_effort",
        ),
        (json!({ "chat_template_kwargs": [] }), bad, "chat_template_kwargs"),
        (json!({ "enable_thinking": "yes" }), bad, "enable_thinking"),
        (json!({ "max_reasoning_tokens": "5" }), bad, "max_reasoning_tokens"),
        (json!({ "tools": {} }), bad, "tools"),
        (json!({ "tools": [{}] }), missing, "tools[0].type"),
        (json!({ "tools": [{ "type": "function" }] }), missing, "tools[0].function"),
        (json!({ "tools": [tool(&"n".repeat(257))] }), bad, "tools[0].function.name"),
        (json!({ "tools": [tool("")] }), bad, "tools[0].function.name"),
        (json!({ "tools": [tool("a b")] }), bad, "tools[0].function.name"),
        (
            json!({ "tools": [tool("f")], "messages": declared }),
            bad,
            "messages[0].tools[1].function.name",
        ),
        (
            json!({ "tools": function(&json!({ "description": 1 })) }),
            bad,
            "tools[0].function.description",
        ),
        (
            json!({ "tools": function(&json!({ "parameters": [] })) }),
            bad,
            "tools[0].function.parameters",
        ),
        (json!({ "tools": function(&json!({ "strict": 1 })) }), bad, "tools[0].function.strict"),
        (json!({ "tool_choice": 1 }), bad, "tool_choice"),
        (json!({ "tools": [tool("f")], "tool_choice": {} }), bad, "tool_choice.type"),
        (
            json!({ "tools": [tool("f")], "tool_choice": { "type": "function", "function": {} } }),
            missing,
            "tool_choice.function.name",
        ),
        (json!({ "parallel_tool_calls": "no" }), bad, "parallel_tool_calls"),
        (json!({ "response_format": "json" }), bad, "response_format"),
        (json!({ "response_format": {} }), bad, "response_format.type"),
        (
            json!({ "response_format": format(&json!({ "schema": schema })) }),
            missing,
            &format!("{name}.name"),
        ),
        (
            json!({ "response_format": format(&json!({ "name": 1, "schema": schema })) }),
            bad,
            &format!("{name}.name"),
        ),
        (
            json!({ "response_format": format(&json!({ "name": "x", "schema": true })) }),
            bad,
            &format!("{name}.schema"),
        ),
        (
            json!({ "response_format": format(&json!({ "name": "x", "schema": schema, "strict": "yes" })) }),
            bad,
            &format!("{name}.strict"),
        ),
        (json!({ "top_logprobs": -1, "logprobs": true }), bad, "top_logprobs"),
        (json!({ "modalities": "text" }), bad, "modalities"),
        (json!({ "messages": [{ "role": 1 }] }), bad, "messages[0].role"),
        (json!({ "messages": [{ "role": "user", "name": 1 }] }), bad, "messages[0].name"),
        (json!({ "messages": user(&json!([1])) }), bad, "messages[0].content[0]"),
        (
            json!({ "messages": user(&json!([{ "type": "text", "text": 1 }])) }),
            bad,
            "messages[0].content[0].text",
        ),
        (
            json!({ "messages": user(&json!([{ "type": "image" }])) }),
            "unsupported_content",
            "messages[0].content[0].type",
        ),
        (
            json!({ "messages": call(&json!({ "type": "custom", "function": { "name": "f" } })) }),
            bad,
            "messages[1].tool_calls[0].type",
        ),
        (
            json!({ "messages": call(&json!({ "function": {} })) }),
            missing,
            "messages[1].tool_calls[0].function.name",
        ),
        (
            json!({ "messages": call(&json!({ "function": { "name": "f", "arguments": "3" } })) }),
            bad,
            "messages[1].tool_calls[0].function.arguments",
        ),
        (
            json!({ "messages": call(&json!({ "id": 1, "function": { "name": "f" } })) }),
            bad,
            "messages[1].tool_calls[0].id",
        ),
        (
            json!({ "messages": [{ "role": "tool", "tool_call_id": 1 }] }),
            bad,
            "messages[0].tool_call_id",
        ),
    ] {
        let refusal = chat(rig.at, body.clone()).refusal();
        assert_eq!(refusal, (400, code.to_owned(), json!(param)), "{body}");
    }
    for (body, code, param) in [
        (json!({ "prompt": 1 }), bad, "prompt"),
        (json!({ "prompt": [] }), bad, "prompt"),
        (json!({ "prompt": "a", "echo": 1 }), bad, "echo"),
        (json!({ "prompt": "a", "logprobs": true }), bad, "logprobs"),
        (json!({ "prompt": "a", "stop": [""] }), bad, "stop"),
        (json!({ "prompt": "a", "functions": [] }), unsupported, "functions"),
    ] {
        let refusal = post(rig.at, "/v1/completions", &body).refusal();
        assert_eq!(refusal, (400, code.to_owned(), json!(param)), "{body}");
    }
    assert_eq!(rig.log.jobs.load(std::sync::atomic::Ordering::SeqCst), 0);
}

/// Content is empty text, or nothing at all beside calls.
#[test]
fn what_is_not_said_has_its_own_value() {
    let rig = start(&[Act::Stop]);
    let message = chat(rig.at, json!({})).json()["choices"][0]["message"].clone();
    assert_eq!(message["content"], "");
    assert!(message.get("tool_calls").is_none(), "{message}");
}
