//! A drive that does nothing by itself, and the numbers that decide what it does.

use std::sync::{Mutex, MutexGuard};

use deltafin_checkpoint::Span;
use deltafin_store::arena::Slab;
use deltafin_store::drive::{Class, Reader, ReaderReport, Ticket};

/// Numbers from a seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// A read that has not landed.
pub(super) struct Read {
    pub(super) ticket: Ticket,
    pub(super) slab: Slab,
    pub(super) begun: bool,
    pub(super) cancelled: bool,
    /// The pass that asked for it.
    pub(super) pass: usize,
}

/// A drive that does nothing by itself.
#[derive(Default)]
pub(super) struct Drive {
    reads: Mutex<Vec<Read>>,
    /// The pass that asks.
    pub(super) pass: Mutex<usize>,
}

impl Drive {
    /// Those that have not landed.
    pub(super) fn reads(&self) -> MutexGuard<'_, Vec<Read>> {
        self.reads.lock().unwrap()
    }
}

impl Reader for Drive {
    fn read(&self, ticket: Ticket, _: Class, _: &[Span], slab: Slab) {
        let mut reads = self.reads();
        assert!(reads.iter().all(|read| read.ticket != ticket), "two reads at once of {ticket:?}");
        let pass = *self.pass.lock().unwrap();
        reads.push(Read { ticket, slab, begun: false, cancelled: false, pass });
    }

    fn promote(&self, _: Ticket) {}

    fn cancel(&self, ticket: Ticket) {
        for read in self.reads().iter_mut().filter(|read| read.ticket == ticket) {
            read.cancelled = !read.begun;
        }
    }

    fn report(&self) -> ReaderReport {
        ReaderReport::default()
    }
}
