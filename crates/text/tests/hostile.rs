//! A folder of rank files and configurations that must be refused, each in one short line.

mod common;

use std::fs;
use std::path::Path;

use common::{TINY_CONFIG, TINY_RANKS, tiny};
use deltafin_text::tokenizer::{RANK_FILE_BYTES_MAX, TOKENIZER_CONFIG_BYTES_MAX};
use deltafin_text::{Tokenizer, TokenizerError};
use proptest::prelude::*;

/// A file of the folder and a part of the message that refuses it.
const EXPECTED: &[(&str, &str)] = &[
    ("config-array.json", "tokenizer_config.json: "),
    ("config-byte-order-mark.json", "begins with a byte order mark"),
    ("config-content-number.json", "tokenizer_config.json: "),
    ("config-cut-short.json", "tokenizer_config.json: "),
    ("config-decoder-list.json", "tokenizer_config.json: "),
    ("config-decoder-null.json", "tokenizer_config.json: "),
    ("config-deep.json", "tokenizer_config.json: "),
    ("config-empty-name.json", "token name of 0 bytes"),
    ("config-empty.json", "tokenizer_config.json: "),
    ("config-id-above.json", "token 1280, but special ids are 1024 to 1279"),
    ("config-id-below.json", "token 1023, but"),
    ("config-id-empty.json", "names token , but"),
    ("config-id-long.json", "names token 9999"),
    ("config-id-of-another-model.json", "take both files from one model"),
    ("config-id-overflow.json", "token 4294968320, but"),
    ("config-id-sign.json", "token +1024, but"),
    ("config-id-word.json", "token first, but"),
    ("config-lone-surrogate.json", "tokenizer_config.json: "),
    ("config-long-name.json", "token name of 257 bytes"),
    ("config-long-string.json", "tokenizer_config.json: invalid type"),
    ("config-name-of-reserved.json", "to tokens 1024 and 1100"),
    ("config-name-twice.json", "to tokens 1024 and 1025"),
    ("config-no-content.json", "missing field `content`"),
    ("config-not-json.json", "tokenizer_config.json: "),
    ("config-not-utf8.json", "tokenizer_config.json: "),
    ("config-number.json", "tokenizer_config.json: "),
    ("config-token-string.json", "tokenizer_config.json: "),
    ("rank-arabic-digits.model", "line 257: the rank is not a decimal number"),
    ("rank-cut-short.model", "rank file, line "),
    ("rank-duplicate.model", "line 257: the token already has rank 7"),
    ("rank-empty-rank.model", "line 257: the rank is not a decimal number"),
    ("rank-empty-token.model", "line 257: the token is empty"),
    ("rank-empty.model", "no token for byte 0x00"),
    ("rank-from-one.model", "line 1: rank 1 where 0 should follow"),
    ("rank-gap.model", "line 257: rank 257 where 256 should follow"),
    ("rank-hex.model", "line 257: the rank is not a decimal number"),
    ("rank-huge-number.model", "line 257: the rank is not a decimal number"),
    ("rank-json.model", "line 1: the token is not base64"),
    ("rank-missing-byte.model", "no token for byte 0xad"),
    ("rank-negative.model", "line 257: the rank is not a decimal number"),
    ("rank-no-space.model", "line 257: no space"),
    ("rank-not-base64.model", "line 257: the token is not base64"),
    ("rank-not-text.model", "line 1: no space"),
    ("rank-nul.model", "line 257: the rank is not a decimal number"),
    ("rank-only-newlines.model", "no token for byte 0x00"),
    ("rank-overflow.model", "line 257: the rank is not a decimal number"),
    ("rank-repeated.model", "line 257: rank 255 where 256 should follow"),
    ("rank-sign.model", "line 257: the rank is not a decimal number"),
    ("rank-swapped.model", "line 1: rank 1 where 0 should follow"),
    ("rank-tab.model", "line 257: no space"),
    ("rank-token-too-long.model", "line 257: the token is longer than 1024 bytes"),
    ("rank-trailing-words.model", "line 257: the rank is not a decimal number"),
    ("rank-two-spaces.model", "line 257: the rank is not a decimal number"),
    ("rank-unpadded.model", "line 257: the token is not base64"),
    ("rank-urlsafe.model", "line 257: the token is not base64"),
    ("rank-windows-lines.model", "line 1: the rank is not a decimal number"),
];

#[test]
fn every_hostile_file_is_refused_for_its_own_reason() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile");
    let mut found: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    let listed: Vec<&str> = EXPECTED.iter().map(|(file, _)| *file).collect();
    assert_eq!(found, listed, "the folder and the list above differ");
    for (file, expected) in EXPECTED {
        let bytes = fs::read(folder.join(file)).unwrap();
        let result = match file.starts_with("rank-") {
            true => Tokenizer::new(&bytes, Some(TINY_CONFIG)),
            false => Tokenizer::new(TINY_RANKS, Some(&bytes)),
        };
        let message = result.expect_err(file).to_string();
        assert!(message.contains(expected), "{file}: {message}");
        assert!(!message.contains('\n') && message.len() < 300, "{file}: {message}");
    }
}

#[test]
fn files_past_the_bounds_are_refused_unread() {
    let ranks = vec![b'\n'; RANK_FILE_BYTES_MAX + 1];
    let refused = Tokenizer::new(&ranks, None).unwrap_err();
    assert!(matches!(refused, TokenizerError::RankFileTooLarge { .. }));
    let config = vec![b' '; TOKENIZER_CONFIG_BYTES_MAX + 1];
    let refused = Tokenizer::new(TINY_RANKS, Some(&config)).unwrap_err();
    assert!(matches!(refused, TokenizerError::ConfigTooLarge { .. }));
}

#[test]
fn harmless_oddities_are_accepted() {
    let text = String::from_utf8(TINY_RANKS.to_vec()).unwrap();
    let blank_lines = text.replace('\n', "\n\n");
    for ranks in [text.trim_end(), &blank_lines] {
        let tokenizer = Tokenizer::new(ranks.as_bytes(), Some(TINY_CONFIG)).unwrap();
        assert_eq!(tokenizer.encode_text("the disk"), tiny().encode_text("the disk"));
    }
    let tokenizer = Tokenizer::new(TINY_RANKS, Some(b"{}")).unwrap();
    assert_eq!(tokenizer.special_id("<|open|>"), None);
}

#[test]
fn a_name_that_begins_another_does_not_hide_it() {
    let config =
        br#"{"added_tokens_decoder": {"1024": {"content": "<a"}, "1025": {"content": "<a>"}}}"#;
    let tokenizer = Tokenizer::new(TINY_RANKS, Some(config)).unwrap();
    assert_eq!(tokenizer.encode_markup("<a><a<a>"), [1025, 1024, 1025]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// One changed byte never panics, and what loads still encodes everything.
    #[test]
    fn a_damaged_rank_file_is_refused_or_whole(at in 0..TINY_RANKS.len(), byte in any::<u8>()) {
        let mut ranks = TINY_RANKS.to_vec();
        ranks[at] = byte;
        if let Ok(tokenizer) = Tokenizer::new(&ranks, Some(TINY_CONFIG)) {
            let text = "The disk, 漢字\n\u{0} 😀";
            prop_assert_eq!(tokenizer.text(&tokenizer.encode_text(text)).unwrap(), text);
        }
    }

    #[test]
    fn any_text_comes_back(text in any::<String>()) {
        let tokenizer = tiny();
        prop_assert_eq!(&tokenizer.text(&tokenizer.encode_text(&text)).unwrap(), &text);
        prop_assert_eq!(&tokenizer.text(&tokenizer.encode_markup(&text)).unwrap(), &text);
    }
}
