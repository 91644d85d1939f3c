//! The file that the experts of a layer lie in, where they are not in the shards: slots of one length.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::access::Access;
use super::shelf::Shelf;
use crate::cut::PAGE_BYTES;
use crate::layered::records_path;
use crate::listing::RemoteFile;
use crate::piece::Sink;

/// A layer's file.
#[derive(Debug)]
pub(super) struct Stack {
    path: PathBuf,
    file: File,
    /// Whole pages that any record of the layer has room in.
    slot_bytes: u64,
    turn: Mutex<()>,
}

/// The right to change a layer's file, and to say what is in it.
pub(super) struct Turn<'s> {
    stack: &'s Stack,
    _turn: MutexGuard<'s, ()>,
}

impl Stack {
    /// That of a layer of a folder, empty if there was none; nothing if there is none and nothing may be written.
    pub(super) fn open(
        dir: &Path,
        layer: u32,
        slot_bytes: u64,
        access: Access,
    ) -> io::Result<Option<Stack>> {
        let path = records_path(dir, layer);
        let (mut options, writes) = (OpenOptions::new(), access.writes());
        options.read(true).write(writes).create(writes).truncate(false);
        let file = match options.open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !writes => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(Stack { path, file, slot_bytes, turn: Mutex::new(()) }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of a slot.
    pub(super) fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    /// Bytes of the file.
    pub(super) fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// How many slots have room on the drive.
    pub(super) fn slots(&self) -> io::Result<u64> {
        Ok(self.bytes()?.div_ceil(self.slot_bytes))
    }

    /// One process at a time, and one of its threads, until it is dropped.
    pub(super) fn turn(&self) -> io::Result<Turn<'_>> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // Of the file that is open here: all threads share it, so the other lock keeps them apart.
        self.file.lock()?;
        Ok(Turn { stack: self, _turn: turn })
    }
}

impl Turn<'_> {
    /// Fills a slot, and sees it to the drive.
    pub(super) fn fill(&self, slot: u64, bytes: &[u8]) -> io::Result<()> {
        self.stack.file.write_all_at(bytes, slot * self.stack.slot_bytes)?;
        self.stack.file.sync_data()
    }

    /// Leaves so many slots, and gives the room of the others back.
    pub(super) fn cut(&self, slots: u64) -> io::Result<()> {
        if self.stack.slots()? > slots {
            self.stack.file.set_len(slots * self.stack.slot_bytes)?;
        }
        Ok(())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // It ends with the process at the latest.
        let _ = self.stack.file.unlock();
    }
}

/// A record on its way to a slot, in memory until all of it is here: then the file grows by what is there.
pub(super) struct Gathering<'s> {
    shelf: &'s Shelf,
    first: u64,
    lead: u64,
    bytes: Mutex<Vec<u8>>,
}

impl<'s> Gathering<'s> {
    /// Of this piece, to be as long as a slot.
    pub(super) fn of(shelf: &'s Shelf, number: usize, slot_bytes: u64) -> Gathering<'s> {
        let first = shelf.piece(number).offset;
        let (lead, bytes) = (first % PAGE_BYTES, Mutex::new(vec![0; slot_bytes as usize]));
        Gathering { shelf, first, lead, bytes }
    }

    /// What came, with zeros around it, and where in it the record begins.
    pub(super) fn into_slot(self) -> (Vec<u8>, u64) {
        (self.bytes.into_inner().unwrap_or_else(PoisonError::into_inner), self.lead)
    }
}

impl Sink for Gathering<'_> {
    fn file(&self) -> &RemoteFile {
        self.shelf.file()
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let at = (self.lead + (offset - self.first)) as usize;
        let mut slot = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let room = slot.get_mut(at..at + bytes.len());
        room.ok_or_else(|| io::Error::other("a record is longer than its slot"))?
            .copy_from_slice(bytes);
        Ok(())
    }

    fn other_tag(&self, tag: Option<&str>) -> io::Result<Option<String>> {
        self.shelf.other_tag(tag)
    }
}
