//! Reads of bytes that may be taken away while they are read.
//!
//! Each is noted with what it holds, and looked at once it landed: one whose bytes were not kept is not
//! passed on, but begins again from where its bytes come from.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use deltafin_checkpoint::Span;
use smallvec::SmallVec;

use super::{Landed, Landing, Ticket};
use crate::arena::Slab;
use crate::{Distant, Hold};

/// A read on the drives, and what it holds.
pub(super) struct Held {
    pub(super) pieces: SmallVec<[Span; 4]>,
    pub(super) hold: Hold,
}

/// Whoever begins reads again.
pub(super) trait Again: Send + Sync {
    /// Begins a read again; gives the slab back where none begins any more.
    fn again(&self, ticket: Ticket, pieces: SmallVec<[Span; 4]>, slab: Slab) -> Result<(), Slab>;
}

/// Stands between the drives and where reads land.
pub(super) struct Kept {
    distant: Arc<dyn Distant>,
    landing: Arc<dyn Landing>,
    reading: Mutex<HashMap<Ticket, Held>>,
    again: OnceLock<Weak<dyn Again>>,
}

impl Kept {
    pub(super) fn new(distant: Arc<dyn Distant>, landing: Arc<dyn Landing>) -> Kept {
        Kept { distant, landing, reading: Mutex::default(), again: OnceLock::new() }
    }

    /// Who is to begin reads again.
    pub(super) fn begin_at(&self, again: Weak<dyn Again>) {
        let _ = self.again.set(again);
    }

    /// Notes a read that is about to go to the drives.
    pub(super) fn note(&self, ticket: Ticket, pieces: &[Span], hold: Hold) {
        if !hold.is_for_good() {
            let held = Held { pieces: SmallVec::from_slice(pieces), hold };
            self.lock().insert(ticket, held);
        }
    }

    /// No thread panics while it holds the table.
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Ticket, Held>> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_again(&self, ticket: Ticket, pieces: SmallVec<[Span; 4]>, slab: Slab) {
        let again = self.again.get().and_then(Weak::upgrade);
        let begun = match again {
            Some(again) => again.again(ticket, pieces, slab),
            None => Err(slab),
        };
        if let Err(slab) = begun {
            self.landing.landed(ticket, Landed::Cancelled(slab));
        }
    }
}

impl Landing for Kept {
    fn landed(&self, ticket: Ticket, landed: Landed) {
        let held = self.lock().remove(&ticket);
        match (held, landed) {
            (Some(Held { pieces, hold }), Landed::Whole(filled))
                if !self.distant.was_kept(&pieces, &hold) =>
            {
                drop(hold);
                self.begin_again(ticket, pieces, filled.into_slab());
            }
            // What was taken away may have been the end of its file.
            (Some(Held { pieces, hold }), Landed::Failed(slab, _))
                if !self.distant.was_kept(&pieces, &hold) =>
            {
                drop(hold);
                self.begin_again(ticket, pieces, slab);
            }
            (held, landed) => {
                drop(held);
                self.landing.landed(ticket, landed);
            }
        }
    }
}
