//! A JSON Schema as far as a grammar expresses it.
//!
//! Promises: what is accepted is enforced, or is an annotation; the work that a schema makes is bounded.

use std::panic::AssertUnwindSafe;

use llguidance::Logger;
use llguidance::api::{GrammarInit, ParserLimits, TopLevelGrammar};
use llguidance::panic_utils::catch_unwind;
use serde_json::{Value, json};

use super::vocabulary::words;
use super::{ends, exclusive, size};

/// Formats of strings that are enforced. By the standard a format is an annotation; others are left to the model.
const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"];
/// Between two parts of JSON: enough to lay out nested documents, and never blanks without end.
const BLANKS: &str = r"[ \t]{1,8}|\r?\n[ \t]{0,64}";
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
    exclusive::simplify(&mut schema);
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
            members.retain(|name, value| match name.as_str() {
                "format" => is_enforced(value),
                "title" | "description" | "$comment" => !value.is_string(),
                _ => true,
            });
            let inner = members.iter_mut().filter(|(name, _)| !VALUES.contains(&name.as_str()));
            inner.for_each(|(_, value)| drop_annotations(value));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_annotations),
        _ => {}
    }
}

/// Whether a grammar expresses the schema, and every reply that it begins has an end; in words why not.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    size::check(schema)?;
    let grammar = TopLevelGrammar::from_json_schema(prepared(schema));
    let compile = || {
        let limits = ParserLimits::default();
        let mut log = Logger::new(0, 0);
        GrammarInit::Serialized(grammar).to_cgrammar(None, &mut log, limits, Vec::new())
    };
    let compiled = catch_unwind(AssertUnwindSafe(compile)).map_err(|error| words(&error))?;
    ends::check(&compiled)
}
