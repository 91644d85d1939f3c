//! A JSON Schema as far as a grammar expresses it.
//!
//! Promises: what is accepted is enforced, or is an annotation; the work that a schema makes is bounded.

use std::panic::AssertUnwindSafe;

use llguidance::Logger;
use llguidance::api::{GrammarInit, ParserLimits, TopLevelGrammar};
use llguidance::panic_utils::catch_unwind;
use serde_json::{Map, Value, json};

use super::vocabulary::words;
use super::{ends, exclusive, numbers, references, schemas, size, spread};

/// Formats of strings that are enforced. By the standard a format is an annotation; others are left to the model.
const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"];
/// Between two parts of JSON: enough to lay out nested documents, and never blanks without end.
const BLANKS: &str = r"[ \t]{1,8}|\r?\n[ \t]{0,64}";

/// Names and values within a schema; what only annotates is not among them.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// The schema as it stands in a grammar.
pub(super) fn prepared(schema: &Value) -> Value {
    let mut schema = match schema {
        Value::Bool(true) => json!({}),
        Value::Bool(false) => json!({ "not": {} }),
        other => other.clone(),
    };
    schemas::change_each(&mut schema, &mut |members| {
        drop_annotations(members);
        numbers::widen(members);
    });
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

fn drop_annotations(members: &mut Map<String, Value>) {
    members.retain(|name, value| match name.as_str() {
        "format" => is_enforced(value),
        "title" | "description" | "$comment" => !value.is_string(),
        // Objects may be what a reference leads to.
        "default" => value.is_object(),
        "examples" => !value.is_array(),
        _ => true,
    });
}

/// Whether a grammar expresses the schema, and every reply that it begins has an end; in words why not.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    size::check(schema)?;
    spread::check(schema)?;
    references::check(schema)?;
    let prepared = prepared(schema);
    if prepared.to_string().len() > TEXT_BYTES_MAX {
        return Err(format!("it has more than {TEXT_BYTES_MAX} bytes"));
    }
    numbers::check(&prepared)?;
    let grammar = TopLevelGrammar::from_json_schema(prepared);
    let compile = || {
        let limits = ParserLimits::default();
        let mut log = Logger::new(0, 0);
        GrammarInit::Serialized(grammar).to_cgrammar(None, &mut log, limits, Vec::new())
    };
    let compiled = catch_unwind(AssertUnwindSafe(compile)).map_err(|error| words(&error))?;
    ends::check(&compiled)
}
