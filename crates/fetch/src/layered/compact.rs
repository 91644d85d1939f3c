//! Where what setup brings of a shard lies in its base: in the order of the shard, without the experts between.

use std::path::Path;

use super::is_slotted;
use crate::cut::{Owner, PAGE_BYTES, Piece};
use crate::listing::RemoteFile;
use crate::map::Known;
use crate::prospect;

/// Bytes that follow each other in a shard, and in its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    offset: u64,
    end: u64,
    at: u64,
}

/// The places in a base. As long as the header is not known, nothing else is there, and that is where it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compact {
    runs: Vec<Run>,
}

impl Compact {
    /// Those of a shard of which these are all pieces.
    pub(crate) fn of(pieces: &[Piece]) -> Compact {
        let mut runs: Vec<Run> = Vec::new();
        for piece in pieces.iter().filter(|piece| !is_slotted(piece.owner)) {
            match runs.last_mut() {
                Some(run) if run.end == piece.offset => run.end = piece.end(),
                last => {
                    let end = last.map_or(0, |run| run.at + (run.end - run.offset));
                    let at = congruent(end, piece.offset);
                    runs.push(Run { offset: piece.offset, end: piece.end(), at });
                }
            }
        }
        Compact { runs }
    }

    /// Those of a shard in a folder that lies layer by layer, as far as its header is here.
    pub(crate) fn here(dir: &Path, file: &RemoteFile, known: &Known) -> Compact {
        let layered = Some(known).filter(|known| known.is_layered);
        let pieces = layered.and_then(|known| prospect::pieces_here(dir, file, known));
        // A header that is none gives pieces of the file as such, and says nothing.
        let pieces = pieces.filter(|all| all.iter().any(|piece| piece.owner != Owner::File));
        pieces.map_or_else(Compact::default, |pieces| Compact::of(&pieces))
    }

    /// Where the byte at an offset lies, and where in the shard the bytes end that follow it.
    pub(crate) fn run(&self, offset: u64) -> Option<(u64, u64)> {
        let next = self.runs.partition_point(|run| run.offset <= offset);
        let run = next.checked_sub(1).map(|at| self.runs[at]).filter(|run| offset < run.end)?;
        Some((run.at + (offset - run.offset), run.end))
    }

    /// Where the byte at an offset lies.
    pub(crate) fn position(&self, offset: u64) -> Option<u64> {
        if self.runs.is_empty() {
            return Some(offset);
        }
        self.run(offset).map(|run| run.0)
    }

    /// The length of the base; 0 as long as no header is known.
    pub(crate) fn bytes(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.at + (run.end - run.offset))
    }

    /// All pieces of a shard whose header ends at `extent`, with those of the header before the others.
    pub(crate) fn after_header(extent: u64, others: &[Piece]) -> Compact {
        let header = Piece { offset: 0, bytes: extent, owner: Owner::File };
        Compact::of(&[&[header], others].concat())
    }
}

/// The first number from `least` on that is `like` modulo a page.
fn congruent(least: u64, like: u64) -> u64 {
    let lead = like % PAGE_BYTES;
    least.saturating_sub(lead).next_multiple_of(PAGE_BYTES) + lead
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_lies_together_at_its_offsets_in_a_page() {
        let piece = |offset: u64, end: u64, owner| Piece { offset, bytes: end - offset, owner };
        let pieces = [
            piece(0, 8, Owner::File),
            piece(8, 900, Owner::File),
            piece(900, 5000, Owner::Layer(1)),
            piece(5000, 7000, Owner::Expert(1, 0)),
            piece(7000, 90_000, Owner::Expert(1, 1)),
            piece(90_000, 91_000, Owner::Layer(2)),
            piece(99_000, 99_001, Owner::Global),
        ];
        let compact = Compact::of(&pieces);
        assert_eq!(compact, Compact::after_header(900, &pieces[2..]));
        let (mut end, mut pages) = (0, 0);
        for piece in pieces.iter().filter(|piece| !is_slotted(piece.owner)) {
            let at = compact.position(piece.offset).unwrap();
            assert!(at >= end && at < end + PAGE_BYTES, "{piece:?} at {at} after {end}");
            assert_eq!(at % PAGE_BYTES, piece.offset % PAGE_BYTES);
            (end, pages) = (at + piece.bytes, pages + 1);
        }
        assert_eq!((compact.bytes(), pages), (end, 6));
        assert_eq!(compact.run(10), Some((10, 7000)), "up to the first record that is elsewhere");
        for elsewhere in [7000, 89_999, 91_000, 98_999, 99_001] {
            assert_eq!(compact.position(elsewhere), None, "{elsewhere}");
        }
        assert_eq!(congruent(4097, 4096), 8192);
        assert_eq!((congruent(0, 5), congruent(5, 5), congruent(6, 5)), (5, 5, 4101));
        let unknown = Compact::default();
        assert_eq!((unknown.position(8), unknown.bytes()), (Some(8), 0));
    }
}
