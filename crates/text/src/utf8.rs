//! Bytes in any pieces, text out as early as possible.
//!
//! Promises: whatever the cutting, the pushed text followed by [`Utf8Assembler::finish`]
//! equals `String::from_utf8_lossy` of all bytes; at most three bytes are ever held.

/// Joins bytes into text, holding only a tail that may still become a character.
#[derive(Debug, Clone, Default)]
pub struct Utf8Assembler {
    tail: Vec<u8>,
}

impl Utf8Assembler {
    /// Adds bytes and returns the text they complete. What can never become valid is
    /// replaced with U+FFFD at once.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.tail.extend_from_slice(bytes);
        let decided = self.tail.len() - undecided(&self.tail);
        let text = String::from_utf8_lossy(&self.tail[..decided]).into_owned();
        self.tail.drain(..decided);
        text
    }

    /// Ends the text: a held tail becomes one U+FFFD for each invalid sequence in it.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.tail).into_owned();
        self.tail.clear();
        text
    }

    /// The number of bytes held back, at most three.
    #[must_use]
    pub fn held(&self) -> usize {
        self.tail.len()
    }
}

/// The length of the tail that more bytes could still change.
fn undecided(bytes: &[u8]) -> usize {
    // A surrogate half (ED A0..BF) is already lost after two bytes, yet the reference decoder
    // waits for the third; the text is the same, only the step in which it appears differs.
    if let [.., 0xED, 0xA0..=0xBF] = bytes {
        return 2;
    }
    // Only the last three bytes can begin an unfinished character.
    (1..=bytes.len().min(3)).rev().find(|&n| is_unfinished(&bytes[bytes.len() - n..])).unwrap_or(0)
}

/// Whether the bytes are the proper beginning of exactly one character.
fn is_unfinished(bytes: &[u8]) -> bool {
    matches!(std::str::from_utf8(bytes), Err(e) if e.valid_up_to() == 0 && e.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1024, ..Default::default() })]

        #[test]
        fn joins_to_the_lossy_text_however_cut(
            pieces in proptest::collection::vec(proptest::collection::vec(
                proptest::sample::select(b"a\x80\xbf\xa0\xc3\xe6\xbc\xa2\xed\xf0\x9f\x98\xf4\x90\xff".to_vec()),
                0..4), 0..12),
        ) {
            let (mut utf8, mut text) = (Utf8Assembler::default(), String::new());
            for piece in &pieces {
                text += &utf8.push(piece);
                prop_assert!(utf8.held() <= 3);
            }
            text += &utf8.finish();
            prop_assert_eq!(text, String::from_utf8_lossy(&pieces.concat()).into_owned());
        }
    }

    #[test]
    fn holds_at_most_three_bytes_and_loses_none() {
        let bytes = "aé漢😀".as_bytes();
        for cut in 0..=bytes.len() {
            let mut joined = Utf8Assembler::default();
            let mut text = joined.push(&bytes[..cut]);
            assert!(joined.held() <= 3);
            text += &joined.push(&bytes[cut..]);
            assert_eq!(text + &joined.finish(), "aé漢😀");
        }
    }
}
