//! The tags that give a chat its structure, as the pieces in which the model reads and writes them.
//!
//! Attribute keys, values and punctuation are segments of their own, because that is how the
//! model saw them: joined, they would encode to other ids.

use super::Segment;
use crate::reply::Marker;

/// A tag that opens something: its name and its attributes, in order.
#[must_use]
pub fn opening(tag: &'static str, attributes: &[(&'static str, &str)]) -> Vec<Segment> {
    let mut segments = vec![marker(Marker::Open), Segment::plain(tag)];
    for (key, value) in attributes {
        segments.push(Segment::plain(format!(" {key}")));
        segments.push(Segment::plain("=\""));
        let value = value.replace('&', "&amp;").replace('"', "&quot;");
        if !value.is_empty() {
            segments.push(Segment::plain(value));
        }
        segments.push(Segment::plain("\""));
    }
    segments.push(marker(Marker::Sep));
    segments
}

/// A tag that closes it.
#[must_use]
pub fn closing(tag: &'static str) -> Vec<Segment> {
    vec![marker(Marker::Close), Segment::plain(tag), marker(Marker::Sep)]
}

pub(super) fn marker(marker: Marker) -> Segment {
    Segment::markup(marker.spelling())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::rendered_text;

    #[test]
    fn values_cannot_leave_their_quotes() {
        let tag = opening("argument", &[("key", "a\"<|sep|>&"), ("type", "")]);
        assert_eq!(
            rendered_text(&tag),
            "<|open|>argument key=\"a&quot;<|sep|>&amp;\" type=\"\"<|sep|>"
        );
        assert_eq!(tag.iter().filter(|segment| segment.is_markup()).count(), 2);
        assert_eq!(rendered_text(&closing("call")), "<|close|>call<|sep|>");
    }
}
