//! References to parts of the same schema.
//!
//! What compiles grammars follows `#/a/b` member by member, as it is spelled. Promise: JSON pointers with `~0`, `~1` and
//! percent escapes lead where they should, and what leads elsewhere is told.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{schemas, size};

/// Where definitions stand.
pub(super) const HOMES: [&str; 2] = ["$defs", "definitions"];
/// Values within all that is copied to where a plain reference can lead.
const COPIED_MAX: usize = size::PARTS_MAX;

/// What a reference without escapes leads to.
pub(super) fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let steps = reference.strip_prefix("#/")?.split('/');
    steps.into_iter().try_fold(root, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        other => other.get(step),
    })
}

/// Spells references, and the names of definitions that need it, so that no escape is left to be read.
pub(super) fn simplify(schema: &mut Value) {
    let mut plain = HashMap::new();
    let mut copies = Vec::new();
    let mut room = COPIED_MAX;
    for reference in all(schema) {
        let is_plain = plain.contains_key(&reference) || target(schema, &reference).is_some();
        let Some(pointer) = pointer(&reference).filter(|_| !is_plain) else { continue };
        let Some(part) = schema.pointer(&pointer) else { continue };
        if pointer.contains('~') && !is_definition(&pointer) {
            let Some(left) = room.checked_sub(size::parts(part)) else { continue };
            room = left;
            let name = pointer[1..].replace('/', ".");
            plain.insert(reference, format!("#/$defs/{name}"));
            copies.push((name, part.clone()));
        } else {
            plain.insert(reference, format!("#{pointer}"));
        }
    }
    escape_names(schema, &plain.values().collect());
    if let Some(members) = schema.as_object_mut().filter(|_| !copies.is_empty()) {
        let home = members.entry("$defs").or_insert_with(|| Map::new().into());
        home.as_object_mut().into_iter().for_each(|home| home.extend(copies.drain(..)));
    }
    schemas::change_each(schema, &mut |members| {
        if let Some(Value::String(reference)) = members.get_mut("$ref")
            && let Some(plain) = plain.get(reference)
        {
            reference.clone_from(plain);
        }
    });
}

/// Refuses, in words, what leads out of the schema, or to a name within it.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    let is_followed = |reference: &String| *reference == "#" || reference.starts_with("#/");
    match all(schema).into_iter().find(|reference| !is_followed(reference)) {
        Some(other) => {
            let other: String = other.chars().take(100).collect();
            Err(format!("it refers to {other:?}: only references that begin with #/ are followed"))
        }
        None => Ok(()),
    }
}

fn all(schema: &Value) -> Vec<String> {
    let mut all = Vec::new();
    schemas::each(schema, &mut |members| {
        all.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
    });
    all
}

/// The JSON pointer of a reference, without percent escapes.
fn pointer(reference: &str) -> Option<String> {
    let pointer = reference.strip_prefix('#').filter(|pointer| pointer.starts_with('/'))?;
    let mut bytes = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let hex = |at: usize| char::from(*after.get(at)?).to_digit(16);
        match (byte, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high << 4 | low) as u8);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// Whether a pointer leads to a definition, the names of which are spelled as pointers do.
fn is_definition(pointer: &str) -> bool {
    let steps: Vec<&str> = pointer.split('/').skip(1).collect();
    steps.len() == 2 && HOMES.contains(&steps[0])
}

/// Spells the names of definitions as these references do.
fn escape_names(schema: &mut Value, references: &HashSet<&String>) {
    for home in HOMES {
        let Some(all) = schema.get_mut(home).and_then(Value::as_object_mut) else { continue };
        let spelled = |name: String| {
            let escaped = name.replace('~', "~0").replace('/', "~1");
            let is_meant = references.contains(&format!("#/{home}/{escaped}"));
            if is_meant { escaped } else { name }
        };
        let named = std::mem::take(all).into_iter();
        all.extend(named.map(|(name, part)| (spelled(name), part)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn escapes_are_read_and_the_rest_is_as_it_was() {
        let one = json!({ "type": "integer" });
        let schema = json!({
            "properties": {
                "a/b": one, "list": { "$ref": "#/$defs/List%3Ca%20b%3E" }, "tilde": { "$ref": "#/$defs/x~0y~1z" },
                "copy": { "$ref": "#/properties/a~1b" }, "plain": { "$ref": "#/$defs/50%25" },
                "as it stands": { "$ref": "#/$defs/50%" }, "nowhere": { "$ref": "#/$defs/no~1thing" },
                "$ref": { "const": { "$ref": "#/$defs/x~0y~1z" } },
            },
            "$defs": { "List<a b>": one, "x~y/z": { "$ref": "#" }, "50%": one },
        });
        let mut simple = schema.clone();
        simplify(&mut simple);
        let reference = |name: &str| simple["properties"][name]["$ref"].clone();
        assert_eq!(reference("list"), "#/$defs/List<a b>");
        assert_eq!(reference("tilde"), "#/$defs/x~0y~1z");
        assert_eq!(reference("copy"), "#/$defs/properties.a~1b");
        assert_eq!(reference("plain"), "#/$defs/50%");
        assert_eq!(reference("as it stands"), "#/$defs/50%");
        assert_eq!(reference("nowhere"), "#/$defs/no~1thing");
        assert_eq!(simple["properties"]["$ref"], schema["properties"]["$ref"]);
        for name in ["list", "tilde", "copy", "plain"] {
            let reference = reference(name);
            assert!(target(&simple, reference.as_str().unwrap()).is_some(), "{reference}");
        }
        let again = simple.clone();
        simplify(&mut simple);
        assert_eq!(simple, again);
    }

    #[test]
    fn what_leads_elsewhere_is_named() {
        for elsewhere in ["#anchor", "https://a.b/c.json#/d", "other.json", ""] {
            let told = check(&json!({ "items": { "$ref": elsewhere } })).unwrap_err();
            assert!(told.contains(&format!("{elsewhere:?}")), "{told}");
        }
        assert_eq!(check(&json!({ "anyOf": [{ "$ref": "#" }, { "$ref": "#/$defs/a" }] })), Ok(()));
    }
}
