//! Memory for direct reads: one mapped region on huge pages, given out in exclusive pieces.
//!
//! **Promise.** No two [`Slab`]s share a byte, each begins at a multiple of 4096, and the bytes
//! of a slab stay where they are until it is dropped. A page costs memory when it is first
//! written and not before. Pieces are taken from the lowest address that fits, so a region
//! that is mostly free has its free memory in one run at the end, to be given back.
//!
//! Direct reads of 17.5 MB into huge pages ran at three times the speed of reads into pages of
//! 4 KiB on the machine this was measured on; that is the whole reason for a region of its own.

mod free;
mod map;
mod slab;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

pub use map::HUGE_PAGE_BYTES;
pub use slab::Slab;
pub(crate) use slab::{Cut, Part};

use free::FreeList;
use map::Map;

/// What slabs begin at a multiple of, and the size of a page that direct reads need.
pub const PAGE_BYTES: usize = 4096;

/// A region that could not be had.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArenaError {
    /// The system refused the address space.
    #[error("the system refuses {} MiB of addresses to read weights into ({reason})", wanted.div_ceil(1 << 20))]
    Map {
        /// Bytes asked for, with what they are aligned by.
        wanted: usize,
        /// The system's words.
        reason: String,
    },
}

/// A mapped region of which [`Arena::take`] gives exclusive pieces.
#[derive(Debug)]
pub struct Arena {
    map: Map,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: FreeList,
    /// How many rings have told the kernel to keep exactly these pages.
    pins: usize,
}

/// Whether the system has so many addresses to give, a multiple of [`HUGE_PAGE_BYTES`] and one huge page more. They are
/// not kept.
pub(crate) fn has_addresses(bytes: usize) -> bool {
    Map::new(bytes).is_ok()
}

impl Arena {
    /// A region of at least `bytes`, a multiple of [`HUGE_PAGE_BYTES`]. Takes address space only.
    pub fn new(bytes: usize) -> Result<Arc<Arena>, ArenaError> {
        let refused = |wanted, reason| ArenaError::Map { wanted, reason };
        let len = bytes
            .max(1)
            .checked_next_multiple_of(HUGE_PAGE_BYTES)
            .ok_or_else(|| refused(bytes, "more than there are addresses".to_owned()))?;
        let map = Map::new(len)
            .map_err(|error| refused(len.saturating_add(HUGE_PAGE_BYTES), error.to_string()))?;
        let state = State { free: FreeList::new(len), pins: 0 };
        Ok(Arc::new(Arena { map, state: Mutex::new(state) }))
    }

    /// A piece of at least `len` bytes, rounded up to [`PAGE_BYTES`]; nothing if no free run is
    /// that long.
    pub fn take(self: &Arc<Self>, len: usize) -> Option<Slab> {
        let len = len.max(1).checked_next_multiple_of(PAGE_BYTES)?;
        let start = self.lock().free.take(len)?;
        Some(Slab::new(Arc::clone(self), start..start + len))
    }

    /// As [`Arena::take`], but only where a run of `beside` bytes is left once every other slab is dropped;
    /// nothing if the lowest free run that is long enough is elsewhere.
    pub fn take_beside(self: &Arc<Self>, len: usize, beside: usize) -> Option<Slab> {
        self.take(len).filter(|slab| {
            let place = slab.place();
            place.start >= beside || self.len() - place.end >= beside
        })
    }

    /// Bytes of the whole region.
    #[allow(clippy::len_without_is_empty)] // there is no empty region
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Bytes that no slab holds; they need not be in one run.
    pub fn free_bytes(&self) -> usize {
        self.lock().free.bytes()
    }

    /// Gives the memory of free huge pages back to the system; the address space stays. A page
    /// that a slab holds a part of stays too. Linux takes it at once, macOS when it is short.
    ///
    /// Does nothing while a reader has the region registered: the kernel would go on writing
    /// into the pages it knows, and no longer into those that are seen here.
    pub fn release_free(&self) {
        let state = self.lock();
        if state.pins > 0 {
            return;
        }
        for run in state.free.runs() {
            let whole = run.start.next_multiple_of(HUGE_PAGE_BYTES)
                ..run.end / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
            if whole.start < whole.end {
                self.map.release(whole);
            }
        }
    }

    /// From here to [`Arena::unpin`] every page stays the page it is.
    #[cfg(any(test, target_os = "linux"))]
    pub(crate) fn pin(&self) {
        self.lock().pins += 1;
    }

    #[cfg(any(test, target_os = "linux"))]
    pub(crate) fn unpin(&self) {
        self.lock().pins -= 1;
    }

    /// Where a byte of it is, to register.
    #[cfg(target_os = "linux")]
    pub(crate) fn address(&self, start: usize) -> std::ptr::NonNull<u8> {
        self.map.at(start)
    }

    fn give(&self, range: Range<usize>) {
        self.lock().free.give(range);
    }

    /// A thread that panicked cannot have left the list half changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
