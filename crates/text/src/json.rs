//! JSON spelled the way Python's `json` module spells it.
//!
//! The model was trained on that spelling, so it is part of the prompt. Promises: integers keep
//! all their digits; every other number is a double in its shortest round-trip form; non-ASCII
//! is kept; only quotes, backslashes and control characters are escaped.

use serde_json::{Map, Number, Value};

/// One line, `,` and `:` without spaces, object keys sorted by code point at every depth.
pub(crate) fn compact_sorted(value: &Value) -> String {
    let mut out = String::new();
    write(value, &Style { comma: ",", colon: ":", sorted: true }, &mut out);
    out
}

/// One line, `, ` and `: `, keys in their own order.
pub(crate) fn spaced(value: &Value) -> String {
    let mut out = String::new();
    write(value, &Style { comma: ", ", colon: ": ", sorted: false }, &mut out);
    out
}

/// A string with its quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_quoted(text, &mut out);
    out
}

/// The inside of a string literal. Pieces escaped one by one join to the whole escaped.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| write_char(c, &mut out));
    out
}

/// A number's spelling.
pub(crate) fn number(number: &Number) -> String {
    let text = number.as_str();
    match is_float(text) {
        true => float(text.parse().unwrap_or(f64::NAN)),
        false if text == "-0" => "0".to_owned(),
        false => text.to_owned(),
    }
}

/// Whether every number in the value has a finite double, so that its spelling is JSON.
pub(crate) fn is_finite(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            let text = number.as_str();
            !is_float(text) || text.parse().is_ok_and(f64::is_finite)
        }
        Value::Array(items) => items.iter().all(is_finite),
        Value::Object(members) => members.values().all(is_finite),
        _ => true,
    }
}

/// Python reads a number without a point or an exponent as an integer of any size.
fn is_float(text: &str) -> bool {
    text.contains(['.', 'e', 'E'])
}

struct Style {
    comma: &'static str,
    colon: &'static str,
    sorted: bool,
}

fn write(value: &Value, style: &Style, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Number(n) => out.push_str(&number(n)),
        Value::String(text) => write_quoted(text, out),
        Value::Array(items) => write_array(items, style, out),
        Value::Object(members) => write_object(members, style, out),
    }
}

fn write_array(items: &[Value], style: &Style, out: &mut String) {
    out.push('[');
    for (at, item) in items.iter().enumerate() {
        out.push_str(if at > 0 { style.comma } else { "" });
        write(item, style, out);
    }
    out.push(']');
}

fn write_object(members: &Map<String, Value>, style: &Style, out: &mut String) {
    let mut members: Vec<(&String, &Value)> = members.iter().collect();
    if style.sorted {
        // UTF-8 byte order is code point order.
        members.sort_by_key(|(key, _)| *key);
    }
    out.push('{');
    for (at, (key, value)) in members.into_iter().enumerate() {
        out.push_str(if at > 0 { style.comma } else { "" });
        write_quoted(key, out);
        out.push_str(style.colon);
        write(value, style, out);
    }
    out.push('}');
}

fn write_quoted(text: &str, out: &mut String) {
    out.push('"');
    text.chars().for_each(|c| write_char(c, out));
    out.push('"');
}

fn write_char(c: char, out: &mut String) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        _ => out.push(c),
    }
}

/// Python's `repr` of a double: positional for decimal exponents from -4 to 15, else
/// exponent form with a sign and two digits. Overflow reads `Infinity`, as there.
fn float(value: f64) -> String {
    if !value.is_finite() {
        let name = if value.is_nan() { "NaN" } else { "Infinity" };
        return if value < 0.0 { format!("-{name}") } else { name.to_owned() };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let positional = format!("{value}");
        return if positional.contains('.') { positional } else { positional + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, expected: &str) {
        assert_eq!(spaced(&serde_json::from_str(given).unwrap()), expected, "{given}");
    }

    #[test]
    fn numbers_as_python_prints_them() {
        for (given, expected) in [
            ("1.50", "1.5"),
            ("100.0", "100.0"),
            ("1e3", "1000.0"),
            ("1E-7", "1e-07"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("9999999999999998.0", "9999999999999998.0"),
            ("1e16", "1e+16"),
            ("1.25e100", "1.25e+100"),
            ("-0", "0"),
            ("-0.0", "-0.0"),
            ("-7", "-7"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("5e-324", "5e-324"),
            ("0.1", "0.1"),
            ("1e999", "Infinity"),
            ("-1e999", "-Infinity"),
        ] {
            check(given, expected);
        }
    }

    #[test]
    fn strings_escape_only_what_python_escapes() {
        check(
            r#""\u0001\u001f\b\f\n\r\t\"\\\/\u007f\u2028é""#,
            "\"\\u0001\\u001f\\b\\f\\n\\r\\t\\\"\\\\/\u{7f}\u{2028}é\"",
        );
    }

    #[test]
    fn later_duplicates_win_in_the_first_position() {
        check(r#"{"a":1,"b":[2,{}],"a":3}"#, r#"{"a": 3, "b": [2, {}]}"#);
    }

    #[test]
    fn keys_sort_at_every_depth() {
        let value: Value = serde_json::from_str(r#"{"é":1,"b":[{"z":1,"a":2}],"B":{}}"#).unwrap();
        assert_eq!(compact_sorted(&value), r#"{"B":{},"b":[{"a":2,"z":1}],"é":1}"#);
    }

    #[test]
    fn overflow_is_noticed() {
        let finite = |text| is_finite(&serde_json::from_str(text).unwrap());
        assert!(finite("[1, {\"a\": 1e308}]"));
        assert!(!finite("[1, {\"a\": -1e309}]"));
    }
}
