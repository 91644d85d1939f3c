//! A folder of replies that no chat should hold, each with what must become of it.
//!
//! `expected.json` was read line by line: nothing of a text may be lost but within tools, unfinished
//! headers and behind the end, and no tag may turn up in it.
#![allow(clippy::unwrap_used, reason = "these functions run in tests only")]

mod common;
#[path = "../../../fuzz/checks/reply_parser.rs"]
mod reply_parser;

use std::fs;
use std::path::Path;

use common::{json, merged, tiny};
use deltafin_text::reply::{Cut, ReplyOptions, parse_ids};
use deltafin_text::{Answer, Delta, TextReply};
use serde_json::{Value, json};

/// All replies of the folder by name, and what is expected of them.
fn replies() -> (Vec<(String, Vec<u8>)>, Value) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile_replies");
    let mut replies = Vec::new();
    for file in fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            replies.push((name, fs::read(&path).unwrap()));
        }
    }
    replies.sort();
    (replies, json(&fs::read(folder.join("expected.json")).unwrap()))
}

fn read(pieces: &[&[u8]]) -> (Vec<Delta>, Answer) {
    let mut reply = TextReply::new(ReplyOptions::default());
    let mut deltas: Vec<Delta> = pieces.iter().flat_map(|piece| reply.push(piece)).collect();
    deltas.extend(reply.finish(Cut::Limit));
    (merged(deltas), reply.answer())
}

#[test]
fn every_hostile_reply_becomes_what_is_expected() {
    let (replies, expected) = replies();
    let names: Vec<&String> = replies.iter().map(|(name, _)| name).collect();
    let listed: Vec<&String> = expected.as_object().unwrap().keys().collect();
    assert_eq!(names, listed, "the folder and expected.json differ");
    for (name, reply) in &replies {
        assert_eq!(json!(read(&[reply]).1), expected[name], "{name}");
    }
}

#[test]
fn every_hostile_reply_is_the_same_in_any_two_pieces_and_byte_by_byte() {
    for (name, reply) in replies().0 {
        let whole = read(&[&reply]);
        for cut in 0..=reply.len() {
            let (before, after) = reply.split_at(cut);
            assert_eq!(read(&[before, after]), whole, "{name}, cut at {cut}");
        }
        let bytes: Vec<&[u8]> = reply.chunks(1).collect();
        assert_eq!(read(&bytes), whole, "{name}, byte by byte");
        reply_parser::check(&reply);
    }
}

#[test]
fn markers_count_as_ids_and_their_spellings_as_text() {
    let tokenizer = tiny();
    let mut seen = 0;
    for (name, reply) in replies().0 {
        let Ok(text) = String::from_utf8(reply) else { continue };
        seen += 1;
        let read_ids = |ids: &[u32]| parse_ids(&tokenizer, ReplyOptions::default(), ids).unwrap();
        let structured = read_ids(&tokenizer.encode_markup(&text));
        assert_eq!(structured, read(&[text.as_bytes()]).1, "{name}");
        let plain = read_ids(&tokenizer.encode_text(&text));
        assert_eq!((plain.reasoning_content, plain.content), (text, String::new()), "{name}");
        assert_eq!(plain.tool_calls, []);
    }
    assert!(seen > 35, "{seen}");
}
