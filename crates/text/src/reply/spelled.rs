//! Replies as text that spells its markers, for tools and tests.
//!
//! A running model never goes through here: there, markers are ids and spellings are text.
//! Promise: what is held back is only what may still become a marker, whatever the cutting.

use super::{Answer, Cut, Delta, Event, Marker, Parser, ReplyOptions};

/// Reads a reply in which the four markers are spelled out.
#[derive(Debug, Clone)]
pub struct TextReply {
    parser: Parser,
    held: Vec<u8>,
}

impl TextReply {
    /// A reply of which nothing was read yet.
    #[must_use]
    pub fn new(options: ReplyOptions) -> Self {
        Self { parser: Parser::new(options), held: Vec::new() }
    }

    /// Takes more bytes, cut anywhere, and returns what they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Delta> {
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(bytes);
        let (mut deltas, mut start, mut at) = (Vec::new(), 0, 0);
        while let Some(found) = find_bracket(&text, at) {
            at = found + 1;
            match marker_at(&text[found..]) {
                Spelled::Whole(marker) => {
                    deltas.extend(self.parser.push(Event::Bytes(&text[start..found])));
                    deltas.extend(self.parser.push(Event::Marker(marker)));
                    start = found + marker.spelling().len();
                    at = start;
                }
                Spelled::Begun => {
                    self.held = text.split_off(found);
                    break;
                }
                Spelled::No => {}
            }
        }
        deltas.extend(self.parser.push(Event::Bytes(&text[start..])));
        deltas
    }

    /// Ends a reply that did not end itself and returns what was still held.
    pub fn finish(&mut self, cut: Cut) -> Vec<Delta> {
        let held = std::mem::take(&mut self.held);
        let mut deltas = self.parser.push(Event::Bytes(&held));
        deltas.extend(self.parser.finish(cut));
        deltas
    }

    /// Whether nothing that follows can change the reply.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.parser.is_done()
    }

    /// The reply as far as it was published.
    #[must_use]
    pub fn answer(&self) -> Answer {
        self.parser.answer()
    }
}

enum Spelled {
    Whole(Marker),
    Begun,
    No,
}

fn find_bracket(text: &[u8], from: usize) -> Option<usize> {
    text[from..].iter().position(|&byte| byte == b'<').map(|at| from + at)
}

fn marker_at(text: &[u8]) -> Spelled {
    let whole = |marker: &Marker| text.starts_with(marker.spelling().as_bytes());
    let begun = |marker: &Marker| marker.spelling().as_bytes().starts_with(text);
    match Marker::ALL.into_iter().find(whole) {
        Some(marker) => Spelled::Whole(marker),
        None if Marker::ALL.iter().any(begun) => Spelled::Begun,
        None => Spelled::No,
    }
}
