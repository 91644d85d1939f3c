//! How fast text becomes ids: `cargo bench -p deltafin-text`.
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

use deltafin_text::Tokenizer;
use divan::Bencher;
use divan::counter::BytesCount;

fn main() {
    divan::main();
}

/// Bytes of each text.
const LENGTH: usize = 64 << 10;

/// Texts that tokenizers find easy, usual and hard.
const TEXTS: [(&str, &str); 5] = [
    ("prose", "The capital of France is Paris, and it has been so for a long time.\n"),
    ("code", "    if let Some(found) = map.get(&key) { total += found.len() as u64; }\n"),
    ("chinese", "北京是中华人民共和国的首都，也是全国的政治和文化中心。"),
    ("one word", "a"),
    ("spaces", "      \n\n\t  "),
];

fn tokenizer() -> Tokenizer {
    let ranks = include_bytes!("../tests/fixtures/demo/tiktoken.model");
    let config = include_bytes!("../tests/fixtures/demo/tokenizer_config.json");
    Tokenizer::new(ranks, Some(config)).unwrap()
}

fn text(name: &str) -> String {
    let (_, part) = TEXTS.iter().find(|(text, _)| *text == name).unwrap();
    part.repeat(LENGTH.div_ceil(part.len()))
}

fn names() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().map(|(name, _)| *name)
}

#[divan::bench(args = names())]
fn encode(bencher: Bencher<'_, '_>, name: &str) {
    let (tokenizer, text) = (tokenizer(), text(name));
    bencher.counter(BytesCount::of_str(&text)).bench(|| tokenizer.encode_text(&text));
}

#[divan::bench(args = names())]
fn decode(bencher: Bencher<'_, '_>, name: &str) {
    let (tokenizer, text) = (tokenizer(), text(name));
    let ids = tokenizer.encode_text(&text);
    bencher.counter(BytesCount::of_str(&text)).bench(|| tokenizer.text(&ids).unwrap());
}
