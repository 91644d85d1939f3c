//! Responses: items whole and streamed, and what is refused.

use std::sync::atomic::Ordering;
use std::time::Duration;

use deltafin_server::Settings;
use serde_json::{Value, json};

use crate::script::{Act, CONTEXT, early_status, quick, start, start_wide, start_with};
use crate::wire::{Response, post};

const ANSWER: &str = "Hm.<|close|>think<|sep|><|open|>response<|sep|>Hello!";
const END: &str = "<|close|>response<|sep|><|close|>message<|sep|>";
const CALLS: &str = "<|close|>response<|sep|><|open|>tools<|sep|>\
    <|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a\" type=\"number\"<|sep|>1<|close|>argument<|sep|><|close|>call<|sep|>\
    <|open|>call tool=\"patch\" index=\"2\"<|sep|><|open|>argument key=\"input\" type=\"string\"<|sep|>*** x<|close|>argument<|sep|><|close|>call<|sep|>\
    <|close|>tools<|sep|><|close|>message<|sep|>";

#[track_caller]
fn respond(at: std::net::SocketAddr, more: Value) -> Response {
    let mut body = json!({ "input": "Hi" });
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    post(at, "/v1/responses", &body)
}

fn tools() -> Value {
    json!([
        { "type": "function", "name": "f", "parameters": { "type": "object" }, "strict": false },
        { "type": "web_search" },
        { "type": "custom", "name": "patch", "description": "d", "format": { "type": "grammar", "syntax": "lark", "definition": "start: x" } },
    ])
}

/// The documents of a stream, each under the name of its type and with its number.
#[track_caller]
fn events(mut response: Response) -> Vec<Value> {
    let text = response.text();
    let event = |(at, block): (usize, &str)| {
        let (name, data) = block.split_once('\n').expect("two lines");
        let data = data.strip_prefix("data: ").expect("data");
        let data: Value = serde_json::from_str(data).expect("JSON");
        assert_eq!(name, format!("event: {}", data["type"].as_str().expect("a type")));
        assert_eq!(data["sequence_number"], at);
        data
    };
    text.split_terminator("\n\n").enumerate().map(event).collect()
}

/// Items without what differs each time.
fn without_ids(output: &Value) -> Value {
    let mut output = output.clone();
    for item in output.as_array_mut().expect("items") {
        for name in ["id", "call_id"] {
            let members = item.as_object_mut().expect("an object");
            if let Some(id) = members.remove(name) {
                let id = id.as_str().expect("an id").to_owned();
                assert!(id.split_once('_').is_some_and(|(_, digits)| digits.len() == 24), "{id}");
            }
        }
    }
    output
}

#[test]
fn a_response_has_the_documented_form() {
    let rig = start(&[Act::Say(ANSWER), Act::Say(END), Act::Stop]);
    let more = json!({ "reasoning": { "effort": "medium" }, "store": true, "instructions": "Be brief.", "temperature": 0.5 });
    let response = respond(rig.at, more);
    assert_eq!(response.status, 200);
    assert_eq!(response.header("x-reasoning-effort"), Some("high"));
    assert_eq!(response.header("x-ignored-parameters"), Some("store"));
    let reply = response.json();
    assert!(reply["id"].as_str().is_some_and(|id| id.len() == 29 && id.starts_with("resp_")));
    for (name, value) in [
        ("object", json!("response")),
        ("status", json!("completed")),
        ("model", json!("test")),
        ("error", Value::Null),
        ("incomplete_details", Value::Null),
        ("instructions", json!("Be brief.")),
        ("reasoning", json!({ "effort": "medium" })),
        ("parallel_tool_calls", json!(true)),
        ("previous_response_id", Value::Null),
        ("store", json!(false)),
        ("temperature", json!(0.5)),
        ("text", json!({ "format": { "type": "text" } })),
        ("tool_choice", json!("auto")),
        ("tools", json!([])),
    ] {
        assert_eq!(reply[name], value, "{name}");
    }
    let text =
        json!({ "type": "output_text", "text": "Hello!", "annotations": [], "logprobs": [] });
    assert_eq!(
        without_ids(&reply["output"]),
        json!([
            { "type": "reasoning", "summary": [], "content": [{ "type": "reasoning_text", "text": "Hm." }], "status": "completed" },
            { "type": "message", "role": "assistant", "content": [text], "status": "completed" },
        ])
    );
    let usage = &reply["usage"];
    let new = rig.log.ids.load(Ordering::SeqCst) + 1;
    assert_eq!(usage["output_tokens"], new);
    assert_eq!(usage["total_tokens"], usage["input_tokens"].as_u64().unwrap() + new as u64);
    assert_eq!(usage["input_tokens_details"]["cached_tokens"], 0);
    assert!(usage["output_tokens_details"]["reasoning_tokens"].as_u64().unwrap() > 3);
}

#[test]
fn a_stream_has_the_documented_events_and_says_the_same() {
    let rig = start(&[Act::Say(ANSWER), Act::Say(CALLS), Act::Stop]);
    let more = json!({ "tools": tools() });
    let mut streamed = more.clone();
    streamed["stream"] = json!(true);
    let response = respond(rig.at, streamed);
    assert_eq!(response.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(response.header("x-ignored-parameters"), Some("tools[1]"));
    let events = events(response);
    let mut names: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    // A text comes in as many pieces as it has tokens.
    names.dedup();
    let item = |middle: &[&'static str]| {
        let around = ["response.output_item.added", "response.output_item.done"];
        [&around[..1], middle, &around[1..]].concat()
    };
    let expected = [
        vec!["response.created", "response.in_progress"],
        item(&[
            "response.content_part.added",
            "response.reasoning_text.delta",
            "response.reasoning_text.done",
            "response.content_part.done",
        ]),
        item(&[
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
        ]),
        item(&["response.function_call_arguments.delta", "response.function_call_arguments.done"]),
        item(&["response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"]),
        vec!["response.completed"],
    ];
    assert_eq!(names, expected.concat());
    assert_eq!(events[0]["response"]["status"], "in_progress");

    // Items are begun and ended under one id and one index, and pieces belong to them.
    let last = &events.last().unwrap()["response"];
    let output = last["output"].as_array().unwrap();
    for event in &events {
        let Some(index) = event["output_index"].as_u64() else { continue };
        let id = event.get("item_id").unwrap_or(&event["item"]["id"]);
        assert_eq!(id, &output[index as usize]["id"], "{event}");
        if event["type"] == "response.output_item.done" {
            assert_eq!(event["item"], output[index as usize]);
        }
    }
    let text = |kind: &str| -> String {
        let of = events.iter().filter(|event| event["type"] == kind);
        of.map(|event| event["delta"].as_str().unwrap()).collect()
    };
    assert_eq!(text("response.output_text.delta"), output[1]["content"][0]["text"]);
    assert_eq!(text("response.reasoning_text.delta"), output[0]["content"][0]["text"]);
    assert_eq!(text("response.function_call_arguments.delta"), output[2]["arguments"]);
    assert_eq!(text("response.custom_tool_call_input.delta"), output[3]["input"]);
    assert_eq!(output[3]["input"], "*** x");

    let whole = respond(rig.at, more).json();
    assert_eq!(without_ids(&whole["output"]), without_ids(&last["output"]));
    assert_eq!((&whole["usage"], &whole["tools"]), (&last["usage"], &tools()));
    assert_eq!(whole["status"], "completed");
}

#[test]
fn a_limit_leaves_it_incomplete() {
    let rig = start(&[Act::Forever(0)]);
    let off = json!({ "effort": "none" });
    let reply = respond(rig.at, json!({ "reasoning": off, "max_output_tokens": 3 })).json();
    assert_eq!((&reply["status"], &reply["error"]), (&json!("incomplete"), &Value::Null));
    assert_eq!(reply["incomplete_details"], json!({ "reason": "max_output_tokens" }));
    assert_eq!(reply["output"][0]["status"], "incomplete");
    assert_eq!(reply["output"][0]["content"][0]["text"], "aaa");
    let more = json!({ "reasoning": off, "max_output_tokens": 3, "stream": true });
    let events = events(respond(rig.at, more));
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.incomplete");
    assert_eq!(without_ids(&last["response"]["output"]), without_ids(&reply["output"]));
    assert_eq!(last["response"]["usage"], reply["usage"]);
}

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

/// Comments do not count for agents that wait for events.
#[test]
fn silence_is_broken_by_events() {
    let rig = start(&[Act::Prefill(350), Act::Say("x"), Act::Stop]);
    let events = events(respond(rig.at, json!({ "stream": true })));
    let beats = events.iter().filter(|event| event["type"] == "response.in_progress").count();
    assert!(beats >= 3, "{events:?}");
    assert_eq!(events.last().unwrap()["type"], "response.completed");
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
