//! Opening a checkpoint with what setup noted of its bytes, so that whoever computes with them can hold them against it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use deltafin_checkpoint::pack::Digest;
use deltafin_checkpoint::{Shard, ShardId, Span};
use deltafin_store::{Checkpoint, Distant, LocalFile, Noted, Store, StoreError};

use crate::folder;
use crate::map::{self, Map};

/// The pieces of a file, by their first byte: length and digest.
type Pieces = BTreeMap<u64, (u64, map::Digest)>;

/// The first of these pieces that ends behind an offset of a shard.
pub(crate) fn first_behind(pieces: &Pieces, shard: ShardId, offset: u64) -> Option<Noted> {
    let before = pieces.range(..=offset).next_back();
    let before = before.filter(|(at, piece)| *at + piece.0 > offset);
    let (at, (bytes, digest)) = before.or_else(|| pieces.range(offset..).next())?;
    Some(Noted { span: Span::new(shard, *at, *bytes)?, digest: Digest::from(*digest) })
}

/// What is noted of shards that are here as a whole.
pub(crate) struct Whole {
    /// By shard. As a table for each is searched and never changed, it is a list: it takes half the memory.
    shards: Vec<Box<[(u64, u64, map::Digest)]>>,
}

impl Whole {
    /// What the maps in a folder say of files with these names; nothing of those without a name or a map.
    pub(crate) fn read<'n>(dir: &Path, names: impl Iterator<Item = Option<&'n str>>) -> Whole {
        let record = folder::record(dir).ok().flatten();
        let files = record.map_or_else(Vec::new, |record| record.listing.files);
        let pieces = |name: Option<&str>| {
            let name = name?;
            let file = files.iter().find(|file| file.name == name)?;
            let known = Map::read(&folder::map_path(dir, name), file).ok().flatten()?;
            let pieces = known.pieces.into_iter().filter(|_| known.proven);
            Some(pieces.map(|(at, (bytes, digest))| (at, bytes, digest)).collect())
        };
        Whole { shards: names.map(|name| pieces(name).unwrap_or_default()).collect() }
    }

    /// As [`Store::noted`].
    pub(crate) fn noted(&self, shard: ShardId, offset: u64) -> Option<Noted> {
        let pieces = self.shards.get(shard.index())?;
        let behind = pieces.partition_point(|(at, bytes, _)| at + bytes <= offset);
        let (at, bytes, digest) = *pieces.get(behind)?;
        Some(Noted { span: Span::new(shard, at, bytes)?, digest: Digest::from(digest) })
    }
}

/// A folder's shards, and what is noted of them.
struct Proven {
    inner: Arc<dyn Store>,
    whole: Whole,
}

/// The checkpoint of a folder that setup finished or adopted, which is held against what setup noted of its shards
/// from here on. One that setup never saw, or that brings its experts as they are needed, stays as it is.
pub fn with_notes(mut checkpoint: Checkpoint) -> Checkpoint {
    let dir =
        checkpoint.folder().filter(|dir| folder::state(dir) == Some((folder::Kind::Full, true)));
    let Some(dir) = dir else { return checkpoint };
    let inner = Arc::clone(&checkpoint.store);
    let whole = Whole::read(dir, inner.shards().iter().map(|shard| Some(shard.name.as_str())));
    checkpoint.store = Arc::new(Proven { inner, whole });
    checkpoint
}

impl Store for Proven {
    fn shards(&self) -> &[Shard] {
        self.inner.shards()
    }

    fn read_exact(&self, span: Span, buf: &mut [u8]) -> Result<(), StoreError> {
        self.inner.read_exact(span, buf)
    }

    fn file(&self, shard: ShardId) -> Option<LocalFile<'_>> {
        self.inner.file(shard)
    }

    fn distant(&self) -> Option<Arc<dyn Distant>> {
        self.inner.distant()
    }

    fn noted(&self, shard: ShardId, offset: u64) -> Option<Noted> {
        self.whole.noted(shard, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_found_from_any_byte_in_front_of_its_end() {
        let pieces: Pieces = [(2, (6, [1; 32])), (8, (4, [2; 32])), (14, (4, [3; 32]))].into();
        let list = pieces.iter().map(|(at, (bytes, digest))| (*at, *bytes, *digest)).collect();
        let whole = Whole { shards: vec![list] };
        let shard = ShardId::new(0);
        for offset in 0..20 {
            let wanted = [2, 8, 14].into_iter().zip([6, 4, 4]).find(|(at, len)| offset < at + len);
            let found = first_behind(&pieces, shard, offset);
            assert_eq!(found.map(|noted| (noted.span.offset(), noted.span.len())), wanted);
            assert_eq!(whole.noted(shard, offset), found);
        }
        assert_eq!(whole.noted(ShardId::new(1), 0), None);
    }
}
