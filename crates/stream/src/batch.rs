//! The experts of a layer, from when they are known to be needed until each was used.
//!
//! They are one *batch*. Those that have a slot are *held*, so that they are not lost to others of the
//! batch; the rest is given slots in ascending order, as slots become free. They are handed out in
//! *windows*, pieces of the batch, in the order in which their bytes come.
//!
//! **Promise.** In a pass that takes each layer's batch in ascending windows, no record is read twice,
//! but for a read that failed. A held record makes room only when nothing of the window can go on. That
//! takes slots full of later windows, and guesses leave two slots at least: so it is one that lay there
//! before the pass.

use deltafin_spec::{ExpertId, LayerId};
use deltafin_store::StoreError;
use deltafin_store::drive::{Class, Filled, Landed, Ticket};

use crate::Prefetch;
use crate::counters::Use;
use crate::slots::{Guess, Held, Io, Key, Proof, Slots, State};

/// What looking for an expert of the window gave.
pub(crate) enum Next {
    Ready(ExpertId, Filled),
    Failed(ExpertId, StoreError),
    Wait,
    /// The window is done.
    Done,
    /// Nothing of the window is read, nor can be: nobody would end a wait.
    Stuck,
}

impl Slots {
    /// A pass begins, of a `single` row or of several: whatever an earlier one left behind is no longer
    /// wanted.
    pub(crate) fn begin(&mut self, single: bool, io: &Io<'_>) {
        self.single = single;
        self.heat.tick();
        self.forget_batch();
        self.layer = LayerId::new(0);
        self.forget_guesses(io.reader);
        self.slots.iter_mut().for_each(|slot| slot.fresh = false);
    }

    fn forget_batch(&mut self) {
        self.wanted.clear();
        self.window.clear();
        for number in 0..self.slots.len() {
            self.slots[number].held = None;
            // Told to nobody, for nobody waited any more.
            if let State::Failed(..) = self.slots[number].state
                && let State::Failed(slab, _) =
                    std::mem::replace(&mut self.slots[number].state, State::Moving)
            {
                self.free(number, slab);
            }
        }
    }

    /// A new batch.
    pub(crate) fn demand(&mut self, layer: LayerId, ids: &[ExpertId], io: &mut Io<'_>) {
        self.forget_batch();
        self.layer = layer;
        for &id in ids {
            let key = self.key(layer, id);
            self.heat.chosen(key.0 as usize);
            match self.slot_of(key) {
                Some(number) => self.hold(number, io),
                None => self.wanted.push_back(key),
            }
        }
        self.drop_guesses(io.reader);
        self.assign(io);
        self.remember(layer, ids);
        if self.prefetch == Prefetch::Prev {
            self.guess_previous(io);
        }
    }

    /// An expert of the batch has a slot already. Whoever reads it knows from here on that it is needed.
    fn hold(&mut self, number: usize, io: &Io<'_>) {
        let slot = &mut self.slots[number];
        if let State::Reading = slot.state {
            slot.held = Some(Held::Late);
            io.reader.promote(Ticket(u64::from(slot.key.0)));
        } else {
            slot.held = Some(Held::Before);
        }
    }

    /// The experts to hand out now; a new batch unless they are part of the one that runs.
    pub(crate) fn open_window(&mut self, layer: LayerId, ids: &[ExpertId], io: &mut Io<'_>) {
        let covered = |id: &ExpertId| {
            let key = self.key(layer, *id);
            self.slot_of(key).is_some_and(|slot| self.slots[slot].held.is_some())
                || self.wanted.binary_search(&key).is_ok()
        };
        if !ids.iter().all(covered) {
            self.demand(layer, ids, io);
        }
        self.window.clear();
        for &id in ids {
            self.window.push(self.key(layer, id));
        }
    }

    /// An expert of the window that is there. What landed meanwhile may have made room for others.
    pub(crate) fn next(&mut self, io: &mut Io<'_>) -> Next {
        self.assign(io);
        for i in 0..self.window.len() {
            let key = self.window[i];
            let Some(number) = self.slot_of(key) else { continue };
            let slot = &mut self.slots[number];
            match std::mem::replace(&mut slot.state, State::Moving) {
                State::Full(filled) => {
                    slot.state = State::InUse;
                    self.window.swap_remove(i);
                    return Next::Ready(self.expert_of(key), filled);
                }
                State::Failed(slab, error) => {
                    self.free(number, slab);
                    return Next::Failed(self.expert_of(key), error);
                }
                other => slot.state = other,
            }
        }
        if self.window.is_empty() {
            return Next::Done;
        }
        match self.slots.iter().any(|slot| matches!(slot.state, State::Reading)) {
            true => Next::Wait,
            false => Next::Stuck,
        }
    }

    /// Whether what is in the expert's slot is known to be its record.
    pub(crate) fn is_proven(&self, key: Key) -> bool {
        self.slot_of(key).is_some_and(|number| self.slots[number].proof == Proof::Yes)
    }

    /// It is.
    pub(crate) fn set_proven(&mut self, key: Key) {
        if let Some(number) = self.slot_of(key) {
            self.slots[number].proof = Proof::Yes;
        }
    }

    /// What was handed out is not the expert's record: it is read once more for the window, or, where that was done
    /// already, given up, which is false.
    pub(crate) fn read_again(&mut self, key: Key, filled: Filled, io: &Io<'_>) -> bool {
        let Some(number) = self.slot_of(key) else { return false };
        if self.slots[number].proof == Proof::Again {
            self.free(number, filled.into_slab());
            return false;
        }
        let slot = &mut self.slots[number];
        (slot.state, slot.proof) = (State::Reading, Proof::Again);
        self.window.push(key);
        let record = io.catalog.expert(self.layer_of(key), self.expert_of(key)).record;
        io.reader.read(
            Ticket(u64::from(key.0)),
            Class::Demand,
            record.pieces(),
            filled.into_slab(),
        );
        true
    }

    /// After use.
    pub(crate) fn give_back(&mut self, key: Key, filled: Filled, io: &mut Io<'_>) {
        if let Some(number) = self.slot_of(key) {
            self.unwant(key);
            self.count_use(number, io);
            let slot = &mut self.slots[number];
            (slot.held, slot.guess) = (None, Guess::No);
            if self.cache {
                slot.state = State::Full(filled);
            } else {
                self.free(number, filled.into_slab());
            }
        }
        self.assign(io);
        self.read_guesses(io);
    }

    /// Counted when all is known of it. What had to be read was counted as its read began.
    fn count_use(&self, number: usize, io: &mut Io<'_>) {
        let slot = &self.slots[number];
        let bytes = self.bytes(slot.key, io);
        let (used, guessed) = (io.counters.of(io.phase), slot.guess != Guess::No);
        match slot.held {
            Some(Held::Read) => {}
            Some(Held::Late) => used.late += 1,
            Some(Held::Before) | None => {
                used.hits += 1;
                used.guessed += u64::from(guessed);
            }
        }
        if guessed {
            used.guesses_used += 1;
            used.guessed_bytes += bytes;
        }
    }

    /// A read has ended. Whoever waits for it goes on with [`Slots::next`].
    pub(crate) fn landed(&mut self, key: Key, landed: Landed, used: &mut Use) {
        let Some(number) = self.slot_of(key) else { return };
        let slot = &mut self.slots[number];
        match landed {
            Landed::Whole(filled) => {
                slot.state = State::Full(filled);
                used.guesses += u64::from(slot.guess != Guess::No);
            }
            Landed::Failed(slab, error) if slot.held == Some(Held::Read) => {
                slot.state = State::Failed(slab, error);
            }
            // Others asked for it, or nobody: it is read like the rest of the batch.
            Landed::Failed(slab, _) | Landed::Cancelled(slab) => {
                let held = slot.held.is_some();
                self.free(number, slab);
                if held {
                    self.want(key);
                }
            }
        }
    }

    /// An expert of the batch has no slot any more.
    pub(crate) fn want(&mut self, key: Key) {
        if let Err(at) = self.wanted.binary_search(&key) {
            self.wanted.insert(at, key);
        }
    }

    fn unwant(&mut self, key: Key) {
        if let Ok(at) = self.wanted.binary_search(&key) {
            self.wanted.remove(at);
        }
    }

    /// Gives slots to the batch while there are any: to the window first, then in order.
    fn assign(&mut self, io: &mut Io<'_>) {
        while let Some(key) = self.most_wanted() {
            match self.slot_of(key) {
                Some(number) => self.hold(number, io),
                None => {
                    let Some((number, slab)) = self.room_for_demand(io) else { return };
                    let bytes = self.bytes(key, io);
                    let used = io.counters.of(io.phase);
                    used.misses += 1;
                    used.missed_bytes += bytes;
                    self.place(number, key, slab, Class::Demand, io);
                }
            }
            self.unwant(key);
        }
    }

    fn most_wanted(&self) -> Option<Key> {
        let first = *self.wanted.front()?;
        if self.window.contains(&first) {
            return Some(first);
        }
        let wanted = |key: &&Key| self.wanted.binary_search(key).is_ok();
        Some(self.window.iter().filter(wanted).min().copied().unwrap_or(first))
    }
}
