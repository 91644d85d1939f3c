use std::sync::OnceLock;

use deltafin_engine::most_likely;
use deltafin_text::reply::{Answer, Channel, Parser, ReplyOptions};
use serde_json::{Value, json};

use super::*;

mod endless;
mod wide;

fn tokenizer() -> &'static Tokenizer {
    static MADE: OnceLock<Tokenizer> = OnceLock::new();
    let file = |name| deltafin_demo::file(name).unwrap();
    MADE.get_or_init(|| {
        Tokenizer::new(file("tiktoken.model"), Some(file("tokenizer_config.json"))).unwrap()
    })
}

fn vocabulary() -> Arc<Vocabulary> {
    static MADE: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    MADE.get_or_init(|| Arc::new(Vocabulary::new(tokenizer()).unwrap())).clone()
}

fn guide(form: &Form) -> Result<Guide, Fault> {
    Guide::new(vocabulary(), tokenizer(), form)
}

fn json_form(schema: Value) -> Form {
    Form { thinking: true, said: Said::Json { schema, path: "schema".to_owned() }, calls: None }
}

fn tool(name: &str, parameters: Value) -> Tool {
    let parameters = (!parameters.is_null()).then_some(parameters);
    Tool { name: name.to_owned(), parameters, path: format!("tools.{name}"), lenient: false }
}

fn call_form(tools: Vec<Tool>) -> Form {
    Form { thinking: true, said: Said::Nothing, calls: Some(Calls { tools, single: false }) }
}

/// Follows a reply id by id: whether all of it keeps to the form.
fn allows(form: &Form, reply: &str) -> bool {
    let mut guide = guide(form).unwrap();
    let logits = vec![0.0; tokenizer().vocab_size() as usize];
    tokenizer().encode_markup(reply).into_iter().all(|id| {
        let is_allowed = guide.answer(&logits).unwrap()[id as usize] == 0.0;
        is_allowed && guide.take(id).is_ok()
    })
}

const OPEN: &str = "<|open|>response<|sep|>";
const SHUT: &str = "<|close|>response<|sep|>";
const END: &str = "<|close|>message<|sep|><|end_of_msg|>";

fn said(json: &str) -> String {
    format!("{OPEN}{json}{SHUT}{END}")
}

fn called(calls: &str) -> String {
    format!("{OPEN}{SHUT}<|open|>tools<|sep|>{calls}<|close|>tools<|sep|>{END}")
}

fn call(tool: &str, index: usize, arguments: &str) -> String {
    format!("<|open|>call tool=\"{tool}\" index=\"{index}\"<|sep|>{arguments}<|close|>call<|sep|>")
}

fn argument(key: &str, kind: &str, value: &str) -> String {
    format!("<|open|>argument key=\"{key}\" type=\"{kind}\"<|sep|>{value}<|close|>argument<|sep|>")
}

/// Tags as the prompt has them: segment by segment.
fn allows_call(form: &Form, tool: &str, arguments: &[(&str, &str, &str)]) -> bool {
    use deltafin_text::chat::tag::{closing, opening};
    let mut parts = [opening("response", &[]), closing("response"), opening("tools", &[])].concat();
    parts.extend(opening("call", &[("tool", tool), ("index", "1")]));
    for (key, kind, value) in arguments {
        parts.extend(opening("argument", &[("key", key), ("type", kind)]));
        parts.push(deltafin_text::Segment::plain((*value).to_owned()));
        parts.extend(closing("argument"));
    }
    parts.extend([closing("call"), closing("tools"), closing("message")].concat());
    let mut guide = guide(form).unwrap();
    let logits = vec![0.0; tokenizer().vocab_size() as usize];
    tokenizer().encode_segments(&parts).unwrap().into_iter().all(|id| {
        let is_allowed = guide.answer(&logits).unwrap()[id as usize] == 0.0;
        is_allowed && guide.take(id).is_ok()
    })
}

#[test]
fn json_keeps_to_its_schema() {
    let form = json_form(json!({
        "type": "object",
        "properties": { "a": { "type": "integer" }, "b": { "enum": ["x", "y"] } },
        "required": ["a", "b"],
        "additionalProperties": false,
    }));
    for good in ["{\"a\":1,\"b\":\"x\"}", "{\n  \"a\": -12,\n  \"b\": \"y\"\n}"] {
        assert!(allows(&form, &said(good)), "{good}");
    }
    for bad in [
        "{\"a\":1}",
        "{\"a\":1.5,\"b\":\"x\"}",
        "{\"a\":1,\"b\":\"z\"}",
        "Sure: {",
        "[]",
        "{\"a\":1,\"b\":\"x\"} ok",
    ] {
        assert!(!allows(&form, &said(bad)), "{bad}");
    }
}

#[test]
fn the_end_comes_only_where_the_form_is_complete() {
    let form = json_form(json!({ "type": "object" }));
    assert!(allows(&form, &said("{}")));
    for cut in ["<|end_of_msg|>", "<|open|>tools<|sep|>", "{}<|end_of_msg|>"] {
        assert!(!allows(&form, &format!("{OPEN}{cut}")), "{cut}");
    }
    assert!(!allows(&form, "<|end_of_msg|>"));
    assert!(!allows(&form, &format!("{OPEN}{{{SHUT}")));
    assert!(!allows(&form, &(said("{}") + "more")));
}

#[test]
fn a_tagged_union_is_one_of_its_options() {
    let option = |kind: &str, member: &str| json!({ "type": "object", "properties": { "kind": { "const": kind }, member: { "type": "boolean" } }, "required": ["kind", member], "additionalProperties": false });
    let form = json_form(json!({
        "oneOf": [{ "$ref": "#/$defs/Cat" }, { "$ref": "#/$defs/Dog" }],
        "discriminator": { "propertyName": "kind" },
        "$defs": { "Cat": option("cat", "meows"), "Dog": option("dog", "barks") },
    }));
    assert!(allows(&form, &said("{\"kind\":\"dog\",\"barks\":true}")));
    assert!(!allows(&form, &said("{\"kind\":\"cat\",\"barks\":true}")));
    let number = json!({ "oneOf": [{ "type": "integer" }, { "type": "number", "minimum": 3 }] });
    assert_eq!(guide(&json_form(number)).unwrap_err().path, "schema");
}

#[test]
fn blanks_are_few() {
    let form = json_form(json!({ "type": "object" }));
    assert!(allows(&form, &said("{\n        \"a\" : [ 1,\t2 ]\r\n}")));
    assert!(!allows(&form, &said(" {}")) && !allows(&form, &said("{} ")));
    assert!(!allows(&form, &said(&format!("{{{}}}", "\n".repeat(3)))));
    assert!(!allows(&form, &said(&format!("{{{}}}", " ".repeat(80)))));
}

#[test]
fn calls_have_the_tags_the_model_knows() {
    let parameters = json!({
        "type": "object",
        "properties": {
            "city": { "type": "string", "description": "where" },
            "days": { "type": "integer", "minimum": 1, "maximum": 9 },
            "unit": { "enum": ["C", "F", null] },
            "near": { "anyOf": [{ "$ref": "#/$defs/point" }, { "type": "null" }] },
        },
        "required": ["city", "unit"],
        "$defs": { "point": { "type": "object", "properties": { "x": { "type": "number" } }, "required": ["x"], "additionalProperties": false } },
    });
    let form = call_form(vec![tool("get", json!(null)), tool("get_weather", parameters)]);
    let city = ("city", "string", "Bür\"o\n<|sep|>");
    for good in [
        &[city, ("unit", "string", "C")][..],
        &[city, ("unit", "null", "null")],
        &[city, ("days", "number", "7"), ("unit", "string", "F")],
        &[city, ("unit", "string", "C"), ("near", "object", "{\"x\": 1.5}")],
        &[city, ("unit", "string", "C"), ("near", "null", "null")],
    ] {
        assert!(allows_call(&form, "get_weather", good), "{good:?}");
    }
    for bad in [
        &[city][..],
        &[("unit", "string", "C"), city],
        &[city, ("unit", "string", "K")],
        &[city, ("days", "number", "10"), ("unit", "string", "C")],
        &[city, ("days", "string", "7"), ("unit", "string", "C")],
        &[city, ("unit", "string", "C"), ("near", "object", "{}")],
        &[city, ("unit", "string", "C"), ("far", "string", "")],
    ] {
        assert!(!allows_call(&form, "get_weather", bad), "{bad:?}");
    }
    assert!(allows_call(&form, "get", &[]));
    assert!(!allows_call(&form, "get", &[city]));
    assert!(!allows_call(&form, "put", &[]));
}

#[test]
fn several_calls_are_counted_and_text_before_them_is_not_possible() {
    let form = call_form(vec![tool("f", json!({}))]);
    let reply = |calls: &[String]| called(&calls.concat());
    assert!(allows(&form, &reply(&[call("f", 1, ""), call("f", 2, "")])));
    assert!(!allows(&form, &reply(&[call("f", 2, "")])));
    assert!(!allows(&form, &reply(&[])));
    assert!(!allows(&form, &said("Sure.")));
    let single = Calls { tools: vec![tool("f", json!({}))], single: true };
    let form = Form { calls: Some(single), ..form };
    assert!(!allows(&form, &reply(&[call("f", 1, ""), call("f", 2, "")])));
}

#[test]
fn json_or_a_call() {
    let calls = Calls { tools: vec![tool("f", json!({}))], single: false };
    let form = Form { calls: Some(calls), ..json_form(json!({ "type": "object" })) };
    assert!(allows(&form, &said("{}")));
    assert!(allows(&form, &called(&call("f", 1, ""))));
    assert!(!allows(&form, &said("")));
}

#[test]
fn what_tags_cannot_express_is_one_text() {
    let date = json!({ "type": "object", "properties": { "day": { "type": "string", "format": "date" } }, "required": ["day"] });
    let form = call_form(vec![tool("f", date)]);
    let whole = |json: &str| {
        called(&call(
            "f",
            1,
            &format!("<|open|>json type=\"object\"<|sep|>{json}<|close|>json<|sep|>"),
        ))
    };
    assert!(allows(&form, &whole("{\"day\":\"2026-02-03\"}")));
    assert!(!allows(&form, &whole("{\"day\":\"2026-20-03\"}")));
    assert!(!allows(&form, &called(&call("f", 1, &argument("day", "string", "2026-02-03")))));
}

#[test]
fn a_schema_that_cannot_be_enforced_is_refused_where_it_stands() {
    let inner = json!({ "type": "object", "properties": { "a": { "items": { "not": { "type": "string" } } } } });
    let defined = json!({ "$defs": { "d": { "type": "string", "pattern": "(" } }, "properties": { "a": { "$ref": "#/$defs/d" } } });
    for (schema, path) in [
        (inner.clone(), "schema.properties.a.items"),
        (json!({ "anyOf": [{ "type": "null" }, { "dependentRequired": {} }] }), "schema.anyOf[1]"),
        (defined, "schema.$defs.d"),
        (json!({ "$ref": "https://example.com/x" }), "schema"),
        (json!({ "$ref": "#/$defs/missing" }), "schema"),
    ] {
        let fault = guide(&json_form(schema)).unwrap_err();
        assert_eq!(fault.path, path, "{fault:?}");
        assert!(!fault.reason.is_empty() && !fault.reason.contains('\n'), "{fault:?}");
    }
    let form = |lenient| call_form(vec![Tool { lenient, ..tool("f", inner.clone()) }]);
    assert_eq!(guide(&form(false)).unwrap_err().path, "tools.f.properties.a.items");
    assert!(guide(&form(true)).is_ok());
}

#[test]
fn formats_nobody_checks_are_annotations() {
    let form = json_form(json!({ "type": "string", "format": "password" }));
    assert!(allows(&form, &said("\"x\"")));
    let literal = json!({ "const": { "format": "password" } });
    assert!(allows(&json_form(literal), &said("{\"format\":\"password\"}")));
}

/// Schemas made to exhaust a recursive compiler.
#[test]
fn depth_is_bounded() {
    let chain = |links: usize| {
        let link =
            |at| (format!("d{at}"), json!({ "items": { "$ref": format!("#/$defs/d{}", at + 1) } }));
        let mut defs: serde_json::Map<String, Value> = (0..links).map(link).collect();
        defs.insert(format!("d{links}"), json!({ "type": "null" }));
        json!({ "$ref": "#/$defs/d0", "$defs": defs })
    };
    assert!(guide(&json_form(chain(500))).is_ok());
    assert!(guide(&json_form(chain(3_000))).unwrap_err().reason.contains("definitions"));
    let nested = (0..100).fold(json!({ "type": "null" }), |inner, _| json!({ "items": inner }));
    assert!(guide(&json_form(nested)).is_ok());
    let recursive = json!({ "type": "object", "properties": { "next": { "$ref": "#" } }, "additionalProperties": false });
    assert!(allows(&json_form(recursive), &said("{\"next\":{\"next\":{}}}")));
}

#[test]
fn reasoning_is_text_and_its_closing_tag() {
    let mut guide = guide(&json_form(json!({}))).unwrap();
    let logits = vec![0.0; tokenizer().vocab_size() as usize];
    let close = tokenizer().special_id("<|close|>").unwrap();
    let allowed = guide.reasoning(&logits).unwrap();
    for (id, logit) in (0..).zip(allowed) {
        assert_eq!(*logit == 0.0, id < tokenizer().base() || id == close, "{id}");
    }
    assert!(guide.leaves_reasoning(close) && !guide.leaves_reasoning(0));
}

#[test]
fn a_vocabulary_that_lacks_the_form_is_an_error() {
    let mut guide = guide(&json_form(json!({}))).unwrap();
    assert!(guide.answer(&[0.0; 10]).is_err());
}

/// Logits that want nothing in particular; one time in four they want to come to an end.
fn noise(seed: u64, step: u64, tokenizer: &Tokenizer, logits: &mut Vec<f32>) {
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

fn schemas() -> Vec<Value> {
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
