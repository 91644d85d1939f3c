//! Memory and drive together.

use crate::folder::{Folder, FolderOptions, Note};
use crate::format::{Origin, Shape};
use crate::kept::Kept;
use crate::mark::{self, Mark};
use crate::page::{PAGE_POSITIONS, Snapshot};
use crate::writer::{Writer, Writes};
use deltafin_model::{Recurrent, State};
use std::io;
use std::sync::Arc;

/// A snapshot on a drive is read only if it saves so many positions more than what is in memory.
const WORTH_READING: usize = 16;

/// The snapshots of one model's states.
pub struct Snapshots {
    shape: Shape,
    kept: Kept,
    drive: Option<Drive>,
}

struct Drive {
    folder: Arc<Folder>,
    writer: Writer,
}

impl Snapshots {
    /// Keeps nothing yet, and never more than `budget` bytes in memory.
    pub fn new(shape: Shape, budget: u64) -> Snapshots {
        Snapshots { shape, kept: Kept::new(shape, budget), drive: None }
    }

    /// The least budget with which a short conversation is kept.
    pub fn least(shape: Shape) -> u64 {
        shape.recurrent_bytes() + Snapshot::new_page_bytes(16 * PAGE_POSITIONS, 0, shape.row)
    }

    /// The most bytes in memory.
    pub fn budget(&self) -> u64 {
        self.kept.budget()
    }

    /// From now on lasting ones are written to a folder, too, and those of earlier runs are gone on from.
    /// `note` hears of files that are dropped and of failures.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn keep_in(&mut self, folder: FolderOptions, origin: Origin, note: Note) -> io::Result<()> {
        let folder = Arc::new(Folder::new(folder, origin, self.shape, note));
        folder.begin();
        self.drive = Some(Drive { writer: Writer::start(folder.clone())?, folder });
        Ok(())
    }

    /// What is still to be written; nothing where there is no folder.
    pub fn writes(&self) -> Option<Writes> {
        self.drive.as_ref().map(|drive| drive.writer.writes())
    }

    /// Puts `state`, which holds the tokens `live`, after the longest prefix of `ids` that is known and
    /// leaves some of them. Returns that prefix's length; nothing where `state` is untouched, because
    /// nothing goes further than it does.
    pub fn resume(&mut self, ids: &[u32], live: &[u32], state: &mut State) -> Option<usize> {
        let usable = if live.len() < ids.len() && ids.starts_with(live) { live.len() } else { 0 };
        let kept = self.kept.longest(ids).filter(|snapshot| snapshot.len() > usable);
        let best = kept.as_ref().map_or(usable, |snapshot| snapshot.len());
        let mut is_spoiled = false;
        if let Some(drive) = &self.drive {
            let fits = best + WORTH_READING..state.capacity();
            for found in drive.folder.find(ids) {
                if !fits.contains(&found.positions) {
                    continue;
                }
                if drive.folder.load(&found, ids, state) {
                    return Some(found.positions);
                }
                is_spoiled = true;
            }
        }
        match kept {
            Some(snapshot) => {
                let same = live.iter().zip(ids).take_while(|(a, b)| a == b).count();
                snapshot.restore(if is_spoiled { 0 } else { same }, state);
                Some(snapshot.len())
            }
            None => is_spoiled.then_some(0),
        }
    }

    /// Which of `marks`, the most valuable first, to have `state` copy while it takes in `ids` after the
    /// first `from`. Room is set aside for them until [`Snapshots::release`].
    pub fn reserve(&mut self, ids: &[u32], from: usize, marks: &[Mark]) -> Vec<Mark> {
        let mut chosen = mark::choose(marks, from, ids.len());
        chosen.retain(|mark| !self.has(&ids[..mark.position], mark.lasting));
        // One prompt does not push out more than half of what others left.
        let each = self.shape.recurrent_bytes().max(1);
        let most = (self.kept.budget() / 2 / each).max(1);
        chosen.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        chosen.truncate(self.kept.reserve(chosen.len()));
        chosen
    }

    /// Gives back the room that was set aside for so many marks.
    pub fn release(&mut self, unused: usize) {
        self.kept.release(unused);
    }

    /// Keeps a copy for which room was set aside. `state` holds the tokens `ids` and perhaps more.
    pub fn keep_marked(&mut self, ids: &[u32], state: &State, copy: Recurrent, lasting: bool) {
        let snapshot = self.kept.keep_reserved(ids, state, copy);
        self.write(snapshot, lasting);
    }

    /// Keeps `state` as it is, after the tokens `ids`.
    pub fn keep(&mut self, ids: &[u32], state: &State, lasting: bool) {
        if !ids.is_empty() && !self.has(ids, lasting) {
            // The live state goes on from here as well. Where there is room for one only, and no drive, the
            // place before the reply is worth more: held, it is not let go for this one.
            let _held = if self.drive.is_none() { self.kept.longest(ids) } else { None };
            let snapshot = self.kept.keep_current(ids, state);
            self.write(snapshot, lasting);
        }
    }

    /// Whether the snapshot is kept; then it counts as used, and is on its way to the drive if it is to be there.
    fn has(&mut self, ids: &[u32], lasting: bool) -> bool {
        let Some(snapshot) = self.kept.of(ids) else { return false };
        if self.drive.as_ref().is_some_and(|drive| lasting && !drive.folder.has(ids)) {
            self.write(Some(snapshot), lasting);
        }
        true
    }

    fn write(&self, snapshot: Option<Arc<Snapshot>>, lasting: bool) {
        if let (Some(drive), Some(snapshot), true) = (&self.drive, snapshot, lasting) {
            drive.writer.write(snapshot);
        }
    }
}
