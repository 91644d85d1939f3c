//! How a limit is kept where experts lie in the files of their layers.

use std::io;
use std::sync::PoisonError;

use super::evict::is_full;
use super::{Cache, Place};

impl Cache {
    /// Makes the layers' files as short as the limit wants it, once all has come that is claimed; says whether they
    /// are. One process at a time may be at this.
    pub(super) fn fit(&self, limit: u64) -> io::Result<bool> {
        loop {
            let coming = self.alive()?;
            self.look()?;
            let filled = self.stacks.filled(&self.shelves, &coming)?;
            let bytes = self.accounts() + filled.iter().map(|stack| stack.bytes()).sum::<u64>();
            if bytes <= limit {
                return Ok(true);
            }
            if let Some(loose) = filled.iter().find(|stack| stack.is_loose()) {
                self.stacks.cut(&self.shelves, loose.layer)?;
                continue;
            }
            let candidates = filled.iter().flat_map(|stack| stack.candidates()).cloned().collect();
            if !self.take_coldest(candidates)? {
                return Ok(false);
            }
        }
    }

    /// Makes the layers' files shorter than they are by the slots of these; says whether they are.
    pub(super) fn shorten(&self, by: &[Place]) -> io::Result<bool> {
        let filled = self.stacks.filled(&self.shelves, &[])?;
        let now = self.accounts() + filled.iter().map(|stack| stack.bytes()).sum::<u64>();
        let by: u64 = by.iter().map(|(shelf, number)| self.charge(shelf, *number)).sum();
        self.fit(now.saturating_sub(by))
    }

    /// What somebody has claimed and is alive; what was claimed by others is not any more.
    fn alive(&self) -> io::Result<Vec<Place>> {
        let mut alive = Vec::new();
        for (shelf, number) in self.coming()? {
            if self.claim(&shelf, number)?.is_none() {
                alive.push((shelf, number));
            }
        }
        Ok(alive)
    }

    /// Takes the coldest of these away that nobody has in hand; says whether there was one.
    fn take_coldest(&self, mut candidates: Vec<Place>) -> io::Result<bool> {
        candidates.retain(|(shelf, number)| !shelf.is_read(*number));
        let heat = self.heat_of();
        let key = |(shelf, number): &Place| (heat(shelf.piece(*number).owner), shelf.used(*number));
        candidates.sort_by(|a, b| {
            let (a, b) = (key(a), key(b));
            a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
        });
        let mut full = None;
        for (shelf, number) in candidates {
            let Some(claim) = self.claim(&shelf, number)? else { continue };
            if shelf.is_read(number) {
                continue;
            }
            match shelf.withdraw(&[number]) {
                // A map may lack room for one more line: then one goes whose map has it.
                Err(error) if is_full(&error) => {
                    full = Some(error);
                    continue;
                }
                withdrawn => withdrawn?,
            }
            drop(claim);
            let mut evicted = self.evicted.lock().unwrap_or_else(PoisonError::into_inner);
            evicted.reads += 1;
            evicted.bytes += shelf.piece(number).bytes;
            return Ok(true);
        }
        full.map_or(Ok(false), Err)
    }
}
