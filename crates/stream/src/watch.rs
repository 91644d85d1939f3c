//! Reads, told to whoever wants to see them: nothing else changes.

use std::sync::{Arc, PoisonError, RwLock, Weak};

use deltafin_checkpoint::{Catalog, Span};
use deltafin_spec::{ExpertId, Half, LayerId};
use deltafin_store::arena::Slab;
use deltafin_store::drive::{Class, Landed, Reader, ReaderReport, Ticket};

use crate::feed::PART_BIT;
use crate::parts::half_at;

/// What a read brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Record {
    /// One half of a layer's spine.
    Spine(LayerId, Half),
    /// The output head.
    Head,
    /// An expert.
    Expert(LayerId, ExpertId),
}

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All bytes are there.
    Whole,
    /// It was called back before it began.
    Cancelled,
    /// It cannot be had.
    Failed,
}

/// Is told of every read. Called from the pass's thread and from those of the drives, which do nothing
/// else meanwhile: be quick.
pub trait ReadWatcher: Send + Sync {
    /// A read of so many bytes is asked for. A record is asked for again only after it landed.
    fn asked(&self, record: Record, class: Class, bytes: u64);

    /// Somebody waits for it now who did not when it was asked for.
    fn promoted(&self, record: Record);

    /// It is over.
    fn landed(&self, record: Record, end: End);
}

/// Whoever watches, if anybody does.
pub(crate) struct Watch {
    watcher: RwLock<Option<Weak<dyn ReadWatcher>>>,
    layers: usize,
    experts: u64,
}

impl Watch {
    pub(crate) fn new(catalog: &Catalog) -> Watch {
        let spec = catalog.spec();
        let (layers, experts) = (spec.layers.len(), spec.moe.experts as u64);
        Watch { watcher: RwLock::default(), layers, experts }
    }

    /// Whoever asked before is told no more.
    pub(crate) fn begin(&self, watcher: Weak<dyn ReadWatcher>) {
        *self.watcher.write().unwrap_or_else(PoisonError::into_inner) = Some(watcher);
    }

    pub(crate) fn landed(&self, ticket: Ticket, landed: &Landed) {
        self.tell(ticket, |watcher, record| {
            let end = match landed {
                Landed::Whole(_) => End::Whole,
                Landed::Cancelled(_) => End::Cancelled,
                Landed::Failed(..) => End::Failed,
            };
            watcher.landed(record, end);
        });
    }

    fn tell(&self, ticket: Ticket, tell: impl FnOnce(&dyn ReadWatcher, Record)) {
        let watcher = self.watcher.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(watcher) = watcher.and_then(|watcher| watcher.upgrade()) {
            tell(&*watcher, self.record(ticket));
        }
    }

    fn record(&self, ticket: Ticket) -> Record {
        let number = ticket.0 & !PART_BIT;
        match ticket.0 & PART_BIT {
            0 => {
                let (layer, expert) = (number / self.experts, number % self.experts);
                Record::Expert(LayerId::new(layer as u32), ExpertId::new(expert as u32))
            }
            _ => half_at(number as usize, self.layers)
                .map_or(Record::Head, |(layer, half)| Record::Spine(layer, half)),
        }
    }
}

/// A reader that tells of what it is asked for.
pub(crate) struct Watched {
    pub(crate) reader: Box<dyn Reader>,
    pub(crate) watch: Arc<Watch>,
}

impl Reader for Watched {
    fn read(&self, ticket: Ticket, class: Class, pieces: &[Span], slab: Slab) {
        // Before it begins: it may land at once.
        self.watch.tell(ticket, |watcher, record| {
            watcher.asked(record, class, pieces.iter().map(|piece| piece.len()).sum());
        });
        self.reader.read(ticket, class, pieces, slab);
    }

    fn promote(&self, ticket: Ticket) {
        self.watch.tell(ticket, |watcher, record| watcher.promoted(record));
        self.reader.promote(ticket);
    }

    fn cancel(&self, ticket: Ticket) {
        self.reader.cancel(ticket);
    }

    fn report(&self) -> ReaderReport {
        self.reader.report()
    }
}
