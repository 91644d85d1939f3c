//! Shards that are files of one folder.
//!
//! Reads are positional, so any number of threads may read at once. A failed read is tried
//! once more on a freshly opened file. As many files stay open as the descriptor limit
//! allows; the others are opened again when they are needed and must still be the same.

mod limit;
mod open;
mod pool;
pub(crate) mod read;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deltafin_checkpoint::{Shard, ShardId, Span};

use crate::error::reason;
use crate::store::check;
use crate::{OpenError, Store, StoreError};
use open::Way;
use pool::{FilePool, Stamp, Written};
use read::read_twice;

/// A store over the files of a folder.
#[derive(Debug)]
pub struct LocalShards {
    shards: Vec<Shard>,
    pool: FilePool,
}

impl LocalShards {
    /// Opens these files of `dir`. Raises the process's soft descriptor limit if it has to.
    pub fn open(dir: &Path, names: &[impl AsRef<str>]) -> Result<LocalShards, OpenError> {
        LocalShards::open_bounded(dir, names, limit::descriptors_for(names.len()))
    }

    /// As [`LocalShards::open`], keeping at most `max_open` files open (at least one) and
    /// leaving the process's limit alone.
    pub fn open_bounded(
        dir: &Path,
        names: &[impl AsRef<str>],
        max_open: usize,
    ) -> Result<LocalShards, OpenError> {
        let files = names.iter().map(|name| dir.join(name.as_ref()));
        LocalShards::open_files(names, files, Written::Never, max_open)
    }

    /// As [`LocalShards::open`], of files that may be called otherwise than the shards they are, and
    /// that are written to while they are read, without changing their lengths.
    pub fn open_written(
        names: &[impl AsRef<str>],
        files: impl IntoIterator<Item = PathBuf>,
    ) -> Result<LocalShards, OpenError> {
        let most = limit::descriptors_for(names.len());
        LocalShards::open_files(names, files, Written::InPlace, most)
    }

    /// As [`LocalShards::open_written`], of files that grow and shrink meanwhile: each is as long as a file can
    /// be, as far as reads are concerned, and one past its end fails as if the file had been cut off.
    pub fn open_growing(
        names: &[impl AsRef<str>],
        files: impl IntoIterator<Item = PathBuf>,
    ) -> Result<LocalShards, OpenError> {
        let most = limit::descriptors_for(names.len());
        let mut local = LocalShards::open_files(names, files, Written::AtItsEnd, most)?;
        local.shards.iter_mut().for_each(|shard| shard.len = i64::MAX as u64);
        Ok(local)
    }

    fn open_files(
        names: &[impl AsRef<str>],
        paths: impl IntoIterator<Item = PathBuf>,
        written: Written,
        max_open: usize,
    ) -> Result<LocalShards, OpenError> {
        let mut shards = Vec::with_capacity(names.len());
        let mut files = Vec::with_capacity(names.len());
        for (name, path) in names.iter().zip(paths) {
            let stamp = stamp_at_open(&path, names.len())?;
            shards.push(Shard { name: name.as_ref().to_owned(), len: stamp.len() });
            files.push((path, stamp));
        }
        Ok(LocalShards { shards, pool: FilePool::new(files, written, max_open.max(1)) })
    }

    /// The most files that are kept open.
    pub fn max_open(&self) -> usize {
        self.pool.max_open()
    }
}

/// The files of a store's shards, by number, for reads past the page cache.
pub trait Files: Send + Sync {
    /// Where a file is.
    fn path(&self, number: usize) -> &Path;

    /// The number the system gives to the drive it is on.
    fn device(&self, number: usize) -> u64;

    /// The file, open for direct reads, of which `wanted` is the next: offset, length and address
    /// must be multiples of [`crate::arena::PAGE_BYTES`]. It stays open as long as the result is
    /// kept.
    fn direct(&self, number: usize, wanted: Span) -> Result<Arc<File>, StoreError>;

    /// Where in that file `wanted` begins: at its offset, or elsewhere by a multiple of
    /// [`crate::arena::PAGE_BYTES`] where the files are not laid out as the shards are.
    fn place(&self, _number: usize, wanted: Span) -> u64 {
        wanted.offset()
    }

    /// Closes the file that `wanted` could not be read from, so that the next [`Files::direct`] opens it afresh.
    fn forget(&self, number: usize, wanted: Span);
}

/// They count against the same bound of open files, what is kept beyond it adds to it, and a file must
/// be the same as when the store was opened whenever it is opened again.
impl Files for FilePool {
    fn path(&self, number: usize) -> &Path {
        FilePool::path(self, number)
    }

    fn device(&self, number: usize) -> u64 {
        FilePool::device(self, number)
    }

    fn direct(&self, number: usize, wanted: Span) -> Result<Arc<File>, StoreError> {
        self.file(number, Way::Direct, wanted)
    }

    fn forget(&self, number: usize, _: Span) {
        FilePool::forget(self, number, Way::Direct);
    }
}

/// A shard's file: one of [`Files`].
#[derive(Clone, Copy)]
pub struct LocalFile<'s> {
    files: &'s dyn Files,
    number: usize,
}

impl<'s> LocalFile<'s> {
    /// The file of this number.
    pub fn new(files: &'s dyn Files, number: usize) -> LocalFile<'s> {
        LocalFile { files, number }
    }

    /// Where it is.
    pub fn path(&self) -> &'s Path {
        self.files.path(self.number)
    }

    /// The number the system gives to the drive it is on.
    pub fn device(&self) -> u64 {
        self.files.device(self.number)
    }

    /// As [`Files::direct`].
    pub fn direct(&self, wanted: Span) -> Result<Arc<File>, StoreError> {
        self.files.direct(self.number, wanted)
    }

    /// As [`Files::place`].
    pub fn place(&self, wanted: Span) -> u64 {
        self.files.place(self.number, wanted)
    }

    /// As [`Files::forget`].
    pub fn forget(&self, wanted: Span) {
        self.files.forget(self.number, wanted);
    }
}

/// Opens a file for a moment to know that it can be opened, and what it is.
fn stamp_at_open(path: &Path, shards: usize) -> Result<Stamp, OpenError> {
    let io_error = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => not_found(path),
        _ if limit::is_exhausted(&error) => {
            OpenError::Descriptors { path: path.to_owned(), limit: limit::soft_limit(), shards }
        }
        _ => OpenError::Io { path: path.to_owned(), reason: reason(&error) },
    };
    // Asked before opening: to open a pipe would wait for its writer.
    if !fs::metadata(path).map_err(io_error)?.is_file() {
        return Err(OpenError::NotAFile { path: path.to_owned() });
    }
    let file = File::open(path).map_err(io_error)?;
    Ok(Stamp::of(&file.metadata().map_err(io_error)?))
}

/// Why a path leads nowhere: a link names its target.
pub(crate) fn not_found(path: &Path) -> OpenError {
    match fs::read_link(path) {
        Ok(target) => OpenError::DanglingLink { link: path.to_owned(), target },
        Err(_) => OpenError::Io { path: path.to_owned(), reason: "no such file".to_owned() },
    }
}

impl Store for LocalShards {
    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn read_exact(&self, span: Span, buf: &mut [u8]) -> Result<(), StoreError> {
        check(&self.shards, span, buf)?;
        let number = span.shard().index();
        let open = || self.pool.file(number, Way::Cached, span);
        let forget = || self.pool.forget(number, Way::Cached);
        let read = read_twice(open, forget, buf, span.offset())?;
        let got = read.map_err(|error| self.failed(span, &error))?;
        if got == buf.len() { Ok(()) } else { Err(self.cut(span, got)) }
    }

    fn file(&self, shard: ShardId) -> Option<LocalFile<'_>> {
        let number = shard.index();
        (number < self.shards.len()).then(|| LocalFile::new(&self.pool, number))
    }
}

impl LocalShards {
    fn path(&self, span: Span) -> &PathBuf {
        self.pool.path(span.shard().index())
    }

    fn failed(&self, span: Span, error: &io::Error) -> StoreError {
        StoreError::Read {
            file: self.path(span).display().to_string(),
            offset: span.offset(),
            wanted: span.len(),
            reason: error.to_string(),
        }
    }

    fn cut(&self, span: Span, got: usize) -> StoreError {
        StoreError::EndOfFile {
            file: self.path(span).display().to_string(),
            offset: span.offset(),
            wanted: span.len(),
            got: got as u64,
        }
    }
}
