//! Fixtures and small parts that several tests share.
#![allow(dead_code, reason = "each test file uses its own share")]
#![allow(clippy::unwrap_used, reason = "these functions run in tests only")]

use deltafin_text::reply::{Channel, Event, Marker, ReplyOptions};
use deltafin_text::{Delta, Tokenizer};
use serde_json::Value;

macro_rules! fixture {
    ($path:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/", $path))
    };
}
#[allow(unused_imports, reason = "each test file uses its own share")]
pub(crate) use fixture;

pub(crate) const TINY_RANKS: &[u8] = fixture!("tokenizer/tiny.tiktoken.model");
pub(crate) const TINY_CONFIG: &[u8] = fixture!("tokenizer/tiny.tokenizer_config.json");

pub(crate) fn tiny() -> Tokenizer {
    Tokenizer::new(TINY_RANKS, Some(TINY_CONFIG)).unwrap()
}

pub(crate) fn demo() -> Tokenizer {
    let (ranks, config) = (fixture!("demo/tiktoken.model"), fixture!("demo/tokenizer_config.json"));
    Tokenizer::new(ranks, Some(config)).unwrap()
}

pub(crate) fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

pub(crate) fn cases<'a>(file: &'a Value, key: &str) -> &'a Vec<Value> {
    file[key].as_array().unwrap()
}

pub(crate) fn name(case: &Value) -> &str {
    case["name"].as_str().unwrap()
}

pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// One item of a reply fixture.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Marker(Marker),
    Bytes(Vec<u8>),
    Other,
}

impl Item {
    pub(crate) fn event(&self) -> Event<'_> {
        match self {
            Self::Marker(marker) => Event::Marker(*marker),
            Self::Bytes(bytes) => Event::Bytes(bytes),
            Self::Other => Event::Other,
        }
    }
}

pub(crate) fn items(case: &Value) -> Vec<Item> {
    cases(case, "items").iter().map(item).collect()
}

fn item(value: &Value) -> Item {
    if let Some(text) = value["t"].as_str() {
        return Item::Bytes(text.as_bytes().to_vec());
    }
    if let Some(hex) = value["b"].as_str() {
        return Item::Bytes(unhex(hex));
    }
    match value["m"].as_str() {
        Some("open") => Item::Marker(Marker::Open),
        Some("close") => Item::Marker(Marker::Close),
        Some("sep") => Item::Marker(Marker::Sep),
        Some("eom") => Item::Marker(Marker::End),
        _ => Item::Other,
    }
}

pub(crate) fn unhex(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

pub(crate) fn options(case: &Value) -> ReplyOptions {
    let channel = match case["start"].as_str().unwrap() {
        "think" => Channel::Think,
        _ => Channel::Response,
    };
    let given = &case["options"];
    let stop = given["stop"].as_array().into_iter().flatten();
    ReplyOptions {
        stop: stop.map(|text| text.as_str().unwrap().to_owned()).collect(),
        tool_calls: given["tool_choice"].as_str() != Some("none"),
        parallel_tool_calls: given["parallel"].as_bool() != Some(false),
        ..ReplyOptions::new(channel)
    }
}

/// Neighbouring increments of the same kind joined, so that only the order counts.
pub(crate) fn merged(deltas: Vec<Delta>) -> Vec<Delta> {
    let mut out: Vec<Delta> = Vec::new();
    for delta in deltas {
        match (out.last_mut(), delta) {
            (Some(Delta::Reasoning(a)), Delta::Reasoning(b)) => a.push_str(&b),
            (Some(Delta::Content(a)), Delta::Content(b)) => a.push_str(&b),
            (
                Some(Delta::CallArguments { fragment: a, .. }),
                Delta::CallArguments { fragment: b, .. },
            ) => a.push_str(&b),
            (_, delta) => out.push(delta),
        }
    }
    out
}
