//! Numbers of a schema as far as the compiler of grammars can reckon with them.
//!
//! It reads them as doubles, and reckons with whole ones as `i64`. Promise: what it gets of them neither overflows nor
//! means another number. Of `i64::MIN` it would take the absolute value, without end.

use serde_json::{Map, Number, Value};

use super::schemas;

/// 2⁶³: what is at least as far below zero as that has no absolute value in an `i64`.
const EDGE: f64 = 9_223_372_036_854_775_808.0;
/// The double before it.
const MOST: f64 = 9_223_372_036_854_774_784.0;
const LOWER: [&str; 2] = ["minimum", "exclusiveMinimum"];
const UPPER: [&str; 2] = ["maximum", "exclusiveMaximum"];

/// Other members whose number counts.
const KEYWORDS: [&str; 4] = ["maximum", "exclusiveMaximum", "multipleOf", "const"];

/// Takes bounds away that are wider than all that can be reckoned with: of `float`, `uint64` and others.
pub(super) fn widen(members: &mut Map<String, Value>) {
    let is_whole = members.get("type").is_some_and(|kind| kind == "integer");
    members.retain(|name, value| {
        let Some(number) = value.as_number().map(double) else { return true };
        match name.as_str() {
            name if LOWER.contains(&name) && number < -EDGE => return false,
            name if UPPER.contains(&name) && number > EDGE => return false,
            // Those of `int64` itself. A whole number's upper bound becomes `i64::MAX` by itself.
            name if LOWER.contains(&name) && number <= -EDGE => *value = Value::from(-MOST),
            name if UPPER.contains(&name) && number >= EDGE && !is_whole => {
                *value = Value::from(MOST);
            }
            // What is no keyword says nothing.
            name => return number > -EDGE || KEYWORDS.contains(&name),
        }
        true
    });
}

/// Refuses, in words, numbers that cannot be reckoned with, in a schema whose bounds were widened.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    let (mut named, mut bounds) = (Vec::new(), Vec::new());
    schemas::each(schema, &mut |members| {
        let listed = members.get("enum").into_iter().chain(members.get("const"));
        listed.for_each(|value| numbers(value, &mut named));
        bounds.extend(bounds_of(members));
    });
    if let Some(number) = named.into_iter().find(|number| !is_exact(number)) {
        return Err(format!("numbers do not keep {} exactly: name it as a string", short(number)));
    }
    if let Some((name, number)) = bounds.iter().find(|(_, number)| !is_bound(number)) {
        return Err(format!(
            "{name} does not keep {} exactly: give a rounder bound",
            short(number)
        ));
    }
    let mut lower = bounds.iter().filter(|(name, _)| LOWER.contains(name));
    if let Some((name, number)) = lower.find(|(_, number)| double(number) >= EDGE) {
        return Err(format!("{name} {} is further above zero than {MOST}", short(number)));
    }
    // Wherever it stands: references lead anywhere.
    let mut all = Vec::new();
    numbers(schema, &mut all);
    match all.into_iter().find(|number| double(number) <= -EDGE) {
        Some(number) => Err(format!("{} is further below zero than {}", short(number), -MOST)),
        None => Ok(()),
    }
}

fn bounds_of(members: &Map<String, Value>) -> impl Iterator<Item = (&'static str, &Number)> {
    let names = LOWER.into_iter().chain(UPPER);
    names.filter_map(|name| Some((name, members.get(name)?.as_number()?)))
}

/// Whether a bound stays the one that it is. What no `i64` has was widened, or is what becomes of it in a double.
fn is_bound(number: &Number) -> bool {
    number.as_str().parse::<i64>().is_err() || is_exact(number)
}

/// Whether a number that is named is the one that the compiler allows.
fn is_exact(number: &Number) -> bool {
    let text = number.as_str();
    match text.parse::<i64>() {
        Ok(whole) => whole != i64::MIN && whole as f64 as i64 == whole,
        Err(_) => double(number).abs() < EDGE,
    }
}

fn double(number: &Number) -> f64 {
    let beyond = if number.as_str().starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY };
    number.as_f64().unwrap_or(beyond)
}

fn short(number: &Number) -> String {
    number.as_str().chars().take(40).collect()
}

fn numbers<'a>(value: &'a Value, all: &mut Vec<&'a Number>) {
    match value {
        Value::Number(number) => all.push(number),
        Value::Array(items) => items.iter().for_each(|item| numbers(item, all)),
        Value::Object(members) => members.values().for_each(|value| numbers(value, all)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    fn widened(text: &str) -> Value {
        let mut schema = parsed(text);
        schemas::change_each(&mut schema, &mut widen);
        schema
    }

    #[test]
    fn wide_bounds_are_none() {
        for wide in [
            r#"{ "minimum": -3.4028235e38, "maximum": 3.4028235e38 }"#,
            r#"{ "exclusiveMinimum": -1e19, "maximum": 18446744073709551615 }"#,
            r#"{ "minimum": -1.8e308, "exclusiveMaximum": 1e999 }"#,
            r#"{ "minimum": -9223372036854777856, "x-least": -1e30 }"#,
        ] {
            assert_eq!(widened(wide), json!({}), "{wide}");
        }
        let inner =
            widened(r#"{ "properties": { "const": { "maximum": 1e30, "type": "number" } } }"#);
        assert_eq!(inner, json!({ "properties": { "const": { "type": "number" } } }));
        for kept in
            [r#"{ "const": { "minimum": -1e30 } }"#, r#"{ "minimum": 1e30, "maximum": -1e30 }"#]
        {
            assert_eq!(widened(kept), parsed(kept), "{kept}");
            assert!(check(&parsed(kept)).is_err(), "{kept}");
        }
    }

    #[test]
    fn what_would_become_another_number_is_refused() {
        for (is_kept, bound) in [
            (
                true,
                r#"{ "type": "integer", "minimum": -9007199254740992, "maximum": 9223372036854775807 }"#,
            ),
            (true, r#"{ "type": "integer", "minimum": 1e18 }"#),
            (true, r#"{ "minimum": -0.5, "maximum": 9223372036854775808 }"#),
            (true, r#"{ "const": "a", "title": 9007199254740993 }"#),
            (false, r#"{ "type": "integer", "minimum": 9007199254740993 }"#),
            (false, r#"{ "properties": { "a": { "exclusiveMaximum": 1000000000000000001 } } }"#),
            (false, r#"{ "type": "integer", "maximum": -9223372036854775000 }"#),
            (false, r#"{ "minimum": 9223372036854775807 }"#),
            (false, r#"{ "exclusiveMinimum": 9223372036854775808 }"#),
        ] {
            let checked = check(&widened(bound));
            assert_eq!(checked.is_ok(), is_kept, "{bound}: {checked:?}");
        }
        for (is_kept, number) in [
            (true, "9007199254740992"),
            (false, "9007199254740993"),
            (true, "9223372036854775807"),
            (false, "9223372036854775806"),
            (false, "18446744073709551615"),
            (false, "-9223372036854775808"),
            (false, "-9.3e18"),
            (false, "1e300"),
            (true, "1e-300"),
        ] {
            for schema in [
                format!(r#"{{ "const": {number} }}"#),
                format!(r#"{{ "enum": [{{ "a": [{number}] }}] }}"#),
            ] {
                assert_eq!(check(&parsed(&schema)).is_ok(), is_kept, "{schema}");
            }
        }
    }
}
