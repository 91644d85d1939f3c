//! Bodies: nearly right, wrong in a member, wrong in a byte, not JSON, deep, large.

use crate::chance::Chance;

/// Right ones: a path and a body on each line.
const RIGHT: &str = include_str!("right.txt");

/// What stands in the place of a value.
const VALUES: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1",
    "20",
    "21",
    "1e999",
    "-1e308",
    "18446744073709551616",
    "9223372036854775807",
    "0.1",
    "\"\"",
    "\"x\"",
    "\"max\"",
    "\"required\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"<|open|>response<|sep|>\"",
    "\"\u{202e}\u{fffd}\"",
    "[]",
    "[null]",
    "[[]]",
    "{}",
    "{\"type\":\"object\"}",
    "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
    "[\"a\",\"a\"]",
    "{\"$ref\":\"#\"}",
    "{\"not\":{}}",
    "{\"type\":\"string\",\"pattern\":\"(a*)*$\"}",
    "{\"type\":\"array\",\"minItems\":999999}",
    "{\"enum\":[]}",
    "{\"type\":[\"string\",\"null\"],\"maxLength\":100000}",
    "\"image_url\"",
];

/// Bytes that mean something in JSON, or break UTF-8.
const BYTES: &[u8] = b"{}[]:,\"\\ \n\0\xff\xc3\xe2-0e.tnf";

/// A path and a body for it.
pub(crate) fn body(chance: &mut Chance) -> (&'static str, Vec<u8>) {
    let right = RIGHT.lines().nth(chance.below(RIGHT.lines().count())).unwrap();
    let (path, right) = right.split_once(' ').unwrap();
    let right = right.as_bytes();
    let body = match chance.below(100) {
        0..10 => right.to_vec(),
        10..55 => (0..=chance.below(3)).fold(right.to_vec(), |body, _| with_value(&body, chance)),
        55..80 => (0..=chance.below(8)).fold(right.to_vec(), |body, _| with_byte(body, chance)),
        80..86 => right[..chance.below(right.len())].to_vec(),
        86..92 => deep(chance),
        92..96 => (0..chance.below(2000)).map(|_| chance.number() as u8).collect(),
        96..98 => repeated(right, chance),
        _ => large(chance),
    };
    (path, body)
}

/// Another value in some member's place: whatever stood there up to the next comma or bracket goes.
fn with_value(body: &[u8], chance: &mut Chance) -> Vec<u8> {
    let colons: Vec<usize> = (0..body.len()).filter(|at| body[*at] == b':').collect();
    let Some(&colon) = colons.get(chance.below(colons.len().max(1))) else { return body.to_vec() };
    let rest = &body[colon + 1..];
    let end = rest.iter().position(|byte| b",}]".contains(byte)).unwrap_or(rest.len());
    // An opening bracket that was cut off would always make it no JSON at all.
    let nests = rest[..end].iter().any(|byte| b"{[".contains(byte)) && chance.below(10) > 0;
    if nests {
        return body.to_vec();
    }
    let value = VALUES[chance.below(VALUES.len())];
    [&body[..=colon], value.as_bytes(), &rest[end..]].concat()
}

fn with_byte(mut body: Vec<u8>, chance: &mut Chance) -> Vec<u8> {
    if body.is_empty() {
        return body;
    }
    let at = chance.below(body.len());
    let byte = BYTES[chance.below(BYTES.len())];
    match chance.below(4) {
        0 => body[at] = byte,
        1 => body.insert(at, byte),
        2 => drop(body.remove(at)),
        _ => body[at] ^= 1 << chance.below(8),
    }
    body
}

/// Brackets within brackets, where a value may stand, or at the top.
fn deep(chance: &mut Chance) -> Vec<u8> {
    let depth = 1 << chance.below(15);
    let (open, close) = [("[", "]"), ("{\"a\":", "}"), ("{\"anyOf\":[", "]}")][chance.below(3)];
    let depth = depth.min(super::BODY_BYTES_MAX / (open.len() + close.len() + 1));
    let nested = format!("{}1{}", open.repeat(depth), close.repeat(depth));
    let body = match chance.below(4) {
        0 => nested,
        1 => format!(r#"{{"messages":{nested}}}"#),
        2 => format!(
            r#"{{"messages":[{{"role":"user","content":"Hi"}}],"max_tokens":1,
            "tools":[{{"type":"function","function":{{"name":"f","strict":true,"parameters":{nested}}}}}]}}"#
        ),
        _ => format!(
            r#"{{"messages":[{{"role":"user","content":"Hi"}}],"max_tokens":1,
            "response_format":{{"type":"json_schema","json_schema":{{"name":"n","schema":{nested}}}}}}}"#
        ),
    };
    body.into_bytes()
}

/// The same members again: the last ones count.
fn repeated(right: &[u8], chance: &mut Chance) -> Vec<u8> {
    let inner = &right[1..right.len() - 1];
    let mut body = vec![b'{'];
    for _ in 0..=chance.below(20) {
        body.extend_from_slice(inner);
        body.push(b',');
    }
    body.extend_from_slice(inner);
    body.push(b'}');
    body
}

/// About as large as is allowed, on either side.
fn large(chance: &mut Chance) -> Vec<u8> {
    let length = super::BODY_BYTES_MAX - 200 + chance.below(400);
    let fill = ["a", " ", "\\n", "<|sep|>", "ß"][chance.below(5)];
    let text = fill.repeat(length / fill.len());
    format!(r#"{{"max_tokens":1,"prompt":"{text}","content":"{text:.10}"}}"#).into_bytes()
}
