//! Expert slots: a bounded number of records, each in memory, on its way, or making room.
//!
//! The experts of a layer are one *batch*. They are given slots in ascending order; those of the
//! batch that are in memory already are *held*, so that they are not lost to others of the batch.
//! A batch may be larger than the slots: the rest follows as slots become free.

use std::collections::VecDeque;

use deltafin_checkpoint::Catalog;
use deltafin_spec::{ExpertId, LayerId};
use deltafin_store::StoreError;
use deltafin_store::arena::Slab;
use deltafin_store::drive::{Class, Filled, Landed, Reader, Ticket};

use crate::counters::{Counters, Phase, Use};
use crate::heat::Heat;
use crate::{Layout, Prefetch};

/// An expert of a layer, as one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) u32);

/// Marks an expert that has no slot.
const NOWHERE: u32 = u32::MAX;

pub(crate) struct Slot {
    /// Whose slot it is; meaningless while it is free.
    pub(crate) key: Key,
    pub(crate) state: State,
    /// Belongs to the batch and was not used yet.
    pub(crate) held: bool,
    /// Was read on a guess and not used yet.
    pub(crate) guess: bool,
    /// Never makes room.
    pub(crate) pinned: bool,
}

pub(crate) enum State {
    Free(Slab),
    /// `asked`: it was demanded when its read began.
    Reading {
        class: Class,
        asked: bool,
    },
    Full(Filled),
    InUse,
    Failed(Slab, StoreError),
    /// Its memory was given back for good.
    Gone,
    /// Only while a state is being replaced.
    Moving,
}

impl Slot {
    fn was_asked(&self) -> bool {
        matches!(self.state, State::Reading { asked: true, .. })
    }
}

/// What looking for an expert of the window gave.
pub(crate) enum Next {
    Ready(ExpertId, Filled),
    Failed(ExpertId, StoreError),
    Wait,
    /// Nothing of the window has a slot, nor will have one.
    Stuck,
    /// The window is done.
    Done,
}

pub(crate) struct Slots {
    pub(crate) slots: Vec<Slot>,
    /// By key: the slot, or [`NOWHERE`].
    at: Vec<u32>,
    pub(crate) experts: usize,
    cache: bool,
    pub(crate) prefetch: Prefetch,
    pub(crate) heat: Heat,
    /// The layer of the batch.
    pub(crate) layer: LayerId,
    /// The rest of the batch, ascending.
    pub(crate) wanted: VecDeque<Key>,
    /// What is to be handed out now.
    pub(crate) window: Vec<Key>,
    /// What to read when there is time, best first.
    pub(crate) guesses: VecDeque<Key>,
    /// By layer: the previous single row's experts.
    pub(crate) previous: Vec<Vec<ExpertId>>,
}

impl Slots {
    pub(crate) fn new(catalog: &Catalog, layout: &Layout, slabs: Vec<Slab>) -> Slots {
        let spec = catalog.spec();
        let (layers, experts) = (spec.layers.len(), spec.moe.experts);
        let free = |slab| Slot {
            key: Key(0),
            state: State::Free(slab),
            held: false,
            guess: false,
            pinned: false,
        };
        Slots {
            slots: slabs.into_iter().map(free).collect(),
            at: vec![NOWHERE; layers * experts],
            experts,
            cache: layout.cache,
            prefetch: layout.prefetch,
            heat: Heat::new(layers * experts),
            layer: LayerId::new(0),
            // Growing later would be an allocation in the decode loop.
            wanted: VecDeque::with_capacity(experts),
            window: Vec::with_capacity(experts),
            guesses: VecDeque::with_capacity(2 * experts),
            previous: vec![Vec::with_capacity(spec.moe.top_k); layers],
        }
    }

    pub(crate) fn key(&self, layer: LayerId, expert: ExpertId) -> Key {
        Key((layer.index() * self.experts + expert.index()) as u32)
    }

    pub(crate) fn layer_of(&self, key: Key) -> LayerId {
        LayerId::new(key.0 / self.experts as u32)
    }

    fn expert_of(&self, key: Key) -> ExpertId {
        ExpertId::new(key.0 % self.experts as u32)
    }

    /// Reads the hottest experts and never lets them go, up to `most` and to what leaves a layer's reads
    /// their slots. Returns how many found room.
    pub(crate) fn pin(&mut self, most: usize, spared: usize, io: &mut Io<'_>) -> usize {
        let most = most.min(self.slots.len().saturating_sub(spared));
        let hot = self.heat.hottest(most);
        let mut pinned = 0;
        for key in hot.iter().map(|&expert| Key(expert as u32)) {
            if self.slot_of(key).is_none()
                && let Some((number, slab)) = self.room_for_guess(io)
            {
                self.place(number, key, slab, Class::Ahead, io);
            }
            if let Some(number) = self.slot_of(key) {
                self.slots[number].pinned = true;
                pinned += 1;
            }
        }
        pinned
    }

    /// Slots that have memory.
    pub(crate) fn alive(&self) -> usize {
        self.slots.iter().filter(|slot| !matches!(slot.state, State::Gone)).count()
    }

    /// Gives up the least useful slots for good until `wanted` are left, as far as they can be spared
    /// now. Returns their memory.
    pub(crate) fn shrink(&mut self, wanted: usize, io: &mut Io<'_>) {
        for _ in wanted..self.alive() {
            let Some((number, slab)) = self.room_for_guess(io) else { return };
            drop(slab);
            self.slots[number].state = State::Gone;
        }
    }

    /// A pass begins: whatever an earlier one left behind is no longer wanted.
    pub(crate) fn begin(&mut self) {
        self.heat.tick();
        self.forget_batch();
        self.guesses.clear();
        self.layer = LayerId::new(0);
    }

    fn forget_batch(&mut self) {
        self.wanted.clear();
        self.window.clear();
        for number in 0..self.slots.len() {
            self.slots[number].held = false;
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
            self.wanted.push_back(key);
            if let Some(slot) = self.slot_of(key) {
                self.slots[slot].held = true;
            }
        }
        self.drop_guesses(io.reader);
        self.assign(io);
        self.remember(layer, ids, io);
        if self.prefetch == Prefetch::Prev {
            self.guess_previous(io);
        }
    }

    /// The experts to hand out now; a new batch unless they are part of the one that runs.
    pub(crate) fn open_window(&mut self, layer: LayerId, ids: &[ExpertId], io: &mut Io<'_>) {
        let covered = |id: &ExpertId| {
            let key = self.key(layer, *id);
            self.slot_of(key).is_some_and(|slot| self.slots[slot].held)
                || self.wanted.binary_search(&key).is_ok()
        };
        if !ids.iter().all(covered) {
            self.demand(layer, ids, io);
        }
        self.window.clear();
        for &id in ids {
            self.window.push(self.key(layer, id));
        }
        self.assign(io);
    }

    /// What is left of the window becomes the batch.
    pub(crate) fn restart_window(&mut self, io: &mut Io<'_>) {
        let mut window = std::mem::take(&mut self.window);
        window.sort_unstable();
        self.forget_batch();
        self.wanted.extend(&window);
        for key in &window {
            if let Some(number) = self.slot_of(*key) {
                self.slots[number].held = true;
            }
        }
        self.window = window;
        self.assign(io);
    }

    /// An expert of the window that is there.
    pub(crate) fn next(&mut self) -> Next {
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
        let reading = |slot: &Slot| matches!(slot.state, State::Reading { .. });
        match self.window.is_empty() {
            true => Next::Done,
            // Whatever lands makes room for more.
            false if self.slots.iter().any(reading) => Next::Wait,
            false => Next::Stuck,
        }
    }

    /// After use.
    pub(crate) fn give_back(&mut self, key: Key, filled: Filled, io: &mut Io<'_>) {
        if let Some(number) = self.slot_of(key) {
            // Handed out before its turn came: it is not to be read for that turn.
            if let Ok(at) = self.wanted.binary_search(&key) {
                self.wanted.remove(at);
                self.claim(number, io);
            }
            if self.slots[number].guess {
                let bytes = io.bytes(self.layer_of(key), self.expert_of(key));
                let used = io.counters.of(io.phase);
                used.guesses_used += 1;
                used.guessed_bytes += bytes;
            }
            let slot = &mut self.slots[number];
            (slot.held, slot.guess) = (false, false);
            if self.cache {
                slot.state = State::Full(filled);
            } else {
                self.free(number, filled.into_slab());
            }
        }
        self.assign(io);
        self.read_guesses(io);
    }

    /// A read has ended. Whoever waits for it goes on with [`Slots::assign`].
    pub(crate) fn landed(&mut self, key: Key, landed: Landed, used: &mut Use) {
        let Some(number) = self.slot_of(key) else { return };
        let slot = &mut self.slots[number];
        match landed {
            Landed::Whole(filled) => slot.state = State::Full(filled),
            Landed::Failed(slab, error) if slot.held && slot.was_asked() => {
                slot.state = State::Failed(slab, error);
            }
            Landed::Failed(slab, _) | Landed::Cancelled(slab) => {
                let held = slot.held;
                self.free(number, slab);
                if held {
                    used.late = used.late.saturating_sub(1);
                    self.want_again(key);
                }
            }
        }
    }

    /// A guess that the batch counted on came to nothing: it is read like the others.
    fn want_again(&mut self, key: Key) {
        if let Err(at) = self.wanted.binary_search(&key) {
            self.wanted.insert(at, key);
        }
    }

    /// Gives slots to the batch, in order, while there are any.
    pub(crate) fn assign(&mut self, io: &mut Io<'_>) {
        while let Some(&key) = self.wanted.front() {
            match self.slot_of(key) {
                Some(number) => self.claim(number, io),
                None => {
                    let Some((number, slab)) = self.room_for_demand(key, io) else { return };
                    let bytes = io.bytes(self.layer_of(key), self.expert_of(key));
                    let used = io.counters.of(io.phase);
                    used.misses += 1;
                    used.missed_bytes += bytes;
                    self.place(number, key, slab, Class::Demand, io);
                }
            }
            self.wanted.pop_front();
        }
    }

    /// An expert of the batch has a slot already.
    fn claim(&mut self, number: usize, io: &mut Io<'_>) {
        let slot = &mut self.slots[number];
        let used = io.counters.of(io.phase);
        match &mut slot.state {
            State::Reading { class, .. } => {
                used.late += 1;
                *class = Class::Demand;
                io.reader.promote(Ticket(u64::from(slot.key.0)));
            }
            _ => {
                used.hits += 1;
                used.guessed += u64::from(slot.guess);
            }
        }
        slot.held = true;
    }

    pub(crate) fn place(&mut self, number: usize, key: Key, slab: Slab, class: Class, io: &Io<'_>) {
        self.at[key.0 as usize] = number as u32;
        let slot = &mut self.slots[number];
        (slot.key, slot.held, slot.guess) = (key, class == Class::Demand, class == Class::Guess);
        self.read(number, slab, class, io);
    }

    fn read(&mut self, number: usize, slab: Slab, class: Class, io: &Io<'_>) {
        let key = self.slots[number].key;
        self.slots[number].state = State::Reading { class, asked: class == Class::Demand };
        let record = io.catalog.expert(self.layer_of(key), self.expert_of(key)).record;
        io.reader.read(Ticket(u64::from(key.0)), class, record.pieces(), slab);
    }

    /// Makes a slot free.
    pub(crate) fn free(&mut self, number: usize, slab: Slab) {
        self.forget(number);
        self.slots[number].state = State::Free(slab);
    }

    /// The slot's expert has none any more.
    pub(crate) fn forget(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        self.at[slot.key.0 as usize] = NOWHERE;
        (slot.held, slot.guess, slot.pinned) = (false, false, false);
    }

    pub(crate) fn slot_of(&self, key: Key) -> Option<usize> {
        let slot = self.at[key.0 as usize];
        (slot != NOWHERE).then_some(slot as usize)
    }
}

/// What slots work with.
pub(crate) struct Io<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) reader: &'a dyn Reader,
    pub(crate) counters: &'a mut Counters,
    pub(crate) phase: Phase,
}

impl Io<'_> {
    pub(crate) fn bytes(&self, layer: LayerId, expert: ExpertId) -> u64 {
        self.catalog.expert(layer, expert).record.len()
    }
}
