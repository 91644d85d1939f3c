//! Pieces of a prompt, each with its trust.
//!
//! Promise: there is no way to make a markup segment out of a request's text. Markup is a
//! literal of this crate or an image block, which holds two numbers and nothing else.

use std::borrow::Cow;

use super::ImageBlock;

/// A piece of a prompt that is encoded on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    text: Cow<'static, str>,
    is_markup: bool,
}

impl Segment {
    /// Untrusted text: spellings of control tokens in it are plain text.
    #[must_use]
    pub fn plain(text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: text.into(), is_markup: false }
    }

    pub(crate) fn markup(literal: &'static str) -> Self {
        Self { text: literal.into(), is_markup: true }
    }

    pub(crate) fn image(block: ImageBlock) -> Self {
        Self { text: block.to_string().into(), is_markup: true }
    }

    /// What the segment spells.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether spellings of control tokens in it are control tokens.
    #[must_use]
    pub fn is_markup(&self) -> bool {
        self.is_markup
    }
}

/// The prompt as one string, for people to read. It has lost the trust labels: never encode it.
#[must_use]
pub fn rendered_text(segments: &[Segment]) -> String {
    segments.iter().map(Segment::text).collect()
}
