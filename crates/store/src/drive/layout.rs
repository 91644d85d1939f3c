//! Where the pieces of a record go in a slab, and how they are cut into chunks.
//!
//! Each piece has a *region* of the slab: the pages of the file that it touches, or with an
//! alignment of 1 exactly its bytes. The regions follow each other. A record of one piece stays
//! where it was read to, at the offset in its page that it has in the file; several are moved
//! together when all are there.
//!
//! ```text
//! file   │····▓▓▓▓│▓▓▓▓▓▓▓▓│▓▓······│      page borders, ▓ the piece
//! slab   │····▓▓▓▓│▓▓▓▓▓▓▓▓│▓▓······│next region
//! ```

use std::ops::Range;

use deltafin_checkpoint::Span;

use crate::arena::PAGE_BYTES;

/// The room in bytes that a slab needs for a record of these pieces, whatever the mode.
pub fn room_for(pieces: &[Span]) -> usize {
    pieces.iter().map(|&piece| region(piece, PAGE_BYTES as u64).1 as usize).sum()
}

/// Where in its file the region of a piece begins, and its length.
fn region(piece: Span, align: u64) -> (u64, u64) {
    if piece.len() == 0 {
        return (piece.offset(), 0);
    }
    let start = piece.offset() / align * align;
    (start, piece.end().next_multiple_of(align) - start)
}

/// A run of a file that is read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The piece it is for, and which that is.
    pub(super) piece: Span,
    pub(super) number: usize,
    /// Where in the file, and how many bytes.
    pub(super) at: u64,
    pub(super) len: usize,
    /// Bytes of it before the piece begins.
    pub(super) lead: usize,
    /// Bytes of it up to the piece's end; what follows need not be there.
    pub(super) enough: usize,
}

impl Run {
    /// What must come of it.
    pub(super) fn wanted(self) -> Span {
        let start = self.at + self.lead as u64;
        let wanted = Span::new(self.piece.shard(), start, (self.enough - self.lead) as u64);
        wanted.expect("a run ends where its piece does, or before")
    }
}

/// Goes through the regions of a record's pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    number: usize,
    done: u64,
}

impl Cursor {
    /// The next run of at most `most` bytes, which is a multiple of `align`.
    pub(super) fn next(&mut self, pieces: &[Span], align: u64, most: u64) -> Option<Run> {
        while self.done == region(*pieces.get(self.number)?, align).1 {
            *self = Cursor { number: self.number + 1, done: 0 };
        }
        let piece = pieces[self.number];
        let (start, whole) = region(piece, align);
        let at = start + self.done;
        let len = (whole - self.done).min(most);
        self.done += len;
        Some(Run {
            piece,
            number: self.number,
            at,
            len: len as usize,
            lead: piece.offset().saturating_sub(at) as usize,
            enough: len.min(piece.end() - at) as usize,
        })
    }

    /// Whether nothing is left.
    pub(super) fn is_over(mut self, pieces: &[Span], align: u64) -> bool {
        self.next(pieces, align, align).is_none()
    }
}

/// Moves the pieces together; gives where the record is then.
pub(super) fn join(slab: &mut [u8], pieces: &[Span], align: u64) -> Range<usize> {
    let mut record: Option<Range<usize>> = None;
    let mut begins = 0;
    for &piece in pieces.iter().filter(|piece| piece.len() > 0) {
        let (start, whole) = region(piece, align);
        let from = begins + (piece.offset() - start) as usize;
        let bytes = from..from + piece.len() as usize;
        record = Some(match record {
            None => bytes,
            Some(so_far) => {
                let end = so_far.end + bytes.len();
                if bytes.start != so_far.end {
                    slab.copy_within(bytes, so_far.end);
                }
                so_far.start..end
            }
        });
        begins += whole as usize;
    }
    record.unwrap_or(0..0)
}
