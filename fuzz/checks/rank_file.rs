//! Any rank file is refused or gives a tokenizer that encodes and decodes every text.

use deltafin_text::Tokenizer;

pub(crate) fn check(data: &[u8]) {
    // A configuration may follow a zero byte, which no rank file contains.
    let mut files = data.splitn(2, |&byte| byte == 0);
    let ranks = files.next().unwrap_or_default();
    let Ok(tokenizer) = Tokenizer::new(ranks, files.next()) else { return };
    for text in ["", "The disk, 漢字 123\r\n  \u{1c}😀 don't", &String::from_utf8_lossy(data)] {
        for ids in [tokenizer.encode_text(text), tokenizer.encode_markup(text)] {
            assert_eq!(tokenizer.text(&ids).as_deref(), Ok(text));
        }
    }
    for id in 0..tokenizer.vocab_size() {
        assert!(!tokenizer.token_bytes(id).expect("the id is in range").is_empty());
    }
    assert!(tokenizer.token_bytes(tokenizer.vocab_size()).is_err());
}
