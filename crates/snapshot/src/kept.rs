//! Snapshots in memory.
//!
//! **Promise.** What they take never exceeds the budget, room that was asked for in advance included:
//! whoever is about to make a copy asks first, and the least recently used go.

use crate::format::Shape;
use crate::page::{Page, Snapshot};
use deltafin_model::{Recurrent, State};
use std::sync::Arc;

/// Snapshots at a time. Looking through them all is quick.
const MOST: usize = 256;

/// What is kept.
pub(crate) struct Kept {
    shape: Shape,
    budget: u64,
    /// Least recently used first.
    snapshots: Vec<Arc<Snapshot>>,
    /// Bytes of the snapshots, shared pages once.
    used: u64,
    /// Bytes of copies that are being made.
    reserved: u64,
}

impl Kept {
    pub(crate) fn new(shape: Shape, budget: u64) -> Kept {
        Kept { shape, budget, snapshots: Vec::new(), used: 0, reserved: 0 }
    }

    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    /// The longest snapshot whose tokens `ids` begin with, some of `ids` being left. It counts as used.
    pub(crate) fn longest(&mut self, ids: &[u32]) -> Option<Arc<Snapshot>> {
        let fits = |s: &Snapshot| s.len() < ids.len() && s.begins(ids);
        let found = self.snapshots.iter().enumerate().filter(|(_, s)| fits(s));
        let (at, _) = found.max_by_key(|(_, snapshot)| snapshot.len())?;
        Some(self.touch(at))
    }

    /// The snapshot of exactly these tokens. It counts as used.
    pub(crate) fn of(&mut self, ids: &[u32]) -> Option<Arc<Snapshot>> {
        let is_it = |s: &Arc<Snapshot>| s.len() == ids.len() && s.begins(ids);
        let at = self.snapshots.iter().position(is_it)?;
        Some(self.touch(at))
    }

    /// Sets room aside for up to `wanted` recurrent parts; tells for how many.
    pub(crate) fn reserve(&mut self, wanted: usize) -> usize {
        let each = self.shape.recurrent_bytes();
        let granted = (0..wanted).take_while(|_| {
            let fits = self.make_room(each);
            self.reserved += if fits { each } else { 0 };
            fits
        });
        granted.count()
    }

    /// Gives back what was set aside for so many and not used.
    pub(crate) fn release(&mut self, unused: usize) {
        let bytes = unused as u64 * self.shape.recurrent_bytes();
        self.reserved = self.reserved.saturating_sub(bytes);
    }

    /// Keeps a copy for which room was set aside.
    pub(crate) fn keep_reserved(
        &mut self,
        ids: &[u32],
        state: &State,
        recurrent: Recurrent,
    ) -> Option<Arc<Snapshot>> {
        self.release(1);
        self.keep(ids, state, |_| recurrent)
    }

    /// Keeps the state of `ids` as it is.
    pub(crate) fn keep_current(&mut self, ids: &[u32], state: &State) -> Option<Arc<Snapshot>> {
        self.keep(ids, state, State::recurrent)
    }

    fn keep(
        &mut self,
        ids: &[u32],
        state: &State,
        recurrent: impl FnOnce(&State) -> Recurrent,
    ) -> Option<Arc<Snapshot>> {
        let pages = self.pages_of(ids);
        let row_len = self.shape.row;
        let new = Snapshot::new_page_bytes(ids.len(), pages.len(), row_len);
        let new = new + self.shape.recurrent_bytes();
        if !self.make_room(new) {
            // Shared pages may have had no other owner for a moment.
            pages.into_iter().for_each(|page| self.forget(page));
            return None;
        }
        let snapshot = Snapshot::copy(ids, pages, row_len, state, recurrent(state));
        self.used += new;
        self.snapshots.push(Arc::new(snapshot));
        self.snapshots.last().cloned()
    }

    /// Pages that some snapshot has for these ids.
    fn pages_of(&self, ids: &[u32]) -> Vec<Arc<Page>> {
        let shared = self.snapshots.iter().map(|snapshot| snapshot.shared(ids));
        shared.max_by_key(|pages| pages.len()).unwrap_or_default().to_vec()
    }

    fn touch(&mut self, at: usize) -> Arc<Snapshot> {
        let snapshot = self.snapshots.remove(at);
        self.snapshots.push(snapshot.clone());
        snapshot
    }

    /// Lets snapshots go until so many bytes more fit; false if they never will. One that is being
    /// written stays: its bytes would stay, too.
    fn make_room(&mut self, bytes: u64) -> bool {
        let wanted = bytes.saturating_add(self.reserved);
        if wanted > self.budget {
            return false;
        }
        while self.used.saturating_add(wanted) > self.budget || self.snapshots.len() >= MOST {
            let idle = self.snapshots.iter().position(|s| Arc::strong_count(s) == 1);
            let Some(at) = idle else { return false };
            if let Some(Snapshot { pages, .. }) = Arc::into_inner(self.snapshots.remove(at)) {
                self.used -= self.shape.recurrent_bytes();
                pages.into_iter().for_each(|page| self.forget(page));
            }
        }
        true
    }

    /// One owner less; the last one gives the bytes back.
    fn forget(&mut self, page: Arc<Page>) {
        if let Some(page) = Arc::into_inner(page) {
            self.used -= page.bytes();
        }
    }
}

#[cfg(test)]
mod tests;
