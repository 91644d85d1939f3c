//! Which part of a schema cannot be enforced.

use serde_json::Value;

use super::{Fault, schema};

/// Parts that are tried before the search is content with what it has.
const TRIES_MAX: usize = 100;

/// Refuses a schema that no grammar expresses, naming the smallest part of it that is in the way.
/// Its definitions stand at `home`.
pub(super) fn check(schema: &Value, path: &str, home: &str) -> Result<(), Fault> {
    let Err(reason) = schema::check(schema) else { return Ok(()) };
    let fault = Fault { path: path.to_owned(), reason };
    let mut search = Search { root: schema, tries: 0 };
    // Definitions first: what refers to a bad one is not to blame.
    let at_home = Fault { path: home.to_owned(), reason: fault.reason.clone() };
    let inner = search.among(members(schema, &["$defs", "definitions"]), &at_home);
    Err(inner.unwrap_or_else(|| search.narrowed(schema, fault)))
}

struct Search<'a> {
    root: &'a Value,
    tries: usize,
}

impl<'a> Search<'a> {
    fn narrowed(&mut self, part: &'a Value, fault: Fault) -> Fault {
        self.among(children(part), &fault).unwrap_or(fault)
    }

    fn among(&mut self, parts: Vec<(String, &'a Value)>, outer: &Fault) -> Option<Fault> {
        for (step, part) in parts {
            self.tries += 1;
            if self.tries > TRIES_MAX {
                break;
            }
            if let Err(reason) = schema::check(&with_definitions(part, self.root)) {
                let path = format!("{}{step}", outer.path);
                return Some(self.narrowed(part, Fault { path, reason }));
            }
        }
        None
    }
}

fn members<'a>(schema: &'a Value, names: &[&str]) -> Vec<(String, &'a Value)> {
    let of = |name: &&str| {
        let members = schema.get(*name).and_then(Value::as_object).into_iter().flatten();
        let name = (*name).to_owned();
        members.map(move |(key, child)| (format!(".{name}.{key}"), child)).collect::<Vec<_>>()
    };
    names.iter().flat_map(of).collect()
}

fn children(schema: &Value) -> Vec<(String, &Value)> {
    let mut found = members(schema, &["properties", "patternProperties"]);
    for name in ["prefixItems", "items", "anyOf", "oneOf", "allOf"] {
        let items = schema.get(name).and_then(Value::as_array).into_iter().flatten();
        found.extend(items.enumerate().map(|(at, child)| (format!(".{name}[{at}]"), child)));
    }
    for name in ["items", "additionalProperties"] {
        let child = schema.get(name).filter(|child| child.is_object());
        found.extend(child.map(|child| (format!(".{name}"), child)));
    }
    found
}

/// A part on its own, with what it may refer to.
pub(super) fn with_definitions(part: &Value, root: &Value) -> Value {
    let mut part = part.clone();
    if refers(&part)
        && let Some(members) = part.as_object_mut()
    {
        for name in ["$defs", "definitions"] {
            if let (false, Some(definitions)) = (members.contains_key(name), root.get(name)) {
                members.insert(name.to_owned(), definitions.clone());
            }
        }
    }
    part
}

fn refers(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.contains_key("$ref") || members.values().any(refers),
        Value::Array(items) => items.iter().any(refers),
        _ => false,
    }
}
