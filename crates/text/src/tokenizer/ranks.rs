//! The rank file: one token a line, base64, a space, its rank.
//!
//! Promises: a [`Ranks`] is complete and consistent. Ranks are contiguous from 0, no token is
//! empty or listed twice, and all 256 single bytes are present, so every text has an encoding.
//! The order of the single bytes is the file's own; it is looked up, never assumed.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::TokenizerError;

/// The largest rank file that is looked at: five times the release's.
pub const RANK_FILE_BYTES_MAX: usize = 16 << 20;
/// The longest token accepted: the release's longest is 256 bytes.
const TOKEN_BYTES_MAX: usize = 1024;

/// The ordinary tokens, by bytes and by rank.
#[derive(Debug)]
pub(crate) struct Ranks {
    by_bytes: HashMap<Box<[u8]>, u32>,
    /// All tokens end to end; token `r` ends at `ends[r]`.
    bytes: Vec<u8>,
    ends: Vec<u32>,
    single: [u32; 256],
    longest: usize,
}

impl Ranks {
    pub(crate) fn parse(file: &[u8]) -> Result<Self, TokenizerError> {
        if file.len() > RANK_FILE_BYTES_MAX {
            let (bytes, limit) = (file.len(), RANK_FILE_BYTES_MAX);
            return Err(TokenizerError::RankFileTooLarge { bytes, limit });
        }
        let mut ranks = Self::empty();
        for (at, line) in file.split(|&b| b == b'\n').enumerate() {
            if !line.is_empty() {
                ranks.add_line(line, at + 1)?;
            }
        }
        ranks.index_single_bytes()?;
        Ok(ranks)
    }

    fn empty() -> Self {
        let (by_bytes, bytes, ends) = (HashMap::new(), Vec::new(), Vec::new());
        Self { by_bytes, bytes, ends, single: [0; 256], longest: 0 }
    }

    fn add_line(&mut self, line: &[u8], number: usize) -> Result<(), TokenizerError> {
        let (token, rank) = parse_line(line, number)?;
        let expected = self.len();
        if rank != expected {
            return Err(TokenizerError::RankOrder { line: number, expected, found: rank });
        }
        self.longest = self.longest.max(token.len());
        self.bytes.extend_from_slice(&token);
        self.ends.push(self.bytes.len() as u32);
        match self.by_bytes.insert(token.into_boxed_slice(), rank) {
            Some(first) => Err(TokenizerError::DuplicateToken { line: number, first }),
            None => Ok(()),
        }
    }

    fn index_single_bytes(&mut self) -> Result<(), TokenizerError> {
        for byte in 0..=255u8 {
            let rank = self.get(&[byte]).ok_or(TokenizerError::MissingByte { byte })?;
            self.single[usize::from(byte)] = rank;
        }
        Ok(())
    }

    /// The number of ordinary tokens; the special ids begin here.
    pub(crate) fn len(&self) -> u32 {
        self.ends.len() as u32
    }

    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    pub(crate) fn get(&self, bytes: &[u8]) -> Option<u32> {
        self.by_bytes.get(bytes).copied()
    }

    pub(crate) fn single(&self, byte: u8) -> u32 {
        self.single[usize::from(byte)]
    }

    pub(crate) fn bytes(&self, rank: u32) -> Option<&[u8]> {
        let at = rank as usize;
        let end = *self.ends.get(at)? as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Some(&self.bytes[start..end])
    }
}

fn parse_line(line: &[u8], number: usize) -> Result<(Vec<u8>, u32), TokenizerError> {
    let malformed = |reason| TokenizerError::RankLine { line: number, reason };
    let space = line.iter().position(|&b| b == b' ').ok_or(malformed("no space"))?;
    let (encoded, rank) = (&line[..space], &line[space + 1..]);
    let token = STANDARD.decode(encoded).map_err(|_| malformed("the token is not base64"))?;
    if token.is_empty() {
        return Err(malformed("the token is empty"));
    }
    if token.len() > TOKEN_BYTES_MAX {
        return Err(malformed("the token is longer than 1024 bytes"));
    }
    let rank = parse_decimal(rank).ok_or(malformed("the rank is not a decimal number"))?;
    Ok((token, rank))
}

/// Digits only: `str::parse` alone would let a sign through.
fn parse_decimal(digits: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(digits).ok()?;
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}
