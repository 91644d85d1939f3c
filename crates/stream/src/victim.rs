//! Which slot makes room.
//!
//! In this order: a free one; the least hot expert that nobody holds; and, for the batch itself when
//! nothing else can go on, an expert of the batch that is used last, one that lay there before this pass
//! if there is any; a guess at a layer to come goes after those and before what this pass read for
//! itself. A guess takes the first two only.

use deltafin_store::arena::Slab;

use crate::slots::{Guess, Io, Slot, Slots, State};

/// How well a slot can be spared, worst last; within a class the smaller number goes first.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Spare {
    Free,
    Unheld(f32),
    /// Of the batch, from before this pass; counted from the last key down.
    Kept(u32),
    Guess(f32),
    /// Of the batch, read in this pass.
    Read(u32),
}

impl Slots {
    /// A slot for an expert of the batch.
    pub(crate) fn room_for_demand(&mut self, io: &mut Io<'_>) -> Option<(usize, Slab)> {
        if let Some(room) = self.room_for_guess(io) {
            return Some(room);
        }
        if self.goes_on() {
            return None;
        }
        self.vacate_best(Slots::last_resort, io)
    }

    /// A slot for a guess, or for what is to stay.
    pub(crate) fn room_for_guess(&mut self, io: &mut Io<'_>) -> Option<(usize, Slab)> {
        self.vacate_best(Slots::spare, io)
    }

    /// Whether slots will come free without anything that is needed being given up.
    fn goes_on(&self) -> bool {
        // What a window will hold is not known yet: nothing is urgent.
        self.window.is_empty()
            || self.slots.iter().any(|slot| match slot.state {
                State::InUse | State::Reading => true,
                State::Full(_) => slot.held.is_some() && self.window.contains(&slot.key),
                _ => false,
            })
    }

    /// What nobody misses.
    fn spare(&self, slot: &Slot) -> Option<Spare> {
        match &slot.state {
            State::Free(_) => Some(Spare::Free),
            State::Full(_) if slot.pinned || slot.held.is_some() || slot.guess == Guess::Open => {
                None
            }
            State::Full(_) => Some(Spare::Unheld(self.heat.of(slot.key.0 as usize))),
            _ => None,
        }
    }

    /// What is given up rather than that nothing goes on: nothing of it is in the window.
    fn last_resort(&self, slot: &Slot) -> Option<Spare> {
        let from_the_end = u32::MAX - slot.key.0;
        match &slot.state {
            State::Full(_) if slot.pinned => None,
            State::Full(_) if slot.held.is_none() => {
                Some(Spare::Guess(self.heat.of(slot.key.0 as usize)))
            }
            State::Full(_) if slot.fresh => Some(Spare::Read(from_the_end)),
            State::Full(_) => Some(Spare::Kept(from_the_end)),
            _ => None,
        }
    }

    fn vacate_best(
        &mut self,
        kind: impl Fn(&Slots, &Slot) -> Option<Spare>,
        io: &mut Io<'_>,
    ) -> Option<(usize, Slab)> {
        let mut best: Option<(usize, Spare)> = None;
        for (number, slot) in self.slots.iter().enumerate() {
            let Some(spare) = kind(self, slot) else { continue };
            if best.is_none_or(|(_, least)| spare < least) {
                best = Some((number, spare));
            }
            if spare == Spare::Free {
                break;
            }
        }
        let (number, _) = best?;
        self.vacate(number, io).map(|slab| (number, slab))
    }

    /// Empties a free or full slot.
    fn vacate(&mut self, number: usize, io: &mut Io<'_>) -> Option<Slab> {
        let slot = &mut self.slots[number];
        let (key, held, guess) = (slot.key, slot.held, slot.guess);
        let slab = match std::mem::replace(&mut slot.state, State::Moving) {
            State::Free(slab) => return Some(slab),
            State::Full(filled) => filled.into_slab(),
            other => {
                slot.state = other;
                return None;
            }
        };
        if guess != Guess::No {
            io.counters.wasted_bytes += self.bytes(key, io);
        }
        self.forget(number);
        if held.is_some() {
            self.want(key);
        }
        Some(slab)
    }
}
