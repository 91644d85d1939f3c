//! Where the bytes of shards lie in files, where these are not laid out as the shards are.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use deltafin_checkpoint::{ShardId, Span};
use deltafin_store::{Files, LocalFile, Store as _, StoreError};

use super::Streamed;

impl Streamed {
    /// Where in which file these bytes lie, or as many of the first of them as lie together.
    fn there(&self, span: Span) -> Result<Span, StoreError> {
        let Some(shelf) = self.distant.shelf(&span).filter(|shelf| shelf.is_layered()) else {
            return Ok(span);
        };
        let stacks = self.distant.reach.cache.stacks();
        let there = shelf.lie(span.offset()).and_then(|lie| {
            let file = match lie.layer {
                None => span.shard(),
                Some(layer) => ShardId::new((self.shards.len() + stacks.number(layer)?) as u32),
            };
            Span::new(file, lie.at, span.len().min(lie.bytes))
        });
        there.ok_or_else(|| StoreError::EndOfFile {
            file: shelf.name().to_owned(),
            offset: span.offset(),
            wanted: span.len(),
            got: 0,
        })
    }

    /// Where in which file all of these bytes lie together.
    fn together(&self, span: Span) -> Result<Span, StoreError> {
        let there = self.there(span)?;
        match there.len() == span.len() {
            true => Ok(there),
            false => Err(StoreError::EndOfFile {
                file: self.shards[span.shard().index()].name.clone(),
                offset: span.offset(),
                wanted: span.len(),
                got: there.len(),
            }),
        }
    }

    fn local(&self, there: Span) -> LocalFile<'_> {
        self.local.file(there.shard()).expect("it was opened with the others")
    }

    /// Reads what is here of a shard, wherever it lies.
    pub(super) fn read_here(&self, span: Span, buf: &mut [u8]) -> Result<(), StoreError> {
        let mut done = 0;
        while done < span.len() {
            let rest = span.part(done, span.len() - done).expect("what is left of a span is one");
            let there = self.there(rest)?;
            let end = done + there.len();
            self.local.read_exact(there, &mut buf[done as usize..end as usize])?;
            done = end;
        }
        Ok(())
    }
}

/// By the numbers of the shards.
impl Files for Streamed {
    fn path(&self, number: usize) -> &Path {
        self.local.file(ShardId::new(number as u32)).map_or(Path::new(""), |file| file.path())
    }

    fn device(&self, number: usize) -> u64 {
        self.local.file(ShardId::new(number as u32)).map_or(0, |file| file.device())
    }

    fn direct(&self, _: usize, wanted: Span) -> Result<Arc<File>, StoreError> {
        let there = self.together(wanted)?;
        self.local(there).direct(there)
    }

    fn place(&self, _: usize, wanted: Span) -> u64 {
        self.together(wanted).map_or(wanted.offset(), |there| there.offset())
    }

    fn forget(&self, _: usize, wanted: Span) {
        if let Ok(there) = self.together(wanted) {
            self.local(there).forget(there);
        }
    }
}
