//! What Responses are refused, and what failed.

use super::*;

#[test]
fn what_cannot_be_meant_is_refused_by_name() {
    let rig = start(&[Act::Stop]);
    let (bad, missing) = ("invalid_value", "missing_required_parameter");
    let (unsupported, content) = ("unsupported_parameter", "unsupported_content");
    let item = |item: Value| json!({ "input": [item] });
    let not = json!({ "type": "object", "properties": { "a": { "not": {} } } });
    for (more, code, param) in [
        (json!({ "input": null }), missing, "input"),
        (json!({ "input": [] }), missing, "input"),
        (json!({ "input": 1 }), bad, "input"),
        (item(json!({})), missing, "input[0].type"),
        (item(json!({ "type": "item_reference", "id": "x" })), content, "input[0].type"),
        (item(json!({ "role": "tool", "content": "x" })), bad, "input[0].role"),
        (
            item(json!({ "role": "user", "content": [{ "type": "input_image" }] })),
            content,
            "input[0].content[0].type",
        ),
        (item(json!({ "type": "function_call", "call_id": "c" })), missing, "input[0].name"),
        (item(json!({ "type": "function_call", "name": "f" })), missing, "input[0].call_id"),
        (
            item(
                json!({ "type": "function_call", "call_id": "c", "name": "f", "arguments": "[]" }),
            ),
            bad,
            "input[0].arguments",
        ),
        (
            item(json!({ "type": "custom_tool_call", "call_id": "c", "name": "f" })),
            missing,
            "input[0].input",
        ),
        (
            item(json!({ "type": "function_call_output", "output": "x" })),
            missing,
            "input[0].call_id",
        ),
        (json!({ "instructions": 1 }), bad, "instructions"),
        (json!({ "max_output_tokens": 0 }), bad, "max_output_tokens"),
        (json!({ "temperature": 3 }), bad, "temperature"),
        (json!({ "stream": "yes" }), bad, "stream"),
        (json!({ "reasoning": { "effort": "huge" } }), bad, "reasoning.effort"),
        (json!({ "previous_response_id": "resp_1" }), unsupported, "previous_response_id"),
        (json!({ "conversation": "conv_1" }), unsupported, "conversation"),
        (json!({ "prompt": { "id": "p" } }), unsupported, "prompt"),
        (json!({ "background": true }), unsupported, "background"),
        (json!({ "tools": [{}] }), missing, "tools[0].type"),
        (json!({ "tools": [{ "type": "function" }] }), missing, "tools[0].name"),
        (json!({ "tools": [{ "type": "custom", "name": "1" }] }), bad, "tools[0].name"),
        (
            json!({ "tool_choice": "required", "tools": [{ "type": "web_search" }] }),
            bad,
            "tool_choice",
        ),
        (json!({ "tool_choice": "sometimes" }), bad, "tool_choice"),
        (json!({ "tool_choice": { "type": "web_search" } }), bad, "tool_choice.type"),
        (
            json!({ "tool_choice": { "type": "function", "name": "g" }, "tools": tools() }),
            bad,
            "tool_choice.name",
        ),
        (
            json!({ "tool_choice": "required", "tools": [{ "type": "function", "name": "f", "parameters": not }] }),
            bad,
            "tools[0].parameters.properties.a",
        ),
        (json!({ "text": { "format": { "type": "xml" } } }), bad, "text.format.type"),
        (
            json!({ "text": { "format": { "type": "json_schema", "schema": {} } } }),
            missing,
            "text.format.name",
        ),
        (
            json!({ "text": { "format": { "type": "json_schema", "name": "x" } } }),
            missing,
            "text.format.schema",
        ),
        (
            json!({ "text": { "format": { "type": "json_schema", "name": "x", "schema": not } } }),
            bad,
            "text.format.schema.properties.a",
        ),
        (json!({ "input": "word ".repeat(CONTEXT) }), "context_length_exceeded", "input"),
    ] {
        let refusal = respond(rig.at, more.clone()).refusal();
        assert_eq!(refusal, (400, code.to_owned(), json!(param)), "{more}");
    }
    let refusal = respond(rig.at, json!({ "model": "gpt-5" })).refusal();
    assert_eq!(refusal, (404, "model_not_found".to_owned(), json!("model")));
    assert_eq!(rig.log.jobs.load(Ordering::SeqCst), 0);
    assert_eq!(
        respond(rig.at, json!({ "background": false, "previous_response_id": null })).status,
        200
    );
}

#[test]
fn a_failure_is_a_response_that_failed() {
    let rig = start(&[Act::Say(ANSWER), Act::Fail]);
    let events = events(respond(rig.at, json!({ "stream": true })));
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.failed");
    let response = &last["response"];
    assert_eq!(
        (&response["status"], &response["error"]["code"]),
        (&json!("failed"), &json!("server_error"))
    );
    assert!(response["error"]["message"].as_str().unwrap().contains("the disk is gone"));
    assert_eq!(response["output"][0]["type"], "reasoning");
    // Before anything was sent, it has its status; after that, the document says it.
    assert_eq!(respond(rig.at, json!({})).refusal(), (500, "engine_error".to_owned(), Value::Null));
    let rig = start_with(early_status(), &[Act::Wait(400), Act::Fail]);
    let late = respond(rig.at, json!({}));
    assert_eq!(late.status, 200);
    assert_eq!(late.json()["status"], "failed");
}
