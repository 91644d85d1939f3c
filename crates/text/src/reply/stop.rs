//! Stop sequences in the answer.
//!
//! The sequence that completes first ends the answer just before it; of two that complete
//! together the longer one counts. Promises: the result does not depend on how the text is cut; what is
//! held back is never longer than what may still become a sequence; time is linear.

/// Matches all sequences side by side.
#[derive(Debug, Clone, Default)]
pub(super) struct StopMatcher {
    sequences: Vec<Sequence>,
    held: String,
    found: Option<usize>,
}

impl StopMatcher {
    pub(super) fn new(stops: &[String]) -> Self {
        let sequences = stops.iter().filter(|stop| !stop.is_empty()).map(|s| Sequence::new(s));
        Self { sequences: sequences.collect(), held: String::new(), found: None }
    }

    /// The text that may be published, and whether a sequence was found behind it.
    pub(super) fn push(&mut self, text: &str) -> (String, bool) {
        let before = self.held.len();
        self.held.push_str(text);
        for (at, byte) in text.bytes().enumerate() {
            self.found = self.advance(byte);
            if let Some(found) = self.found {
                self.held.truncate(before + at + 1 - self.sequences[found].bytes.len());
                return (self.flush(), true);
            }
        }
        let keep = self.sequences.iter().map(|sequence| sequence.matched).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// Gives up what is held: no sequence continues across this point.
    pub(super) fn flush(&mut self) -> String {
        self.sequences.iter_mut().for_each(|sequence| sequence.matched = 0);
        std::mem::take(&mut self.held)
    }

    /// The sequence that was found.
    pub(super) fn found(&self) -> Option<&str> {
        std::str::from_utf8(&self.sequences[self.found?].bytes).ok()
    }

    /// The longest sequence that this byte completes.
    fn advance(&mut self, byte: u8) -> Option<usize> {
        let lengths = self.sequences.iter_mut().map(|sequence| sequence.advance(byte));
        let complete = lengths.enumerate().filter_map(|(at, length)| length.map(|l| (l, at)));
        complete.max().map(|(_, at)| at)
    }
}

/// One sequence with its failure table, as in Knuth, Morris and Pratt.
#[derive(Debug, Clone)]
struct Sequence {
    bytes: Vec<u8>,
    /// For every prefix, the length of its longest proper prefix that is also its suffix.
    fallback: Vec<usize>,
    matched: usize,
}

impl Sequence {
    fn new(stop: &str) -> Self {
        let bytes = stop.as_bytes().to_vec();
        let mut sequence = Self { fallback: vec![0], matched: 0, bytes };
        for at in 1..sequence.bytes.len() {
            sequence.step(sequence.bytes[at]);
            sequence.fallback.push(sequence.matched);
        }
        sequence.matched = 0;
        sequence
    }

    fn advance(&mut self, byte: u8) -> Option<usize> {
        self.step(byte);
        (self.matched == self.bytes.len()).then_some(self.bytes.len())
    }

    fn step(&mut self, byte: u8) {
        while self.matched > 0 && self.bytes[self.matched] != byte {
            self.matched = self.fallback[self.matched - 1];
        }
        self.matched += usize::from(self.bytes[self.matched] == byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matcher(stops: &[&str]) -> StopMatcher {
        StopMatcher::new(&stops.iter().map(|&stop| stop.to_owned()).collect::<Vec<_>>())
    }

    /// The definition: the shortest beginning of the text that ends with a sequence.
    fn naive(stops: &[String], text: &str) -> Option<String> {
        let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
        ends.map(|end| &text[..end]).find_map(|seen| {
            let found = stops.iter().filter(|stop| !stop.is_empty() && seen.ends_with(*stop));
            found.map(String::len).max().map(|length| seen[..seen.len() - length].to_owned())
        })
    }

    #[test]
    fn holds_only_what_may_still_match() {
        let mut stops = matcher(&["STOP", ""]);
        assert_eq!(stops.push("alpha ST"), ("alpha ".to_owned(), false));
        assert_eq!(stops.push("AY S"), ("STAY ".to_owned(), false));
        assert_eq!(stops.push("TOP beta"), (String::new(), true));
        assert_eq!(stops.found(), Some("STOP"));
        assert_eq!(matcher(&[]).push("x"), ("x".to_owned(), false));
    }

    #[test]
    fn of_two_that_end_together_the_longer_is_named() {
        let mut stops = matcher(&["b", "ab", "c"]);
        assert_eq!((stops.push("xab"), stops.found()), (("x".to_owned(), true), Some("ab")));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn equals_the_definition_however_cut(
            stops in proptest::collection::vec("[ab漢]{0,4}", 0..4),
            pieces in proptest::collection::vec("[ab漢c]{0,3}", 0..12),
        ) {
            let (mut matcher, mut seen, mut found) = (StopMatcher::new(&stops), String::new(), false);
            for piece in &pieces {
                let (text, stopped) = matcher.push(piece);
                seen += &text;
                found = stopped;
                if found { break; }
            }
            if !found { seen += &matcher.flush(); }
            let whole = pieces.concat();
            let expected = naive(&stops, &whole);
            prop_assert_eq!(found, expected.is_some());
            prop_assert_eq!(seen, expected.unwrap_or(whole));
        }
    }
}
