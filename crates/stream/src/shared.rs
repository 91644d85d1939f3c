//! What the forward pass's thread and the drives' threads share.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use deltafin_checkpoint::Catalog;
use deltafin_store::Heat;
use deltafin_store::drive::{Landed, Landing, Reader, Ticket};

use crate::counters::{Counters, Phase};
use crate::feed::{Feed, PART_BIT};
use crate::slots::{Io, Key, Slots};
use crate::watch::Watch;

pub(crate) struct Shared {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) watch: Arc<Watch>,
    state: Mutex<State>,
    changed: Condvar,
}

pub(crate) struct State {
    pub(crate) feed: Feed,
    pub(crate) slots: Slots,
    pub(crate) counters: Counters,
    pub(crate) phase: Phase,
}

impl Shared {
    pub(crate) fn new(catalog: Arc<Catalog>, feed: Feed, slots: Slots) -> Shared {
        let state = State { feed, slots, counters: Counters::default(), phase: Phase::default() };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let watch = Arc::new(Watch::new(&catalog));
        Shared { catalog, watch, state, changed }
    }

    /// A thread that panicked left a table that may be half changed; what it tells stays true enough
    /// to give memory back, which is all that is done after that.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn notify(&self) {
        self.changed.notify_all();
    }
}

impl State {
    /// The slots and what they work with.
    pub(crate) fn slots<'a>(
        &'a mut self,
        catalog: &'a Catalog,
        reader: &'a dyn Reader,
    ) -> (&'a mut Slots, Io<'a>) {
        let io = Io { catalog, reader, counters: &mut self.counters, phase: self.phase };
        (&mut self.slots, io)
    }
}

impl Heat for Shared {
    fn heat(&self) -> (Vec<f32>, usize) {
        let state = self.lock();
        (state.slots.heat.counts().to_vec(), state.slots.experts)
    }
}

impl Landing for Shared {
    /// Only notes what landed: the thread that waits for it decides what is read next.
    fn landed(&self, ticket: Ticket, landed: Landed) {
        self.watch.landed(ticket, &landed);
        let mut state = self.lock();
        let State { feed, slots, counters, phase } = &mut *state;
        let used = counters.of(*phase);
        if ticket.0 & PART_BIT == 0 {
            slots.landed(Key(ticket.0 as u32), landed, used);
        } else {
            let part = (ticket.0 & !PART_BIT) as usize;
            if matches!(landed, Landed::Whole(_)) {
                used.spine_bytes += feed.bytes(part);
            }
            feed.landed(part, landed);
        }
        drop(state);
        self.changed.notify_all();
    }
}
