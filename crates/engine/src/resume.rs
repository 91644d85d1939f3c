//! Going on from what earlier sequences left behind.
//!
//! A session's own state goes on with any sequence that strictly continues it. Whatever else was kept is
//! found by its tokens; the result has the bits that the same tokens give from the beginning.

use crate::Session;
use deltafin_model::Weights;
use deltafin_snapshot::{Mark, STRIDE};

impl<W: Weights> Session<'_, W> {
    /// Prepares for a sequence that begins with `ids`: goes on from the longest prefix whose state is at
    /// hand or was kept, or from nothing. Returns how many of `ids` are already taken in; at least one
    /// is left.
    pub fn reuse(&mut self, ids: &[u32]) -> usize {
        let resumed = self.engine.snapshots().resume(ids, &self.ids, &mut self.state);
        if let Some(len) = resumed {
            self.ids.clear();
            self.ids.extend_from_slice(&ids[..len]);
            self.logits.clear();
        } else if !(ids.len() > self.ids.len() && ids.starts_with(&self.ids)) {
            self.reset();
        }
        self.ids.len()
    }

    /// Names positions at which the state is worth keeping while the next prompt is taken in, the most
    /// valuable first. As many are kept as there is memory for.
    pub fn mark(&mut self, marks: &[Mark]) {
        self.marks.clear();
        self.marks.extend_from_slice(marks);
    }

    /// Keeps the state as it is, for sequences that continue it later; on the drive, too, where there
    /// is a folder. Nothing happens where there is no memory for it.
    pub fn keep(&mut self) {
        self.engine.snapshots().keep(&self.ids, &self.state, true);
    }

    /// Chooses among the marks and has the state copy itself at those that are come by.
    pub(crate) fn begin_marks(&mut self, ids: &[u32]) {
        let engine = self.engine;
        let mut snapshots = engine.snapshots();
        if snapshots.budget() == 0 {
            self.marks.clear();
            return;
        }
        let whole = [self.ids.as_slice(), ids].concat();
        self.marks = snapshots.reserve(&whole, self.ids.len(), &self.marks);
        self.marks.iter().for_each(|mark| self.state.mark(mark.position));
    }

    /// Every few thousand positions of a long reply the state is kept, as it is in a long prompt.
    pub(crate) fn keep_stride(&mut self) {
        if !self.ids.is_empty() && self.ids.len().is_multiple_of(STRIDE) {
            self.engine.snapshots().keep(&self.ids, &self.state, false);
        }
    }

    /// Keeps the copies that a pass has made.
    pub(crate) fn keep_marked(&mut self) {
        for copy in self.state.take_marked() {
            let made = self.marks.iter().position(|mark| mark.position == copy.position());
            let Some(made) = made.map(|at| self.marks.swap_remove(at)) else { continue };
            let ids = &self.ids[..made.position];
            self.engine.snapshots().keep_marked(ids, &self.state, copy, made.lasting);
        }
    }

    /// The prompt is taken in, or given up: what was not come by needs no room.
    pub(crate) fn end_marks(&mut self) {
        self.state.unmark();
        self.engine.snapshots().release(self.marks.len());
        self.marks.clear();
    }
}
