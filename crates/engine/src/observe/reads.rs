//! When each read was asked for and when it landed, handed from the drives' threads to that of the pass.

use deltafin_store::drive::Class;
use deltafin_stream::{End, ReadWatcher, Record};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A read that is over. Times are nanoseconds since the trace began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) record: Record,
    pub(super) class: Class,
    pub(super) bytes: u64,
    pub(super) asked: u64,
    /// When somebody began to wait for it, where nobody did when it was asked for.
    pub(super) promoted: Option<u64>,
    pub(super) landed: u64,
    pub(super) end: End,
}

/// Notes reads.
pub(super) struct Reads {
    start: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<Record, Read>,
    over: Vec<Read>,
}

impl Reads {
    pub(super) fn new(start: Instant) -> Reads {
        Reads { start, state: Mutex::default() }
    }

    /// Those that are over and were not taken before, in the order of their ends.
    pub(super) fn take(&self) -> Vec<Read> {
        std::mem::take(&mut self.lock().over)
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadWatcher for Reads {
    fn asked(&self, record: Record, class: Class, bytes: u64) {
        let (asked, end) = (self.now(), End::Whole);
        let read = Read { record, class, bytes, asked, promoted: None, landed: asked, end };
        self.lock().open.insert(record, read);
    }

    fn promoted(&self, record: Record) {
        let now = self.now();
        if let Some(read) = self.lock().open.get_mut(&record) {
            read.promoted.get_or_insert(now);
        }
    }

    fn landed(&self, record: Record, end: End) {
        let landed = self.now();
        let mut state = self.lock();
        // One that was asked for before anybody watched has no beginning.
        if let Some(read) = state.open.remove(&record) {
            state.over.push(Read { landed, end, ..read });
        }
    }
}
