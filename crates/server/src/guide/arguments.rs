//! A tool's arguments as K3 writes them: one tag for each, text for strings and JSON for the rest.
//!
//! A tag's type decides how its text is read, so every way in which a value may be written has a
//! type and a text. Arguments that do not come down to that are written as one JSON text, which
//! the format has a tag for too.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::place::{is_local, with_definitions};
use super::ways::{Reading, Way, annotates};

/// How a tool's arguments are written.
#[derive(Debug, PartialEq)]
pub(super) enum Arguments {
    /// One tag each, in this order.
    Tagged(Vec<Argument>),
    /// An object that this schema describes.
    Whole(Value),
}

/// One argument.
#[derive(Debug, PartialEq)]
pub(super) struct Argument {
    pub(super) key: String,
    pub(super) is_required: bool,
    pub(super) ways: Vec<Way>,
}

impl Arguments {
    /// The arguments that a schema declares.
    pub(super) fn declared(parameters: Option<&Value>) -> Arguments {
        let Some(parameters) = parameters else { return Arguments::Tagged(Vec::new()) };
        match tagged(parameters) {
            Some(arguments) => Arguments::Tagged(arguments),
            None => Arguments::Whole(object(parameters)),
        }
    }
}

/// Arguments are an object, whether their schema says so or not.
fn object(parameters: &Value) -> Value {
    match parameters.get("type").and_then(Value::as_str) {
        Some("object") => parameters.clone(),
        _ => with_definitions(&json!({ "allOf": [{ "type": "object" }, parameters] }), parameters),
    }
}

fn tagged(parameters: &Value) -> Option<Vec<Argument>> {
    let members = parameters.as_object()?;
    if members.is_empty() {
        return Some(Vec::new());
    }
    let known = ["type", "properties", "required", "additionalProperties", "strict"];
    let is_plain = members.keys().all(|name| known.contains(&name.as_str()) || annotates(name));
    // Elsewhere than in the whole schema, what refers to the whole would mean something else.
    if !is_plain || parameters["type"] != "object" || !is_local(parameters) {
        return None;
    }
    let required = strings(members.get("required"))?;
    let others = members.get("additionalProperties");
    let none = Map::new();
    let properties = match members.get("properties") {
        Some(properties) => properties.as_object()?,
        None if others == Some(&Value::Bool(false)) => &none,
        None => return None,
    };
    let mut undeclared = required.iter().filter(|key| !properties.contains_key(**key)).peekable();
    if undeclared.peek().is_some() && others.is_some_and(|others| *others != Value::Bool(true)) {
        return None;
    }
    let declared = properties.iter().map(|(key, schema)| (key.as_str(), schema));
    let all = declared.chain(undeclared.map(|key| (*key, &Value::Bool(true))));
    let mut reading = Reading::new(parameters);
    let argument = |(key, schema): (&str, &Value)| {
        let ways = reading.ways(schema, 0)?;
        Some(Argument { key: key.to_owned(), is_required: required.contains(&key), ways })
    };
    all.map(argument).collect()
}

/// The different strings of a list, in order; nothing where it is another list.
fn strings(list: Option<&Value>) -> Option<Vec<&str>> {
    let Some(list) = list else { return Some(Vec::new()) };
    let mut all: Vec<&str> = list.as_array()?.iter().map(Value::as_str).collect::<Option<_>>()?;
    let mut seen = HashSet::new();
    all.retain(|name| seen.insert(*name));
    Some(all)
}
