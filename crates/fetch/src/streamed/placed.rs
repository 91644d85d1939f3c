//! What is in the folder, by shard, and what is brought there when somebody asks for it.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use deltafin_checkpoint::Span;
use deltafin_store::drive::Traffic as Amount;
use deltafin_store::{Asked, Distant, Heat, Hold, StoreError};

use super::bring::Part;
use super::held::Held;
use super::reach::Reach;
use super::shelf::Shelf;
use crate::noted::Whole;
use crate::piece::Traffic;

/// What is in the folder, by shard, and the way to what is not.
pub(super) struct Placed {
    /// Nothing for a shard that is here as a whole.
    pub(super) shelves: Vec<Option<Arc<Shelf>>>,
    /// Where each shard is that is here as a whole.
    pub(super) paths: Vec<PathBuf>,
    pub(super) whole: Whole,
    pub(super) reach: Arc<Reach>,
}

impl Placed {
    pub(super) fn shelf(&self, span: &Span) -> Option<&Arc<Shelf>> {
        self.shelves.get(span.shard().index())?.as_ref()
    }
}

impl Placed {
    /// The pieces of these spans that could be missing.
    pub(super) fn parts(&self, pieces: &[Span]) -> Vec<Part> {
        let part = |span: &Span| {
            let shelf = self.shelf(span)?;
            let numbers = shelf.around(*span);
            let could =
                numbers.clone().any(|number| shelf.may_go(number) || !shelf.is_here(number));
            could.then(|| (Arc::clone(shelf), numbers))
        };
        pieces.iter().filter_map(part).collect()
    }

    /// The right to read these spans, if all their bytes are here.
    pub(super) fn here(&self, pieces: &[Span]) -> Option<Hold> {
        let parts = self.parts(pieces);
        if parts.is_empty() {
            return Some(Hold::for_good());
        }
        if !parts.iter().all(|part| self.is_open(part)) {
            return None;
        }
        let held = Held::of(parts, self.reach.cache.time());
        let mark = held.mark()?;
        Some(Hold::new(mark, Box::new(held)))
    }

    /// Whether the file is open that a part lies in. A layer's file may be made by somebody else where this process
    /// makes none.
    fn is_open(&self, (shelf, numbers): &Part) -> bool {
        let stacks = self.reach.cache.stacks();
        let is_open = |number| match shelf.piece(number).owner.layer() {
            Some(layer) if shelf.may_go(number) => stacks.number(layer).is_some(),
            _ => true,
        };
        self.reach.unkept.is_none() || !shelf.is_layered() || numbers.clone().all(is_open)
    }
}

impl Distant for Placed {
    fn is_here(&self, pieces: &[Span]) -> bool {
        pieces.iter().all(|span| self.shelf(span).is_none_or(|shelf| shelf.has(*span)))
    }

    fn hold_here(&self, pieces: &[Span]) -> Option<Hold> {
        self.here(pieces)
    }

    fn hold(&self, pieces: &[Span], stop: &AtomicBool) -> Result<Hold, StoreError> {
        match self.parts(pieces) {
            parts if parts.is_empty() => Ok(Hold::for_good()),
            _ if self.reach.unkept.is_some() => self.pass(pieces, stop),
            parts => self.reach.hold(&parts, stop),
        }
    }

    fn was_kept(&self, pieces: &[Span], hold: &Hold) -> bool {
        let parts = self.parts(pieces);
        // A map that cannot be read says nothing; whoever brings the bytes again hears of it.
        let looked = parts.iter().try_for_each(|(shelf, _)| shelf.look_locked());
        looked.is_ok() && Held::of(parts, self.reach.cache.time()).mark() == Some(hold.mark())
    }

    fn go_by(&self, heat: Weak<dyn Heat>) {
        self.reach.cache.go_by(heat);
    }

    fn trim(&self) -> io::Result<Amount> {
        self.reach.cache.trim()
    }

    fn evicted(&self) -> Amount {
        self.reach.cache.evicted()
    }

    fn lanes(&self) -> usize {
        self.reach.lanes
    }

    fn coming_bytes(&self) -> u64 {
        let Reach { lanes, cache, unkept, .. } = &*self.reach;
        let longest = match unkept {
            None => cache.stacks().longest_slot(),
            Some(_) => cache.longest_expert(),
        };
        *lanes as u64 * longest
    }

    fn unkept(&self) -> Option<String> {
        self.reach.unkept.clone()
    }

    fn asked(&self) -> Asked {
        let Traffic { requests, waits, .. } = &self.reach.traffic;
        let [requests, waits] = [requests, waits].map(|count| count.load(Ordering::Relaxed));
        Asked { requests, waits }
    }
}
