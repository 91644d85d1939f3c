//! Shards that are in memory: the built-in demonstration, and tests.

use std::sync::Arc;

use deltafin_checkpoint::{Shard, Span};

use crate::store::check;
use crate::{Store, StoreError};

/// The bytes of one shard.
#[derive(Clone, Debug)]
pub enum ShardBytes {
    /// Part of the program.
    Static(&'static [u8]),
    /// On the heap, shared.
    Shared(Arc<[u8]>),
}

impl From<&'static [u8]> for ShardBytes {
    fn from(bytes: &'static [u8]) -> Self {
        ShardBytes::Static(bytes)
    }
}

impl From<Vec<u8>> for ShardBytes {
    fn from(bytes: Vec<u8>) -> Self {
        ShardBytes::Shared(bytes.into())
    }
}

impl std::ops::Deref for ShardBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            ShardBytes::Static(bytes) => bytes,
            ShardBytes::Shared(bytes) => bytes,
        }
    }
}

/// A store over slices.
#[derive(Clone, Debug)]
pub struct MemoryShards {
    shards: Vec<Shard>,
    bytes: Vec<ShardBytes>,
}

impl MemoryShards {
    /// A store with these shards, in the order of their ids.
    pub fn new(shards: impl IntoIterator<Item = (String, ShardBytes)>) -> MemoryShards {
        let (shards, bytes) = shards
            .into_iter()
            .map(|(name, bytes)| (Shard { name, len: bytes.len() as u64 }, bytes))
            .unzip();
        MemoryShards { shards, bytes }
    }
}

impl Store for MemoryShards {
    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn read_exact(&self, span: Span, buf: &mut [u8]) -> Result<(), StoreError> {
        check(&self.shards, span, buf)?;
        let bytes = &self.bytes[span.shard().index()];
        buf.copy_from_slice(&bytes[span.offset() as usize..span.end() as usize]);
        Ok(())
    }
}
