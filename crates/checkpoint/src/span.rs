//! Where bytes are: a shard, an offset in its file, a length.

use std::fmt;

/// A shard of the checkpoint, counted from 0 in the order of the shards' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(u32);

impl ShardId {
    /// The id with this number.
    pub const fn new(number: u32) -> Self {
        ShardId(number)
    }

    /// The number, to index a slice with.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A run of bytes in a shard's file. The offset counts from the start of the file, header
/// included.
///
/// The spans of a [`crate::Catalog`] are known to lie inside their shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    shard: ShardId,
    offset: u64,
    len: u64,
}

impl Span {
    /// The run of `len` bytes at `offset`, or nothing if its end overflows.
    ///
    /// This checks arithmetic only; whether the shard has these bytes is for a catalog, or
    /// the store that is asked, to know.
    pub const fn new(shard: ShardId, offset: u64, len: u64) -> Option<Span> {
        match offset.checked_add(len) {
            Some(_) => Some(Span { shard, offset, len }),
            None => None,
        }
    }

    /// The shard.
    pub const fn shard(self) -> ShardId {
        self.shard
    }

    /// The offset in the shard's file.
    pub const fn offset(self) -> u64 {
        self.offset
    }

    /// The number of bytes.
    #[allow(clippy::len_without_is_empty)] // a span is a place, not a container
    pub const fn len(self) -> u64 {
        self.len
    }

    /// One past the last byte.
    pub const fn end(self) -> u64 {
        self.offset + self.len
    }

    /// The `len` bytes from `start` on inside this span, or nothing if they are not inside.
    pub const fn part(self, start: u64, len: u64) -> Option<Span> {
        match start.checked_add(len) {
            Some(end) if end <= self.len => {
                Some(Span { shard: self.shard, offset: self.offset + start, len })
            }
            _ => None,
        }
    }

    /// Makes this span longer by the one that follows it directly.
    pub(crate) fn absorb(&mut self, next: Span) -> bool {
        let follows = self.shard == next.shard && self.end() == next.offset;
        if follows {
            self.len += next.len;
        }
        follows
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {}, offset {}, {} bytes", self.shard.0, self.offset, self.len)
    }
}
