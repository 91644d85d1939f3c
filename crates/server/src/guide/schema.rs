//! A JSON Schema as far as a grammar expresses it.
//!
//! Promises: what is accepted is enforced, or is an annotation; the work that a schema makes is bounded.

use std::collections::HashSet;

use llguidance::api::{GrammarInit, ParserLimits, TopLevelGrammar};
use serde_json::{Value, json};

use super::vocabulary::words;

/// Formats of strings that are enforced. By the standard a format is an annotation; others are left to the model.
const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"];
/// Between two parts of JSON: enough to lay out nested documents, and never blanks without end.
const BLANKS: &str = r"[ \t]{1,8}|\r?\n[ \t]{0,64}";
/// Definitions times nesting: how deep the compiler may recurse.
const DEPTH_MAX: usize = 4096;

/// Members that hold values, not schemas.
const VALUES: [&str; 4] = ["const", "enum", "default", "examples"];

/// The schema as it stands in a grammar.
pub(super) fn prepared(schema: &Value) -> Value {
    let mut schema = match schema {
        Value::Bool(true) => json!({}),
        Value::Bool(false) => json!({ "not": {} }),
        other => other.clone(),
    };
    drop_annotations(&mut schema);
    if let Some(members) = schema.as_object_mut() {
        members.insert("x-guidance".to_owned(), json!({ "whitespace_pattern": BLANKS }));
    }
    schema
}

/// Whether a string's format says more than an annotation.
pub(super) fn is_enforced(format: &Value) -> bool {
    format.as_str().is_none_or(|format| FORMATS.contains(&format))
}

fn drop_annotations(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.retain(|name, value| name != "format" || is_enforced(value));
            let inner = members.iter_mut().filter(|(name, _)| !VALUES.contains(&name.as_str()));
            inner.for_each(|(_, value)| drop_annotations(value));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_annotations),
        _ => {}
    }
}

/// Whether a grammar expresses the schema; in words why not.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    if depth(schema) > DEPTH_MAX {
        return Err("it has too many definitions within definitions".to_owned());
    }
    let grammar = TopLevelGrammar::from_json_schema(prepared(schema));
    let outcome = GrammarInit::Serialized(grammar).to_internal(None, ParserLimits::default());
    outcome.map(|_| ()).map_err(|error| words(&error))
}

/// A bound: each definition is entered once at most, wherever it is referred to.
fn depth(schema: &Value) -> usize {
    let mut targets = HashSet::new();
    let nesting = nesting(schema, &mut targets);
    (targets.len() + 1) * nesting
}

fn nesting<'a>(value: &'a Value, targets: &mut HashSet<&'a str>) -> usize {
    match value {
        Value::Object(members) => {
            targets.extend(members.get("$ref").and_then(Value::as_str));
            members.values().map(|value| nesting(value, targets)).max().unwrap_or(0) + 1
        }
        Value::Array(items) => {
            items.iter().map(|value| nesting(value, targets)).max().unwrap_or(0) + 1
        }
        _ => 0,
    }
}
