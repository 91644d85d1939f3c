//! Which part of a schema cannot be enforced.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::references::HOMES;
use super::{Fault, schema};

/// Parts that are tried before the search is content with what it has.
const TRIES_MAX: usize = 100;
/// And how long: each part is compiled with all that it refers to.
const PATIENCE: Duration = Duration::from_secs(1);

/// Refuses a schema that no grammar expresses, naming the smallest part of it that is in the way.
/// Its definitions stand at `home`.
pub(super) fn check(schema: &Value, path: &str, home: &str) -> Result<(), Fault> {
    let Err(reason) = schema::check(schema) else { return Ok(()) };
    let is_local = is_local(schema);
    let (entered, began) = (HashSet::new(), Instant::now());
    let mut search = Search { root: schema, home, is_local, entered, tries: 0, began };
    Err(search.narrowed(schema, Fault { path: path.to_owned(), reason }))
}

struct Search<'a> {
    root: &'a Value,
    home: &'a str,
    /// Nothing refers to the schema as a whole, so that its parts mean the same on their own.
    is_local: bool,
    /// Definitions that were looked into.
    entered: HashSet<&'a str>,
    tries: usize,
    began: Instant,
}

impl<'a> Search<'a> {
    fn narrowed(&mut self, part: &'a Value, fault: Fault) -> Fault {
        // What refers to a bad one is not to blame.
        let defined =
            self.definition(part).map(|(step, part)| (self.home.to_owned() + &step, part));
        let inner = children(part).map(|(step, part)| (fault.path.clone() + &step, part));
        for (path, part) in defined.into_iter().chain(inner) {
            self.tries += 1;
            if self.tries > TRIES_MAX || self.began.elapsed() > PATIENCE {
                break;
            }
            if !self.is_local && refers(part) {
                continue;
            }
            if let Err(reason) = schema::check(&with_definitions(part, self.root)) {
                return self.narrowed(part, Fault { path, reason });
            }
        }
        fault
    }

    /// The definition that a part refers to, when it is met for the first time.
    fn definition(&mut self, part: &'a Value) -> Option<(String, &'a Value)> {
        let reference = part.get("$ref").and_then(Value::as_str)?;
        let definition = definition(self.root, reference)?;
        let step = reference.strip_prefix('#')?.replace('/', ".");
        self.entered.insert(reference).then_some((step, definition))
    }
}

fn children(schema: &Value) -> impl Iterator<Item = (String, &Value)> {
    let named = ["properties", "patternProperties"].into_iter().flat_map(|name| {
        let members = schema.get(name).and_then(Value::as_object).into_iter().flatten();
        members.map(move |(key, child)| (format!(".{name}.{key}"), child))
    });
    let listed = ["prefixItems", "items", "anyOf", "oneOf", "allOf"].into_iter().flat_map(|name| {
        let items = schema.get(name).and_then(Value::as_array).into_iter().flatten();
        items.enumerate().map(move |(at, child)| (format!(".{name}[{at}]"), child))
    });
    let single = ["items", "additionalProperties"].into_iter().filter_map(|name| {
        let child = schema.get(name).filter(|child| child.is_object());
        child.map(|child| (format!(".{name}"), child))
    });
    named.chain(listed).chain(single)
}

/// A part on its own, with what it may refer to.
pub(super) fn with_definitions(part: &Value, root: &Value) -> Value {
    let mut part = part.clone();
    if refers(&part)
        && let Some(members) = part.as_object_mut()
    {
        for (home, all) in definitions(root) {
            let own = members.entry(home).or_insert_with(|| Map::new().into());
            let (Some(own), Some(all)) = (own.as_object_mut(), all.as_object()) else { continue };
            for (name, definition) in all {
                own.entry(name).or_insert_with(|| definition.clone());
            }
        }
    }
    part
}

/// The sets of definitions that a schema has, by their homes.
pub(super) fn definitions(root: &Value) -> impl Iterator<Item = (&'static str, &Value)> {
    HOMES.into_iter().filter_map(|home| Some((home, root.get(home)?)))
}

/// The definition that a reference leads to.
pub(super) fn definition<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let (home, name) = reference.strip_prefix("#/")?.split_once('/')?;
    HOMES.contains(&home).then(|| root.get(home)?.get(name))?
}

/// Whether a part refers to anything.
pub(super) fn refers(part: &Value) -> bool {
    references(part).next().is_some()
}

/// Whether nothing refers to the schema as a whole or to parts that are no definitions.
pub(super) fn is_local(schema: &Value) -> bool {
    references(schema).all(is_defined)
}

/// Whether a reference leads to a definition, or nowhere at all.
fn is_defined(reference: &str) -> bool {
    let into = |home: &str| reference.strip_prefix("#/").is_some_and(|rest| rest.starts_with(home));
    !reference.starts_with('#') || HOMES.into_iter().any(into)
}

/// All references within a value.
fn references(value: &Value) -> Box<dyn Iterator<Item = &str> + '_> {
    match value {
        Value::Object(members) => {
            let own = members.get("$ref").and_then(Value::as_str);
            Box::new(own.into_iter().chain(members.values().flat_map(references)))
        }
        Value::Array(items) => Box::new(items.iter().flat_map(references)),
        _ => Box::new(std::iter::empty()),
    }
}
