//! The header of a tag: a name and attributes.
//!
//! The name reaches to the first whitespace; then come `key="value"` pairs. The first pair
//! with a key counts. Promise: reading stops silently at the first malformed attribute.

/// A header being collected, or read.
#[derive(Debug, Clone)]
pub(super) struct Header {
    pub(super) is_close: bool,
    pub(super) bytes: Vec<u8>,
}

/// The parts of a finished header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) is_close: bool,
    pub(super) name: String,
    attributes: Vec<(String, String)>,
}

impl Header {
    pub(super) fn new(is_close: bool) -> Self {
        Self { is_close, bytes: Vec::new() }
    }

    pub(super) fn read(&self) -> Tag {
        let text = String::from_utf8_lossy(&self.bytes);
        let (name, mut rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
        let mut attributes = Vec::new();
        while let Some((key, value, after)) = attribute(rest) {
            attributes.push((key.to_owned(), unescape(value)));
            rest = after;
        }
        Tag { is_close: self.is_close, name: name.to_owned(), attributes }
    }
}

impl Tag {
    pub(super) fn take(&mut self, key: &str) -> Option<String> {
        let at = self.attributes.iter().position(|(name, _)| name == key)?;
        Some(self.attributes.remove(at).1)
    }
}

/// One attribute: key, raw value, and what follows it.
fn attribute(text: &str) -> Option<(&str, &str, &str)> {
    let (key, rest) = text.trim_start().split_once("=\"")?;
    let (value, after) = rest.split_once('"')?;
    let is_key = !key.is_empty() && !key.contains(|c: char| c.is_whitespace() || c == '"');
    is_key.then_some((key, value, after))
}

fn unescape(value: &str) -> String {
    // In this order: `&amp;quot;` is an escaped `&quot;`, not a quote.
    value.replace("&quot;", "\"").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Tag {
        Header { is_close: false, bytes: text.as_bytes().to_vec() }.read()
    }

    #[test]
    fn reads_attributes_until_one_is_malformed() {
        let mut tag = read("call  tool=\"a\" tool=\"b\"\tx=\"\" oops index=\"1\"");
        assert_eq!(tag.name, "call");
        assert_eq!(tag.take("x").as_deref(), Some(""));
        assert_eq!(tag.take("tool").as_deref(), Some("a"));
        assert_eq!(tag.take("index"), None);
    }

    #[test]
    fn the_first_of_two_equal_keys_counts_whatever_was_taken_before() {
        let mut tag = read("argument key=\"k\" type=\"string\" type=\"number\"");
        assert_eq!(tag.take("key").as_deref(), Some("k"));
        assert_eq!(tag.take("type").as_deref(), Some("string"));
    }

    #[test]
    fn unescapes_once() {
        assert_eq!(
            read("a k=\"&amp;quot;&quot;&amp;amp;\"").take("k").as_deref(),
            Some("&quot;\"&amp;")
        );
    }

    #[test]
    fn broken_headers_have_a_name_at_most() {
        for text in ["", " ", "call", "call =\"x\"", "call tool", "call tool=\"x"] {
            assert!(read(text).attributes.is_empty(), "{text:?}");
        }
    }
}
