use std::sync::OnceLock;

use deltafin_engine::most_likely;
use deltafin_text::reply::{Answer, Channel, Parser, ReplyOptions};
use serde_json::{Value, json};

use super::*;

mod calls;
mod endless;
mod nasty;
mod noise;
mod wide;

use noise::{noise, schemas};

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
