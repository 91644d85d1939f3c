//! What the bytes of a pack are held against when they are used.

use std::ops::Range;

use super::layout::FILE_ALIGN;
use super::{CHUNK_BYTES, Digest};
use crate::Span;

/// The digests of a pack's file, for whoever has read the part of it that a pass uses: a layer's
/// spine, or the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    used: Span,
    file_bytes: u64,
    digests: Box<[Digest]>,
}

impl Seal {
    /// Of a file of so many bytes, of which a pass uses `used`. Only zeros follow it.
    pub(crate) fn new(used: Span, file_bytes: u64, digests: &[Digest]) -> Seal {
        Seal { used, file_bytes, digests: digests.into() }
    }

    /// The bytes of the file in front of those that are used; none for a layer.
    pub fn front(&self) -> Option<Span> {
        Span::new(self.used.shard(), 0, self.used.offset()).filter(|front| front.len() > 0)
    }

    /// The first chunk of the file that is not as it was written, given the bytes in front and those
    /// that are used, the parts in which they were read in the order of the file. `whole` gives the digest of bytes that
    /// follow each other, as [`Digest::of`] does.
    pub fn broken(
        &self,
        front: &[u8],
        used: &[&[u8]],
        whole: &dyn Fn(&[u8]) -> Digest,
    ) -> Option<Span> {
        let zeros: &[u8] = &[0; FILE_ALIGN as usize];
        let parts = [&[front], used, &[zeros]].concat();
        let chunk = |number: usize| {
            let start = number as u64 * CHUNK_BYTES;
            start..self.file_bytes.min(start + CHUNK_BYTES)
        };
        let kept = |number: &usize| digest(&parts, chunk(*number), whole) == self.digests[*number];
        let first = (0..self.digests.len()).find(|number| !kept(number))?;
        let place = chunk(first);
        Span::new(self.used.shard(), place.start, place.end - place.start)
    }
}

/// The digest of a range of what the parts are together.
fn digest(parts: &[&[u8]], range: Range<u64>, whole: &dyn Fn(&[u8]) -> Digest) -> Digest {
    let (from, to) = (range.start as usize, range.end as usize);
    let mut begins = 0;
    let inside = parts.iter().map(|part| {
        let start = from.saturating_sub(begins).min(part.len());
        let end = to.saturating_sub(begins).min(part.len());
        begins += part.len();
        &part[start..end]
    });
    let mut inside = inside.filter(|part| !part.is_empty());
    match inside.next() {
        Some(one) if one.len() == to - from => whole(one),
        first => Digest::of_parts(first.into_iter().chain(inside)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ShardId;
    use crate::pack::ChunkHasher;

    #[test]
    fn a_changed_byte_is_found_in_its_chunk() {
        let bytes: Vec<u8> = (0..CHUNK_BYTES as usize + 5000).map(|i| (i % 251) as u8).collect();
        let mut file = ChunkHasher::default();
        file.update(&bytes);
        file.update(&[0; 100]);
        let file_bytes = bytes.len() as u64 + 100;
        let used = Span::new(ShardId::new(3), 70, bytes.len() as u64 - 70).unwrap();
        let seal = Seal::new(used, file_bytes, &file.finish());
        assert_eq!(seal.front(), Span::new(ShardId::new(3), 0, 70));
        let broken = |at: usize| {
            let mut bytes = bytes.clone();
            bytes[at] ^= 4;
            let (front, used) = bytes.split_at(70);
            seal.broken(front, &[used], &Digest::of).map(|chunk| (chunk.offset(), chunk.len()))
        };
        let (front, rest) = bytes.split_at(70);
        assert_eq!(seal.broken(front, &[rest], &Digest::of), None);
        let (first, second) = rest.split_at(1000);
        assert_eq!(seal.broken(front, &[first, second], &Digest::of), None);
        assert!(seal.broken(front, &[second, first], &Digest::of).is_some());
        for at in [0, 69, 70, CHUNK_BYTES as usize - 1] {
            assert_eq!(broken(at), Some((0, CHUNK_BYTES)), "{at}");
        }
        for at in [CHUNK_BYTES as usize, bytes.len() - 1] {
            assert_eq!(broken(at), Some((CHUNK_BYTES, 5100)), "{at}");
        }
        assert!(seal.broken(front, &[&rest[1..]], &Digest::of).is_some());
    }
}
