//! Two stores as one: the shards of the second follow those of the first.

use std::sync::Arc;

use deltafin_checkpoint::{Shard, ShardId, Span};

use crate::store::check;
use crate::{Distant, LocalFile, Noted, Store, StoreError};

/// A store on top of another.
pub(super) struct Stacked {
    shards: Vec<Shard>,
    lower: Arc<dyn Store>,
    upper: Arc<dyn Store>,
}

impl Stacked {
    pub(super) fn new(lower: Arc<dyn Store>, upper: Arc<dyn Store>) -> Stacked {
        let shards = [lower.shards(), upper.shards()].concat();
        Stacked { shards, lower, upper }
    }

    /// Who has a shard, and the number it has there.
    fn owner(&self, shard: ShardId) -> (&dyn Store, ShardId) {
        match shard.index().checked_sub(self.lower.shards().len()) {
            None => (&*self.lower, shard),
            Some(number) => (&*self.upper, ShardId::new(number as u32)),
        }
    }
}

impl Store for Stacked {
    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn read_exact(&self, span: Span, buf: &mut [u8]) -> Result<(), StoreError> {
        check(&self.shards, span, buf)?;
        let (store, shard) = self.owner(span.shard());
        let there = Span::new(shard, span.offset(), span.len());
        store.read_exact(there.expect("the span was one already"), buf)
    }

    fn file(&self, shard: ShardId) -> Option<LocalFile<'_>> {
        let (store, shard) = self.owner(shard);
        store.file(shard)
    }

    /// A pack is whole; and shards of the first keep their numbers.
    fn distant(&self) -> Option<Arc<dyn Distant>> {
        self.lower.distant()
    }

    fn noted(&self, shard: ShardId, offset: u64) -> Option<Noted> {
        let (store, there) = self.owner(shard);
        let Noted { span, digest } = store.noted(there, offset)?;
        Some(Noted { span: Span::new(shard, span.offset(), span.len())?, digest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryShards, ShardBytes};

    fn store(shards: &[(&str, &'static [u8])]) -> Arc<dyn Store> {
        let named =
            |(name, bytes): &(&str, &'static [u8])| ((*name).to_owned(), ShardBytes::Static(bytes));
        Arc::new(MemoryShards::new(shards.iter().map(named)))
    }

    #[test]
    fn shards_of_the_second_follow_those_of_the_first() {
        let stacked = Stacked::new(store(&[("a", b"0123"), ("b", b"45")]), store(&[("c", b"678")]));
        let names: Vec<_> = stacked.shards().iter().map(|shard| shard.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let read = |shard: u32, offset: u64, len: usize| {
            let mut buf = vec![0; len];
            let span = Span::new(ShardId::new(shard), offset, len as u64).unwrap();
            stacked.read_exact(span, &mut buf).map(|()| buf)
        };
        assert_eq!(read(0, 1, 2), Ok(b"12".to_vec()));
        assert_eq!(read(1, 0, 2), Ok(b"45".to_vec()));
        assert_eq!(read(2, 1, 2), Ok(b"78".to_vec()));
        assert!(matches!(
            read(2, 1, 3),
            Err(StoreError::EndOfFile { file, got: 2, .. }) if file == "c"
        ));
        assert_eq!(read(3, 0, 1), Err(StoreError::NoShard { number: 3, shards: 3 }));
    }
}
