//! A file in pieces, so that each is one range: an expert's record, a layer's spine.

use deltafin_checkpoint::{Header, TensorInfo};

/// Bytes that lie elsewhere than in their shard keep their offset modulo this: reads past the page cache bring the
/// same pages.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// The longest piece. A record of K3 has 17.5 MB.
const PIECE_BYTES: u64 = 32 << 20;
/// The length that a shard begins with.
pub(crate) const LENGTH_BYTES: u64 = 8;

/// What the bytes of a piece belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// To the file as such.
    File,
    /// To what all tokens use, outside the layers.
    Global,
    /// To a layer's spine.
    Layer(u32),
    /// To an expert of a layer.
    Expert(u32, u32),
}

impl Owner {
    /// The layer, if it is in one.
    pub(crate) fn layer(self) -> Option<u32> {
        match self {
            Owner::Layer(layer) | Owner::Expert(layer, _) => Some(layer),
            Owner::File | Owner::Global => None,
        }
    }

    fn of(tensor: &str) -> Owner {
        let number = |from: &str| from.split('.').next().and_then(|digits| digits.parse().ok());
        let after = |word: &str| tensor.split_once(word).and_then(|(_, rest)| number(rest));
        match (after(".layers."), after(".experts.")) {
            (Some(layer), Some(expert)) => Owner::Expert(layer, expert),
            (Some(layer), None) => Owner::Layer(layer),
            (None, _) => Owner::Global,
        }
    }
}

/// Bytes of a file that are fetched by one range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Piece {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) owner: Owner,
}

impl Piece {
    /// The first byte after it.
    pub(crate) fn end(self) -> u64 {
        self.offset + self.bytes
    }
}

/// Pieces of like length from `offset` to `end`.
pub(crate) fn even(offset: u64, end: u64, owner: Owner) -> Vec<Piece> {
    let bytes = end.saturating_sub(offset);
    let count = bytes.div_ceil(PIECE_BYTES);
    let cut = |at: u64| offset + (u128::from(bytes) * u128::from(at) / u128::from(count)) as u64;
    let piece = |at| Piece { offset: cut(at), bytes: cut(at + 1) - cut(at), owner };
    (0..count).map(piece).collect()
}

/// The pieces of a shard after its header.
pub(crate) fn shard(header: &Header<'_>) -> Vec<Piece> {
    let with_bytes = |tensor: &&TensorInfo<'_>| tensor.len > 0;
    let mut pieces = Vec::new();
    let mut run: Option<(Owner, u64, u64)> = None;
    for tensor in header.tensors.iter().filter(with_bytes) {
        let (owner, end) = (Owner::of(&tensor.name), tensor.offset + tensor.len);
        match &mut run {
            Some((of, _, to)) if *of == owner => *to = end,
            _ => {
                let ended = run.replace((owner, tensor.offset, end));
                pieces.extend(ended.into_iter().flat_map(|(of, from, to)| even(from, to, of)));
            }
        }
    }
    pieces.extend(run.into_iter().flat_map(|(of, from, to)| even(from, to, of)));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_whose_bytes_they_are() {
        let in_layer = |rest: &str| Owner::of(&format!("language_model.model.layers.7.{rest}"));
        assert_eq!(in_layer("block_sparse_moe.experts.31.w1.weight"), Owner::Expert(7, 31));
        assert_eq!(in_layer("block_sparse_moe.shared_experts.up.weight"), Owner::Layer(7));
        assert_eq!(Owner::of("language_model.model.embed_tokens.weight"), Owner::Global);
    }

    #[test]
    fn even_pieces_cover_once() {
        for bytes in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES - 3] {
            let pieces = even(100, 100 + bytes, Owner::File);
            assert!(pieces.iter().all(|piece| piece.bytes > 0 && piece.bytes <= PIECE_BYTES));
            let end = pieces.iter().fold(100, |at, piece| {
                assert_eq!(piece.offset, at);
                piece.end()
            });
            assert_eq!(end, 100 + bytes);
        }
    }
}
