//! Snapshots on a drive.
//!
//! **Promise.** The folder's snapshots never exceed their budget, and never leave less than a gibibyte free on their
//! drive, by more than what another program is writing at the moment. A file appears whole or not at all. Any number of programs may share the folder: names say
//! what is inside, files are replaced by nobody, and one that vanishes was no longer needed.
//!
//! The time of a file's last change says when it was last used.

use crate::Flaw;
use crate::format::{self, Head, Origin, Reader, Shape};
use crate::name::{self, Names};
use crate::page::Snapshot;
use deltafin_model::State;
use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Files at a time; the least recently used go first.
const FILES_MAX: usize = 256;
/// Bytes that stay free on the drive, which is somebody else's, too.
const LEFT_FREE: u64 = 1 << 30;
/// An unfinished file that nobody wrote to for so long was left behind.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);
/// Values of latent cache that are read at a time: they are nobody's budget.
const ROWS_AT_ONCE: usize = 1 << 18;
const UNFINISHED: &str = ".part";

/// Hears what happened, one line at a time.
pub type Note = Box<dyn Fn(&str) + Send + Sync>;

/// Where and how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderOptions {
    /// The folder; it is made when something is written.
    pub path: PathBuf,
    /// The most bytes of snapshots in it, of all checkpoints together.
    pub bytes: u64,
}

/// A folder of snapshots, seen with one checkpoint's eyes.
pub(crate) struct Folder {
    options: FolderOptions,
    origin: Origin,
    shape: Shape,
    note: Note,
    /// Files that were refused: they may be there still, where they could not be removed.
    refused: Mutex<HashSet<String>>,
    /// Bytes that are free on a folder's drive.
    free_bytes: fn(&Path) -> io::Result<u64>,
    /// There was no room the last time, which was told.
    is_short: AtomicBool,
    /// The failure of the last time, which was told.
    failure: Mutex<Option<String>>,
}

/// A snapshot that is there, by its name.
pub(crate) struct Found {
    pub(crate) positions: usize,
    name: String,
}

struct Listed {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
    is_unfinished: bool,
}

impl Folder {
    pub(crate) fn new(options: FolderOptions, origin: Origin, shape: Shape, note: Note) -> Folder {
        Folder {
            options,
            origin,
            shape,
            note,
            refused: Mutex::default(),
            free_bytes,
            is_short: AtomicBool::new(false),
            failure: Mutex::default(),
        }
    }

    /// What earlier runs left keeps to the budget from here on. A budget that holds no snapshot is told.
    pub(crate) fn begin(&self) {
        let path = self.options.path.display();
        let least = self.shape.file_bytes(1).unwrap_or(u64::MAX);
        if self.options.bytes < least {
            (self.note)(&format!(
                "no snapshots are written to {path}: they may have {} bytes there, and one of this model takes \
                 {least} at least; allow more",
                self.options.bytes
            ));
        }
        // A folder that cannot be read is told when something is to be written there.
        if let Ok(files) = self.list() {
            remove_until(files, 0, self.options.bytes);
        }
    }

    /// The snapshots whose tokens `ids` begin with, some of `ids` being left, the longest first.
    pub(crate) fn find(&self, ids: &[u32]) -> Vec<Found> {
        let Ok(entries) = fs::read_dir(&self.options.path) else { return Vec::new() };
        let names: HashSet<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        let mut lengths: Vec<usize> =
            names.iter().filter_map(|name| name::positions(name)).collect();
        lengths.retain(|length| *length < ids.len());
        lengths.sort_unstable();
        lengths.dedup();
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wanted = Names::new(self.origin, self.shape, ids);
        let found = lengths.into_iter().map(|n| Found { positions: n, name: wanted.of(n) });
        let is_there = |f: &Found| names.contains(&f.name) && !refused.contains(&f.name);
        let mut found: Vec<Found> = found.filter(is_there).collect();
        found.reverse();
        found
    }

    /// Whether the snapshot of these tokens is there. It counts as used.
    pub(crate) fn has(&self, ids: &[u32]) -> bool {
        let path = self.options.path.join(Names::new(self.origin, self.shape, ids).of(ids.len()));
        let file = path.is_file().then(|| File::open(path));
        if let Some(Ok(file)) = &file {
            touch(file);
        }
        matches!(file, Some(Ok(_)))
    }

    /// Puts `state` where the snapshot was. If that fails, the state is empty; unless the file is simply gone,
    /// it is dropped with a line.
    pub(crate) fn load(&self, found: &Found, ids: &[u32], state: &mut State) -> bool {
        let path = self.options.path.join(&found.name);
        match self.read(&path, &ids[..found.positions], state) {
            Ok(()) => true,
            Err(flaw) => {
                state.clear();
                let gone = matches!(&flaw, Flaw::Read(e) if e.kind() == io::ErrorKind::NotFound);
                if !gone {
                    self.drop_file(&path, &found.name, &flaw);
                }
                false
            }
        }
    }

    fn read(&self, path: &Path, ids: &[u32], state: &mut State) -> Result<(), Flaw> {
        // Looked at before it is opened: opening a pipe waits for its other end.
        let metadata = fs::symlink_metadata(path)?;
        if !metadata.is_file() {
            return Err(Flaw::Magic);
        }
        let file = File::open(path)?;
        let bytes = metadata.len();
        let source = BufReader::new(&file);
        let mut reader = Reader::open(source, bytes, self.origin, self.shape, ids)?;
        let step = (ROWS_AT_ONCE / self.shape.row.max(1)).max(1);
        let mut rows = vec![0.0; step.min(ids.len()) * self.shape.row];
        for first in (0..ids.len()).step_by(step) {
            let count = (ids.len() - first).min(step);
            let rows = &mut rows[..count * self.shape.row];
            reader.fill(rows)?;
            state.write_latent(first, rows);
        }
        state.resume_with(ids.len(), &mut |part| reader.fill(part))?;
        reader.finish()?;
        touch(&file);
        Ok(())
    }

    fn drop_file(&self, path: &Path, name: &str, flaw: &Flaw) {
        (self.note)(&format!("the snapshot {} is dropped: {flaw}", path.display()));
        let _ = fs::remove_file(path);
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.insert(name.to_owned());
    }

    /// Writes a snapshot, unless it is there. A failure is no reason to stop; it is told once, until it is another
    /// one or over: each reply would tell it twice.
    pub(crate) fn save(&self, snapshot: &Snapshot) {
        let path = self.options.path.display();
        let failed = self.try_save(snapshot).err();
        let failure = failed.map(|error| format!("cannot keep a snapshot in {path}: {error}"));
        let mut last = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = failure.as_ref().filter(|_| *last != failure) {
            (self.note)(line);
        }
        *last = failure;
    }

    fn try_save(&self, snapshot: &Snapshot) -> io::Result<()> {
        let ids: Vec<u32> = snapshot.ids().flatten().copied().collect();
        let bytes = self.shape.file_bytes(ids.len() as u64).unwrap_or(u64::MAX);
        if bytes > self.options.bytes || self.has(&ids) {
            return Ok(());
        }
        let name = Names::new(self.origin, self.shape, &ids).of(ids.len());
        DirBuilder::new().recursive(true).mode(0o700).create(&self.options.path)?;
        if !self.make_room(bytes)? {
            self.tell_short();
            return Ok(());
        }
        self.is_short.store(false, Ordering::Relaxed);
        let unfinished = self.options.path.join(unfinished(&name));
        let written = self
            .write(&unfinished, snapshot, ids.len())
            .and_then(|()| fs::rename(&unfinished, self.options.path.join(&name)));
        if written.is_err() {
            // The first failure is the one to tell.
            let _ = fs::remove_file(&unfinished);
        } else {
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
        }
        written
    }

    fn write(&self, path: &Path, snapshot: &Snapshot, positions: usize) -> io::Result<()> {
        // What was said is nobody else's business.
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let head = Head { origin: self.origin, shape: self.shape, positions: positions as u64 };
        let rows = snapshot.pages.iter().map(|page| &*page.rows);
        format::write(&mut file, head, snapshot.ids(), rows, snapshot.recurrent.values())?;
        file.flush()?;
        // A name must not be there before the bytes are, whatever happens to the machine.
        file.sync_data()
    }

    /// Said once, until there is room again: each reply would say it.
    fn tell_short(&self) {
        if !self.is_short.swap(true, Ordering::Relaxed) {
            let path = self.options.path.display();
            (self.note)(&format!(
                "no snapshots are written to {path} for now: less than {} MiB would be left free on that drive; \
                 make room there, or choose another folder",
                LEFT_FREE >> 20
            ));
        }
    }

    /// Removes what was used least recently until so many bytes more fit; false, and nothing is removed, where
    /// all of it would not be enough.
    fn make_room(&self, bytes: u64) -> io::Result<bool> {
        let files = self.list()?;
        let ours: u64 = files.iter().map(|file| file.bytes).fold(0, u64::saturating_add);
        let free = (self.free_bytes)(&self.options.path)?;
        let most = ours.saturating_add(free).saturating_sub(LEFT_FREE).min(self.options.bytes);
        if bytes > most {
            return Ok(false);
        }
        remove_until(files, bytes, most);
        Ok(true)
    }

    fn list(&self) -> io::Result<Vec<Listed>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.options.path)? {
            let entry = entry?;
            let name = entry.file_name().into_string().unwrap_or_default();
            let is_unfinished = name.ends_with(UNFINISHED) && name.contains(".snapshot.");
            let is_ours = is_unfinished || name::positions(&name).is_some();
            // One that vanished meanwhile is somebody else's doing.
            let Ok(metadata) = entry.metadata() else { continue };
            if is_ours && metadata.is_file() {
                let used = metadata.modified()?;
                files.push(Listed {
                    path: entry.path(),
                    bytes: metadata.len(),
                    used,
                    is_unfinished,
                });
            }
        }
        Ok(files)
    }
}

/// Removes what was used least recently until these files, and one more of `bytes` unless that is 0, take `most`.
fn remove_until(mut files: Vec<Listed>, bytes: u64, most: u64) {
    files.sort_by_key(|file| file.used);
    let mut total = files.iter().map(|file| file.bytes).fold(bytes, u64::saturating_add);
    let mut count = files.len() + usize::from(bytes > 0);
    let now = SystemTime::now();
    for file in files {
        let age = now.duration_since(file.used).unwrap_or_default();
        let too_much = total > most || count > FILES_MAX;
        let goes = if file.is_unfinished { age > LEFT_BEHIND } else { too_much };
        if goes && (fs::remove_file(&file.path).is_ok() || !file.path.exists()) {
            total -= file.bytes;
            count -= 1;
        }
    }
}

fn free_bytes(folder: &Path) -> io::Result<u64> {
    let drive = rustix::fs::statvfs(folder)?;
    Ok(drive.f_bavail.saturating_mul(drive.f_frsize))
}

/// A name that no other writer has.
fn unfinished(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{name}.{}-{number}{UNFINISHED}", std::process::id())
}

/// Says that a file was used.
fn touch(file: &File) {
    // Best effort: where times cannot be set, the oldest go first.
    let _ = file.set_modified(SystemTime::now());
}

#[cfg(test)]
mod tests;
