//! Cuts of very long input, made before anything else looks at it.
//!
//! The cuts change ids (a word or a group of digits is broken), so they are part of the
//! format and not only a safety measure. Promises: the parts cover the text in order; none is
//! longer than 400,000 characters or holds more than 25,000 neighbours of one class.

const SLICE_CHARS: usize = 400_000;
const RUN_CHARS_MAX: usize = 25_000;

/// Whitespace as Python's `str.isspace` sees it: four information separators more than
/// the Unicode property.
pub(crate) fn is_python_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The parts of a text that are encoded separately.
pub(crate) fn parts(text: &str) -> Parts<'_> {
    Parts { rest: text, cuts: Cuts::default() }
}

pub(crate) struct Parts<'a> {
    rest: &'a str,
    cuts: Cuts,
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let at = self.cuts.next(self.rest).unwrap_or(self.rest.len());
        let (part, rest) = self.rest.split_at(at);
        self.rest = rest;
        Some(part)
    }
}

/// Finds the cuts of a text that may not be there as a whole.
#[derive(Debug)]
pub(crate) struct Cuts {
    slice_left: usize,
    /// What was seen of the current part: bytes, characters, the last one's class and its run.
    bytes: usize,
    chars: usize,
    class: Option<bool>,
    run: usize,
}

impl Default for Cuts {
    fn default() -> Cuts {
        Cuts::after(SLICE_CHARS)
    }
}

impl Cuts {
    /// A new part starts counting afresh: the character before which a run was cut counts as
    /// the first of the next run, and a slice never continues a run of the slice before.
    fn after(slice_left: usize) -> Cuts {
        Cuts { slice_left, bytes: 0, chars: 0, class: None, run: 0 }
    }

    /// Where the first part of `text` ends; nothing where it may go on beyond it. `text` is what
    /// follows the last cut. Where it has grown since it was looked at, the look goes on from there.
    pub(crate) fn next(&mut self, text: &str) -> Option<usize> {
        let seen = self.bytes;
        for (at, c) in text[seen..].char_indices() {
            if self.chars == self.slice_left {
                *self = Cuts::after(SLICE_CHARS);
                return Some(seen + at);
            }
            let class = Some(is_python_space(c));
            self.run = if self.class == class { self.run + 1 } else { 1 };
            self.class = class;
            if self.run > RUN_CHARS_MAX {
                *self = Cuts::after(self.slice_left - self.chars);
                return Some(seen + at);
            }
            self.chars += 1;
        }
        self.bytes = text.len();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(text: &str) -> Vec<usize> {
        let found: Vec<&str> = parts(text).collect();
        assert_eq!(found.concat(), text);
        found.iter().map(|part| part.chars().count()).collect()
    }

    #[test]
    fn cuts_long_runs_and_long_slices() {
        assert!(lengths("").is_empty());
        assert_eq!(lengths(&"é".repeat(25_000)), [25_000]);
        assert_eq!(lengths(&"é".repeat(50_001)), [25_000, 25_000, 1]);
        assert_eq!(lengths(&"\u{1c} ".repeat(12_501)), [25_000, 2]);
        assert_eq!(lengths(&"a ".repeat(200_001)), [400_000, 2]);
        let words_then_run = "a ".repeat(195_000) + &"b".repeat(30_000);
        assert_eq!(lengths(&words_then_run), [400_000, 20_000]);
    }
}
