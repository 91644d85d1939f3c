//! Which experts are read before anybody asked for them.
//!
//! Two sources: the next layer's router, applied a layer early, and what the previous token used there.
//! Guesses wait in one line, the router's in front, and take only slots that nothing wanted has.

use deltafin_spec::{ExpertId, LayerId};
use deltafin_store::drive::{Class, Reader, Ticket};

use crate::Prefetch;
use crate::slots::{Guess, Io, Key, Slots, State};

/// Slots that guesses leave to the batch, at the least: one is computed while the other is read.
const SPARED: usize = 2;

impl Slots {
    /// Guesses at this layer that were wrong: what has not begun is called back.
    pub(crate) fn drop_guesses(&mut self, reader: &dyn Reader) {
        let (layer, experts) = (self.layer.index(), self.experts as u32);
        let is_due = |key: Key| (key.0 / experts) as usize <= layer;
        self.guesses.retain(|key| !is_due(*key));
        self.give_up(reader, is_due);
    }

    /// Nothing that was guessed in a pass is expected in the next one.
    pub(crate) fn forget_guesses(&mut self, reader: &dyn Reader) {
        self.guesses.clear();
        self.give_up(reader, |_| true);
    }

    fn give_up(&mut self, reader: &dyn Reader, is_due: impl Fn(Key) -> bool) {
        for slot in &mut self.slots {
            if slot.guess == Guess::Open && slot.held.is_none() && is_due(slot.key) {
                slot.guess = Guess::Wrong;
                if let State::Reading = slot.state {
                    reader.cancel(Ticket(u64::from(slot.key.0)));
                }
            }
        }
    }

    /// Notes a single row's experts.
    pub(crate) fn remember(&mut self, layer: LayerId, ids: &[ExpertId]) {
        if self.single && self.prefetch.follows_the_previous_token() {
            let previous = &mut self.previous[layer.index()];
            previous.clear();
            previous.extend_from_slice(ids);
        }
    }

    /// Guesses that the next layer's experts are the previous row's.
    pub(crate) fn guess_previous(&mut self, io: &mut Io<'_>) {
        if !self.single || !self.prefetch.follows_the_previous_token() {
            return;
        }
        let next = LayerId::new(self.layer.number() + 1);
        for i in 0..self.previous.get(next.index()).map_or(0, Vec::len) {
            let key = self.key(next, self.previous[next.index()][i]);
            self.guess_last(key);
        }
        self.read_guesses(io);
    }

    fn guess_last(&mut self, key: Key) {
        if self.guesses.len() < self.guesses.capacity() {
            self.guesses.push_back(key);
        }
    }

    /// Guesses from the router go before all others.
    pub(crate) fn expect(&mut self, layer: LayerId, ids: &[ExpertId], io: &mut Io<'_>) {
        for &id in ids.iter().rev() {
            if self.guesses.len() == self.guesses.capacity() {
                self.guesses.pop_back();
            }
            self.guesses.push_front(self.key(layer, id));
        }
        self.read_guesses(io);
    }

    /// Starts reading guesses that can have a slot without taking it from anything wanted.
    pub(crate) fn read_guesses(&mut self, io: &mut Io<'_>) {
        if self.prefetch == Prefetch::Off || !self.wanted.is_empty() {
            return;
        }
        let mut open = self.slots.iter().filter(|slot| slot.guess == Guess::Open).count();
        let most = self.guess_slots();
        while open < most {
            let Some(&key) = self.guesses.front() else { return };
            if self.slot_of(key).is_none() {
                let Some((number, slab)) = self.room_for_guess(io) else { return };
                self.place(number, key, slab, Class::Guess, io);
                open += 1;
            }
            self.guesses.pop_front();
        }
    }

    /// The most slots that hold guesses which this pass may still use. What a guess brought stays until
    /// then, so the rest must be enough for a batch to go through.
    fn guess_slots(&self) -> usize {
        let moving = self.moving();
        moving.div_ceil(2).min(moving.saturating_sub(SPARED))
    }
}
