//! Which slot makes room.
//!
//! In this order: a free one; the least hot expert that nobody holds; a guess at a layer to come; and,
//! for the batch itself when nothing else can go on, the expert of the batch that is used last. A guess
//! takes the first two only, and guesses together at most half of all, so that what they brought seldom has to
//! go before it is used and be read again.

use deltafin_store::arena::Slab;

use crate::slots::{Io, Key, Slot, Slots, State};

/// How well a slot can be spared, worst last; within a class the smaller number goes first.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Spare {
    Free,
    Unheld(f32),
    Guess(f32),
    /// Whether a guess brought it; counted from the last key down.
    Later(bool, u32),
}

impl Slots {
    /// A slot for an expert of the batch.
    pub(crate) fn room_for_demand(&mut self, key: Key, io: &mut Io<'_>) -> Option<(usize, Slab)> {
        let (number, spare) = self.best_spare(Some(key))?;
        if matches!(spare, Spare::Later(..)) && self.goes_on() {
            return None;
        }
        self.vacate(number, io).map(|slab| (number, slab))
    }

    /// Whether slots will come free without anything of the batch being given up.
    fn goes_on(&self) -> bool {
        // What a window will hold is not known yet: nothing is urgent.
        self.window.is_empty()
            || self.slots.iter().any(|slot| match slot.state {
                State::InUse | State::Reading { .. } => true,
                State::Full(_) => slot.held && self.window.contains(&slot.key),
                _ => false,
            })
    }

    /// Whether guesses have all the slots that are theirs.
    pub(crate) fn has_guessed_enough(&self) -> bool {
        let ahead =
            |slot: &&Slot| slot.guess && (slot.held || self.layer_of(slot.key) > self.layer);
        2 * self.slots.iter().filter(ahead).count() >= self.alive()
    }

    /// A slot for a guess, or for what is to stay.
    pub(crate) fn room_for_guess(&mut self, io: &mut Io<'_>) -> Option<(usize, Slab)> {
        let (number, spare) = self.best_spare(None)?;
        let cheap = matches!(spare, Spare::Free | Spare::Unheld(_));
        cheap.then(|| self.vacate(number, io)).flatten().map(|slab| (number, slab))
    }

    fn best_spare(&self, demanded: Option<Key>) -> Option<(usize, Spare)> {
        let spares = self.slots.iter().map(|slot| self.spare(slot, demanded));
        let mut best: Option<(usize, Spare)> = None;
        for (number, spare) in spares.enumerate() {
            let Some(spare) = spare else { continue };
            if best.is_none_or(|(_, least)| spare < least) {
                best = Some((number, spare));
            }
            if spare == Spare::Free {
                break;
            }
        }
        best
    }

    fn spare(&self, slot: &Slot, demanded: Option<Key>) -> Option<Spare> {
        match &slot.state {
            State::Free(_) => Some(Spare::Free),
            State::Full(_) if slot.pinned => None,
            State::Full(_) if slot.held => {
                (slot.key > demanded?).then(|| Spare::Later(slot.guess, u32::MAX - slot.key.0))
            }
            State::Full(_) => {
                let heat = self.heat.of(slot.key.0 as usize);
                let ahead = slot.guess && self.layer_of(slot.key) > self.layer;
                Some(if ahead { Spare::Guess(heat) } else { Spare::Unheld(heat) })
            }
            _ => None,
        }
    }

    /// Empties a free or full slot.
    fn vacate(&mut self, number: usize, io: &mut Io<'_>) -> Option<Slab> {
        let slot = &mut self.slots[number];
        let (key, guess) = (slot.key, slot.guess);
        let slab = match std::mem::replace(&mut slot.state, State::Moving) {
            State::Free(slab) => return Some(slab),
            State::Full(filled) => filled.into_slab(),
            other => {
                slot.state = other;
                return None;
            }
        };
        if guess {
            let experts = io.catalog.spec().moe.experts as u32;
            let expert = deltafin_spec::ExpertId::new(key.0 % experts);
            io.counters.wasted_bytes += io.bytes(self.layer_of(key), expert);
        }
        self.forget(number);
        Some(slab)
    }
}
