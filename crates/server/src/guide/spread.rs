//! How large a schema becomes where it has a choice, and something else to keep to beside it.
//!
//! What compiles grammars copies all the rest for each option: a schema of 10,000 values can come to millions. Promise: one
//! that passes takes some hundred megabytes at most while it is compiled.

use std::collections::HashMap;

use serde_json::Value;

use super::references::{HOMES, target};

/// Values of a schema once each option has its copy; each takes about 300 bytes.
const SPREAD_MAX: u64 = 500_000;
/// Members that a value keeps to all of.
const ALL: [&str; 5] = ["allOf", "anyOf", "oneOf", "enum", "$ref"];

/// Refuses what becomes too large, in words.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    let mut reading = Reading { root: schema, known: HashMap::new(), defined: 0 };
    let values = reading.of(schema, false).values;
    match values.saturating_add(reading.defined) > SPREAD_MAX {
        true => Err("it has too many options beside too much else".to_owned()),
        false => Ok(()),
    }
}

#[derive(Clone, Copy)]
struct Spread {
    options: u64,
    values: u64,
}

const ONE: Spread = Spread { options: 1, values: 1 };

impl Spread {
    fn and(self, other: Spread) -> Spread {
        let copies = self.values.saturating_mul(other.options);
        let others = other.values.saturating_mul(self.options);
        Spread {
            options: self.options.saturating_mul(other.options),
            values: copies.saturating_add(others),
        }
    }

    fn or(self, other: Spread) -> Spread {
        Spread {
            options: self.options.saturating_add(other.options),
            values: self.values.saturating_add(other.values),
        }
    }
}

struct Reading<'a> {
    root: &'a Value,
    /// What references lead to; nothing while it is being read.
    known: HashMap<&'a str, Spread>,
    /// Values of definitions, which nobody copies where they stand.
    defined: u64,
}

impl<'a> Reading<'a> {
    /// A schema, or what it refers to where that is `merged` with something else.
    fn of(&mut self, schema: &'a Value, merged: bool) -> Spread {
        let Value::Object(members) = schema else { return self.inner(schema) };
        let list = |name| members.get(name).and_then(Value::as_array);
        let all = list("allOf").map_or(&[][..], Vec::as_slice);
        let merged = merged
            || members.keys().filter(|name| !HOMES.contains(&name.as_str())).count() > 1
            || all.len() > 1;
        let mut parts: Vec<Spread> = all.iter().map(|schema| self.of(schema, merged)).collect();
        for options in ["anyOf", "oneOf", "enum"].into_iter().filter_map(list) {
            let any = options.iter().map(|option| self.of(option, merged)).reduce(Spread::or);
            parts.extend(any);
        }
        if let Some(reference) = members.get("$ref").and_then(Value::as_str).filter(|_| merged) {
            parts.push(self.target(reference));
        }
        let own = members.iter().filter(|(name, _)| !ALL.contains(&name.as_str()));
        let (homes, own): (Vec<_>, Vec<_>) =
            own.partition(|(name, _)| HOMES.contains(&name.as_str()));
        for (_, definitions) in homes {
            self.defined = self.inner(definitions).values.saturating_add(self.defined);
        }
        let own =
            own.into_iter().map(|(_, value)| self.inner(value).values).reduce(u64::saturating_add);
        parts.extend(own.map(|values| Spread { options: 1, values }));
        parts.into_iter().reduce(Spread::and).unwrap_or(ONE)
    }

    fn target(&mut self, reference: &'a str) -> Spread {
        if let Some(known) = self.known.get(reference) {
            return *known;
        }
        self.known.insert(reference, ONE);
        let spread = target(self.root, reference).map_or(ONE, |schema| self.of(schema, true));
        self.known.insert(reference, spread);
        spread
    }

    /// Schemas within a value.
    fn inner(&mut self, value: &'a Value) -> Spread {
        let none = Spread { options: 0, values: 1 };
        match value {
            Value::Array(items) => {
                items.iter().fold(none, |sum, item| sum.or(self.of(item, false)))
            }
            Value::Object(_) => self.of(value, false),
            _ => ONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_each_option_would_copy_is_refused() {
        let list = |count: usize| json!({ "enum": (0..count).collect::<Vec<_>>() });
        let options = |count: usize| json!(vec![json!({ "properties": { "a": {} } }); count]);
        let beside = |choice: &str, count: usize, rest: usize| json!({ "properties": { "a": list(rest) }, choice: options(count) });
        let merged = |name: &str, count: usize| {
            let all = json!([{ "$ref": "#/$defs/many" }, { "$ref": "#/$defs/long" }]);
            let defs = json!({ "many": { "anyOf": options(count) }, "long": list(4000) });
            json!({ name: all, "$defs": defs })
        };
        let many = json!(vec![json!({ "$ref": "#/$defs/long" }); 1000]);
        for good in [
            list(9000),
            beside("anyOf", 100, 4000),
            beside("anyOf", 1600, 10),
            merged("allOf", 50),
            json!({ "properties": { "a": { "anyOf": many } }, "$defs": { "long": list(4000) } }),
            json!({ "$ref": "#/$defs/a", "x": 1, "$defs": { "a": { "$ref": "#/$defs/a", "x": 1 } } }),
        ] {
            assert_eq!(check(&good), Ok(()), "{:.200}", good.to_string());
        }
        for bad in [beside("anyOf", 1000, 4000), beside("oneOf", 1000, 4000), merged("allOf", 1000)]
        {
            assert!(check(&bad).is_err(), "{:.200}", bad.to_string());
        }
    }
}
