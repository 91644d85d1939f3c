//! A model that wants nothing in particular says what the form has, whatever it wants.

use super::*;

/// Logits that want nothing in particular; one time in four they want to come to an end.
pub(super) fn noise(seed: u64, step: u64, tokenizer: &Tokenizer, logits: &mut Vec<f32>) {
    let mix = |x: u64| {
        let x = (x ^ (x >> 31)).wrapping_mul(0x7fb5_d329_728e_a185);
        (x ^ (x >> 27)).wrapping_mul(0x81da_def4_bc2d_d44d) >> 40
    };
    let wants_end = mix(seed ^ mix(step)) % 4 == 0;
    logits.clear();
    logits.extend((0..tokenizer.vocab_size()).map(|id| {
        let bytes = tokenizer.token_bytes(id).unwrap();
        let ends = id >= tokenizer.base() || bytes.iter().any(|byte| b"\"}]".contains(byte));
        let rest = mix(mix(seed).wrapping_add(step << 20) ^ u64::from(id)) as f32;
        if ends && wants_end { rest * 2.0 } else { rest }
    }));
}

/// What comes of noise: the answer, and whether it came to its end.
fn babble(form: &Form, seed: u64) -> (Answer, bool) {
    let mut guide = guide(form).unwrap();
    let mut parser = Parser::new(ReplyOptions::new(Channel::Think));
    parser.push(deltafin_text::Event::Marker(deltafin_text::Marker::Close));
    parser.push(deltafin_text::Event::Bytes(b"think"));
    parser.push(deltafin_text::Event::Marker(deltafin_text::Marker::Sep));
    let mut logits = Vec::new();
    for step in 0..600 {
        noise(seed, step, tokenizer(), &mut logits);
        let id = most_likely(guide.answer(&logits).unwrap()).unwrap();
        guide.take(id).unwrap();
        parser.push(tokenizer().event(id).unwrap());
        if parser.is_done() {
            return (parser.answer(), true);
        }
    }
    (parser.answer(), false)
}

/// A second opinion on the parts of JSON Schema that the forms below use.
fn validates(root: &Value, schema: &Value, value: &Value) -> bool {
    let Some(members) = schema.as_object() else { return schema != &json!(false) };
    let size = |name: &str| members.get(name).and_then(Value::as_f64);
    let inner = |schema: &Value, value: &Value| validates(root, schema, value);
    let is_type = |kind: &Value| match kind.as_str().unwrap() {
        "string" => value.is_string(),
        "integer" => value.is_number() && !value.to_string().contains(['.', 'e', 'E']),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "array" => value.is_array(),
        _ => value.is_object(),
    };
    let mut good = match members.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is_type),
        Some(kind) => is_type(kind),
        None => true,
    };
    good &= members.get("enum").is_none_or(|all| all.as_array().unwrap().contains(value));
    good &= members.get("const").is_none_or(|only| only == value);
    good &= members
        .get("anyOf")
        .is_none_or(|all| all.as_array().unwrap().iter().any(|s| inner(s, value)));
    if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
        good &= inner(root.pointer(&reference[1..]).unwrap(), value);
    }
    if let Some(number) = value.as_f64() {
        good &= size("minimum").is_none_or(|least| number >= least);
        good &= size("maximum").is_none_or(|most| number <= most);
    }
    if let Some(text) = value.as_str() {
        let length = text.chars().count() as f64;
        good &= size("minLength").is_none_or(|least| length >= least);
        good &= size("maxLength").is_none_or(|most| length <= most);
    }
    if let Some(items) = value.as_array() {
        good &= size("minItems").is_none_or(|least| items.len() as f64 >= least);
        good &= size("maxItems").is_none_or(|most| items.len() as f64 <= most);
        good &=
            members.get("items").is_none_or(|schema| items.iter().all(|item| inner(schema, item)));
    }
    if let Some(given) = value.as_object() {
        let required = members.get("required").and_then(Value::as_array);
        good &= required.into_iter().flatten().all(|key| given.contains_key(key.as_str().unwrap()));
        let declared = members.get("properties").and_then(Value::as_object);
        good &= given.iter().all(|(key, value)| {
            match declared.and_then(|declared| declared.get(key)) {
                Some(schema) => inner(schema, value),
                None => members.get("additionalProperties").is_none_or(|rest| inner(rest, value)),
            }
        });
    }
    good
}

pub(super) fn schemas() -> Vec<Value> {
    vec![
        json!({ "type": "object" }),
        json!({ "type": "object", "properties": { "a": { "type": "integer", "minimum": -5, "maximum": 500 }, "b": { "type": "string", "maxLength": 12 } }, "required": ["b", "a"], "additionalProperties": false }),
        json!({ "type": "object", "properties": { "list": { "type": "array", "items": { "enum": ["red", "green", 3, null] }, "minItems": 2, "maxItems": 4 }, "on": { "type": "boolean" } }, "required": ["list"], "additionalProperties": false }),
        json!({ "type": "object", "properties": { "tree": { "$ref": "#/$defs/node" } }, "required": ["tree"], "additionalProperties": false,
            "$defs": { "node": { "type": "object", "properties": { "name": { "type": "string", "minLength": 1, "maxLength": 6 }, "left": { "anyOf": [{ "$ref": "#/$defs/node" }, { "type": "null" }] } }, "required": ["name", "left"], "additionalProperties": false } } }),
        json!({ "type": "object", "properties": { "kind": { "const": "x" }, "size": { "type": ["number", "null"] }, "any": {} }, "required": ["kind", "size"], "additionalProperties": false }),
    ]
}

/// What must come is what the model would have to choose, and it is never the end.
#[test]
fn the_only_id_is_the_one_that_would_be_chosen() {
    let tools = schemas().into_iter().map(|schema| tool("t", schema)).take(1).collect();
    let (mut forced, mut free) = (0, 0);
    for (form, seed) in [(json_form(schemas()[1].clone()), 1), (call_form(tools), 2)] {
        let mut guide = guide(&form).unwrap();
        let mut logits = Vec::new();
        for step in 0..200 {
            noise(seed, step, tokenizer(), &mut logits);
            let only = guide.only().unwrap();
            let allowed = guide.answer(&logits).unwrap();
            let possible = allowed.iter().filter(|logit| **logit > f32::NEG_INFINITY).count();
            let id = most_likely(allowed).unwrap();
            let is_end = tokenizer().stop_ids().contains(&id);
            assert_eq!(only, (possible == 1 && !is_end).then_some(id));
            forced += usize::from(only.is_some());
            free += usize::from(only.is_none());
            if is_end {
                break;
            }
            guide.take(id).unwrap();
        }
    }
    assert!(forced > 5 && free > 5, "{forced} {free}");
}

#[test]
fn whatever_the_model_wants_comes_out_as_the_schema_says() {
    for schema in schemas() {
        let form = json_form(schema.clone());
        let mut ended = 0;
        for seed in 0..12 {
            let (answer, is_done) = babble(&form, seed);
            if is_done {
                ended += 1;
                let value: Value = serde_json::from_str(&answer.content)
                    .unwrap_or_else(|error| panic!("{error}: {}", answer.content));
                assert!(validates(&schema, &schema, &value), "{schema}: {value}");
            }
            assert!(answer.tool_calls.is_empty());
        }
        assert!(ended >= 6, "{ended} of 12 for {schema}");
    }
}

#[test]
fn whatever_the_model_wants_is_called_as_declared() {
    let all = schemas();
    let tools = all.iter().enumerate().map(|(at, schema)| tool(&format!("t{at}"), schema.clone()));
    let form = call_form(tools.collect());
    let mut calls = 0;
    for seed in 0..40 {
        let (answer, is_done) = babble(&form, seed);
        assert_eq!(answer.content, "");
        assert!(!is_done || !answer.tool_calls.is_empty());
        for call in answer.tool_calls {
            let schema = &all[call.name[1..].parse::<usize>().unwrap()];
            let value: Value = serde_json::from_str(&call.arguments)
                .unwrap_or_else(|error| panic!("{error}: {}", call.arguments));
            assert!(validates(schema, schema, &value), "{}: {value}", call.name);
            calls += 1;
        }
    }
    assert!(calls > 40, "{calls}");
}
