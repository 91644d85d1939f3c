//! Which experts are read before anybody asked for them.
//!
//! Two sources: the next layer's router, applied a layer early, and what the previous token used there.
//! Guesses wait in one line, the router's in front, and take only slots that nothing wanted has.

use deltafin_spec::{ExpertId, LayerId};
use deltafin_store::drive::{Class, Reader, Ticket};

use crate::Prefetch;
use crate::counters::Phase;
use crate::slots::{Io, Key, Slots, State};

/// Slots that guesses leave alone.
const SPARED: usize = 2;

impl Slots {
    /// Guesses at this layer that were wrong: what has not begun is called back.
    pub(crate) fn drop_guesses(&mut self, reader: &dyn Reader) {
        let (layer, experts) = (self.layer.index(), self.experts as u32);
        self.guesses.retain(|key| (key.0 / experts) as usize > layer);
        for slot in &self.slots {
            let due = (slot.key.0 / experts) as usize <= layer;
            if due && !slot.held && matches!(slot.state, State::Reading { class: Class::Guess, .. })
            {
                reader.cancel(Ticket(u64::from(slot.key.0)));
            }
        }
    }

    /// Notes a single row's experts.
    pub(crate) fn remember(&mut self, layer: LayerId, ids: &[ExpertId], io: &Io<'_>) {
        if io.phase == Phase::Decode && self.prefetch.follows_the_previous_token() {
            let previous = &mut self.previous[layer.index()];
            previous.clear();
            previous.extend_from_slice(ids);
        }
    }

    /// Guesses that the next layer's experts are the previous row's.
    pub(crate) fn guess_previous(&mut self, io: &mut Io<'_>) {
        if io.phase != Phase::Decode || !self.prefetch.follows_the_previous_token() {
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
        let open = self.slots.iter().filter(|slot| slot.guess).count();
        for _ in open..self.slots.len().saturating_sub(SPARED) {
            let key = loop {
                let Some(key) = self.guesses.pop_front() else { return };
                if self.slot_of(key).is_none() {
                    break key;
                }
            };
            if self.has_guessed_enough() {
                // It may come later, when others have been used.
                self.guesses.push_front(key);
                return;
            }
            let Some((number, slab)) = self.room_for_guess(io) else { return };
            io.counters.of(io.phase).guesses += 1;
            self.place(number, key, slab, Class::Guess, io);
        }
    }
}
