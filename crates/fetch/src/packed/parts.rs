//! Which bytes of which shard are in which part of a pack, and how much room that takes.

use deltafin_checkpoint::pack::PackPart;
use deltafin_checkpoint::{Catalog, Recipe, Span};
use deltafin_setup::{packed_bytes, released_spans};

use crate::cut::Piece;

/// Shards whose spine lies in both forms at the most: those in the making, and one that shares a layer with
/// them.
const SHARDS_IN_BOTH_FORMS: usize = crate::bring::FILES_AT_ONCE + 1;

/// The parts of a pack, and where their source is.
#[derive(Debug)]
pub(crate) struct Parts {
    parts: Vec<Packed>,
    /// Of each shard: first byte, end and part, in the order of bytes.
    ranges: Vec<Vec<(u64, u64, PackPart)>>,
    /// Bytes that stay in the shards although a part is made of them.
    kept: Vec<Span>,
}

/// A part of a pack.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) part: PackPart,
    /// Bytes of its file.
    pub(crate) bytes: u64,
    /// What it is made from.
    pub(crate) spans: Vec<Span>,
}

impl Parts {
    /// The parts of a recipe; `kept` are bytes that stay where they are.
    pub(crate) fn of(catalog: &Catalog, recipe: Recipe, kept: Vec<Span>) -> Parts {
        let part = |part| Packed {
            part,
            bytes: packed_bytes(catalog, part, recipe),
            spans: released_spans(catalog, part),
        };
        let parts: Vec<Packed> = PackPart::all(catalog.spec()).map(part).collect();
        let mut ranges = vec![Vec::new(); catalog.shards().len()];
        for packed in &parts {
            for span in &packed.spans {
                ranges[span.shard().index()].push((span.offset(), span.end(), packed.part));
            }
        }
        ranges.iter_mut().for_each(|of_shard| of_shard.sort_unstable());
        Parts { parts, ranges, kept }
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[Packed] {
        &self.parts
    }

    /// The parts that are made from bytes of a shard.
    pub(crate) fn from(&self, shard: usize) -> impl Iterator<Item = &Packed> {
        let is_of = move |packed: &&Packed| packed.spans.iter().any(|s| s.shard().index() == shard);
        self.parts.iter().filter(is_of)
    }

    /// Whether every byte of a piece is in parts of which `has` says that they are made, so that nobody
    /// needs it any more.
    pub(crate) fn hold(&self, shard: usize, piece: &Piece, has: impl Fn(PackPart) -> bool) -> bool {
        let mut at = piece.offset;
        for (first, end, part) in self.ranges.get(shard).into_iter().flatten() {
            if *end > at && *first <= at && at < piece.end() {
                if !has(*part) {
                    return false;
                }
                at = *end;
            }
        }
        let overlaps = |span: &Span| {
            span.shard().index() == shard
                && span.offset() < piece.end()
                && piece.offset < span.end()
        };
        at >= piece.end() && !self.kept.iter().any(overlaps)
    }

    /// The parts that bytes of a piece are in.
    pub(crate) fn around(
        &self,
        shard: usize,
        piece: &Piece,
    ) -> impl Iterator<Item = PackPart> + use<'_> {
        let (from, to) = (piece.offset, piece.end());
        let ranges = self.ranges.get(shard).into_iter().flatten();
        ranges.filter(move |(first, end, _)| *first < to && from < *end).map(|range| range.2)
    }

    /// Bytes of the whole pack.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|packed| packed.bytes).sum()
    }

    /// Bytes of the longest file.
    pub(crate) fn longest(&self) -> u64 {
        self.parts.iter().map(|packed| packed.bytes).max().unwrap_or(0)
    }

    /// Bytes that lie in both forms at the most, while shards arrive: what the parts are made of that have
    /// to do with the shards in the making.
    pub(crate) fn window(&self) -> u64 {
        let source = |packed: &Packed| packed.spans.iter().map(|span| span.len()).sum::<u64>();
        let mut shards: Vec<u64> =
            (0..self.ranges.len()).map(|shard| self.from(shard).map(source).sum()).collect();
        shards.sort_unstable();
        shards.iter().rev().take(SHARDS_IN_BOTH_FORMS).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cut::Owner;

    fn piece(offset: u64, end: u64) -> Piece {
        Piece { offset, bytes: end - offset, owner: Owner::Global }
    }

    #[test]
    fn only_what_is_in_made_parts_from_end_to_end_is_held() {
        let checkpoint = deltafin_testkit::open("k3-micro");
        let (catalog, recipe) = (&checkpoint.catalog, Recipe::Int8);
        let parts = Parts::of(catalog, recipe, checkpoint.never_packed(recipe).collect());
        let globals = catalog.globals();
        let (norm, head, embed) =
            (globals.norm.span, globals.head.tensor().span, globals.embed.tensor().span);
        let hold = |span: Span, from: u64, to: u64, has: bool| {
            parts.hold(span.shard().index(), &piece(from, to), |_| has)
        };
        assert!(hold(norm, norm.offset(), norm.end(), true));
        assert!(!hold(norm, norm.offset(), norm.end(), false), "the part is not made");
        assert!(!hold(embed, embed.offset(), embed.end(), true), "no part has it");
        assert!(!hold(head, head.offset(), head.end(), true), "the identity needs its front");
        assert!(hold(head, head.end() - 100, head.end(), true));
        let before = hold(norm, norm.offset() - 1, norm.end(), true);
        let around = parts.around(norm.shard().index(), &piece(norm.offset() - 1, norm.end()));
        assert_eq!(before, around.count() > 1, "a neighbour counts if a part has it");
        assert!(parts.longest() < parts.bytes() && parts.window() > 0);
    }
}
