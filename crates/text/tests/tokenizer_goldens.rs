//! Ids and bytes against the reference encoder's, over the tiny vocabulary.

mod common;

use common::{cases, fixture, ids, json, name, tiny, unhex};
use deltafin_text::chat::Message;
use deltafin_text::tokenizer::{Encoded, Encoder};
use deltafin_text::{DecodeError, Tokenizer, TokenizerError, Utf8Assembler};
use deltafin_text::{Request, render};
use serde_json::Value;
use sha2::{Digest, Sha256};

const GOLDENS: &[u8] = fixture!("tokenizer/tiny.goldens.json");

#[test]
fn every_text_has_the_reference_ids() {
    let (tokenizer, goldens) = (tiny(), json(GOLDENS));
    assert_eq!(u64::from(tokenizer.base()), goldens["ranks"]);
    assert_eq!(u64::from(tokenizer.vocab_size()), goldens["vocab_size"]);
    assert_eq!(cases(&goldens, "encode").len(), 71);
    for case in cases(&goldens, "encode") {
        let text = case["text"].as_str().unwrap();
        let plain = tokenizer.encode_text(text);
        assert_eq!(plain, ids(&case["ids"]), "{} as text", name(case));
        assert_eq!(tokenizer.encode_markup(text), ids(&case["ids_special"]), "{}", name(case));
        assert_eq!(tokenizer.text(&plain).unwrap(), text, "{} back", name(case));
    }
}

#[test]
fn long_texts_are_cut_where_the_reference_cuts() {
    let (tokenizer, goldens) = (tiny(), json(GOLDENS));
    assert_eq!(cases(&goldens, "encode_long").len(), 24);
    for case in cases(&goldens, "encode_long") {
        let part =
            |part: &Value| part[0].as_str().unwrap().repeat(part[1].as_u64().unwrap() as usize);
        let text: String = cases(case, "parts").iter().map(part).collect();
        let found = tokenizer.encode_text(&text);
        assert_eq!(found.len() as u64, case["count"], "{}", name(case));
        let (first, last) = (ids(&case["first"]), ids(&case["last"]));
        assert_eq!(found[..first.len()], first, "{}", name(case));
        assert_eq!(found[found.len() - last.len()..], last, "{}", name(case));
        let bytes: Vec<u8> = found.iter().flat_map(|id| id.to_le_bytes()).collect();
        let digest: String = Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(digest, case["sha256_u32le"], "{}", name(case));
        for (bytes, most) in [(1 << 16, usize::MAX), (999_983, 1000), (usize::MAX, 0)] {
            let Encoded { ids, count } = in_pieces(&tokenizer, &text, bytes, most);
            assert_eq!(count, found.len(), "{} in pieces of {bytes}", name(case));
            assert!(ids == found[..count.min(most)], "{} in pieces of {bytes}", name(case));
        }
    }
}

/// A text that comes in pieces of about so many bytes.
fn in_pieces(tokenizer: &Tokenizer, text: &str, bytes: usize, most: usize) -> Encoded {
    let mut encoder = Encoder::new(tokenizer, most);
    let mut rest = text;
    while !rest.is_empty() {
        let mut at = bytes.min(rest.len());
        while !rest.is_char_boundary(at) {
            at += 1;
        }
        encoder.push(&rest[..at]);
        rest = &rest[at..];
    }
    encoder.finish()
}

#[test]
fn every_id_decodes_and_text_comes_as_early_as_the_reference_gives_it() {
    let (tokenizer, goldens) = (tiny(), json(GOLDENS));
    assert_eq!(cases(&goldens, "decode").len(), 17);
    for case in cases(&goldens, "decode") {
        let ids = ids(&case["ids"]);
        assert_eq!(tokenizer.decode(&ids).unwrap(), unhex(case["bytes_hex"].as_str().unwrap()));
        assert_eq!(tokenizer.text(&ids).unwrap(), case["text"], "{}", name(case));
        let Some(steps) = case["steps"].as_array() else { continue };
        let mut utf8 = Utf8Assembler::default();
        for (&id, step) in ids.iter().zip(steps) {
            let text = utf8.push(tokenizer.token_bytes(id).unwrap());
            assert_eq!(text, step.as_str().unwrap(), "{}", name(case));
        }
        assert_eq!(utf8.finish(), case["finish"], "{}", name(case));
    }
    for id in 0..tokenizer.vocab_size() {
        assert!(!tokenizer.token_bytes(id).unwrap().is_empty());
    }
}

#[test]
fn ids_outside_the_vocabulary_are_refused() {
    let tokenizer = tiny();
    for id in ids(&json(GOLDENS)["decode_out_of_range"]) {
        let refused = DecodeError { id, vocab_size: 1280 };
        assert_eq!(tokenizer.decode(&[0, id]), Err(refused));
        assert_eq!(tokenizer.text(&[id]), Err(refused));
        assert_eq!(tokenizer.event(id), Err(refused));
    }
}

#[test]
fn a_larger_vocabulary_decodes_its_unnamed_ids_to_nothing() {
    let tokenizer = tiny().with_vocab_size(1300);
    assert_eq!(tokenizer.text(&[64, 1299, 64]).unwrap(), "aa");
    assert_eq!(tokenizer.decode(&[1300]), Err(DecodeError { id: 1300, vocab_size: 1300 }));
    assert_eq!(tiny().with_vocab_size(8).decode(&[8]), Err(DecodeError { id: 8, vocab_size: 8 }));
}

#[test]
fn special_tokens_go_by_name() {
    let tokenizer = tiny();
    assert_eq!(tokenizer.special_id("<|open|>"), Some(1027));
    assert_eq!(tokenizer.special_id("<|reserved_token_1032|>"), Some(1032));
    assert_eq!(tokenizer.special_id("<|im_end|>"), None);
    assert_eq!(tokenizer.special_name(1045), Some("<|media_pad|>"));
    assert_eq!(tokenizer.special_name(64), None);
    assert_eq!(tokenizer.special_name(1280), None);
    assert_eq!(tokenizer.stop_ids(), [1026, 1025, 1033]);
}

#[test]
fn without_a_configuration_every_special_name_is_reserved_and_chats_are_refused() {
    let tokenizer = deltafin_text::Tokenizer::new(common::TINY_RANKS, None).unwrap();
    assert_eq!(tokenizer.special_name(1027), Some("<|reserved_token_1027|>"));
    assert!(tokenizer.stop_ids().is_empty());
    let refused = tokenizer.encode_segments(&[]).unwrap_err();
    assert_eq!(refused, TokenizerError::NoMarker { name: "<|open|>" });
}

#[test]
fn a_megabyte_without_a_break_is_encoded() {
    let tokenizer = tiny();
    for unit in ["a", " ", "\n", "漢", "=", "1", "Aa", "a ", "'s", "\u{301}"] {
        let text = unit.repeat((1 << 20) / unit.len());
        let ids = tokenizer.encode_text(&text);
        assert_eq!(tokenizer.decode(&ids).unwrap(), text.as_bytes(), "{unit:?}");
        assert_eq!(tokenizer.encode_markup(&text), ids, "{unit:?}");
    }
}

#[test]
fn a_chat_that_is_too_long_is_counted_and_not_kept() {
    let tokenizer = tiny();
    let request = Request::new(vec![Message::user("many words in here ".repeat(100))]);
    let segments = render(&request).unwrap();
    let all = tokenizer.encode_segments(&segments).unwrap();
    for most in [0, 1, all.len() - 1, all.len(), all.len() + 1] {
        let Encoded { ids, count } = tokenizer.encode_segments_within(&segments, most).unwrap();
        assert_eq!(count, all.len());
        assert_eq!(ids, all[..count.min(most)], "at most {most}");
    }
}

#[test]
fn no_token_is_longer_than_the_longest() {
    let tokenizer = tiny();
    let bytes = |id| tokenizer.token_bytes(id).unwrap().len();
    assert_eq!((0..tokenizer.base()).map(bytes).max(), Some(tokenizer.longest_token_bytes()));
}
