//! All schemas within a schema.
//!
//! Promise: names of properties and definitions are not taken for keywords, nor values for schemas.

use serde_json::{Map, Value};

/// Members that hold schemas by name.
const NAMED: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Members that hold values, not schemas.
const VALUES: [&str; 4] = ["const", "enum", "default", "examples"];

/// Shows each schema within a value, the outer ones first.
pub(super) fn each<'a>(value: &'a Value, look: &mut impl FnMut(&'a Map<String, Value>)) {
    match value {
        Value::Object(members) => {
            look(members);
            for (name, value) in members {
                match value {
                    Value::Object(named) if NAMED.contains(&name.as_str()) => {
                        named.values().for_each(|value| each(value, look));
                    }
                    _ if VALUES.contains(&name.as_str()) => {}
                    _ => each(value, look),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| each(item, look)),
        _ => {}
    }
}

/// Changes each schema within a value, the outer ones first.
pub(super) fn change_each(value: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(members) => {
            change(members);
            for (name, value) in members {
                match value {
                    Value::Object(named) if NAMED.contains(&name.as_str()) => {
                        named.values_mut().for_each(|value| change_each(value, change));
                    }
                    _ if VALUES.contains(&name.as_str()) => {}
                    _ => change_each(value, change),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| change_each(item, change)),
        _ => {}
    }
}
