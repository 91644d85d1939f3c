//! Why a conversion stops.

use std::io;
use std::path::{Path, PathBuf};

use deltafin_checkpoint::Recipe;
use deltafin_checkpoint::pack::PackError;
use deltafin_store::{SpineError, StoreError};
use thiserror::Error;

/// A conversion that did not finish. What was finished before is kept, and is not done again.
#[derive(Debug, Error)]
#[allow(missing_docs)] // the messages say what the fields are
pub enum ConvertError {
    #[error("{part}: {source}")]
    Read { part: String, source: StoreError },
    #[error("the checkpoint cannot be read: {0}")]
    Identity(StoreError),
    #[error("{}: {reason}; give a folder that can be written to with --out", path.display())]
    Create { path: PathBuf, reason: io::Error },
    #[error(
        "{}: {} is converting into it; wait for it, or give another folder with --out",
        path.display(), holder_words(*.holder)
    )]
    Busy { path: PathBuf, holder: Option<u32> },
    #[error("{}: cannot be locked: {reason}; give a folder on another drive with --out", path.display())]
    Lock { path: PathBuf, reason: io::Error },
    #[error("{}: holds the spine of another checkpoint; remove it, or give another folder with --out", path.display())]
    OtherSource { path: PathBuf },
    #[error(
        "{}: holds a pack of version {found}, which another version of this program made; use that one, or \
         remove the folder, or give another with --out", path.display()
    )]
    OtherVersion { path: PathBuf, found: u64 },
    #[error("{}: holds a spine of recipe {found}; remove it, or give another folder with --out", path.display())]
    OtherRecipe { path: PathBuf, found: Recipe },
    #[error(
        "{}: the spine needs {} MB more, there is room for {} MB; make room, or give a folder on \
         another drive with --out", path.display(), needed.div_ceil(1_000_000), free / 1_000_000
    )]
    Room { path: PathBuf, needed: u64, free: u64 },
    #[error(
        "{}: the drive is full; {done} of {files} files are finished and kept, make room and run \
         the same command again", path.display()
    )]
    Full { path: PathBuf, done: usize, files: usize },
    #[error("{}: {reason}; what is finished is kept, run the same command again", path.display())]
    Write { path: PathBuf, reason: io::Error },
    #[error("interrupted; {done} of {files} files are finished and kept, the same command goes on")]
    Interrupted { done: usize, files: usize },
    #[error(transparent)]
    Pack(#[from] PackError),
    #[error(transparent)]
    Spine(#[from] SpineError),
}

fn holder_words(holder: Option<u32>) -> String {
    holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

impl ConvertError {
    /// A write that failed, told apart by what helps.
    pub(crate) fn writing(path: &Path, reason: io::Error, done: usize, files: usize) -> Self {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let path = path.to_owned();
        match reason.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => ConvertError::Full { path, done, files },
            _ => ConvertError::Write { path, reason },
        }
    }
}
