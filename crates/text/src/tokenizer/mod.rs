//! Text into ids and ids into bytes.
//!
//! Promises: the ids equal the publisher's encoder's for every input, the cuts of very
//! long input included. Two entry points that are never confused: [`Tokenizer::encode_text`]
//! for anything a person or a file supplied, [`Tokenizer::encode_markup`] for structure that
//! this program wrote itself. Nothing about the vocabulary is assumed but its shape: ranks from 0,
//! then 256 special ids.

mod bpe;
mod encoder;
mod error;
mod guard;
mod ranks;
mod special;
mod split;

pub use encoder::{Encoded, Encoder};
pub use error::{DecodeError, TokenizerError};
pub use ranks::RANK_FILE_BYTES_MAX;
pub use special::{SPECIAL_TOKENS, TOKENIZER_CONFIG_BYTES_MAX};

pub(crate) use guard::is_python_space;

use std::fmt;

use crate::chat::Segment;
use crate::reply::{Event, Marker};
use ranks::Ranks;
use special::Specials;

/// Names of the tokens after which nothing more is generated.
const STOP_NAMES: [&str; 3] = ["<|end_of_msg|>", "[EOS]", "[EOT]"];

/// The model's vocabulary, both ways.
pub struct Tokenizer {
    ranks: Ranks,
    specials: Specials,
    vocab_size: u32,
    markers: [(Option<u32>, Marker); 6],
}

/// Sizes only: the tables would fill a screen.
impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = (self.base(), self.vocab_size);
        f.debug_struct("Tokenizer").field("base", &sizes.0).field("vocab_size", &sizes.1).finish()
    }
}

impl Tokenizer {
    /// Reads `tiktoken.model` and, for the names of special tokens, `tokenizer_config.json`.
    ///
    /// # Errors
    /// When a file is too large, malformed or incomplete, or when the two do not belong together.
    pub fn new(rank_bytes: &[u8], tokenizer_config: Option<&[u8]>) -> Result<Self, TokenizerError> {
        let ranks = Ranks::parse(rank_bytes)?;
        let specials = Specials::new(ranks.len(), tokenizer_config)?;
        let vocab_size = ranks.len() + SPECIAL_TOKENS;
        let named = |name, marker| (specials.id(name), marker);
        let markers = [
            named(Marker::Open.spelling(), Marker::Open),
            named(Marker::Close.spelling(), Marker::Close),
            named(Marker::Sep.spelling(), Marker::Sep),
            named(STOP_NAMES[0], Marker::End),
            named(STOP_NAMES[1], Marker::End),
            named(STOP_NAMES[2], Marker::End),
        ];
        Ok(Self { ranks, specials, vocab_size, markers })
    }

    /// Takes the vocabulary size of the model's configuration, where it differs from ranks plus
    /// special ids. Ids past the table then decode to nothing instead of being refused.
    #[must_use]
    pub fn with_vocab_size(mut self, vocab_size: u32) -> Self {
        self.vocab_size = vocab_size;
        self
    }

    /// The number of ids the model knows.
    #[must_use]
    pub fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    /// The number of ordinary tokens; the special ids begin here.
    #[must_use]
    pub fn base(&self) -> u32 {
        self.ranks.len()
    }

    /// The id of a special token by its name, such as `<|open|>`.
    #[must_use]
    pub fn special_id(&self, name: &str) -> Option<u32> {
        self.specials.id(name)
    }

    /// The name of a special token; nothing for an ordinary one.
    #[must_use]
    pub fn special_name(&self, id: u32) -> Option<&str> {
        self.specials.name(id)
    }

    /// The ids that end a reply by their names: `<|end_of_msg|>`, `[EOS]`, `[EOT]`, as far as the
    /// tokenizer has them. The caller adds what the model's configuration declares.
    #[must_use]
    pub fn stop_ids(&self) -> Vec<u32> {
        STOP_NAMES.iter().filter_map(|name| self.special_id(name)).collect()
    }

    /// The ids of ordinary text. Spellings of special tokens are text like any other.
    #[must_use]
    pub fn encode_text(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        guard::parts(text).for_each(|part| self.encode_part(part, &mut ids));
        ids
    }

    /// The ids of trusted markup: spellings of special tokens become their ids. Never give
    /// this anything that came from a request.
    #[must_use]
    pub fn encode_markup(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        for mut rest in guard::parts(text) {
            while let Some((start, end, id)) = self.specials.find(rest) {
                self.encode_part(&rest[..start], &mut ids);
                ids.push(id);
                rest = &rest[end..];
            }
            self.encode_part(rest, &mut ids);
        }
        ids
    }

    /// The ids of a rendered chat. Each segment is encoded on its own.
    ///
    /// # Errors
    /// When the tokenizer lacks a marker, whose spelling would otherwise pass as text.
    pub fn encode_segments(&self, segments: &[Segment]) -> Result<Vec<u32>, TokenizerError> {
        self.encode_segments_within(segments, usize::MAX).map(|encoded| encoded.ids)
    }

    /// As [`Tokenizer::encode_segments`], of which at most `most` ids are kept.
    ///
    /// # Errors
    /// As there.
    pub fn encode_segments_within(
        &self,
        segments: &[Segment],
        most: usize,
    ) -> Result<Encoded, TokenizerError> {
        encoder::segments(self, segments, most)
    }

    /// Bytes of the longest ordinary token: a text of more than `n` times as many has more than `n`
    /// tokens.
    #[must_use]
    pub fn longest_token_bytes(&self) -> usize {
        self.ranks.longest()
    }

    /// The bytes of one token: a special one's are its name.
    ///
    /// # Errors
    /// When the id is outside the vocabulary.
    pub fn token_bytes(&self, id: u32) -> Result<&[u8], DecodeError> {
        if id >= self.vocab_size {
            return Err(DecodeError { id, vocab_size: self.vocab_size });
        }
        let special = || self.specials.name(id).map(str::as_bytes);
        Ok(self.ranks.bytes(id).or_else(special).unwrap_or_default())
    }

    /// The bytes of all tokens, end to end.
    ///
    /// # Errors
    /// When an id is outside the vocabulary.
    pub fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, DecodeError> {
        let mut bytes = Vec::new();
        for &id in ids {
            bytes.extend_from_slice(self.token_bytes(id)?);
        }
        Ok(bytes)
    }

    /// The text of all tokens; bytes that form no character become U+FFFD.
    ///
    /// # Errors
    /// When an id is outside the vocabulary.
    pub fn text(&self, ids: &[u32]) -> Result<String, DecodeError> {
        Ok(String::from_utf8_lossy(&self.decode(ids)?).into_owned())
    }

    /// What a generated id means to a reply: structure, bytes, or nothing to show.
    ///
    /// # Errors
    /// When the id is outside the vocabulary.
    pub fn event(&self, id: u32) -> Result<Event<'_>, DecodeError> {
        let bytes = self.token_bytes(id)?;
        if id < self.base() {
            return Ok(Event::Bytes(bytes));
        }
        let marker = self.markers.iter().find(|(marker_id, _)| *marker_id == Some(id));
        Ok(marker.map_or(Event::Other, |&(_, marker)| Event::Marker(marker)))
    }

    fn encode_part(&self, part: &str, ids: &mut Vec<u32>) {
        split::for_each_piece(part, |piece| {
            bpe::encode_piece(&self.ranks, piece.as_bytes(), ids);
        });
    }

    fn require_markers(&self) -> Result<(), TokenizerError> {
        let missing = Marker::ALL.iter().find(|m| self.special_id(m.spelling()).is_none());
        missing.map_or(Ok(()), |m| Err(TokenizerError::NoMarker { name: m.spelling() }))
    }
}
