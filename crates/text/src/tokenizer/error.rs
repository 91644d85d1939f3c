//! What can be wrong with the tokenizer's files, and with ids.

use thiserror::Error;

/// A rank file or tokenizer configuration that is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The rank file exceeds the bound.
    #[error(
        "the rank file has {bytes} bytes, more than {limit}; give the model's own tiktoken.model"
    )]
    RankFileTooLarge {
        /// Its size.
        bytes: usize,
        /// The bound.
        limit: usize,
    },
    /// A line of the rank file has the wrong form.
    #[error("rank file, line {line}: {reason}; download tiktoken.model again")]
    RankLine {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// Ranks do not count up from 0 by one.
    #[error(
        "rank file, line {line}: rank {found} where {expected} should follow; download tiktoken.model again"
    )]
    RankOrder {
        /// Counted from 1.
        line: usize,
        /// The rank that should stand here.
        expected: u32,
        /// The rank that does.
        found: u32,
    },
    /// A token is listed twice.
    #[error(
        "rank file, line {line}: the token already has rank {first}; download tiktoken.model again"
    )]
    DuplicateToken {
        /// Counted from 1.
        line: usize,
        /// The rank of the first listing.
        first: u32,
    },
    /// A single byte is no token, so some text would have no encoding.
    #[error("the rank file has no token for byte 0x{byte:02x}; download tiktoken.model again")]
    MissingByte {
        /// The byte.
        byte: u8,
    },
    /// The tokenizer configuration exceeds the bound.
    #[error(
        "tokenizer_config.json has {bytes} bytes, more than {limit}; give the model's own file"
    )]
    ConfigTooLarge {
        /// Its size.
        bytes: usize,
        /// The bound.
        limit: usize,
    },
    /// The tokenizer configuration does not have the expected form.
    #[error("tokenizer_config.json: {reason}; download it again")]
    ConfigJson {
        /// What the parser said.
        reason: String,
    },
    /// The tokenizer configuration was saved with a mark that JSON does not have.
    #[error(
        "tokenizer_config.json begins with a byte order mark, which JSON does not have; save it as UTF-8 without one, or download it again"
    )]
    ConfigByteOrderMark,
    /// The configuration names an id that is no special id of this rank file.
    #[error(
        "tokenizer_config.json names token {id}, but special ids are {first} to {last}; take both files from one model"
    )]
    SpecialId {
        /// The id as written.
        id: String,
        /// The first special id.
        first: u32,
        /// The last special id.
        last: u32,
    },
    /// A special token's name is empty or too long.
    #[error(
        "tokenizer_config.json has a token name of {bytes} bytes, allowed are 1 to {limit}; download it again"
    )]
    SpecialName {
        /// The length of the name.
        bytes: usize,
        /// The longest allowed.
        limit: usize,
    },
    /// Two special ids share a name.
    #[error(
        "tokenizer_config.json gives the name {name} to tokens {first} and {second}; download it again"
    )]
    SpecialTwice {
        /// The name.
        name: String,
        /// The first id.
        first: u32,
        /// The second id.
        second: u32,
    },
    /// A chat was to be encoded, but the tokenizer lacks one of its markers.
    #[error(
        "the tokenizer has no token named {name}, which chats need; give the model's tokenizer_config.json"
    )]
    NoMarker {
        /// The missing name.
        name: &'static str,
    },
}

/// An id that no token has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "token id {id} is outside the vocabulary of {vocab_size}; check that the ids come from this model"
)]
pub struct DecodeError {
    /// The id.
    pub id: u32,
    /// The number of ids.
    pub vocab_size: u32,
}
