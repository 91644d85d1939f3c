//! Digests of a file's chunks, which tell damage to 16 MiB.

use std::fmt;

/// Bytes under one digest.
pub const CHUNK_BYTES: u64 = 16 << 20;

/// The BLAKE3 hash of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of a chunk.
    pub fn of(chunk: &[u8]) -> Digest {
        Digest(*blake3::hash(chunk).as_bytes())
    }

    /// The digest of a chunk that comes in parts.
    pub(super) fn of_parts<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Digest {
        let mut hasher = PartsHasher::default();
        parts.for_each(|part| hasher.update(part));
        hasher.finish()
    }

    /// The digest that is written with these 64 lower-case hexadecimal digits.
    pub fn parse(hex: &str) -> Option<Digest> {
        let digits = hex.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Digest(bytes))
    }
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

impl From<[u8; 32]> for Digest {
    fn from(hash: [u8; 32]) -> Digest {
        Digest(hash)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// The digest of bytes that come in parts of any length.
#[derive(Clone, Debug, Default)]
pub struct PartsHasher(blake3::Hasher);

impl PartsHasher {
    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all that was taken in.
    pub fn finish(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

/// Digests of a file that comes in pieces of any length. A clone is a place to come back to.
#[derive(Clone, Debug, Default)]
pub struct ChunkHasher {
    chunk: blake3::Hasher,
    filled: u64,
    digests: Vec<Digest>,
}

impl ChunkHasher {
    /// Takes in the next bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = (CHUNK_BYTES - self.filled) as usize;
            let (now, rest) = bytes.split_at(bytes.len().min(room));
            self.chunk.update(now);
            self.filled += now.len() as u64;
            if self.filled == CHUNK_BYTES {
                self.close();
            }
            bytes = rest;
        }
    }

    /// The digests of all that was taken in.
    pub fn finish(mut self) -> Vec<Digest> {
        if self.filled > 0 {
            self.close();
        }
        self.digests
    }

    fn close(&mut self) {
        self.digests.push(Digest(*self.chunk.finalize().as_bytes()));
        self.chunk.reset();
        self.filled = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_length_give_the_digests_of_chunks() {
        let bytes: Vec<u8> = (0..CHUNK_BYTES as usize + 5).map(|i| (i % 251) as u8).collect();
        let mut hasher = ChunkHasher::default();
        bytes.chunks(1_000_003).for_each(|piece| hasher.update(piece));
        let (first, second) = bytes.split_at(CHUNK_BYTES as usize);
        assert_eq!(hasher.finish(), [Digest::of(first), Digest::of(second)]);
        assert_eq!(ChunkHasher::default().finish(), []);
    }

    #[test]
    fn digests_are_blake3_and_read_back() {
        let digest = Digest::of(b"");
        let known = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(digest.to_string(), known);
        assert_eq!(Digest::parse(known), Some(digest));
        assert_eq!(Digest::parse(&known.to_uppercase()), None);
        assert_eq!(Digest::parse(&known[1..]), None);
    }
}
