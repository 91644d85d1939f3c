//! A store that remembers what was read from it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deltafin_checkpoint::{Shard, ShardId, Span};
use deltafin_store::{Store, StoreError};

/// A place in a checkpoint: a shard, and an offset in its file.
type Place = (ShardId, u64);

/// Any store, with a count of the reads of each place. Its shards are no files, so that all reads go
/// through it.
pub struct CountingStore {
    inner: Arc<dyn Store>,
    reads: Mutex<BTreeMap<Place, u64>>,
}

impl CountingStore {
    /// `inner`, with nothing read yet.
    pub fn new(inner: Arc<dyn Store>) -> CountingStore {
        CountingStore { inner, reads: Mutex::default() }
    }

    /// How often reads began at each place, by shard and offset, since this was last asked.
    pub fn take(&self) -> BTreeMap<Place, u64> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Place, u64>> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for CountingStore {
    fn shards(&self) -> &[Shard] {
        self.inner.shards()
    }

    fn read_exact(&self, span: Span, buf: &mut [u8]) -> Result<(), StoreError> {
        *self.lock().entry((span.shard(), span.offset())).or_default() += 1;
        self.inner.read_exact(span, buf)
    }
}
