//! Exclusive pieces of an arena, and a slab lent in parts to several reads at once.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use super::Arena;

/// An exclusive piece of an arena. Goes back to it when dropped.
#[derive(Debug)]
pub struct Slab {
    arena: Arc<Arena>,
    range: Range<usize>,
}

impl Slab {
    /// The caller has just taken `range` from the free list and gives it to nobody else.
    pub(super) fn new(arena: Arc<Arena>, range: Range<usize>) -> Slab {
        assert!(range.start <= range.end && range.end <= arena.len());
        Slab { arena, range }
    }

    /// Its length in bytes, a multiple of [`super::PAGE_BYTES`].
    #[allow(clippy::len_without_is_empty)] // there is no empty slab
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Where it lies in its arena.
    pub(super) fn place(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Its bytes: zero, or whatever was there before.
    pub fn bytes(&self) -> &[u8] {
        let start = self.arena.map.at(self.range.start).as_ptr();
        // SAFETY: the range lies in the mapping, which `arena` keeps; every byte of a mapping is
        // initialised; the free list gives no byte to two slabs, so only this borrow reaches it.
        unsafe { std::slice::from_raw_parts(start, self.range.len()) }
    }

    /// Its bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let start = self.arena.map.at(self.range.start).as_ptr();
        // SAFETY: as in `bytes`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(start, self.range.len()) }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        self.arena.give(self.range.clone());
    }
}

/// A slab lent out in [`Part`]s from the front on. No byte is lent twice.
///
/// Dropped while parts are out, it never returns to its arena: somebody may still write.
#[derive(Debug)]
pub(crate) struct Cut {
    slab: Option<Slab>,
    lent: usize,
    out: usize,
}

impl Cut {
    pub(crate) fn new(slab: Slab) -> Cut {
        Cut { slab: Some(slab), lent: 0, out: 0 }
    }

    /// The next `len` bytes.
    ///
    /// # Panics
    /// If the slab has not that many left.
    pub(crate) fn lend(&mut self, len: usize) -> Part {
        let slab = self.slab.as_ref().expect("a cut that is not over has its slab");
        assert!(len <= slab.len() - self.lent, "{len} bytes more of a slab of {}", slab.len());
        let start = slab.range.start + self.lent;
        self.lent += len;
        self.out += 1;
        Part { arena: Arc::clone(&slab.arena), range: start..start + len }
    }

    /// Takes a part back.
    ///
    /// # Panics
    /// If it is not one of this slab's.
    pub(crate) fn back(&mut self, part: Part) {
        let slab = self.slab.as_ref().expect("a cut that is not over has its slab");
        let ours = slab.range.start <= part.range.start && part.range.end <= slab.range.end;
        assert!(Arc::ptr_eq(&slab.arena, &part.arena) && ours, "a part of another slab");
        self.out -= 1;
    }

    /// How many parts are out.
    pub(crate) fn out(&self) -> usize {
        self.out
    }

    /// The slab, in one again.
    ///
    /// # Panics
    /// If a part is still out.
    pub(crate) fn whole(mut self) -> Slab {
        assert_eq!(self.out, 0, "parts of the slab are still out");
        self.slab.take().expect("a cut that is not over has its slab")
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        if self.out > 0 {
            std::mem::forget(self.slab.take());
        }
    }
}

/// Exclusive bytes of a slab that is cut. Not returned by dropping it.
#[derive(Debug)]
pub(crate) struct Part {
    arena: Arc<Arena>,
    range: Range<usize>,
}

impl Part {
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let start = self.arena.map.at(self.range.start).as_ptr();
        // SAFETY: as for a slab; `Cut::lend` gives no byte to two parts, and the slab itself is
        // out of reach until all parts are back.
        unsafe { std::slice::from_raw_parts_mut(start, self.range.len()) }
    }

    /// The arena it is in, and where.
    #[cfg(target_os = "linux")]
    pub(crate) fn place(&self) -> (&Arc<Arena>, usize) {
        (&self.arena, self.range.start)
    }
}
