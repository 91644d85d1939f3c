//! The ways in which a schema lets a value be written in a tag.
//!
//! Promises: every value that the schema describes has a way, and no other has; or there are none, and tags cannot express
//! it. The work and the size of what comes of it are bounded, however schemas multiply.

use serde_json::{Map, Value, json};

use super::place::{definition, definitions, refers, with_definitions};
use super::schema::is_enforced;
use super::size;

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
/// Values within all schemas of a tool's tags. Layers of alternatives multiply them, and each tag has its own definitions.
const PARTS_MAX: usize = 2 * size::PARTS_MAX;
/// Larger counts of characters make grammars too large.
const CHARACTERS_MAX: u64 = 1 << 16;

/// Whether a member says nothing about a value.
pub(super) fn annotates(name: &str) -> bool {
    ANNOTATIONS.contains(&name) || name.starts_with("x-")
}

/// A schema that is being read.
pub(super) struct Reading<'a> {
    root: &'a Value,
    /// Values within its definitions.
    defined: usize,
    /// Values that there is still room for.
    room: usize,
}

impl<'a> Reading<'a> {
    pub(super) fn new(root: &'a Value) -> Reading<'a> {
        let defined = definitions(root).map(|(_, all)| size::parts(all)).sum();
        Reading { root, defined, room: PARTS_MAX }
    }

    /// The ways to write a value; nothing where tags cannot express its schema.
    pub(super) fn ways(&mut self, schema: &Value, hops: usize) -> Option<Vec<Way>> {
        if *schema == Value::Bool(true) {
            return self.typed(&Map::new(), &TYPES);
        }
        let members = schema.as_object()?;
        let says: Vec<&str> =
            members.keys().map(String::as_str).filter(|name| !annotates(name)).collect();
        match says[..] {
            [] => self.typed(members, &TYPES),
            ["$ref"] if hops < HOPS_MAX => {
                self.ways(definition(self.root, members["$ref"].as_str()?)?, hops + 1)
            }
            ["allOf"] if hops < HOPS_MAX => match members["allOf"].as_array()?.as_slice() {
                [one] => self.ways(one, hops + 1),
                _ => None,
            },
            [choice @ ("anyOf" | "oneOf")] if hops < HOPS_MAX => {
                let options = members[choice].as_array()?.iter();
                let all: Vec<_> =
                    options.map(|option| self.ways(option, hops + 1)).collect::<Option<_>>()?;
                let all = all.concat();
                // Values of one type could be described by two options, which `oneOf` forbids.
                let is_clear = choice == "anyOf"
                    || all.iter().enumerate().all(|(at, way)| differs(way, &all[..at]));
                (is_clear && !all.is_empty()).then_some(all)
            }
            _ if says.iter().all(|name| ["type", "enum", "const"].contains(name))
                && says != ["type"] =>
            {
                self.take(size::parts(schema))?;
                listed(members)
            }
            _ => match members.get("type")? {
                Value::String(kind) => self.typed(members, &[kind.as_str()]),
                Value::Array(kinds) => {
                    let kinds: Vec<&str> =
                        kinds.iter().map(Value::as_str).collect::<Option<_>>()?;
                    self.typed(members, &kinds)
                }
                _ => None,
            },
        }
    }

    fn typed(&mut self, members: &Map<String, Value>, kinds: &[&str]) -> Option<Vec<Way>> {
        kinds.iter().map(|kind| self.of_type(members, kind)).collect()
    }

    fn of_type(&mut self, members: &Map<String, Value>, kind: &str) -> Option<Way> {
        let of_text = ["type", "minLength", "maxLength", "pattern", "format"];
        let is_known =
            |name: &str| of_text.contains(&name) || OF_JSON.contains(&name) || annotates(name);
        if !members.keys().all(|name| is_known(name)) {
            return None;
        }
        self.take(1)?;
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
        let schema = Value::Object(members);
        self.take(size::parts(&schema) + if refers(&schema) { self.defined } else { 0 })?;
        Some(Way { kind: tag, text: Text::Json(with_definitions(&schema, self.root)) })
    }

    fn take(&mut self, parts: usize) -> Option<()> {
        self.room = self.room.checked_sub(parts)?;
        Some(())
    }
}

fn differs(way: &Way, others: &[Way]) -> bool {
    others.iter().all(|other| other.kind != way.kind)
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
        // Grammars of JSON know no whole numbers but those that doubles keep.
        Value::Number(number) if number.as_i128().is_some() => Text::Literal(number.to_string()),
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
