//! Schemas that nobody means, and all that a request could make of them.

use serde_json::Map;

use super::*;
use crate::guide::{references, schema};

/// Numbers at which something ends.
const NUMBERS: [&str; 44] = [
    "0",
    "-0",
    "1",
    "-1",
    "9",
    "10",
    "127",
    "-128",
    "255",
    "65535",
    "2147483647",
    "-2147483648",
    "4294967295",
    "4294967296",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740993",
    "999999999999999999",
    "1000000000000000000",
    "-1000000000000000000",
    "9223372036854774784",
    "-9223372036854774784",
    "9223372036854775807",
    "-9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "-18446744073709551616",
    "1e19",
    "-1e19",
    "-1e20",
    "3.4028235e38",
    "-3.4028235e38",
    "1.7976931348623157e308",
    "-1e999",
    "1e999",
    "5e-324",
    "-1e-300",
    "0.1",
    "-0.5",
    "1e-9",
    "0.000000003",
];
const WORDS: [&str; 12] = [
    "",
    "a",
    "const",
    "minimum",
    "é\u{10ffff}",
    "\"\\",
    "\u{7f}",
    "a/b~c",
    "properties",
    "$ref",
    "\n",
    "0",
];
const PATTERNS: [&str; 16] = [
    "(",
    "(a{1,4000}){1,4000}",
    "^(a|b)*c{0,99999}$",
    "[",
    "\\",
    "(?=a)",
    "\\p{L}{1,9999}",
    "(((((((((a*)*)*)*)*)*)*)*)*)*",
    "a{4294967295}",
    "a{99999999999}",
    "^$",
    "$^",
    "\\ud800",
    "(?i)straße",
    "[^\\x00-\\x{10FFFF}]",
    "\\bword\\b",
];
const REFERENCES: [&str; 14] = [
    "#",
    "#/",
    "",
    "#a",
    "#/$defs/a",
    "#/$defs/a~1b~0c",
    "#/$defs/%61",
    "#/properties/a",
    "#/anyOf/0",
    "#/anyOf/-1",
    "#/enum/0",
    "#/default",
    "https://a.b/c",
    "#/$defs/a/$defs/a/%",
];
const KEYWORDS: [&str; 36] = [
    "type",
    "enum",
    "const",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "items",
    "prefixItems",
    "additionalItems",
    "minItems",
    "maxItems",
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "minProperties",
    "maxProperties",
    "anyOf",
    "oneOf",
    "allOf",
    "$ref",
    "$defs",
    "definitions",
    "default",
    "$schema",
    "$id",
    "title",
    "x-guidance",
    "not",
    "uniqueItems",
];

/// A sequence of numbers that is the same on every machine.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    fn number(&mut self) -> Value {
        serde_json::from_str(self.of(&NUMBERS)).unwrap()
    }

    fn list(&mut self, depth: usize, one: fn(&mut Chance, usize) -> Value) -> Value {
        (0..self.below(4)).map(|_| one(self, depth)).collect()
    }

    fn named(&mut self, depth: usize, name: fn(&mut Chance) -> &'static str) -> Value {
        let members = (0..self.below(4)).map(|_| (name(self).to_owned(), self.schema(depth)));
        members.collect::<Map<_, _>>().into()
    }

    /// Any JSON.
    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 4 } else { 6 }) {
            0 | 1 => self.number(),
            2 => self.of(&WORDS).into(),
            3 => [Value::Null, true.into(), false.into()][self.below(3)].clone(),
            4 => self.list(depth - 1, Chance::value),
            _ => {
                let members =
                    (0..self.below(3)).map(|_| (self.of(&WORDS).into(), self.value(depth - 1)));
                members.collect::<Map<_, _>>().into()
            }
        }
    }

    fn schema(&mut self, depth: usize) -> Value {
        if depth == 0 || self.below(30) == 0 {
            return [true.into(), json!({}), json!({ "$ref": self.of(&REFERENCES) })]
                [self.below(3)]
            .clone();
        }
        let count = 1 + self.below(5);
        let members = (0..count).map(|_| {
            let name = self.of(&KEYWORDS);
            // Sometimes of a wrong kind.
            let value =
                if self.below(25) == 0 { self.value(1) } else { self.of_keyword(name, depth - 1) };
            (name.to_owned(), value)
        });
        members.collect::<Map<_, _>>().into()
    }

    fn of_keyword(&mut self, name: &str, depth: usize) -> Value {
        let kinds = ["integer", "number", "string", "array", "object", "null", "boolean"];
        match name {
            "type" if self.below(3) > 0 => self.of(&kinds[..2]).into(),
            "type" => self.of(&kinds).into(),
            "enum" => self.list(2, Chance::value),
            "pattern" => self.of(&PATTERNS).into(),
            "format" => self.of(&["date-time", "email", "uri", "duration", "x"]).into(),
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => self.list(depth, Chance::schema),
            "items" | "additionalItems" | "additionalProperties" | "not" => self.schema(depth),
            "properties" | "$defs" | "definitions" => self.named(depth, |chance| chance.of(&WORDS)),
            "patternProperties" => self.named(depth, |chance| chance.of(&PATTERNS)),
            "required" => self.list(0, |chance, _| chance.of(&WORDS).into()),
            "$ref" => self.of(&REFERENCES).into(),
            "const" | "default" | "x-guidance" => self.value(2),
            "$schema" => "http://json-schema.org/draft-04/schema#".into(),
            _ => self.number(),
        }
    }
}

/// Whatever a schema says, it is kept to or refused in words.
#[test]
fn what_nobody_means_ends_in_words() {
    let mut chance = Chance(1);
    let (mut kept, mut refused) = (0, 0);
    for _ in 0..2000 {
        let mut nasty = chance.schema(4);
        references::simplify(&mut nasty);
        match schema::check(&nasty) {
            Ok(()) => kept += 1,
            Err(words) => {
                assert!(!words.is_empty() && !words.contains("panic"), "{nasty}: {words}");
                refused += 1;
            }
        }
    }
    assert!(kept > 20 && refused > 20, "{kept} {refused}");
}

/// Values that are allowed, and others that are not.
#[track_caller]
fn assert_allows(schema: &str, good: &[&str], bad: &[&str]) {
    let form = json_form(serde_json::from_str(schema).unwrap());
    for value in good {
        assert!(allows(&form, &said(value)), "{schema}: {value}");
    }
    for value in bad {
        assert!(!allows(&form, &said(value)), "{schema}: {value}");
    }
}

#[test]
fn ranges_of_types_are_kept_to() {
    let all = ["0", "-12", "9223372036854775807", "-9223372036854774784"];
    assert_allows(
        r#"{ "type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807 }"#,
        &all,
        &["9223372036854775808", "-9223372036854775809", "10000000000000000000", "1.5"],
    );
    assert_allows(
        r#"{ "type": "integer", "minimum": 0, "maximum": 18446744073709551615 }"#,
        &["0", "18446744073709551615"],
        &["-1", "1.5"],
    );
    assert_allows(
        r#"{ "type": "number", "minimum": -3.4028235e38, "maximum": 3.4028235e38 }"#,
        &["0", "-1.5e30", "18446744073709551615"],
        &["x"],
    );
    assert_allows(
        r#"{ "type": "number", "minimum": 0, "maximum": 9223372036854775807 }"#,
        &["0.5", "9223372036854774783.5"],
        &["-1", "9223372036854775808"],
    );
    assert_allows(
        r#"{ "type": "integer", "minimum": -1e19, "exclusiveMaximum": 5 }"#,
        &["4", "-10000000000000000001"],
        &["5"],
    );
}

/// The names of definitions may be such as code generators make of types.
#[test]
fn escaped_references_are_followed() {
    assert_allows(
        r##"{ "type": "object", "properties": { "a": { "$ref": "#/$defs/List%3Ca%20b%3E" }, "b/c": { "$ref": "#/$defs/x~1y~0z" } },
            "required": ["a", "b/c"], "additionalProperties": false,
            "$defs": { "List<a b>": { "enum": [1] }, "x/y~z": { "oneOf": [{ "type": "null" }, { "$ref": "#/$defs/x~1y~0z/$defs/n" }], "$defs": { "n": { "type": "integer", "const": 2 } } } } }"##,
        &[r#"{"a":1,"b/c":2}"#, r#"{"a":1,"b/c":null}"#],
        &[r#"{"a":2,"b/c":2}"#, r#"{"a":1,"b/c":1}"#],
    );
}

/// In a tag any whole number can be named.
#[test]
fn arguments_may_be_numbers_that_no_double_keeps() {
    let schema = r#"{ "type": "object", "properties": { "a": { "enum": [9007199254740993, -9223372036854775808] } }, "required": ["a"] }"#;
    let form = call_form(vec![tool("t", serde_json::from_str(schema).unwrap())]);
    assert!(allows_call(&form, "t", &[("a", "number", "9007199254740993")]));
    assert!(allows_call(&form, "t", &[("a", "number", "-9223372036854775808")]));
    assert!(!allows_call(&form, "t", &[("a", "number", "9007199254740992")]));
}
