//! Expert slots: a bounded number of records, each in memory, on its way, or making room.
//!
//! The table itself: which slot has which expert, and why it keeps it. What a layer needs moves through
//! it in `batch`, what may be needed in `guesses`; who makes room is for `victim` to say.

use std::collections::VecDeque;

use deltafin_checkpoint::Catalog;
use deltafin_spec::{ExpertId, LayerId};
use deltafin_store::StoreError;
use deltafin_store::arena::Slab;
use deltafin_store::drive::{Class, Filled, Reader, Ticket};

use crate::counters::{Counters, Phase};
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
    /// Belongs to the batch and was not used yet; how the batch came by it.
    pub(crate) held: Option<Held>,
    pub(crate) guess: Guess,
    /// Its read began in this pass.
    pub(crate) fresh: bool,
    /// Never makes room.
    pub(crate) pinned: bool,
    /// Whether its bytes are known to be the expert's.
    pub(crate) proof: Proof,
}

/// What is known of the bytes that were read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Nobody looked.
    No,
    /// Nobody looked, and the bytes that were read before were not the expert's.
    Again,
    /// They are the expert's.
    Yes,
}

pub(crate) enum State {
    Free(Slab),
    Reading,
    Full(Filled),
    InUse,
    Failed(Slab, StoreError),
    /// Its memory was given back for good.
    Gone,
    /// Only while a state is being replaced.
    Moving,
}

/// How the batch came by an expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// It was there.
    Before,
    /// It was being read already.
    Late,
    /// It was read for the batch.
    Read,
}

/// Whether a record was read on a guess and not used yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guess {
    No,
    /// This pass may still need it, or does.
    Open,
    /// The pass it was read for did not need it.
    Wrong,
}

pub(crate) struct Slots {
    pub(crate) slots: Vec<Slot>,
    /// By key: the slot, or [`NOWHERE`].
    at: Vec<u32>,
    pub(crate) experts: usize,
    pub(crate) cache: bool,
    pub(crate) prefetch: Prefetch,
    pub(crate) heat: Heat,
    /// The layer of the batch.
    pub(crate) layer: LayerId,
    /// What of the batch waits for a slot, ascending.
    pub(crate) wanted: VecDeque<Key>,
    /// What is to be handed out now.
    pub(crate) window: Vec<Key>,
    /// What to read when there is time, best first.
    pub(crate) guesses: VecDeque<Key>,
    /// The pass has one row: the next one is likely to use the same experts.
    pub(crate) single: bool,
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
            held: None,
            guess: Guess::No,
            fresh: false,
            pinned: false,
            proof: Proof::No,
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
            single: false,
            previous: vec![Vec::with_capacity(spec.moe.top_k); layers],
        }
    }

    pub(crate) fn key(&self, layer: LayerId, expert: ExpertId) -> Key {
        Key((layer.index() * self.experts + expert.index()) as u32)
    }

    pub(crate) fn layer_of(&self, key: Key) -> LayerId {
        LayerId::new(key.0 / self.experts as u32)
    }

    pub(crate) fn expert_of(&self, key: Key) -> ExpertId {
        ExpertId::new(key.0 % self.experts as u32)
    }

    /// Bytes of an expert's record.
    pub(crate) fn bytes(&self, key: Key, io: &Io<'_>) -> u64 {
        io.catalog.expert(self.layer_of(key), self.expert_of(key)).record.len()
    }

    pub(crate) fn slot_of(&self, key: Key) -> Option<usize> {
        let slot = self.at[key.0 as usize];
        (slot != NOWHERE).then_some(slot as usize)
    }

    /// Slots that have memory.
    pub(crate) fn alive(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_alive()).count()
    }

    /// Slots that one record after another goes through: never none.
    pub(crate) fn moving(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_alive() && !slot.pinned).count()
    }

    /// Reads the hottest experts and never lets them go, up to `most` and to what leaves a layer's reads
    /// `spared` slots. Returns how many are kept.
    pub(crate) fn pin(&mut self, most: usize, spared: usize, io: &mut Io<'_>) -> usize {
        let most = most.min(self.alive().saturating_sub(spared.max(1)));
        let hot = self.heat.hottest(most);
        let mut pinned = 0;
        for key in hot.iter().map(|&expert| Key(expert as u32)) {
            if self.moving() > spared.max(1)
                && self.slot_of(key).is_none()
                && let Some((number, slab)) = self.room_for_guess(io)
            {
                self.place(number, key, slab, Class::Ahead, io);
            }
            let Some(number) = self.slot_of(key) else { continue };
            if self.slots[number].pinned || self.moving() > spared.max(1) {
                self.slots[number].pinned = true;
                pinned += 1;
            }
        }
        pinned
    }

    /// Gives up the least useful slots for good until `wanted` are left, as far as they can be spared
    /// now, and leaves a layer's reads `spared`. Returns their memory.
    pub(crate) fn shrink(&mut self, wanted: usize, spared: usize, io: &mut Io<'_>) {
        while self.alive() > wanted && self.moving() > spared.max(1) {
            let Some((number, slab)) = self.room_for_guess(io) else { return };
            drop(slab);
            self.slots[number].state = State::Gone;
        }
    }

    /// Gives the expert this slot, and begins to read it.
    pub(crate) fn place(&mut self, number: usize, key: Key, slab: Slab, class: Class, io: &Io<'_>) {
        self.at[key.0 as usize] = number as u32;
        let slot = &mut self.slots[number];
        (slot.key, slot.state, slot.fresh) = (key, State::Reading, true);
        slot.held = (class == Class::Demand).then_some(Held::Read);
        slot.guess = if class == Class::Guess { Guess::Open } else { Guess::No };
        slot.proof = Proof::No;
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
        (slot.held, slot.guess) = (None, Guess::No);
        (slot.fresh, slot.pinned) = (false, false);
    }
}

impl Slot {
    fn is_alive(&self) -> bool {
        !matches!(self.state, State::Gone)
    }
}

/// What slots work with.
pub(crate) struct Io<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) reader: &'a dyn Reader,
    pub(crate) counters: &'a mut Counters,
    pub(crate) phase: Phase,
}
