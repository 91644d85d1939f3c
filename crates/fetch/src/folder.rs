//! The folder that is installed into: who may write there, and where what lies.
//!
//! ```text
//! NAME                          a file that is proven
//! NAME.part                     a file in the making, at its offsets
//! .deltafin/NAME.map            what of it is here
//! .deltafin/install.json.part   what is wanted, while not all of it is here
//! .deltafin/install.json        the same, once it is
//! .deltafin/stream.json.part    as these two, where experts are to come when they are needed:
//! .deltafin/stream.json         their files stay in the making
//! .deltafin/spine               how the spine lies, if not as released
//! ```

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use deltafin_store::SpineNote;

use crate::record::Record;
use crate::{FetchError, Source};

/// Holds what is known of the files beside it.
pub(crate) const NOTES: &str = ".deltafin";
/// What tells how far an installation is, the one that counts first.
const RECORDS: [(Kind, bool); 4] =
    [(Kind::Full, false), (Kind::Stream, false), (Kind::Stream, true), (Kind::Full, true)];
/// Holds what is being fetched while the folder is used, by record.
const CLAIMS: &str = "coming";
/// Is locked by who makes room for what is being fetched.
const ROOM: &str = "room";
/// Ends the names of notes that are being written.
const UNWRITTEN: &str = "new";
/// Holds the number of the process that writes, for others to tell.
const HOLDER: &str = "holder";

/// What a folder is to have in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Every byte.
    Full,
    /// All but the experts, which come when they are needed.
    Stream,
}

impl Kind {
    /// What notes that it is here, or is not yet.
    fn record(self, is_finished: bool) -> &'static str {
        match (self, is_finished) {
            (Kind::Full, true) => "install.json",
            (Kind::Full, false) => "install.json.part",
            (Kind::Stream, true) => "stream.json",
            (Kind::Stream, false) => "stream.json.part",
        }
    }
}

/// A folder that this process alone installs into.
#[derive(Debug)]
pub(crate) struct Folder {
    dir: PathBuf,
    notes: PathBuf,
    /// Holds the lock of the folder itself, which ends with this process however that ends. There is no
    /// file whose removal would let a second one in.
    _lock: File,
}

impl Folder {
    /// Makes the folder, if need be, and keeps others out.
    pub(crate) fn open(dir: &Path) -> Result<Folder, FetchError> {
        let create = |reason| FetchError::Create { path: dir.to_owned(), reason };
        check_is_folder(dir)?;
        let lock = loop {
            fs::create_dir_all(dir).map_err(create)?;
            let lock = lock(dir)?;
            // What was locked may have been moved away in between; then another is there.
            if is_same(&lock, dir) {
                break lock;
            }
        };
        let notes = dir.join(NOTES);
        fs::create_dir_all(&notes).map_err(create)?;
        sweep(&notes).map_err(|error| FetchError::disk(&notes, error))?;
        // For the words of a refusal only: the lock is what counts.
        let _ = fs::write(notes.join(HOLDER), std::process::id().to_string());
        Ok(Folder { dir: dir.to_owned(), notes, _lock: lock })
    }

    /// The folder.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where a proven file is, or will be.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Where a file is in the making.
    pub(crate) fn part(&self, name: &str) -> PathBuf {
        part_path(&self.dir, name)
    }

    /// Where a file's map is.
    pub(crate) fn map(&self, name: &str) -> PathBuf {
        map_path(&self.dir, name)
    }

    /// What is being installed, or is.
    pub(crate) fn record(&self) -> Result<Option<Record>, FetchError> {
        record(&self.dir)
    }

    /// Notes what is wanted; from here on the folder is unfinished.
    pub(crate) fn begin(&self, record: &Record, kind: Kind) -> io::Result<()> {
        record.write(&self.notes.join(kind.record(false)))?;
        for (other, is_finished) in RECORDS {
            let path = self.notes.join(other.record(is_finished));
            if (other, is_finished) != (kind, false) && path.exists() {
                fs::remove_file(path)?;
            }
        }
        self.sync()
    }

    /// Notes that all of it is here.
    pub(crate) fn finish(&self, kind: Kind) -> io::Result<()> {
        let [unfinished, finished] = [false, true].map(|is| self.notes.join(kind.record(is)));
        fs::rename(unfinished, finished)?;
        self.sync()
    }

    /// What it is to have in the end, and whether it has that.
    pub(crate) fn state(&self) -> Option<(Kind, bool)> {
        state(&self.dir)
    }

    /// Notes how the spine is to lie, or lies.
    pub(crate) fn lay(&self, note: SpineNote) -> io::Result<()> {
        match SpineNote::read_if_any(&self.dir) {
            // A folder without a note has what was released.
            Ok(None) if note == SpineNote::RELEASED => Ok(()),
            Ok(Some(noted)) if noted == note => Ok(()),
            _ => note.write(&self.dir),
        }
    }

    /// Notes that the released spine was chosen, also where nothing else was ever said.
    pub(crate) fn choose_released(&self) -> io::Result<()> {
        match SpineNote::read_if_any(&self.dir) {
            Ok(None) => SpineNote::RELEASED.write(&self.dir),
            _ => Ok(()),
        }
    }

    /// Makes names last.
    pub(crate) fn sync(&self) -> io::Result<()> {
        File::open(&self.notes)?.sync_all()?;
        File::open(&self.dir)?.sync_all()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.notes.join(HOLDER));
    }
}

/// Refuses a path where something else is than a folder, or on the way to it.
pub(crate) fn check_is_folder(dir: &Path) -> Result<(), FetchError> {
    let there = dir.ancestors().find(|path| path.symlink_metadata().is_ok());
    match there.filter(|path| path.exists() && !path.is_dir()) {
        Some(path) => Err(FetchError::NotAFolder { path: path.to_owned() }),
        None => Ok(()),
    }
}

/// Removes notes that were not finished being written: whoever wrote them was killed, for the folder is locked. One of
/// settings is written without that lock.
fn sweep(notes: &Path) -> io::Result<()> {
    for entry in fs::read_dir(notes)? {
        let path = entry?.path();
        let is_new = path.extension().is_some_and(|ending| ending == UNWRITTEN);
        if is_new && path.file_stem().is_none_or(|stem| stem != "settings.json") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Locks a folder that is there, until what it gives is dropped.
pub(crate) fn lock(dir: &Path) -> Result<File, FetchError> {
    let path = || dir.to_owned();
    let lock = File::open(dir).map_err(|reason| FetchError::Create { path: path(), reason })?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) if lock.try_lock_shared().is_ok() => {
            Err(FetchError::InUse { path: path() })
        }
        Err(TryLockError::WouldBlock) => {
            Err(FetchError::Busy { path: path(), holder: holder(dir) })
        }
        Err(TryLockError::Error(reason)) => Err(FetchError::Lock { path: path(), reason }),
    }
}

/// What a folder is to have in the end, and whether it has that.
pub(crate) fn state(dir: &Path) -> Option<(Kind, bool)> {
    let notes = dir.join(NOTES);
    let is_there =
        |(kind, is_finished): &(Kind, bool)| notes.join(kind.record(*is_finished)).exists();
    RECORDS.into_iter().find(is_there)
}

/// Refuses a folder of which nobody lets this user see whether it was installed: what cannot be looked at is not what
/// is not there.
pub fn check_seen(dir: &Path) -> Result<(), FetchError> {
    use io::ErrorKind::{NotADirectory, NotFound};
    for (kind, is_finished) in RECORDS {
        let path = dir.join(NOTES).join(kind.record(is_finished));
        match fs::metadata(&path) {
            Err(error) if !matches!(error.kind(), NotFound | NotADirectory) => {
                return Err(FetchError::disk(&path, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a folder was installed, or is being, from wherever.
pub fn is_installed(dir: &Path) -> bool {
    state(dir).is_some()
}

/// Whether all that was to be installed in a folder is there.
pub fn is_finished(dir: &Path) -> bool {
    state(dir).is_some_and(|(_, is_finished)| is_finished)
}

/// Whether a folder gets its experts when they are needed, and has all else.
pub fn is_streamed(dir: &Path) -> bool {
    state(dir) == Some((Kind::Stream, true))
}

/// The source that a folder was installed from, or is being.
pub fn installed_from(dir: &Path) -> Option<Source> {
    record(dir).ok().flatten()?.asked.parse().ok()
}

/// Where a file is in the making.
pub(crate) fn part_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.part"))
}

/// Where processes claim what they fetch while the folder is used.
pub(crate) fn claims(dir: &Path) -> PathBuf {
    dir.join(NOTES).join(CLAIMS)
}

/// Whose lock says which process makes room.
pub(crate) fn room(dir: &Path) -> PathBuf {
    dir.join(NOTES).join(ROOM)
}

/// A file of this process, to try something with.
pub(crate) fn scratch(dir: &Path) -> PathBuf {
    dir.join(NOTES).join(format!("probe-{}.new", std::process::id()))
}

/// Keeps out whoever sets a folder up, as long as the result is kept; others that use it may come in.
pub(crate) fn share(dir: &Path) -> Result<File, FetchError> {
    let lock = File::open(dir).map_err(|error| FetchError::disk(dir, error))?;
    match lock.try_lock_shared() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            Err(FetchError::Busy { path: dir.to_owned(), holder: holder(dir) })
        }
        Err(TryLockError::Error(reason)) => Err(FetchError::Lock { path: dir.to_owned(), reason }),
    }
}

/// Where a file's map is.
pub(crate) fn map_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(NOTES).join(format!("{name}.map"))
}

/// What is being installed in a folder, or is.
pub(crate) fn record(dir: &Path) -> Result<Option<Record>, FetchError> {
    check_seen(dir)?;
    let Some((kind, is_finished)) = state(dir) else { return Ok(None) };
    Record::read(&dir.join(NOTES).join(kind.record(is_finished)))
}

/// Bytes of the drive that a file takes, which are fewer than its length where it has holes.
pub fn taken_bytes(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| (meta.blocks() * 512).min(meta.len()))
}

/// Whether an open file is the one that has this name.
pub(crate) fn is_same(open: &File, path: &Path) -> bool {
    let inode = |meta: fs::Metadata| (meta.dev(), meta.ino());
    match (open.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => inode(open) == inode(named),
        _ => false,
    }
}

/// Who installs into a folder, as far as it says.
fn holder(dir: &Path) -> Option<u32> {
    fs::read_to_string(dir.join(NOTES).join(HOLDER)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_at_a_time_whatever_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let held = Folder::open(dir.path()).unwrap();
        fs::remove_dir_all(dir.path().join(NOTES)).unwrap();
        let busy = Folder::open(dir.path()).unwrap_err();
        assert!(matches!(busy, FetchError::Busy { holder: None, .. }), "{busy}");
        drop(held);
        let held = Folder::open(dir.path()).unwrap();
        let busy = Folder::open(dir.path()).unwrap_err();
        let pid = std::process::id();
        assert!(matches!(busy, FetchError::Busy { holder: Some(p), .. } if p == pid), "{busy}");
        drop(held);
        Folder::open(dir.path()).unwrap();
    }

    #[test]
    fn notes_that_were_not_finished_go_when_the_next_setup_comes() {
        let dir = tempfile::tempdir().unwrap();
        let notes = dir.path().join(NOTES);
        fs::create_dir(&notes).unwrap();
        for name in ["a.safetensors.map.new", "install.json.new", "settings.json.new", "a.map"] {
            fs::write(notes.join(name), "x").unwrap();
        }
        drop(Folder::open(dir.path()).unwrap());
        let names = fs::read_dir(&notes).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, ["a.map", "settings.json.new"]);
    }

    #[test]
    fn a_file_is_no_folder_nor_is_anything_below_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("model");
        fs::write(&file, "x").unwrap();
        for dir in [file.clone(), file.join("a/b")] {
            let refused = Folder::open(&dir).unwrap_err();
            assert!(
                matches!(&refused, FetchError::NotAFolder { path } if *path == file),
                "{refused}"
            );
        }
        assert!(check_is_folder(&dir.path().join("a/b")).is_ok());
    }
}
