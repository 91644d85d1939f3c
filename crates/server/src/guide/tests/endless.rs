//! Schemas that refer to themselves: those whose values have an end are followed, the others refused.

use super::*;

#[track_caller]
fn assert_refused(schema: &Value, path: &str, words: &str) {
    let fault = guide(&json_form(schema.clone())).unwrap_err();
    assert_eq!(fault.path, path, "{schema}: {fault:?}");
    assert!(fault.reason.contains(words), "{schema}: {fault:?}");
}

fn node(next: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": { "name": { "type": "string", "maxLength": 3 }, "next": next },
        "required": required,
        "additionalProperties": false,
    })
}

#[test]
fn lists_and_trees_are_followed() {
    let own = json!({ "$ref": "#/$defs/node" });
    let or_null = json!({ "anyOf": [own, { "type": "null" }] });
    let list =
        json!({ "$ref": "#/$defs/node", "$defs": { "node": node(or_null, &["name", "next"]) } });
    assert!(allows(
        &json_form(list.clone()),
        &said("{\"name\":\"a\",\"next\":{\"name\":\"b\",\"next\":null}}")
    ));
    assert!(!allows(&json_form(list), &said("{\"name\":\"a\",\"next\":{\"name\":\"b\"}}")));
    let optional =
        json!({ "$ref": "#/$defs/node", "$defs": { "node": node(own.clone(), &["name"]) } });
    assert!(allows(&json_form(optional), &said("{\"name\":\"a\",\"next\":{\"name\":\"b\"}}")));
    let tree = json!({ "$ref": "#/$defs/node", "$defs": { "node": node(json!({ "type": "array", "items": own }), &["name", "next"]) } });
    let reply =
        "{\"name\":\"a\",\"next\":[{\"name\":\"b\",\"next\":[]},{\"name\":\"c\",\"next\":[]}]}";
    assert!(allows(&json_form(tree), &said(reply)));
    let root = node(json!({ "anyOf": [{ "type": "null" }, { "$ref": "#" }] }), &["next"]);
    assert!(allows(&json_form(root.clone()), &said("{\"next\":{\"next\":null}}")));
    // In a call, too, a reference to the whole means the whole.
    let form = call_form(vec![tool("f", root)]);
    let whole = |json: &str| {
        let text = format!("<|open|>json type=\"object\"<|sep|>{json}<|close|>json<|sep|>");
        called(&call("f", 1, &text))
    };
    assert!(allows(&form, &whole("{\"next\":{\"name\":\"b\",\"next\":null}}")));
    assert!(!allows(&form, &whole("{\"next\":{\"name\":\"b\"}}")));
}

#[test]
fn what_has_no_end_is_refused_where_it_stands() {
    let a_and_b = json!({ "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } });
    let own = json!({ "$ref": "#/$defs/node" });
    let defined = |next: Value, required: &[&str]| json!({ "type": "object", "properties": { "first": own }, "$defs": { "node": node(next, required) } });
    let pair = json!({ "type": "array", "items": own, "minItems": 1 });
    for (schema, path) in [
        (json!({ "$ref": "#" }), "schema"),
        (
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/a" } } }),
            "schema.$defs.a",
        ),
        (json!({ "$ref": "#/$defs/a", "$defs": a_and_b }), "schema.$defs.b"),
        (
            json!({ "properties": { "x": { "$ref": "#/$defs/a" } }, "$defs": a_and_b }),
            "schema.$defs.b",
        ),
        (node(json!({ "$ref": "#" }), &["next"]), "schema"),
        (defined(own.clone(), &["next"]), "schema.$defs.node.properties.next"),
        (defined(pair, &["next"]), "schema.$defs.node.properties.next.items"),
        (
            defined(json!({ "anyOf": [own, own] }), &["next"]),
            "schema.$defs.node.properties.next.anyOf[0]",
        ),
        (
            json!({ "anyOf": [{ "type": "string" }, defined(own.clone(), &["next"])["$defs"]["node"]], "$defs": defined(own.clone(), &["next"])["$defs"] }),
            "schema.$defs.node.properties.next",
        ),
    ] {
        assert_refused(&schema, path, "has an end");
    }
}

#[test]
fn limits_that_exclude_each_other_are_refused_where_they_stand() {
    // There is no second member that it allows.
    let none = json!({ "type": "object", "properties": { "a": {} }, "required": ["a"], "minProperties": 2,
        "patternProperties": { "^a$": true }, "additionalProperties": false });
    for (schema, path) in [
        (none.clone(), "schema"),
        (
            json!({ "type": "object", "properties": { "b": none }, "required": ["b"] }),
            "schema.properties.b",
        ),
        (
            json!({ "type": "object", "properties": { "b": { "type": "array", "items": none } } }),
            "schema.properties.b.items",
        ),
    ] {
        assert_refused(&schema, path, "keeps to all");
    }
    let text = json!({ "type": "string", "pattern": "^a{3}$", "maxLength": 2 });
    assert_refused(&text, "schema", "Unsatisfiable");
    // What nothing forces to be there is left out.
    let beside = json!({ "type": "object", "properties": { "a": false, "b": { "type": "null" } }, "patternProperties": { "": true } });
    assert!(allows(&json_form(beside), &said("{\"b\":null}")));
}

#[test]
fn tools_are_refused_alike() {
    let endless = json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/n" } }, "$defs": { "n": node(json!({ "$ref": "#/$defs/n" }), &["next"]) } });
    let tool = |lenient| Tool { lenient, ..tool("f", endless.clone()) };
    let fault = guide(&call_form(vec![tool(false)])).unwrap_err();
    assert_eq!(fault.path, "tools.f.$defs.n.properties.next", "{fault:?}");
    assert!(guide(&call_form(vec![tool(true)])).is_ok());
}

/// Each layer has the alternatives of the next several times: what is written down must not grow with their product.
#[test]
fn layers_of_alternatives_are_bounded() {
    let layers = |options: usize, last: Value| {
        let layer = |at: usize| {
            let next = json!({ "$ref": format!("#/$defs/l{}", at + 1) });
            (format!("l{at}"), json!({ "anyOf": vec![next; options] }))
        };
        let mut defs: serde_json::Map<String, Value> = (0..7).map(layer).collect();
        defs.insert("l7".to_owned(), last);
        json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/l0" } }, "required": ["x"], "additionalProperties": false, "$defs": defs })
    };
    for last in [
        json!({ "type": "string" }),
        json!({ "anyOf": [] }),
        json!({ "type": [] }),
        json!({ "enum": [] }),
    ] {
        let _ = guide(&call_form(vec![tool("f", layers(100, last))]));
    }
    assert!(guide(&call_form(vec![tool("f", layers(2, json!({ "type": "string" })))])).is_ok());
}
