//! Text of any length into ids of which only so many are kept.
//!
//! **Promise.** However a text is divided into pushes, its ids are those of
//! [`Tokenizer::encode_text`]. What is held at a time is one part of the text, which is 400,000
//! characters at most, what the merging of one piece takes, and the ids that are kept. Those beyond are
//! counted and forgotten, so that a text that is far too long costs no memory to find out.

use super::guard::{self, Cuts};
use super::{Tokenizer, TokenizerError, bpe, split};
use crate::chat::Segment;

/// The beginning of a text as ids, and how long all of it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The first ids, as many as were to be kept at most.
    pub ids: Vec<u32>,
    /// How many ids the whole text has.
    pub count: usize,
}

/// Encodes ordinary text that comes piece by piece.
#[derive(Debug)]
pub struct Encoder<'t> {
    /// What follows the last cut.
    pending: String,
    cuts: Cuts,
    kept: Kept<'t>,
}

impl<'t> Encoder<'t> {
    /// Begins a text of which at most `most` ids are kept.
    #[must_use]
    pub fn new(tokenizer: &'t Tokenizer, most: usize) -> Encoder<'t> {
        let kept = Kept { tokenizer, most, encoded: Encoded::default() };
        Encoder { pending: String::new(), cuts: Cuts::default(), kept }
    }

    /// The text goes on. Spellings of special tokens are text like any other.
    pub fn push(&mut self, text: &str) {
        self.pending.push_str(text);
        while let Some(at) = self.cuts.next(&self.pending) {
            self.kept.part(&self.pending[..at]);
            self.pending.drain(..at);
        }
    }

    /// The text is over.
    #[must_use]
    pub fn finish(mut self) -> Encoded {
        self.kept.part(&self.pending);
        self.kept.encoded
    }
}

/// The ids of a rendered chat. Each segment is encoded on its own.
pub(super) fn segments(
    tokenizer: &Tokenizer,
    segments: &[Segment],
    most: usize,
) -> Result<Encoded, TokenizerError> {
    tokenizer.require_markers()?;
    let mut kept = Kept { tokenizer, most, encoded: Encoded::default() };
    for segment in segments {
        match segment.is_markup() {
            true => kept.take(&mut tokenizer.encode_markup(segment.text())),
            false => guard::parts(segment.text()).for_each(|part| kept.part(part)),
        }
    }
    Ok(kept.encoded)
}

/// Ids up to a number.
#[derive(Debug)]
struct Kept<'t> {
    tokenizer: &'t Tokenizer,
    most: usize,
    encoded: Encoded,
}

impl Kept<'_> {
    fn part(&mut self, part: &str) {
        let mut ids = Vec::new();
        split::for_each_piece(part, |piece| {
            bpe::encode_piece(&self.tokenizer.ranks, piece.as_bytes(), &mut ids);
            self.take(&mut ids);
        });
    }

    fn take(&mut self, ids: &mut Vec<u32>) {
        self.encoded.count += ids.len();
        ids.truncate(self.most - self.encoded.ids.len());
        self.encoded.ids.append(ids);
        ids.clear();
    }
}
