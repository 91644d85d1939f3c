//! What a message says: text, parts, images.

use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

/// The spelling that stands for an image in text.
pub const IMAGE_PLACEHOLDER: &str = "<|kimi_image_placeholder|>";

/// A message's content: the parts are rendered one by one. A string is one text part, `null` none.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(try_from = "Value")]
pub struct Content(pub Vec<Part>);

/// One part of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text, kept as it is.
    Text(String),
    /// An image; its block comes from the request's image prompts.
    Image,
}

impl Content {
    /// Whether there is an image part.
    #[must_use]
    pub fn has_images(&self) -> bool {
        self.0.contains(&Part::Image)
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self(vec![Part::Text(text)])
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl TryFrom<Value> for Content {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::Null => Ok(Self::default()),
            Value::String(text) => Ok(Self::from(text)),
            Value::Array(parts) => parts.into_iter().map(part).collect::<Result<_, _>>().map(Self),
            _ => Err("content must be a string, null or a list of parts".to_owned()),
        }
    }
}

fn part(value: Value) -> Result<Part, String> {
    let Value::Object(mut members) = value else {
        return Err("a content part must be an object with a type".to_owned());
    };
    match members.get("type").and_then(Value::as_str) {
        Some("text") => text_of(&mut members).map(Part::Text),
        Some("image" | "image_url") => Ok(Part::Image),
        Some(other) => Err(format!("content parts of type {other:?} are not supported; send text")),
        None => Err("a content part must have a type, such as text".to_owned()),
    }
}

fn text_of(members: &mut Map<String, Value>) -> Result<String, String> {
    match members.remove("text") {
        Some(Value::String(text)) => Ok(text),
        None | Some(Value::Null) => Ok(String::new()),
        Some(_) => Err("the text of a content part must be a string".to_owned()),
    }
}

/// Where an image goes in the prompt: its original size in pixels. The JSON form is the
/// rendered block; anything else is refused, because a block becomes markup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ImageBlock {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
}

const BLOCK_HEAD: &str = "<|media_begin|>image ";
const BLOCK_TAIL: &str = "<|media_content|><|media_pad|><|media_end|>";

impl fmt::Display for ImageBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{BLOCK_HEAD}{}x{}{BLOCK_TAIL}", self.width, self.height)
    }
}

impl TryFrom<String> for ImageBlock {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let inner = text.strip_prefix(BLOCK_HEAD).and_then(|rest| rest.strip_suffix(BLOCK_TAIL));
        let (width, height) = inner.and_then(|size| size.split_once('x')).unwrap_or_default();
        match (width.parse(), height.parse()) {
            (Ok(width), Ok(height)) => Some(Self { width, height }),
            _ => None,
        }
        // Only the exact spelling: no signs, no leading zeros.
        .filter(|block| block.to_string() == text)
        .ok_or_else(|| format!("an image prompt must read {BLOCK_HEAD}WIDTHxHEIGHT{BLOCK_TAIL}"))
    }
}
