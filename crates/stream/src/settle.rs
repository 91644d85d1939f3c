//! Parts of the spine are handed out once they are known to be what was written.

use std::time::Instant;

use deltafin_store::StoreError;

use crate::parts::parts_of;
use crate::{SpineLease, Stream};

impl Stream {
    /// A part of a unit that is what it should be.
    pub(crate) fn part(&self, unit: usize, part: usize) -> Result<SpineLease<'_>, StoreError> {
        if !self.proofs.is_settled(unit) {
            self.settle(unit)?;
        }
        let lease = self.lease(part, self.wait_for(part)?, true);
        if self.check_part(&lease).is_ok() {
            return Ok(lease);
        }
        let part = lease.reject();
        let lease = self.lease(part, self.wait_for(part)?, true);
        match self.check_part(&lease) {
            Ok(()) => Ok(lease),
            Err(error) => {
                lease.reject();
                Err(error)
            }
        }
    }

    /// Whether a part of a settled unit is what it was, if nobody looked since it was read.
    fn check_part(&self, lease: &SpineLease<'_>) -> Result<(), StoreError> {
        if self.shared.lock().feed.is_proven(lease.part) {
            return Ok(());
        }
        self.looking(|| self.proofs.check_part(lease.part, lease))?;
        self.shared.lock().feed.set_proven(lease.part);
        Ok(())
    }

    /// Holds a unit against its digests, all its parts at once; one whose bytes are not what they should be
    /// is read once more.
    fn settle(&self, unit: usize) -> Result<(), StoreError> {
        let parts = parts_of(unit, self.shared.catalog.spec().layers.len());
        let borrow = |part| Ok(self.lease(part, self.wait_for(part)?, false));
        let parts = parts.map(borrow).collect::<Result<Vec<_>, StoreError>>()?;
        if self.check(unit, &parts).is_ok() {
            return Ok(());
        }
        // One after the other: each finds the room that it had.
        let again = parts.into_iter().map(|lease| borrow(lease.reject()));
        let parts = again.collect::<Result<Vec<_>, StoreError>>()?;
        let checked = self.check(unit, &parts);
        if checked.is_err() {
            for lease in parts {
                lease.reject();
            }
        }
        checked
    }

    fn check(&self, unit: usize, leases: &[SpineLease<'_>]) -> Result<(), StoreError> {
        let parts: Vec<&[u8]> = leases.iter().map(|lease| &**lease).collect();
        self.looking(|| self.proofs.settle(unit, &parts))?;
        let mut state = self.shared.lock();
        leases.iter().for_each(|lease| state.feed.set_proven(lease.part));
        Ok(())
    }

    /// The time that looking at a spine takes is waited for it.
    fn looking<T>(&self, look: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let seen = look();
        let mut state = self.shared.lock();
        let phase = state.phase;
        state.counters.of(phase).spine_wait += start.elapsed();
        seen
    }
}
