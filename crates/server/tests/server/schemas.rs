//! Schemas that cannot be kept to are refused before anything waits, in every dialect, by the member that is to blame.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::script::{Act, quick, start, start_wide};
use crate::wire::{chat, post};

/// An object with a node that may, or must, have another.
fn nodes(required: &[&str]) -> Value {
    let node = json!({
        "type": "object",
        "properties": {
            "value": { "type": "integer", "minimum": 0, "maximum": 9 },
            "next": { "$ref": "#/$defs/node" },
        },
        "required": required,
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "properties": { "first": { "$ref": "#/$defs/node" } },
        "required": ["first"],
        "additionalProperties": false,
        "$defs": { "node": node },
    })
}

fn cyclic() -> Value {
    json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/a" } } })
}

/// Requests in all dialects whose answer, or whose call, has this schema; and where that stands.
fn asking(schema: &Value) -> Vec<(&'static str, Value, &'static str)> {
    let talk = json!([{ "role": "user", "content": "Hi" }]);
    let format = json!({ "type": "json_schema", "name": "x", "schema": schema });
    let nested = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema } });
    let function = |is_strict: bool| {
        let function = json!({ "name": "f", "parameters": schema, "strict": is_strict });
        json!([{ "type": "function", "function": function }])
    };
    let named = json!({ "type": "function", "function": { "name": "f" } });
    let flat = json!([{ "type": "function", "name": "f", "parameters": schema, "strict": true }]);
    let tool = json!([{ "name": "f", "input_schema": schema }]);
    let chat = "/v1/chat/completions";
    let parameters = "tools[0].function.parameters";
    vec![
        (
            chat,
            json!({ "messages": talk, "response_format": nested }),
            "response_format.json_schema.schema",
        ),
        (chat, json!({ "messages": talk, "tools": function(true) }), parameters),
        (
            chat,
            json!({ "messages": talk, "tools": function(false), "tool_choice": "required" }),
            parameters,
        ),
        (
            chat,
            json!({ "messages": talk, "tools": function(false), "tool_choice": named }),
            parameters,
        ),
        (
            "/v1/responses",
            json!({ "input": "Hi", "text": { "format": format } }),
            "text.format.schema",
        ),
        ("/v1/responses", json!({ "input": "Hi", "tools": flat }), "tools[0].parameters"),
        (
            "/v1/messages",
            json!({ "messages": talk, "max_tokens": 5, "tools": tool, "tool_choice": { "type": "any" } }),
            "tools[0].input_schema",
        ),
        (
            "/v1/messages",
            json!({ "messages": talk, "max_tokens": 5, "output_config": { "format": format } }),
            "output_config.format.schema",
        ),
    ]
}

#[test]
fn what_has_no_end_is_refused_in_every_dialect() {
    let rig = start(&[Act::Say("x"), Act::Stop]);
    for (schema, part) in
        [(cyclic(), ".$defs.a"), (nodes(&["next"]), ".$defs.node.properties.next")]
    {
        for (path, body, param) in asking(&schema) {
            let mut response = post(rig.at, path, &body);
            let (status, text) = (response.status, response.text());
            let error = serde_json::from_str::<Value>(&text).unwrap()["error"].clone();
            assert_eq!(status, 400, "{path} {body}: {error}");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains(&format!("{param}{part} cannot be enforced")), "{message}");
            assert!(message.contains("it requires itself"), "{message}");
            // Messages' errors have no such member.
            if path != "/v1/messages" {
                assert_eq!(error["param"], format!("{param}{part}"), "{path} {body}");
            }
        }
    }
    assert_eq!(rig.log.jobs.load(Ordering::SeqCst), 0);
}

#[test]
fn what_has_an_end_is_kept_to_in_every_dialect() {
    let rig = start_wide(quick(), &[Act::Noise(4)], 400);
    for (path, body, _) in asking(&nodes(&["value"])) {
        let mut response = post(rig.at, path, &body);
        let (status, text) = (response.status, response.text());
        assert_eq!(status, 200, "{path} {body}: {text}");
    }
    let schema = nodes(&["value"]);
    let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema } });
    let mut ended = 0;
    for seed in 0..5 {
        let rig = start_wide(quick(), &[Act::Noise(seed)], 3000);
        let choice =
            chat(rig.at, json!({ "response_format": format })).json()["choices"][0].clone();
        if choice["finish_reason"] == "stop" {
            let text = choice["message"]["content"].as_str().unwrap();
            let value: Value = serde_json::from_str(text).expect("JSON");
            assert!(value["first"]["value"].is_u64(), "{text}");
            ended += 1;
        }
    }
    assert!(ended > 0);
}

/// What the grammar's compiler says of other faults names the part, and fits on one line.
#[test]
fn other_faults_are_told_in_words() {
    let rig = start(&[Act::Say("x"), Act::Stop]);
    for (part, words) in [
        (json!({ "type": "string", "pattern": "(" }), "unclosed group"),
        (json!({ "type": "string", "pattern": "(?=a)b" }), "look-ahead"),
        (json!({ "type": "array", "items": { "type": "null" }, "minItems": -1 }), "minItems"),
        (json!({ "type": "string", "minLength": 5_000_000_000_u64 }), "counts further"),
        (json!({ "type": "array", "uniqueItems": true }), "uniqueItems"),
        (json!({ "type": "array", "contains": {} }), "contains"),
        (json!({ "type": "object", "propertyNames": {} }), "propertyNames"),
        (json!({ "type": "object", "dependentRequired": {} }), "dependentRequired"),
        (json!({ "type": "object", "unevaluatedProperties": false }), "unevaluatedProperties"),
        (json!({ "enum": [] }), "empty"),
    ] {
        let schema = json!({ "type": "object", "properties": { "a": part }, "required": ["a"] });
        let format =
            json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema } });
        let error = chat(rig.at, json!({ "response_format": format })).json()["error"].clone();
        assert_eq!(error["param"], "response_format.json_schema.schema.properties.a", "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(words) && !message.contains('\n'), "{message}");
    }
    assert_eq!(rig.log.jobs.load(Ordering::SeqCst), 0);
}

/// Numbers whose absolute value no `i64` has once ended the whole server.
#[test]
fn numbers_far_below_zero_are_refused_in_every_dialect() {
    let rig = start(&[Act::Say("x"), Act::Stop]);
    let parse = |text| serde_json::from_str::<Value>(text).expect("JSON");
    for part in [
        r#"{ "enum": [[-9223372036854775808]] }"#,
        r#"{ "const": { "a": -9223372036854775808 } }"#,
        r#"{ "items": { "type": "integer", "enum": [1, -9.3e18] } }"#,
        r#"{ "type": "integer", "minimum": -1e20, "maximum": -1e19 }"#,
        r##"{ "items": { "allOf": [{ "type": "integer" }, { "$ref": "#/$defs/low" }] } }"##,
    ] {
        let low = parse(r#"{ "enum": [-9223372036854775809] }"#);
        let schema = json!({ "type": "object", "properties": { "a": parse(part) }, "required": ["a"], "additionalProperties": false, "$defs": { "low": low } });
        for (path, body, _) in asking(&schema) {
            let mut response = post(rig.at, path, &body);
            let (status, text) = (response.status, response.text());
            assert_eq!(status, 400, "{path} {body}: {text}");
            // In words of our own: a build that checks for overflow would refuse them in any case.
            let said = ["exactly", "below zero"].iter().any(|words| text.contains(words));
            assert!(said && text.contains("cannot be enforced"), "{text}");
        }
    }
    assert_eq!(rig.log.jobs.load(Ordering::SeqCst), 0);
}

#[test]
fn references_that_lead_out_of_the_schema_are_named() {
    let rig = start(&[Act::Say("x"), Act::Stop]);
    for reference in ["#node", "https://a.example/node.json", "#/$defs/no~1where"] {
        let schema = json!({ "type": "array", "items": { "$ref": reference } });
        for (path, body, _) in asking(&schema) {
            let mut response = post(rig.at, path, &body);
            let (status, text) = (response.status, response.text());
            assert_eq!(status, 400, "{path} {body}: {text}");
            assert!(text.contains(reference), "{text}");
        }
    }
}
