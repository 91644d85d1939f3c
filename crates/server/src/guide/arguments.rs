//! A tool's arguments as K3 writes them: one tag for each, text for strings and JSON for the rest.
//!
//! A tag's type decides how its text is read, so every way in which a value may be written has a
//! type and a text. Arguments that do not come down to that are written as one JSON text, which
//! the format has a tag for too.

use serde_json::{Map, Value, json};

use super::place::with_definitions;
use super::schema::is_enforced;

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

/// A way to write a value: its type in the tag, and its text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Way {
    pub(super) kind: &'static str,
    pub(super) text: Text,
}

/// What may stand in a tag.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Text {
    /// So many characters.
    Characters { least: u64, most: Option<u64> },
    /// Exactly this.
    Literal(String),
    /// Any number that has a double.
    Number,
    /// JSON that this schema describes.
    Json(Value),
}

/// Types that tags have.
const TYPES: [&str; 6] = ["string", "number", "boolean", "null", "array", "object"];
/// Members that say nothing about a value.
const ANNOTATIONS: [&str; 14] = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
    "$schema",
    "$id",
    "$defs",
    "definitions",
    "contentEncoding",
    "contentMediaType",
];
/// Members that may stand beside the type of an argument whose value is JSON.
const OF_JSON: [&str; 17] = [
    "items",
    "prefixItems",
    "additionalItems",
    "minItems",
    "maxItems",
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "uniqueItems",
];
/// References that are followed one after another.
const HOPS_MAX: usize = 16;
/// Larger counts of characters make grammars too large.
const CHARACTERS_MAX: u64 = 1 << 16;

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
    let is_closed = members.get("additionalProperties") == Some(&Value::Bool(false));
    let properties = members.get("properties").and_then(Value::as_object);
    if !is_plain || parameters["type"] != "object" || (properties.is_none() && !is_closed) {
        return None;
    }
    let required = members.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let declared = properties.into_iter().flatten().map(|(key, schema)| (key.as_str(), schema));
    let other = required.iter().filter_map(Value::as_str);
    let other = other.filter(|key| properties.is_none_or(|declared| !declared.contains_key(*key)));
    let all = declared.chain(other.map(|key| (key, &Value::Bool(true))));
    let argument = |(key, schema): (&str, &Value)| {
        let is_required = required.iter().any(|name| name == key);
        let ways = ways(parameters, schema, 0)?;
        Some(Argument { key: key.to_owned(), is_required, ways })
    };
    all.map(argument).collect()
}

fn annotates(name: &str) -> bool {
    ANNOTATIONS.contains(&name) || name.starts_with("x-")
}

/// The ways to write a value; nothing where tags cannot express its schema.
fn ways(root: &Value, schema: &Value, hops: usize) -> Option<Vec<Way>> {
    if *schema == Value::Bool(true) {
        return typed(root, &Map::new(), &TYPES);
    }
    let members = schema.as_object()?;
    let says: Vec<&str> =
        members.keys().map(String::as_str).filter(|name| !annotates(name)).collect();
    match says[..] {
        [] => typed(root, members, &TYPES),
        ["$ref"] if hops < HOPS_MAX => ways(root, definition(root, &members["$ref"])?, hops + 1),
        ["allOf"] if hops < HOPS_MAX => match members["allOf"].as_array()?.as_slice() {
            [one] => ways(root, one, hops + 1),
            _ => None,
        },
        [choice @ ("anyOf" | "oneOf")] if hops < HOPS_MAX => {
            let options = members[choice].as_array()?.iter();
            let all: Vec<_> =
                options.map(|option| ways(root, option, hops + 1)).collect::<Option<_>>()?;
            let all = all.concat();
            // Values of one type could be described by two options, which `oneOf` forbids.
            (choice == "anyOf" || all.iter().enumerate().all(|(at, way)| differs(way, &all[..at])))
                .then_some(all)
        }
        _ if says.iter().all(|name| ["type", "enum", "const"].contains(name))
            && says != ["type"] =>
        {
            listed(members)
        }
        _ => match members.get("type")? {
            Value::String(kind) => typed(root, members, &[kind.as_str()]),
            Value::Array(kinds) => {
                let kinds: Vec<&str> = kinds.iter().map(Value::as_str).collect::<Option<_>>()?;
                typed(root, members, &kinds)
            }
            _ => None,
        },
    }
}

fn differs(way: &Way, others: &[Way]) -> bool {
    others.iter().all(|other| other.kind != way.kind)
}

fn definition<'a>(root: &'a Value, reference: &Value) -> Option<&'a Value> {
    let (set, name) = reference.as_str()?.strip_prefix("#/")?.split_once('/')?;
    (["$defs", "definitions"].contains(&set)).then(|| root.get(set)?.get(name))?
}

/// One of these values.
fn listed(members: &Map<String, Value>) -> Option<Vec<Way>> {
    let constant = members.get("const").map(std::slice::from_ref);
    let values = match members.get("enum") {
        Some(values) => values.as_array()?.as_slice(),
        None => constant?,
    };
    let fits = |value: &&Value| {
        constant.is_none_or(|only| only[0] == **value)
            && members.get("type").is_none_or(|kind| is_of(value, kind))
    };
    let ways: Vec<Way> = values.iter().filter(fits).map(literal).collect();
    (!ways.is_empty()).then_some(ways)
}

fn literal(value: &Value) -> Way {
    let text = match value {
        Value::String(text) => Text::Literal(text.clone()),
        other => Text::Json(json!({ "const": other })),
    };
    Way { kind: kind_of(value), text }
}

fn is_of(value: &Value, kind: &Value) -> bool {
    match kind {
        Value::String(kind) if kind == "integer" => value.is_i64() || value.is_u64(),
        Value::String(kind) => kind == kind_of(value),
        Value::Array(kinds) => kinds.iter().any(|kind| is_of(value, kind)),
        _ => false,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "boolean",
        Value::Null => "null",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn typed(root: &Value, members: &Map<String, Value>, kinds: &[&str]) -> Option<Vec<Way>> {
    kinds.iter().map(|kind| of_type(root, members, kind)).collect()
}

fn of_type(root: &Value, members: &Map<String, Value>, kind: &str) -> Option<Way> {
    let of_text = ["type", "minLength", "maxLength", "pattern", "format"];
    let is_known =
        |name: &str| of_text.contains(&name) || OF_JSON.contains(&name) || annotates(name);
    if !members.keys().all(|name| is_known(name)) {
        return None;
    }
    if kind == "string" {
        return Some(Way { kind: "string", text: characters(members)? });
    }
    let named = if kind == "integer" { "number" } else { kind };
    let tag = *TYPES.iter().find(|known| **known == named)?;
    if kind == "number" && !OF_JSON.iter().any(|name| members.contains_key(*name)) {
        return Some(Way { kind: tag, text: Text::Number });
    }
    let mut members = members.clone();
    members.insert("type".to_owned(), json!(kind));
    let schema = with_definitions(&Value::Object(members), root);
    Some(Way { kind: tag, text: Text::Json(schema) })
}

fn characters(members: &Map<String, Value>) -> Option<Text> {
    if members.contains_key("pattern") || members.get("format").is_some_and(is_enforced) {
        return None;
    }
    let count =
        |name| members.get(name).map(|count| count.as_u64().filter(|n| *n <= CHARACTERS_MAX));
    let least = count("minLength").unwrap_or(Some(0))?;
    let most = count("maxLength").map_or(Some(None), |count| count.map(Some))?;
    (most.is_none_or(|most| least <= most)).then_some(Text::Characters { least, most })
}
