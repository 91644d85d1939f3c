//! `oneOf` whose options no value can share: there it means what `anyOf` means, which grammars express.
//!
//! Tagged unions are such: each option is an object with a constant of its own under one name.

use serde_json::Value;

use super::references;

/// More options are not compared with each other.
const OPTIONS_MAX: usize = 100;

/// Says `anyOf` wherever `oneOf` means the same.
pub(super) fn simplify(schema: &mut Value) {
    let root = schema.clone();
    visit(schema, &root);
}

fn visit(schema: &mut Value, root: &Value) {
    match schema {
        Value::Object(members) => {
            members.values_mut().for_each(|value| visit(value, root));
            let is_exclusive = members.get("oneOf").is_some_and(|options| exclude(options, root));
            if is_exclusive
                && !members.contains_key("anyOf")
                && let Some(options) = members.remove("oneOf")
            {
                members.insert("anyOf".to_owned(), options);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, root)),
        _ => {}
    }
}

/// Whether no value is described by two of the options.
fn exclude(options: &Value, root: &Value) -> bool {
    let options: Vec<&Value> =
        options.as_array().into_iter().flatten().map(|option| resolved(option, root)).collect();
    let differs = |(at, option): (usize, &&Value)| {
        options[..at].iter().all(|other| are_disjoint(option, other))
    };
    (1..=OPTIONS_MAX).contains(&options.len()) && options.iter().enumerate().all(differs)
}

/// What a reference to a definition refers to.
fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let reference = schema.get("$ref").and_then(Value::as_str);
    reference.and_then(|reference| references::target(root, reference)).unwrap_or(schema)
}

fn are_disjoint(one: &Value, other: &Value) -> bool {
    let (types, others) = (types(one), types(other));
    if !types.is_empty() && !others.is_empty() && !types.iter().any(|kind| others.contains(kind)) {
        return true;
    }
    let are_objects = types == ["object"] || others == ["object"];
    are_objects && have_different_tags(one, other)
}

/// The types that a schema names; whole numbers are numbers.
fn types(schema: &Value) -> Vec<&str> {
    let named = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(kind)) => vec![kind.as_str()],
        _ => Vec::new(),
    };
    named.into_iter().map(|kind| if kind == "integer" { "number" } else { kind }).collect()
}

/// A property that must be there, with constants that are not those of the other.
fn have_different_tags(one: &Value, other: &Value) -> bool {
    let properties = one.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().any(|(key, tag)| {
        let other_tag = other.get("properties").and_then(|properties| properties.get(key));
        let constants = (constants(tag), other_tag.map(constants).unwrap_or_default());
        let are_known = !constants.0.is_empty() && !constants.1.is_empty();
        are_known
            && (requires(one, key) || requires(other, key))
            && !constants.0.iter().any(|constant| constants.1.contains(constant))
    })
}

fn constants(schema: &Value) -> &[Value] {
    let only = schema.get("const").map(std::slice::from_ref);
    only.or(schema.get("enum").and_then(Value::as_array).map(Vec::as_slice)).unwrap_or_default()
}

fn requires(schema: &Value, key: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.into_iter().flatten().any(|name| name == key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tagged(name: &str) -> Value {
        json!({ "type": "object", "properties": { "kind": { "const": name } }, "required": ["kind"] })
    }

    #[test]
    fn only_options_that_share_nothing_are_alternatives() {
        let mut optional = tagged("b");
        optional["required"] = json!([]);
        for (is_exclusive, options) in [
            (true, json!([tagged("a"), tagged("b")])),
            (true, json!([tagged("a"), optional])),
            (true, json!([{ "$ref": "#/$defs/a" }, tagged("b")])),
            (true, json!([{ "type": "string" }, { "type": ["null", "number"] }, tagged("a")])),
            (false, json!([tagged("a"), tagged("a")])),
            (false, json!([optional, optional])),
            (false, json!([{ "type": "integer" }, { "type": "number" }])),
            (false, json!([{ "type": "string" }, {}])),
            (
                false,
                json!([{ "properties": { "kind": { "const": 1 } }, "required": ["kind"] },
                { "properties": { "kind": { "const": 2 } }, "required": ["kind"] }]),
            ),
        ] {
            let mut schema =
                json!({ "items": { "oneOf": options }, "$defs": { "a": tagged("a") } });
            simplify(&mut schema);
            assert_eq!(schema["items"].get("anyOf").is_some(), is_exclusive, "{schema}");
            assert_eq!(schema["items"].get("oneOf").is_none(), is_exclusive, "{schema}");
        }
    }
}
