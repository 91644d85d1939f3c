//! Units of a pack are held against its digests the first time they are read, each as a whole.
//!
//! Not every time: a digest takes a core a quarter of a second for a gigabyte (measured on Zen 4), and a
//! unit that does not stay is read for every token. What the drive has is found damaged before a token
//! depends on it; what is changed on its way later is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deltafin_checkpoint::{Catalog, Span};
use deltafin_store::{Store, StoreError};

pub(crate) struct Seals {
    catalog: Arc<Catalog>,
    store: Arc<dyn Store>,
    /// By unit: whether its bytes were once what they should be.
    intact: Box<[AtomicBool]>,
}

impl Seals {
    pub(crate) fn new(catalog: Arc<Catalog>, store: Arc<dyn Store>) -> Seals {
        let intact = catalog.seals().iter().map(|_| AtomicBool::new(false)).collect();
        Seals { catalog, store, intact }
    }

    /// Whether nothing is left to be done for this unit.
    pub(crate) fn is_settled(&self, unit: usize) -> bool {
        self.intact.get(unit).is_none_or(|intact| intact.load(Ordering::Relaxed))
    }

    /// Fails if these bytes of a unit, in the parts in which it is read, are not those that were written.
    pub(crate) fn check(&self, unit: usize, parts: &[&[u8]]) -> Result<(), StoreError> {
        let Some(seal) = self.catalog.seals().get(unit) else { return Ok(()) };
        let front = seal.front().map_or(Ok(Vec::new()), |span| self.read(span))?;
        match seal.broken(&front, parts) {
            Some(chunk) => Err(self.damaged(chunk)),
            None => {
                self.intact[unit].store(true, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    fn read(&self, span: Span) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; span.len() as usize];
        self.store.read_exact(span, &mut bytes).map(|()| bytes)
    }

    fn damaged(&self, chunk: Span) -> StoreError {
        let file = self.store.shards()[chunk.shard().index()].name.clone();
        StoreError::Damaged { file, offset: chunk.offset(), len: chunk.len() }
    }
}
