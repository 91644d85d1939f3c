//! What one generated token means to a reply.

/// The tokens that give chats their structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Marker {
    /// Begins the header of a tag.
    Open,
    /// Begins a closing tag.
    Close,
    /// Ends a header or a closing tag.
    Sep,
    /// Ends the message.
    End,
}

impl Marker {
    /// All four.
    pub const ALL: [Self; 4] = [Self::Open, Self::Close, Self::Sep, Self::End];

    /// The name of its token.
    #[must_use]
    pub fn spelling(self) -> &'static str {
        match self {
            Self::Open => "<|open|>",
            Self::Close => "<|close|>",
            Self::Sep => "<|sep|>",
            Self::End => "<|end_of_msg|>",
        }
    }
}

/// One generated token, or a run of ordinary ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// Structure.
    Marker(Marker),
    /// Bytes of ordinary text; they may end inside a character.
    Bytes(&'a [u8]),
    /// A special token with no meaning in a reply; it is not shown.
    Other,
}
