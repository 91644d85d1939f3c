//! A shard in the making: which of its pieces are here, and where the others go.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use deltafin_checkpoint::{ShardId, Span};
use deltafin_store::hole::make_hole;
use deltafin_store::{Noted, StoreError};

use super::access::Access;
use super::notes::Notes;
use crate::cut::{Owner, PAGE_BYTES, Piece};
use crate::layered::{self, Compact};
use crate::listing::RemoteFile;
use crate::map::{Digest, Slot};
use crate::mark;
use crate::piece::Sink;
use crate::{Proof, folder, noted, prospect, stray};

/// The least that a file system gives room by, as far as it is counted on.
const BLOCK_BYTES: u64 = 4096;
/// What a file system says of its blocks that is more than this is the size of good reads.
const BLOCK_BYTES_MAX: u64 = 1 << 20;

/// What a folder has of a shard.
pub(super) enum Found {
    /// All of it.
    Whole,
    /// Some pieces, its header among them.
    Part(Box<Shelf>),
    /// Not even what says which pieces there are.
    Nothing,
}

/// Bytes of a shard, and where they lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lie {
    /// In the file of this layer; in the shard's own if in none.
    pub(super) layer: Option<u32>,
    /// The first of them there.
    pub(super) at: u64,
    /// How many.
    pub(super) bytes: u64,
}

/// A shard in the making.
#[derive(Debug)]
pub(super) struct Shelf {
    file: RemoteFile,
    path: PathBuf,
    out: File,
    /// Where what every token uses lies in it, where it lies layer by layer.
    compact: Option<Compact>,
    /// Bytes of a block of the file system.
    block: u64,
    access: Access,
    /// All there are, by their first byte.
    pieces: Vec<Piece>,
    /// What this process knows of each.
    states: Vec<State>,
    notes: Mutex<Notes>,
    /// What the server calls the file.
    tag: Mutex<Option<String>>,
}

/// What a process knows of a piece.
#[derive(Debug, Default)]
struct State {
    /// [`crate::map::Known::turns`]: odd where it is here.
    turns: AtomicU64,
    /// Reads of it that are not over.
    readers: AtomicU32,
    /// When it was last used: a number that grows.
    used: AtomicU64,
    /// Where it lies, or lay, in the file of its layer.
    at: AtomicU64,
}

impl State {
    fn of(piece: &Piece) -> State {
        State { at: AtomicU64::new(piece.offset % PAGE_BYTES), ..State::default() }
    }
}

impl Shelf {
    /// What a folder has of a shard.
    pub(super) fn open(dir: &Path, file: &RemoteFile, access: Access) -> io::Result<Found> {
        let whole = dir.join(&file.name);
        let Some(notes) = Notes::open(&folder::map_path(dir, &file.name), file, access)? else {
            return Ok(Found::Nothing);
        };
        if notes.known().proven && whole.exists() {
            return Ok(Found::Whole);
        }
        let path = match notes.known().is_layered {
            true => layered::base_path(dir, &file.name),
            false => folder::part_path(dir, &file.name),
        };
        let out = match OpenOptions::new().read(true).write(access.writes()).open(&path) {
            Ok(out) => out,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => return Err(error),
        };
        let Some(pieces) = prospect::pieces_here(dir, file, notes.known()) else {
            return Ok(Found::Nothing);
        };
        let compact = notes.known().is_layered.then(|| Compact::of(&pieces));
        let pieces = if compact.is_some() { layered::pieces(pieces) } else { pieces };
        let block = out.metadata()?.blksize().clamp(BLOCK_BYTES, BLOCK_BYTES_MAX);
        let states = pieces.iter().map(State::of).collect();
        let tag = notes.known().tag.clone();
        let (file, notes, tag) = (file.clone(), Mutex::new(notes), Mutex::new(tag));
        let shelf = Shelf { file, path, out, compact, block, access, pieces, states, notes, tag };
        shelf.take_over(&shelf.notes());
        Ok(Found::Part(Box::new(shelf)))
    }

    pub(super) fn name(&self) -> &str {
        &self.file.name
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it lies layer by layer.
    pub(super) fn is_layered(&self) -> bool {
        self.compact.is_some()
    }

    /// Bytes of a block of the file system.
    pub(super) fn block(&self) -> u64 {
        self.block
    }

    /// Where the byte at an offset lies, and those after it; nothing where it is of no piece.
    pub(super) fn lie(&self, offset: u64) -> Option<Lie> {
        let number = self.pieces.partition_point(|piece| piece.end() <= offset);
        let piece = *self.pieces.get(number).filter(|piece| piece.offset <= offset)?;
        match (&self.compact, piece.owner.layer()) {
            (Some(_), Some(layer)) if self.may_go(number) => {
                let at = self.slot_at(number) + (offset - piece.offset);
                Some(Lie { layer: Some(layer), at, bytes: piece.end() - offset })
            }
            (Some(compact), _) => {
                let (at, end) = compact.run(offset)?;
                Some(Lie { layer: None, at, bytes: end - offset })
            }
            (None, _) => Some(Lie { layer: None, at: offset, bytes: self.file.bytes - offset }),
        }
    }

    /// Where a piece lies, or lay, in the file of its layer.
    pub(super) fn slot_at(&self, number: usize) -> u64 {
        self.states[number].at.load(Ordering::Acquire)
    }

    /// What is noted of the first piece behind an offset, as far as this process knows; `shard` is its number.
    pub(super) fn noted(&self, shard: ShardId, offset: u64) -> Option<Noted> {
        noted::first_behind(&self.notes().known().pieces, shard, offset)
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub(super) fn piece(&self, number: usize) -> Piece {
        self.pieces[number]
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pieces that bytes of a span are in.
    pub(super) fn around(&self, span: Span) -> Range<usize> {
        self.touching(span.offset()..span.end())
    }

    /// The pieces that some of these bytes are in.
    pub(super) fn touching(&self, bytes: Range<u64>) -> Range<usize> {
        let first = self.pieces.partition_point(|piece| piece.end() <= bytes.start);
        let end = self.pieces.partition_point(|piece| piece.offset < bytes.end);
        first..end.max(first)
    }

    /// Whether a piece may make room for others. What every token uses, and what weights are known by, stays.
    pub(super) fn may_go(&self, number: usize) -> bool {
        matches!(self.pieces[number].owner, Owner::Expert(_, 1..))
    }

    /// Whether a piece is here, as far as this process knows.
    pub(super) fn is_here(&self, number: usize) -> bool {
        self.turns(number) % 2 == 1
    }

    /// How often it changed whether a piece is here, as far as this process knows.
    pub(super) fn turns(&self, number: usize) -> u64 {
        self.states[number].turns.load(Ordering::Acquire)
    }

    /// Whether all bytes of a span are here, as far as this process knows.
    pub(super) fn has(&self, span: Span) -> bool {
        self.around(span).all(|number| self.is_here(number))
    }

    /// A read of pieces begins, at this time.
    pub(super) fn begin_reading(&self, numbers: Range<usize>, time: u64) {
        for state in &self.states[numbers] {
            state.readers.fetch_add(1, Ordering::AcqRel);
            state.used.store(time, Ordering::Relaxed);
        }
    }

    /// It is over.
    pub(super) fn end_reading(&self, numbers: Range<usize>) {
        for state in &self.states[numbers] {
            state.readers.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Whether this process reads a piece.
    pub(super) fn is_read(&self, number: usize) -> bool {
        self.states[number].readers.load(Ordering::Acquire) > 0
    }

    /// When a piece was last used.
    pub(super) fn used(&self, number: usize) -> u64 {
        self.states[number].used.load(Ordering::Relaxed)
    }

    fn take_over(&self, notes: &Notes) {
        for (number, (piece, state)) in self.pieces.iter().zip(&self.states).enumerate() {
            let turns = notes.known().turns(piece);
            let slot = notes.known().slots.get(&piece.offset);
            let is_lost = || match slot.filter(|slot| piece.owner.layer() == Some(slot.layer)) {
                Some(slot) => {
                    state.at.store(slot.at, Ordering::Release);
                    false
                }
                None => true,
            };
            // What no line gives a place in its own layer's file is not here.
            let is_absent = self.is_layered() && self.may_go(number) && is_lost();
            state.turns.store(if is_absent { turns & !1 } else { turns }, Ordering::Release);
        }
    }

    /// Learns what other processes brought and took away.
    pub(super) fn look(&self) -> io::Result<()> {
        let mut notes = self.notes();
        if notes.catch_up()? {
            self.take_over(&notes);
        }
        Ok(())
    }

    /// As [`Shelf::look`], for when another process may just have made a hole.
    pub(super) fn look_locked(&self) -> io::Result<()> {
        let mut notes = self.notes();
        if notes.catch_up_locked()? {
            self.take_over(&notes);
        }
        Ok(())
    }

    /// Notes a piece that was written, once it is on the drive: nobody reads it again to be sure.
    pub(super) fn keep(&self, number: usize, digest: Digest) -> io::Result<()> {
        self.out.sync_data()?;
        let mut notes = self.notes();
        notes.note(self.pieces[number], &digest)?;
        self.take_over(&notes);
        Ok(())
    }

    /// Notes a piece that is on the drive in the file of its layer.
    pub(super) fn keep_slotted(&self, number: usize, digest: Digest, slot: Slot) -> io::Result<()> {
        let mut notes = self.notes();
        notes.note_slotted(self.pieces[number], &digest, slot)?;
        self.take_over(&notes);
        Ok(())
    }

    /// Notes that pieces are here no more, for good: what is on the drive from here on are not their bytes.
    pub(super) fn withdraw(&self, numbers: &[usize]) -> io::Result<()> {
        let map = {
            let mut notes = self.notes();
            notes.note_gone(numbers.iter().map(|number| self.pieces[*number]))?;
            self.take_over(&notes);
            notes.file()?
        };
        map.sync_data()
    }

    /// Where the blocks lie that bytes are in.
    pub(super) fn blocks(&self, bytes: Range<u64>) -> Range<u64> {
        bytes.start / self.block * self.block..bytes.end.next_multiple_of(self.block)
    }

    /// Gives back the room of a piece that is not noted, blocks that it shares with others included where
    /// `is_nobodys` says so of these. Both ends lie between blocks.
    pub(super) fn free(
        &self,
        number: usize,
        mut is_nobodys: impl FnMut(usize) -> io::Result<bool>,
    ) -> io::Result<()> {
        let Piece { offset, bytes, .. } = self.pieces[number];
        let mut hole = self.blocks(offset..offset + bytes);
        if hole.start < offset
            && !self
                .touching(hole.start..offset)
                .try_fold(true, |all, other| Ok::<_, io::Error>(all && is_nobodys(other)?))?
        {
            hole.start += self.block;
        }
        let end = offset + bytes;
        if end < hole.end
            && !self
                .touching(end..hole.end)
                .try_fold(true, |all, other| Ok::<_, io::Error>(all && is_nobodys(other)?))?
        {
            hole.end -= self.block;
        }
        if hole.start < hole.end { make_hole(&self.out, hole) } else { Ok(()) }
    }

    /// The pieces that may go, are not here and yet take room.
    pub(super) fn strays(&self) -> io::Result<Vec<usize>> {
        let is_here = |number: &usize| !self.may_go(*number) || self.is_here(*number);
        let here = (0..self.pieces.len()).filter(is_here).map(|number| {
            let piece = self.pieces[number];
            piece.offset..piece.end()
        });
        let mut numbers = Vec::new();
        for range in stray::outside(&self.out, self.block, here)? {
            numbers.extend(self.touching(range));
        }
        numbers.retain(|number| self.may_go(*number) && !self.is_here(*number));
        numbers.dedup();
        Ok(numbers)
    }

    /// Whether the source gives no digest of the file.
    pub(super) fn is_told_by_tag(&self) -> bool {
        self.file.proof == Proof::None
    }

    /// Takes the next entity tag as it comes. Not where the source says nothing of the file's bytes: then
    /// the tag alone tells one state of it from another. Where it does, servers may rename what stays the
    /// same, and the digest of the whole shard has the last word.
    pub(super) fn forgets_tag(&self) -> bool {
        let forgets = !self.is_told_by_tag();
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
        let at = match &self.compact {
            None => Some(offset),
            Some(compact) => compact.position(offset),
        };
        let at = at.ok_or_else(|| io::Error::other("it has no place here"))?;
        self.out.write_all_at(bytes, at)
    }

    fn other_tag(&self, tag: Option<&str>) -> io::Result<Option<String>> {
        let mut known = self.tag.lock().unwrap_or_else(PoisonError::into_inner);
        match (tag, known.as_deref()) {
            (None, _) => Ok(None),
            (Some(tag), Some(known)) => Ok(mark::differ(known, tag).then(|| known.to_owned())),
            (Some(tag), None) => {
                *known = Some(tag.to_owned());
                if self.file.proof == Proof::None && self.access.writes() {
                    self.notes().note_tag(tag)?;
                }
                Ok(None)
            }
        }
    }
}
