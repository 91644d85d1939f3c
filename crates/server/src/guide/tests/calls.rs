//! Calls of tools, and JSON where calls are possible.

use super::*;

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
