//! Digests of a shard that was here before setup was, made while it is read to be proven.

use std::collections::BTreeMap;

use crate::cut::Piece;
use crate::map::Digest;

/// Takes in a file from its first byte on, and digests its pieces.
pub(crate) struct Adopted {
    pieces: std::vec::IntoIter<Piece>,
    /// The piece that bytes are in, or come to next.
    now: Option<Piece>,
    at: u64,
    hasher: blake3::Hasher,
    found: BTreeMap<u64, (u64, Digest)>,
}

impl Adopted {
    /// Of a file with these pieces, in the order of bytes.
    pub(crate) fn of(pieces: Vec<Piece>) -> Adopted {
        let mut pieces = pieces.into_iter();
        let now = pieces.next();
        Adopted { pieces, now, at: 0, hasher: blake3::Hasher::new(), found: BTreeMap::new() }
    }

    /// Takes in the next bytes.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while let Some(piece) = self.now.filter(|_| !bytes.is_empty()) {
            let is_before = self.at < piece.offset;
            let to = if is_before { piece.offset } else { piece.end() };
            let (now, rest) = bytes.split_at(bytes.len().min((to - self.at) as usize));
            if !is_before {
                self.hasher.update(now);
            }
            self.at += now.len() as u64;
            bytes = rest;
            if self.at == piece.end() {
                let digest = *self.hasher.finalize().as_bytes();
                self.found.insert(piece.offset, (piece.bytes, digest));
                self.hasher.reset();
                self.now = self.pieces.next();
            }
        }
    }

    /// Length and digest of the pieces, by their first byte.
    pub(crate) fn pieces(self) -> BTreeMap<u64, (u64, Digest)> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cut::Owner;

    #[test]
    fn blocks_of_any_length_give_the_digests_of_pieces() {
        let bytes: Vec<u8> = (0..=255).collect();
        let piece = |offset, bytes| Piece { offset, bytes, owner: Owner::File };
        let pieces = vec![piece(0, 8), piece(8, 40), piece(60, 100), piece(160, 90)];
        let digest = |piece: &Piece| {
            let bytes = &bytes[piece.offset as usize..piece.end() as usize];
            (piece.offset, (piece.bytes, *blake3::hash(bytes).as_bytes()))
        };
        let wanted: BTreeMap<_, _> = pieces.iter().map(digest).collect();
        for length in [1, 7, 8, 50, 256] {
            let mut adopted = Adopted::of(pieces.clone());
            bytes.chunks(length).for_each(|block| adopted.update(block));
            assert_eq!(adopted.pieces(), wanted, "{length}");
        }
    }
}
