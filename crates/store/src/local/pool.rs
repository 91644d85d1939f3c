//! Open files, at most so many; the one unused for longest is closed for another.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deltafin_checkpoint::Span;

use super::limit;
use super::open::{Way, open};
use crate::StoreError;

/// What tells a file from another under the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    len: u64,
    device: u64,
    inode: u64,
    modified: (i64, i64),
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            len: metadata.len(),
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    fn difference(&self, now: &Stamp) -> Option<&'static str> {
        if self.len != now.len {
            return Some("the length");
        }
        if (self.device, self.inode) != (now.device, now.inode) {
            return Some("the file under this name");
        }
        (self.modified != now.modified).then_some("the time of modification")
    }
}

/// Whether somebody writes to files while they are read: what a stamp has to say then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// Nobody does.
    Never,
    /// The time of modification says nothing.
    InPlace,
    /// Neither does the length.
    AtItsEnd,
}

/// Files by number, each open in up to two ways. A reader holds its file by a count, so closing never pulls a file away
/// from under a read; for that moment there may be one more open than the bound.
#[derive(Debug)]
pub(super) struct FilePool {
    files: Vec<(PathBuf, Stamp)>,
    written: Written,
    max_open: usize,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    slots: Vec<Option<Slot>>,
    count: usize,
    clock: u64,
}

#[derive(Debug)]
struct Slot {
    file: Arc<File>,
    used: u64,
}

impl FilePool {
    pub(super) fn new(files: Vec<(PathBuf, Stamp)>, written: Written, max_open: usize) -> FilePool {
        let slots = files.iter().flat_map(|_| [None, None]).collect();
        let open = Mutex::new(Open { slots, count: 0, clock: 0 });
        FilePool { files, written, max_open, open }
    }

    pub(super) fn max_open(&self) -> usize {
        self.max_open
    }

    pub(super) fn path(&self, number: usize) -> &PathBuf {
        &self.files[number].0
    }

    /// The drive that the file was on when the pool was made.
    pub(super) fn device(&self, number: usize) -> u64 {
        self.files[number].1.device
    }

    /// The open file, opened again if it was closed meanwhile; `wanted` is to be read from it.
    pub(super) fn file(
        &self,
        number: usize,
        way: Way,
        wanted: Span,
    ) -> Result<Arc<File>, StoreError> {
        let mut table = self.lock();
        if let Some(file) = table.touch(slot(number, way)) {
            return Ok(file);
        }
        while table.count >= self.max_open {
            table.close_oldest();
        }
        let file = Arc::new(self.reopen(number, way, wanted, &mut table)?);
        table.insert(slot(number, way), Arc::clone(&file));
        Ok(file)
    }

    /// Closes a file that failed, so that the next read opens it afresh.
    pub(super) fn forget(&self, number: usize, way: Way) {
        self.lock().close(slot(number, way));
    }

    fn reopen(
        &self,
        number: usize,
        way: Way,
        wanted: Span,
        table: &mut Open,
    ) -> Result<File, StoreError> {
        let (path, stamp) = &self.files[number];
        let name = || path.display().to_string();
        let opened = loop {
            match open(path, way) {
                // Others took the descriptors; give up one of ours for each try.
                Err(error) if limit::is_exhausted(&error) && table.count > 0 => {
                    table.close_oldest();
                }
                other => break other,
            }
        };
        let with_stamp = |file: File| -> io::Result<(File, Stamp)> {
            let stamp = Stamp::of(&file.metadata()?);
            Ok((file, stamp))
        };
        let (file, now) =
            opened.and_then(with_stamp).map_err(|error| failed(name(), wanted, &error))?;
        let now = match self.written {
            Written::Never => now,
            Written::InPlace => Stamp { modified: stamp.modified, ..now },
            Written::AtItsEnd => Stamp { modified: stamp.modified, len: stamp.len, ..now },
        };
        let Some(what) = stamp.difference(&now) else { return Ok(file) };
        let (file, offset, wanted) = (name(), wanted.offset(), wanted.len());
        Err(StoreError::Changed { file, offset, wanted, what })
    }

    /// A reader that panicked cannot have left the table half changed.
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(file: String, wanted: Span, error: &io::Error) -> StoreError {
    if limit::is_exhausted(error) {
        return StoreError::Descriptors { file, limit: limit::soft_limit() };
    }
    let (offset, wanted) = (wanted.offset(), wanted.len());
    StoreError::Reopen { file, offset, wanted, reason: error.to_string() }
}

/// Where the table keeps a file that is open in this way.
fn slot(number: usize, way: Way) -> usize {
    2 * number + way as usize
}

impl Open {
    fn touch(&mut self, at: usize) -> Option<Arc<File>> {
        self.clock += 1;
        let slot = self.slots[at].as_mut()?;
        slot.used = self.clock;
        Some(Arc::clone(&slot.file))
    }

    fn insert(&mut self, at: usize, file: Arc<File>) {
        self.slots[at] = Some(Slot { file, used: self.clock });
        self.count += 1;
    }

    fn close(&mut self, at: usize) {
        self.count -= usize::from(self.slots[at].take().is_some());
    }

    fn close_oldest(&mut self) {
        let used = |(at, slot): (usize, &Option<Slot>)| Some((slot.as_ref()?.used, at));
        let oldest = self.slots.iter().enumerate().filter_map(used).min();
        if let Some((_, at)) = oldest {
            self.close(at);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use deltafin_checkpoint::ShardId;

    use super::*;

    /// A drive is not at fault where descriptors are what lacks.
    #[test]
    fn a_limit_of_open_files_is_told_from_a_fault() {
        let said = |code: rustix::io::Errno| {
            let error = io::Error::from_raw_os_error(code.raw_os_error());
            let wanted = Span::new(ShardId::new(0), 4096, 7).unwrap();
            failed("s".to_owned(), wanted, &error).to_string()
        };
        for limit in [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE] {
            assert!(said(limit).contains("ulimit -n") && !said(limit).contains("drive"));
        }
        let fault = said(rustix::io::Errno::IO);
        assert!(fault.contains("check the drive") && fault.contains("7 bytes at offset 4096"));
    }
}
