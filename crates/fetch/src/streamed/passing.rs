//! Bytes that come for whoever asks for them and are not kept, as nothing may be written where they belong.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use deltafin_checkpoint::Span;
use deltafin_store::{Hold, StoreError};

use super::placed::Placed;
use super::shelf::Shelf;
use crate::listing::RemoteFile;
use crate::piece::Sink;

/// Pieces of a shard that follow each other, on their way to memory.
struct Passing<'s> {
    shelf: &'s Shelf,
    /// The first byte of the first of them.
    first: u64,
    bytes: Mutex<Vec<u8>>,
}

impl Sink for Passing<'_> {
    fn file(&self) -> &RemoteFile {
        self.shelf.file()
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let at = (offset - self.first) as usize;
        let mut room = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let room = room.get_mut(at..at + bytes.len());
        room.ok_or_else(|| io::Error::other("a piece is longer than was said"))?
            .copy_from_slice(bytes);
        Ok(())
    }

    fn other_tag(&self, tag: Option<&str>) -> io::Result<Option<String>> {
        self.shelf.other_tag(tag)
    }
}

impl Placed {
    /// Holds these spans where they are, if they are here; else brings all of them into memory.
    pub(super) fn pass(&self, pieces: &[Span], stop: &AtomicBool) -> Result<Hold, StoreError> {
        // Whoever may write here may have brought it meanwhile. A map that cannot be read says nothing.
        for (shelf, _) in self.parts(pieces) {
            let _ = shelf.look();
        }
        if let Some(hold) = self.here(pieces) {
            return Ok(hold);
        }
        let mut all = Vec::new();
        for span in pieces {
            let bytes = match self.shelf(span) {
                Some(shelf) => self.pass_span(shelf, *span, stop)?,
                None => self.read_whole(*span)?,
            };
            match all.is_empty() {
                true => all = bytes,
                false => all.extend(bytes),
            }
        }
        Ok(Hold::passing(all))
    }

    fn pass_span(
        &self,
        shelf: &Shelf,
        span: Span,
        stop: &AtomicBool,
    ) -> Result<Vec<u8>, StoreError> {
        let numbers = shelf.around(span);
        let Some(last) = numbers.clone().next_back() else { return Ok(Vec::new()) };
        let first = shelf.piece(numbers.start).offset;
        let bytes = Mutex::new(vec![0; (shelf.piece(last).end() - first) as usize]);
        let passing = Passing { shelf, first, bytes };
        for number in numbers {
            self.reach.pass(&passing, shelf, number, stop)?;
        }
        let mut bytes = passing.bytes.into_inner().unwrap_or_else(PoisonError::into_inner);
        bytes.truncate((span.end() - first) as usize);
        bytes.drain(..(span.offset() - first) as usize);
        Ok(bytes)
    }

    /// Bytes of a shard that is here as a whole.
    fn read_whole(&self, span: Span) -> Result<Vec<u8>, StoreError> {
        let path = &self.paths[span.shard().index()];
        let mut bytes = vec![0; span.len() as usize];
        let read = File::open(path).and_then(|file| file.read_exact_at(&mut bytes, span.offset()));
        read.map(|()| bytes).map_err(|error| StoreError::Distant {
            file: path.display().to_string(),
            offset: span.offset(),
            wanted: span.len(),
            reason: error.to_string(),
        })
    }
}
