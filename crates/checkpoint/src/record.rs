//! Records: bytes that are read together, and where the tensors lie among them.
//!
//! A record is one or more pieces, read back to back into one buffer. In the released
//! layout it is one piece; a checkpoint that was split or reordered has more, and reads
//! just the same.
//!
//! Every tensor lies in the buffer at a multiple of its element size, so that a buffer that
//! is itself aligned can be viewed as numbers.

use std::ops::Range;

use deltafin_spec::ExpertTensor;

use crate::Span;

/// Bytes to be read back to back into one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pieces: &'a [Span],
    len: u64,
}

impl<'a> Record<'a> {
    /// The record of these pieces, or nothing if their lengths overflow.
    pub fn new(pieces: &'a [Span]) -> Option<Record<'a>> {
        let len = pieces.iter().try_fold(0u64, |sum, piece| sum.checked_add(piece.len()))?;
        Some(Record { pieces, len })
    }

    /// The record of these pieces, which are known to be so many bytes.
    pub(crate) fn of(pieces: &'a [Span], len: u64) -> Record<'a> {
        Record { pieces, len }
    }

    /// The pieces, in the order of the buffer.
    pub fn pieces(self) -> &'a [Span] {
        self.pieces
    }

    /// The bytes of all pieces.
    #[allow(clippy::len_without_is_empty)] // no record of a catalog is empty
    pub fn len(self) -> u64 {
        self.len
    }

    /// Where a tensor of the record lies on disk, to read it alone. Nothing if the place is
    /// not inside one piece; those of the record's own tensors are.
    pub fn locate(self, place: TensorPlace) -> Option<Span> {
        let mut start = place.offset;
        for piece in self.pieces {
            if start < piece.len() {
                return piece.part(start, place.len);
            }
            start -= piece.len();
        }
        None
    }
}

/// Where a tensor lies in its record's buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorPlace {
    /// Offset in the buffer.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl TensorPlace {
    /// The place as a range of the buffer.
    pub fn range(self) -> Range<usize> {
        self.offset as usize..(self.offset + self.len) as usize
    }
}

/// Where the six tensors of an expert lie in its record. Nearly always all experts share one
/// layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpertLayout {
    places: [TensorPlace; 6],
    len: u64,
}

impl ExpertLayout {
    /// Where a tensor lies.
    pub fn place(&self, tensor: ExpertTensor) -> TensorPlace {
        self.places[tensor as usize]
    }

    /// A tensor's range of the buffer.
    pub fn range(&self, tensor: ExpertTensor) -> Range<usize> {
        self.place(tensor).range()
    }

    /// The bytes of the record.
    #[allow(clippy::len_without_is_empty)] // no record of a catalog is empty
    pub fn len(&self) -> u64 {
        self.len
    }
}

/// One routed expert.
#[derive(Clone, Copy, Debug)]
pub struct ExpertRecord<'a> {
    /// What to read.
    pub record: Record<'a>,
    /// What lies where in it.
    pub layout: &'a ExpertLayout,
}

/// Pieces, one offset per part (in the parts' own order), and the bytes of all.
pub(crate) struct Arrangement {
    pub(crate) pieces: Vec<Span>,
    pub(crate) offsets: Vec<u64>,
    pub(crate) len: u64,
}

/// A part to be placed: its bytes and the alignment it needs.
pub(crate) type Part = (Span, u64);

/// Orders the parts as they lie on disk and joins neighbours, the longest run first: whoever reads
/// moves the others. Where that would misalign a part, wide elements go first, which aligns all: each
/// part's length is a multiple of its own element size.
pub(crate) fn arrange(parts: &[Part]) -> Arrangement {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|&part| parts[part].0);
    let aligned = |found: &Arrangement| {
        let offsets = found.offsets.iter().zip(parts);
        offsets.into_iter().all(|(offset, part)| offset.is_multiple_of(part.1))
    };
    let on_disk = join(parts, &order);
    let run = |part: &usize| {
        let mut end = 0;
        let holds = |len: &u64| {
            end += len;
            on_disk.offsets[*part] < end
        };
        std::cmp::Reverse(on_disk.pieces.iter().map(|piece| piece.len()).find(holds))
    };
    order.sort_by_key(run);
    let longest_first = join(parts, &order);
    if let Some(found) = [longest_first, on_disk].into_iter().find(aligned) {
        return found;
    }
    order.sort_by_key(|&part| std::cmp::Reverse(parts[part].1));
    join(parts, &order)
}

fn join(parts: &[Part], order: &[usize]) -> Arrangement {
    let mut pieces: Vec<Span> = Vec::with_capacity(1);
    let mut offsets = vec![0; parts.len()];
    let mut len = 0;
    for &part in order {
        let span = parts[part].0;
        offsets[part] = len;
        len += span.len();
        if !pieces.last_mut().is_some_and(|last| last.absorb(span)) {
            pieces.push(span);
        }
    }
    Arrangement { pieces, offsets, len }
}

/// The records of all experts: 82,432 in the released model, at 32 bytes each.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpertTable {
    entries: Vec<ExpertEntry>,
    pieces: Vec<Span>,
    layouts: Vec<ExpertLayout>,
}

#[derive(Clone, Copy, Debug)]
struct ExpertEntry {
    first_piece: u32,
    pieces: u16,
    layout: u16,
}

impl ExpertTable {
    pub(crate) fn with_capacity(experts: usize) -> ExpertTable {
        ExpertTable {
            entries: Vec::with_capacity(experts),
            pieces: Vec::with_capacity(experts),
            layouts: Vec::new(),
        }
    }

    /// Adds the next expert; the spans are in the order of [`ExpertTensor::ALL`].
    pub(crate) fn push(&mut self, spans: [Span; 6]) {
        let arranged = arrange(&spans.map(|span| (span, 1)));
        let mut layout = ExpertLayout { places: Default::default(), len: arranged.len };
        for ((place, span), offset) in layout.places.iter_mut().zip(spans).zip(arranged.offsets) {
            *place = TensorPlace { offset, len: span.len() };
        }
        let layout = self.intern(layout);
        self.entries.push(ExpertEntry {
            first_piece: self.pieces.len() as u32,
            pieces: arranged.pieces.len() as u16,
            layout,
        });
        self.pieces.extend(arranged.pieces);
    }

    /// There are at most as many layouts as orders of six tensors.
    fn intern(&mut self, layout: ExpertLayout) -> u16 {
        let known = self.layouts.iter().position(|known| *known == layout);
        let number = known.unwrap_or_else(|| {
            self.layouts.push(layout);
            self.layouts.len() - 1
        });
        number as u16
    }

    pub(crate) fn get(&self, expert: usize) -> ExpertRecord<'_> {
        let entry = self.entries[expert];
        let first = entry.first_piece as usize;
        let pieces = &self.pieces[first..first + entry.pieces as usize];
        let layout = &self.layouts[entry.layout as usize];
        ExpertRecord { record: Record { pieces, len: layout.len }, layout }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ShardId;

    fn span(shard: u32, offset: u64, len: u64) -> Span {
        Span::new(ShardId::new(shard), offset, len).unwrap()
    }

    #[test]
    fn neighbours_become_one_piece_in_the_order_of_the_disk() {
        let arranged = arrange(&[(span(0, 40, 8), 4), (span(0, 32, 8), 4), (span(0, 48, 2), 2)]);
        assert_eq!(arranged.pieces, [span(0, 32, 18)]);
        assert_eq!(arranged.offsets, [8, 0, 16]);
        assert_eq!(arranged.len, 18);
    }

    #[test]
    fn scattered_parts_are_aligned_to_their_elements() {
        let arranged = arrange(&[(span(0, 0, 3), 1), (span(0, 3, 6), 2), (span(1, 0, 8), 4)]);
        assert_eq!(arranged.offsets, [14, 8, 0]);
        assert_eq!(arranged.pieces, [span(1, 0, 8), span(0, 3, 6), span(0, 0, 3)]);
    }

    #[test]
    fn experts_of_one_layout_share_it() {
        let mut table = ExpertTable::default();
        let at = |base: u64, lens: [u64; 6]| {
            let mut offset = base;
            lens.map(|len| {
                offset += len;
                span(0, offset - len, len)
            })
        };
        table.push(at(100, [4, 1, 4, 1, 4, 1]));
        table.push(at(300, [4, 1, 4, 1, 4, 1]));
        table.push([0, 10, 20, 30, 40, 50].map(|offset| span(2, 90 - offset, 4)));
        assert_eq!(table.layouts.len(), 2);
        assert_eq!(table.get(1).record.pieces(), [span(0, 300, 15)]);
        assert_eq!(table.get(1).layout.range(ExpertTensor::W2Packed), 5..9);
        assert_eq!(table.get(2).record.pieces().len(), 6);
        assert_eq!(table.get(2).layout.range(ExpertTensor::W3Scale), 0..4);
        assert_eq!(std::mem::size_of::<ExpertEntry>() + std::mem::size_of::<Span>(), 32);
    }
}
