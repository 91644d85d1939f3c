//! Forms with more to choose from than anybody means: how far they go, and what they cost.

use std::fmt::Write as _;
use std::time::Instant;

use super::*;

/// `cargo test --release -p deltafin-server --lib -- --ignored --nocapture cost` prints what forms and masks
/// cost in a vocabulary of full size.
#[test]
#[ignore = "a measurement"]
#[allow(clippy::print_stderr, reason = "it prints what it measured")]
fn cost_of_a_mask() {
    let ranks = full_ranks();
    let config = deltafin_demo::file("tokenizer_config.json").map(|_| {
        json!({ "added_tokens_decoder": {
            "163586": { "content": "<|end_of_msg|>" }, "163587": { "content": "<|open|>" },
            "163588": { "content": "<|close|>" }, "163589": { "content": "<|sep|>" } } })
        .to_string()
    });
    let tokenizer = Tokenizer::new(&ranks, config.as_deref().map(str::as_bytes)).unwrap();
    let began = Instant::now();
    let vocabulary = Arc::new(Vocabulary::new(&tokenizer).unwrap());
    eprintln!("vocabulary of {}: {:?}", tokenizer.vocab_size(), began.elapsed());
    let [text, any] =
        [json!({ "type": "string" }), json!({ "type": ["string", "array", "integer"] })];
    let tools = |count: usize, arguments: usize| {
        let parameters = wide(arguments, &any);
        call_form((0..count).map(|at| tool(&format!("tool_{at}"), parameters.clone())).collect())
    };
    let plain = schemas().into_iter().map(json_form);
    let wide = [wide(200, &text), wide(1000, &text)].into_iter().map(json_form);
    for form in plain.chain(wide).chain([tools(30, 10), tools(100, 20), tools(500, 8)]) {
        let began = Instant::now();
        let mut guide = Guide::new(vocabulary.clone(), &tokenizer, &form).unwrap();
        let compiled = began.elapsed();
        let began = Instant::now();
        Guide::new(vocabulary.clone(), &tokenizer, &form).unwrap();
        let again = began.elapsed();
        let (mut logits, mut costs) = (Vec::new(), Vec::new());
        for step in 0..300 {
            noise(7, step, &tokenizer, &mut logits);
            let began = Instant::now();
            let id = most_likely(guide.answer(&logits).unwrap()).unwrap();
            guide.take(id).unwrap();
            costs.push(began.elapsed());
            if id == tokenizer.special_id("<|end_of_msg|>").unwrap() {
                break;
            }
        }
        costs.sort_unstable();
        let at = |part: f64| costs[((costs.len() - 1) as f64 * part) as usize];
        eprintln!(
            "compiled in {compiled:?}, again in {again:?}; {} steps: median {:?}, p90 {:?}, most {:?}",
            costs.len(),
            at(0.5),
            at(0.9),
            at(1.0)
        );
    }
}

/// A file of ranks: all bytes, then these words.
fn ranks(words: Vec<Vec<u8>>) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut file = String::new();
    for (rank, word) in (0..=255).map(|byte| vec![byte]).chain(words).enumerate() {
        for group in word.chunks(3) {
            let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte))
                << (8 * (3 - group.len()));
            for at in 0..4 {
                let letter = ALPHABET[(bits >> (18 - 6 * at) & 63) as usize];
                file.push(if at <= group.len() { char::from(letter) } else { '=' });
            }
        }
        writeln!(file, " {rank}").unwrap();
    }
    file.into_bytes()
}

/// So many words of two letters and more, in order of length.
fn words(letters: &[u8], count: usize) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = letters.iter().map(|letter| vec![*letter]).collect();
    let mut at = 0;
    while words.len() < letters.len() + count {
        for letter in letters {
            words.push([words[at].as_slice(), &[*letter]].concat());
        }
        at += 1;
    }
    words.drain(letters.len()..).take(count).collect()
}

/// As many ranks as the release has.
fn full_ranks() -> Vec<u8> {
    ranks(words(b" etaoinshrdlu\n{}[]\",:0123", 163_584 - 256))
}

/// A schema whose properties are these strings.
fn wide(count: usize, property: &Value) -> Value {
    let members = (0..count).map(|at| (format!("p{at}"), property.clone()));
    json!({ "type": "object", "properties": members.collect::<serde_json::Map<_, _>>() })
}

/// Follows noise for a while: nothing that was compiled becomes too complex on the way.
fn endures(mut guide: Guide) -> Result<(), String> {
    let mut logits = Vec::new();
    for step in 0..100 {
        noise(3, step, tokenizer(), &mut logits);
        let id = most_likely(guide.answer(&logits)?).unwrap();
        guide.take(id)?;
    }
    Ok(())
}

/// Sizes that nobody means exhaust neither memory nor patience.
#[test]
fn what_is_too_large_is_refused_and_the_rest_is_followed() {
    let text = json!({ "type": "string" });
    let mut nested = text.clone();
    for _ in 0..12 {
        nested = json!({ "anyOf": [{ "type": "array", "items": nested }, { "type": "object", "additionalProperties": nested }] });
    }
    let pairs: Vec<Value> =
        (0..200).map(|at| json!({ "anyOf": [{ "minimum": at }, { "maximum": at }] })).collect();
    let keys: Vec<String> = (0..1000).map(|at| format!("k{at}")).collect();
    for (is_followed, schema) in [
        (true, json!({ "type": "string", "pattern": "^((a{1,1000}){1,1000}){1,1000}$" })),
        (true, json!({ "type": "string", "pattern": "(.*a){30}" })),
        (
            true,
            json!({ "type": "string", "pattern": "(a|aa)+$|(.*b.*){100}", "minLength": 50, "maxLength": 100_000 }),
        ),
        (true, json!({ "type": "string", "pattern": "^[\\p{L}\\p{N}]{1,60000}$" })),
        (true, json!({ "type": "string", "minLength": 4_000_000_000_u64 })),
        (true, json!({ "type": "array", "items": { "type": "integer" }, "minItems": 1_000_000 })),
        (true, json!({ "type": "integer", "minimum": -9e18, "exclusiveMaximum": 9e18 })),
        (true, json!({ "type": "integer", "minimum": 3, "maximum": 1e15, "multipleOf": 997 })),
        (true, json!({ "type": "object", "required": keys })),
        (true, wide(1000, &text)),
        (false, wide(1001, &text)),
        (false, wide(999, &wide(9, &text))),
        (false, nested),
        (false, json!({ "allOf": pairs })),
        (false, json!({ "type": "integer", "multipleOf": 9_999_991 })),
        (false, json!({ "type": "number", "multipleOf": 1e-300 })),
        (true, json!({ "type": "number", "minimum": -1e300, "maximum": 1e300 })),
        (false, json!({ "type": "string", "maxLength": u64::MAX })),
    ] {
        let outcome = match guide(&json_form(schema.clone())) {
            Ok(guide) => endures(guide),
            Err(fault) => Err(fault.reason),
        };
        let schema: String = schema.to_string().chars().take(80).collect();
        assert_eq!(outcome.is_ok(), is_followed, "{schema}: {outcome:?}");
    }
}

#[test]
fn many_tools_are_followed() {
    let any = json!({ "type": ["string", "array", "integer", "null"] });
    for (count, properties) in [(500, 8), (10, 300)] {
        let parameters = wide(properties, &any);
        let tools = (0..count).map(|at| tool(&format!("tool_{at}"), parameters.clone()));
        endures(guide(&call_form(tools.collect())).unwrap()).unwrap();
    }
    let tools = (0..501).map(|at| tool(&format!("tool_{at}"), json!({})));
    assert_eq!(guide(&call_form(tools.collect())).unwrap_err().path, "tools");
}

/// Where many tokens end a member and begin the next, each of them meets all members that may come.
#[test]
fn a_wide_object_is_followed_also_where_tokens_span_its_members() {
    let names = ["<|end_of_msg|>", "<|open|>", "<|close|>", "<|sep|>"];
    let file = ranks(words(b"p0\",:{}", 2793));
    let names =
        names.iter().zip(3049..).map(|(name, id)| (id.to_string(), json!({ "content": name })));
    let config = json!({ "added_tokens_decoder": names.collect::<serde_json::Map<_, _>>() });
    let tokenizer = Tokenizer::new(&file, Some(config.to_string().as_bytes())).unwrap();
    let vocabulary = Arc::new(Vocabulary::new(&tokenizer).unwrap());
    let form = json_form(wide(1000, &json!({ "type": "string" })));
    let mut guide = Guide::new(vocabulary, &tokenizer, &form).unwrap();
    let logits = vec![0.0; tokenizer.vocab_size() as usize];
    for id in tokenizer.encode_markup("<|open|>response<|sep|>{\"p0\":\"") {
        guide.answer(&logits).unwrap();
        guide.take(id).unwrap();
    }
    let possible = guide.answer(&logits).unwrap();
    for token in ["\",\"p", "0\",\"", "p\"}"] {
        let is_it = |id: &u32| tokenizer.token_bytes(*id).unwrap() == token.as_bytes();
        let id = (0..tokenizer.base()).find(is_it).expect("such a token");
        assert_eq!(possible[id as usize], 0.0, "{token}");
    }
}

/// What one reply did leaves no trace for the next.
#[test]
fn a_form_that_is_asked_for_again_begins_anew() {
    let number =
        |most: usize| json_form(json!({ "type": "integer", "minimum": 0, "maximum": most }));
    for _ in 0..2 {
        assert!(allows(&number(50), &said("7")) && allows(&number(50), &said("49")));
        assert!(!allows(&number(50), &said("51")));
        for most in 60..70 {
            assert!(allows(&number(most), &said("51")));
        }
    }
}
