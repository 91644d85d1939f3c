//! When bytes are read: per drive a queue by urgency, and reads that go past the page cache.
//!
//! **Promise.** Every read that is asked for lands exactly once: whole, failed, or cancelled. What
//! lands whole is what [`Store::read_exact`](crate::Store::read_exact) would have given, whatever
//! the mode. [`Reader::read`] never waits. A slab is nobody else's while a read of it is in
//! flight, and dropping the reader waits for what is.
//!
//! A read is cut into chunks, of which a bounded number is in flight on a drive at a time. Chunks
//! start in the order of urgency and, within a [`Class`], in the order in which their reads were
//! asked for, so that the first record is there first.
//!
//! ```text
//! read ─► queue of the drive: demand │ ahead │ guess        promote, cancel
//!              ▼ chunk by chunk
//!         ring, or threads ─► slab ─► Landing::landed
//! ```
//!
//! Before the drives of a store that does not have all its bytes ([`Distant`](crate::Distant)) stands
//! another queue of the same order, in which a read waits for what it is to read.
//!
//! The queue has no bound of its own: each waiting read brings its slab, so the arenas bound it.

mod class;
mod direct;
mod distant;
mod kept;
mod layout;
mod open;
mod queue;
mod report;
mod threads;
#[cfg(target_os = "linux")]
mod uring;

use std::ops::{Deref, Range};

use deltafin_checkpoint::Span;

use crate::StoreError;
use crate::arena::Slab;

pub use class::{Class, IoMode, Ticket};
pub use layout::room_for;
pub use open::{ReaderError, Tuning, open_reader, open_reader_tuned};
pub use report::{DriveReport, ReaderReport, Traffic};

/// A slab with a record in it. Derefs to exactly the record's bytes, its pieces back to back.
#[derive(Debug)]
pub struct Filled {
    slab: Slab,
    start: usize,
    len: usize,
}

impl Filled {
    /// A slab with a record in this part of it.
    ///
    /// # Panics
    /// If the slab is shorter.
    pub fn new(slab: Slab, record: Range<usize>) -> Filled {
        assert!(record.end <= slab.len(), "a record to {} in {}", record.end, slab.len());
        Filled { slab, start: record.start, len: record.len() }
    }

    /// The slab, to be used again.
    pub fn into_slab(self) -> Slab {
        self.slab
    }
}

impl Deref for Filled {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.slab.bytes()[self.start..self.start + self.len]
    }
}

/// How a read ended. The slab comes back in any case.
#[derive(Debug)]
pub enum Landed {
    /// All its bytes are there.
    Whole(Filled),
    /// It was cancelled before it began, or the reader was dropped before it was over.
    Cancelled(Slab),
    /// It cannot be had.
    Failed(Slab, StoreError),
}

/// Where reads land.
pub trait Landing: Send + Sync {
    /// Called once for every read, from a thread of the drive, which reads nothing meanwhile: be
    /// quick. May call [`Reader::read`]. A panic here is the end of the process's patience with
    /// the drive: reads on it may never land.
    fn landed(&self, ticket: Ticket, landed: Landed);
}

/// Reads records into slabs.
pub trait Reader: Send + Sync {
    /// Asks for these pieces, back to back. The outcome goes to the [`Landing`] under `ticket`,
    /// which no other read in flight has.
    ///
    /// # Panics
    /// If the slab is smaller than [`room_for`] the pieces: that is a fault of the caller.
    fn read(&self, ticket: Ticket, class: Class, pieces: &[Span], slab: Slab);

    /// Makes what is left of this read a demand, behind the demands there are. Does nothing if
    /// all of it is on its way, or has landed.
    fn promote(&self, ticket: Ticket);

    /// Takes a read back that has not begun: it lands as [`Landed::Cancelled`]. One that has
    /// begun lands as usual.
    fn cancel(&self, ticket: Ticket);

    /// What was read so far, and how.
    fn report(&self) -> ReaderReport;
}
