//! How much work a schema makes. What compiles it bounds some of that, by no means all.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::references::target;
use super::vocabulary::ITEMS_MAX;

/// Values within a schema.
pub(super) const PARTS_MAX: usize = 10_000;
/// Properties of one object, declared or required: work grows with their square.
const PROPERTIES_MAX: usize = 1000;
/// Properties that come into question at one place, of all schemas that a value there may keep to. More could not be
/// followed there, and where that is deep within a reply, nobody would find out before.
const CHOICE_MAX: usize = ITEMS_MAX / 4;
/// Definitions times nesting: how deep the compiler may recurse, for each definition is entered once at most.
const DEPTH_MAX: usize = 4096;
/// Properties of which some have to be there, no matter which: each makes a rule with all others.
const ANY_OF_MAX: usize = 100;
/// Bytes of all patterns.
const PATTERNS_BYTES_MAX: usize = 128 << 10;
/// Pairs of patterns for names, times the schemas that an object may have to keep to at once: so often the compiler looks
/// for a name that is described by both.
const PATTERN_PAIRS_MAX: usize = 20_000;
/// Remainders that have to be told apart for `multipleOf`: each is a state.
const REMAINDERS_MAX: u64 = 10_000;
/// Where a value has to be a multiple of several numbers, the compiler multiplies them in 32 bits, without points.
const MULTIPLES_MAX: u64 = 1 << 16;
/// Digits after the point of a `multipleOf`: nine times ten to the power of them is in the compiler's 32 bits.
const PLACES_MAX: i32 = 8;

/// Counts of what a value has.
const COUNTS: [&str; 6] =
    ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
/// The compiler's own counts end here.
const COUNT_MAX: u64 = u32::MAX as u64 - 1;

/// Members that make one value keep to several schemas.
const JOINING: [&str; 4] = ["allOf", "anyOf", "oneOf", "$ref"];

/// Refuses a schema that would cost too much, in words.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    let mut size = Size { root: Some(schema), ..Size::default() };
    let nesting = size.add(schema);
    let depth = (size.targets.len() + 1) * nesting;
    for (is_over, words) in [
        (size.parts > PARTS_MAX, format!("it has more than {PARTS_MAX} parts")),
        (size.widest > PROPERTIES_MAX, format!("it has more than {PROPERTIES_MAX} properties")),
        (
            size.choice > CHOICE_MAX,
            format!("one value of it chooses among more than {CHOICE_MAX} properties"),
        ),
        (
            size.any_of > ANY_OF_MAX,
            format!("it has minProperties beside more than {ANY_OF_MAX} properties"),
        ),
        (
            size.pattern_bytes > PATTERNS_BYTES_MAX,
            format!("its patterns have more than {PATTERNS_BYTES_MAX} bytes"),
        ),
        (size.pattern_pairs() > PATTERN_PAIRS_MAX, "it has too many patternProperties".to_owned()),
        (size.count > COUNT_MAX, format!("it counts further than {COUNT_MAX}")),
        (depth > DEPTH_MAX, "it has too many definitions within definitions".to_owned()),
        (
            size.remainders() > REMAINDERS_MAX,
            format!("its multipleOf needs more than {REMAINDERS_MAX} remainders"),
        ),
        (
            size.common() > MULTIPLES_MAX,
            "its multipleOf have no small multiple in common".to_owned(),
        ),
        (size.multiples.iter().any(|(digits, _)| *digits == 0), "its multipleOf is 0".to_owned()),
    ] {
        if is_over {
            return Err(words);
        }
    }
    Ok(())
}

/// Values within a value, itself included.
pub(super) fn parts(value: &Value) -> usize {
    let mut size = Size::default();
    size.add(value);
    size.parts
}

#[derive(Default)]
struct Size<'a> {
    /// The schema whose definitions are referred to, if that counts.
    root: Option<&'a Value>,
    parts: usize,
    widest: usize,
    /// The most properties that come into question at one place.
    choice: usize,
    /// The same for definitions, by what refers to them.
    choices: HashMap<&'a str, usize>,
    targets: HashSet<&'a str>,
    /// Numbers whose multiples are asked for, without their points, and their places after it.
    multiples: HashSet<(u64, i32)>,
    /// The most properties of which some have to be there.
    any_of: usize,
    pattern_bytes: usize,
    /// Patterns for names.
    patterns: HashSet<&'a str>,
    /// Schemas among those that are joined.
    options: usize,
    /// The largest of all counts.
    count: u64,
    joins: bool,
}

impl<'a> Size<'a> {
    /// Counts a value and returns how deep it nests.
    fn add(&mut self, value: &'a Value) -> usize {
        self.parts += 1;
        match value {
            Value::Object(members) => {
                self.targets.extend(members.get("$ref").and_then(Value::as_str));
                self.multiples
                    .extend(members.get("multipleOf").and_then(Value::as_f64).map(digits));
                let counts = COUNTS.iter().filter_map(|name| members.get(*name)?.as_u64());
                self.count = counts.fold(self.count, u64::max);
                self.add_patterns(members);
                if members.contains_key("minProperties") {
                    self.any_of = self.any_of.max(width(members));
                }
                let options = JOINING.iter().filter_map(|name| members.get(*name)?.as_array());
                self.options += options.map(Vec::len).sum::<usize>();
                self.joins |= JOINING.iter().any(|name| members.contains_key(*name));
                self.widest = self.widest.max(width(members));
                self.choice = self.choice.max(self.choice_at(value));
                members.values().map(|value| self.add(value)).max().unwrap_or(0) + 1
            }
            Value::Array(items) => items.iter().map(|value| self.add(value)).max().unwrap_or(0) + 1,
            _ => 0,
        }
    }

    fn add_patterns(&mut self, members: &'a Map<String, Value>) {
        let names = members.get("patternProperties").and_then(Value::as_object);
        let names = names.into_iter().flatten().map(|(pattern, _)| pattern.as_str());
        let text = members.get("pattern").and_then(Value::as_str);
        self.pattern_bytes += names.clone().chain(text).map(str::len).sum::<usize>();
        self.patterns.extend(names);
    }

    fn pattern_pairs(&self) -> usize {
        let count = self.patterns.len();
        let times = if self.joins { self.options + 1 } else { 1 };
        (count * count.saturating_sub(1) / 2).saturating_mul(times)
    }

    /// The properties that come into question for a value.
    fn choice_at(&mut self, schema: &'a Value) -> usize {
        let Some(members) = schema.as_object() else { return 0 };
        let options = ["allOf", "anyOf", "oneOf"]
            .into_iter()
            .filter_map(|name| members.get(name)?.as_array());
        let options = options.flatten().map(|option| self.choice_at(option));
        let options = options.fold(0, usize::saturating_add);
        let target = members.get("$ref").and_then(Value::as_str);
        let defined = target.map_or(0, |reference| self.choice_in(reference));
        width(members).saturating_add(options).saturating_add(defined)
    }

    /// The same where a reference leads to. What leads back to itself adds nothing.
    fn choice_in(&mut self, reference: &'a str) -> usize {
        if let Some(known) = self.choices.get(reference) {
            return *known;
        }
        self.choices.insert(reference, 0);
        let schema = self.root.and_then(|root| target(root, reference));
        let count = schema.map_or(0, |schema| self.choice_at(schema));
        self.choices.insert(reference, count);
        count
    }

    /// Where schemas are joined, a value may have to be a multiple of several numbers.
    fn remainders(&self) -> u64 {
        let product = |all: u64, one: &u64| all.saturating_mul(*one);
        let digits = self.multiples.iter().map(|(digits, _)| digits);
        match self.joins {
            true => digits.fold(1, product),
            false => digits.copied().max().unwrap_or(1),
        }
    }

    /// A bound of what several numbers have in common, where they may have to.
    fn common(&self) -> u64 {
        let places = self.multiples.iter().map(|(_, places)| *places).max().unwrap_or(0);
        let whole =
            |(digits, own): &(u64, i32)| digits.saturating_mul(10u64.pow(places.abs_diff(*own)));
        match self.joins && self.multiples.len() > 1 {
            true => self.multiples.iter().map(whole).fold(1, u64::saturating_mul),
            false => 1,
        }
    }
}

/// Properties that an object's schema names.
fn width(members: &Map<String, Value>) -> usize {
    let named = ["properties", "patternProperties"]
        .map(|name| members.get(name).and_then(Value::as_object));
    let required = members.get("required").and_then(Value::as_array).map_or(0, Vec::len);
    named.into_iter().flatten().map(Map::len).fold(required, usize::max)
}

/// 25 and 2 of 0.25; as large as can be where there are too many places.
fn digits(number: f64) -> (u64, i32) {
    let shifted = (0..=PLACES_MAX).map(|places| (number.abs() * 10f64.powi(places), places));
    shifted
        .into_iter()
        .find(|(shifted, _)| shifted.fract() == 0.0)
        .map_or((u64::MAX, 0), |(whole, places)| (whole as u64, places))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn digits_have_no_point() {
        let all = [(25, 2), (5, 0), (1, 2), (1000, 0), (5, 1)];
        assert_eq!([0.25, 5.0, 0.01, 1e3, -0.5].map(digits), all);
        assert_eq!([1e-300, 1e-9].map(digits), [(u64::MAX, 0); 2]);
    }

    #[test]
    fn what_grows_out_of_hand_is_refused() {
        let required = |count: usize| json!({ "required": vec!["a"; count] });
        let multiples =
            |a: f64, b: f64| json!({ "allOf": [{ "multipleOf": a }, { "multipleOf": b }] });
        let object = |count: usize| {
            let members = (0..count).map(|at| (format!("p{at}"), json!({})));
            json!({ "properties": members.collect::<Map<_, _>>() })
        };
        let deep = |count: usize| {
            let choice = json!({ "anyOf": vec![object(900); count] });
            json!({ "properties": { "far_away": { "items": choice } } })
        };
        let by_name = |count: usize| {
            let some = json!({ "oneOf": vec![json!({ "$ref": "#/$defs/wide" }); count] });
            json!({ "$ref": "#/$defs/some", "$defs": { "wide": object(900), "some": some } })
        };
        let names = |count: usize| {
            let members = (0..count).map(|at| (format!("^{at}-"), json!({})));
            json!({ "patternProperties": members.collect::<Map<_, _>>() })
        };
        let some_of = |count: usize| {
            let mut some = object(count);
            some["minProperties"] = 1.into();
            some
        };
        let by_place = |count: usize| {
            let all = vec![json!({ "$ref": "#/properties/wide" }); count];
            json!({ "properties": { "wide": object(900) }, "items": { "allOf": all } })
        };
        for (good, bad) in [
            (deep(2), deep(3)),
            (by_name(2), by_name(3)),
            (json!({ "enum": vec![1; 9_000] }), json!({ "enum": vec![1; 10_001] })),
            (required(1000), required(1001)),
            (json!({ "multipleOf": 9_999 }), json!({ "multipleOf": 9_999_991 })),
            (multiples(7.0, 11.0), multiples(997.0, 991.0)),
            (multiples(100.0, 0.01), multiples(1000.0, 0.000_001)),
            (json!({ "multipleOf": 0.000_000_01 }), json!({ "multipleOf": 0.000_000_001 })),
            (names(140), names(300)),
            (some_of(100), some_of(101)),
            (json!({ "pattern": "a".repeat(1000) }), json!({ "pattern": "a".repeat(200_000) })),
            (by_place(2), by_place(3)),
            (multiples(1.0, 3.0), json!({ "items": [multiples(1.0, 3.0), { "multipleOf": 0 }] })),
        ] {
            assert_eq!(check(&good), Ok(()), "{good}");
            assert!(check(&bad).is_err(), "{bad}");
        }
    }
}
