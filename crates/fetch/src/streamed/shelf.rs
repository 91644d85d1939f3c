//! A shard in the making: which of its pieces are here, and where the others go.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use deltafin_checkpoint::Span;
use deltafin_store::StoreError;

use super::notes::Notes;
use crate::cut::Piece;
use crate::listing::RemoteFile;
use crate::map::Digest;
use crate::piece::Sink;
use crate::{Proof, folder, prospect};

/// What a folder has of a shard.
pub(super) enum Found {
    /// All of it.
    Whole,
    /// Some pieces, its header among them.
    Part(Box<Shelf>),
    /// Not even what says which pieces there are.
    Nothing,
}

/// A shard in the making.
#[derive(Debug)]
pub(super) struct Shelf {
    file: RemoteFile,
    path: PathBuf,
    out: File,
    /// All there are, by their first byte.
    pieces: Vec<Piece>,
    /// Which of them are here, as far as this process knows.
    here: Vec<AtomicBool>,
    notes: Mutex<Notes>,
    /// What the server calls the file.
    tag: Mutex<Option<String>>,
}

impl Shelf {
    /// What a folder has of a shard.
    pub(super) fn open(dir: &Path, file: &RemoteFile) -> io::Result<Found> {
        let (whole, path) = (dir.join(&file.name), folder::part_path(dir, &file.name));
        let Some(notes) = Notes::open(&folder::map_path(dir, &file.name), file)? else {
            return Ok(Found::Nothing);
        };
        if notes.known().proven && whole.exists() {
            return Ok(Found::Whole);
        }
        let out = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(out) => out,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => return Err(error),
        };
        let Some(pieces) = prospect::pieces_here(dir, file, notes.known()) else {
            return Ok(Found::Nothing);
        };
        let here = pieces.iter().map(|piece| AtomicBool::new(notes.known().has(piece))).collect();
        let tag = notes.known().tag.clone();
        let (file, notes, tag) = (file.clone(), Mutex::new(notes), Mutex::new(tag));
        Ok(Found::Part(Box::new(Shelf { file, path, out, pieces, here, notes, tag })))
    }

    pub(super) fn name(&self) -> &str {
        &self.file.name
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn piece(&self, number: usize) -> Piece {
        self.pieces[number]
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pieces that bytes of a span are in.
    fn around(&self, span: Span) -> std::ops::Range<usize> {
        let first = self.pieces.partition_point(|piece| piece.end() <= span.offset());
        let end = self.pieces.partition_point(|piece| piece.offset < span.end());
        first..end.max(first)
    }

    fn is_here(&self, number: usize) -> bool {
        self.here[number].load(Ordering::Acquire)
    }

    /// Whether all bytes of a span are here, as far as this process knows.
    pub(super) fn has(&self, span: Span) -> bool {
        self.around(span).all(|number| self.is_here(number))
    }

    /// The pieces of a span that are not here, as far as this process knows.
    pub(super) fn missing(&self, span: Span) -> Vec<usize> {
        self.around(span).filter(|number| !self.is_here(*number)).collect()
    }

    /// Whether a piece is here, also if another process brought it.
    pub(super) fn look(&self, number: usize) -> io::Result<bool> {
        let mut notes = self.notes();
        notes.catch_up()?;
        let is_here = notes.known().has(&self.pieces[number]);
        if is_here {
            self.here[number].store(true, Ordering::Release);
        }
        Ok(is_here)
    }

    /// Notes a piece that was written, once it is on the drive: nobody reads it again to be sure.
    pub(super) fn keep(&self, number: usize, digest: Digest) -> io::Result<()> {
        self.out.sync_data()?;
        self.notes().note(self.pieces[number], &digest)?;
        self.here[number].store(true, Ordering::Release);
        Ok(())
    }

    /// Takes the next entity tag as it comes. Not where the source says nothing of the file's bytes: then
    /// the tag alone tells one state of it from another. Where it does, servers may rename what stays the
    /// same, and the digest of the whole shard has the last word.
    pub(super) fn forgets_tag(&self) -> bool {
        let forgets = self.file.proof != Proof::None;
        if forgets {
            *self.tag.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        forgets
    }

    /// Why a piece is not here.
    pub(super) fn failed(&self, number: usize, reason: String) -> StoreError {
        let Piece { offset, bytes, .. } = self.pieces[number];
        StoreError::Distant { file: self.file.name.clone(), offset, wanted: bytes, reason }
    }
}

impl Sink for Shelf {
    fn file(&self) -> &RemoteFile {
        &self.file
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.out.write_all_at(bytes, offset)
    }

    fn accepts(&self, tag: Option<&str>) -> io::Result<bool> {
        let mut known = self.tag.lock().unwrap_or_else(PoisonError::into_inner);
        match (tag, known.as_deref()) {
            (None, _) => Ok(true),
            (Some(tag), Some(known)) => Ok(tag == known),
            (Some(tag), None) => {
                *known = Some(tag.to_owned());
                if self.file.proof == Proof::None {
                    self.notes().note_tag(tag)?;
                }
                Ok(true)
            }
        }
    }
}
