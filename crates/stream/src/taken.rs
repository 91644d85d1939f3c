//! An expert's record from its slot to whoever wants it, once it is known to be what was written.

use std::time::Instant;

use deltafin_spec::{ExpertId, LayerId};
use deltafin_store::StoreError;
use deltafin_store::drive::Filled;

use crate::Stream;
use crate::slots::Key;

/// An expert's record that was taken from its slot; it goes back also when its user panics.
pub(crate) struct Taken<'s> {
    pub(crate) stream: &'s Stream,
    pub(crate) key: Key,
    pub(crate) filled: Option<Filled>,
}

impl Taken<'_> {
    /// Gives it to whoever wants it, if it is what it should be; reads it once more if not, unless that was done: then
    /// it cannot be had.
    pub(crate) fn hand_out(
        self,
        place: (LayerId, ExpertId),
        is_proven: bool,
        arrived: &mut dyn FnMut(ExpertId, &[u8]),
    ) -> Result<(), StoreError> {
        let bytes = self.filled.as_deref().unwrap_or_default();
        let proven = if is_proven { Ok(()) } else { self.prove(place, bytes) };
        match proven {
            Ok(()) => arrived(place.1, bytes),
            Err(error) => return self.read_again(error),
        }
        Ok(())
    }

    /// Holds it against what it should be; the time that takes is waited for it.
    fn prove(&self, place: (LayerId, ExpertId), bytes: &[u8]) -> Result<(), StoreError> {
        let (stream, start) = (self.stream, Instant::now());
        let proven = stream.proofs.check_expert(self.key, place, bytes);
        let mut state = stream.shared.lock();
        let phase = state.phase;
        state.counters.of(phase).expert_wait += start.elapsed();
        if proven.is_ok() {
            state.slots.set_proven(self.key);
        }
        proven
    }

    fn read_again(mut self, error: StoreError) -> Result<(), StoreError> {
        let Some(filled) = self.filled.take() else { return Err(error) };
        let mut state = self.stream.shared.lock();
        let (slots, io) = state.slots(&self.stream.shared.catalog, &*self.stream.reader);
        if slots.read_again(self.key, filled, &io) { Ok(()) } else { Err(error) }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(filled) = self.filled.take() {
            self.stream.give_back_expert(self.key, filled);
        }
    }
}
