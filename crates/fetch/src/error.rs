//! Why files could not be brought here.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use deltafin_setup::ConvertError;
use deltafin_store::OpenError;
use thiserror::Error;

use crate::install::Missing;

/// An installation that did not finish. What is here stays, and the next one goes on from it.
#[derive(Debug, Error)]
#[allow(missing_docs)] // the messages say what the fields are
pub enum FetchError {
    #[error("source '{given}': {reason}")]
    Notation { given: String, reason: &'static str },
    #[error("{}: it is a file, and a model is a folder; give another with --model", path.display())]
    NotAFolder { path: PathBuf },
    #[error("{}: {reason}; give a folder that can be written to with --model", path.display())]
    Create { path: PathBuf, reason: io::Error },
    #[error("{}: {} is setting it up; wait for it, or give another folder with --model", path.display(), holder_words(*.holder))]
    Busy { path: PathBuf, holder: Option<u32> },
    #[error("{}: a program is running this model, and fetches experts into the folder; end it, then run the same command again", path.display())]
    InUse { path: PathBuf },
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{}: holds the spine of another checkpoint or recipe; remove it, then run the same command again", path.display())]
    ForeignPack { path: PathBuf },
    #[error("{}: parts of the spine's pack could not be made; run the same command again", path.display())]
    Unpacked { path: PathBuf },
    #[error(transparent)]
    Convert(Box<ConvertError>),
    #[error("{}: cannot be locked: {reason}; give a folder on another drive with --model", path.display())]
    Lock { path: PathBuf, reason: io::Error },
    #[error("{}: {reason}; remove it, or use the program that wrote it", path.display())]
    Record { path: PathBuf, reason: String },
    #[error(
        "{}: nothing was installed here by setup, so no digests are known; \
         'deltafin setup --source SOURCE --model DIR' holds its files against those of a source",
        path.display()
    )]
    NotInstalled { path: PathBuf },
    #[error(
        "{}: {} MB are needed, there is room for {} MB; make room, or give a folder on another drive with --model",
        path.display(), needed.div_ceil(1_000_000), free / 1_000_000
    )]
    Room { path: PathBuf, needed: u64, free: u64 },
    #[error("{}: the drive is full; what is here is kept, make room and run the same command again", path.display())]
    Full { path: PathBuf },
    #[error("{}: {reason}; what is here is kept, run the same command again", path.display())]
    Disk { path: PathBuf, reason: io::Error },
    #[error(
        "{}: --cache-limit {limit} is too small, the experts of a token in one layer alone take {least}; give at least {}K, or leave it out",
        path.display(), least.div_ceil(1024)
    )]
    Limit { path: PathBuf, limit: u64, least: u64 },
    #[error(
        "{}: room cannot be given back within a file here ({reason}), so that --cache-limit cannot be kept; leave it out, or set the model up on another drive with --model",
        path.display()
    )]
    NoHoles { path: PathBuf, reason: io::Error },
    #[error(
        "{}: the file system of this drive leaves no holes in files (exFAT and FAT do not, nor do some shares), and all of the model was begun here, so that some layers would take the room of all; go on with --full, or give another folder with --model",
        path.display()
    )]
    NoParts { path: PathBuf },
    #[error(
        "{}: all of the model was begun here, in files as long as the finished ones; go on with --full, or give another folder with --model",
        path.display()
    )]
    Begun { path: PathBuf },
    #[error(
        "{}: experts that come are written here, and that is not allowed ({reason}); let this user write to the folder and what is in it, or make it whole with 'deltafin setup --full' as a user who may",
        path.display()
    )]
    ReadOnly { path: PathBuf, reason: io::Error },
    #[error("{}: {reason}; let this user use the folder and what is in it, or be a user who may", path.display())]
    Forbidden { path: PathBuf, reason: io::Error },
    #[error(
        "{}: what is here came from {holds}, and {asked} gives no digests that tell whether it has the same; go on with --source {holds}, give another folder with --model, or remove this one",
        path.display()
    )]
    OtherSource { path: PathBuf, holds: String, asked: String },
    #[error(
        "{}, and one model is not made of two{}; remove {} and run 'deltafin setup' to fetch what is there now, or give another folder with --model",
        .0, .0.also(), .0.it()
    )]
    Replaced(Box<Replaced>),
    #[error("{}{}; 'deltafin setup {} --model {}' fetches what is there now in place of {}", .0, .0.also(), mode(*.1), .0.dir.display(), .0.it())]
    Moved(Box<Replaced>, bool),
    #[error(
        "{}: ends before experts that came into it; 'deltafin verify --deep --repair {}' brings them again",
        path.display(), model.display()
    )]
    LayerCut { path: PathBuf, model: PathBuf },
    #[error("--layers {}-{}: the model has layers 0 to {last}", asked.start(), asked.end())]
    NoLayer { asked: RangeInclusive<u32>, last: usize },
    #[error("{what}: {why}")]
    Source { what: String, why: String },
    #[error(
        "the connection cannot be made safe: this processor lacks instructions for encryption (AES, AVX2); fetch on another machine and give the folder with --source"
    )]
    NoCryptography,
    #[error("{} of {total} files are missing: {}; what is here is kept, the same command goes on", missing.len(), words(missing))]
    Incomplete { missing: Vec<Missing>, total: usize },
    #[error("interrupted; what is here is kept, the same command goes on")]
    Interrupted,
}

fn holder_words(holder: Option<u32>) -> String {
    holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

fn mode(is_streamed: bool) -> &'static str {
    if is_streamed { "--stream" } else { "--full" }
}

/// Files that a source has replaced since some of them came.
#[derive(Debug)]
pub struct Replaced {
    /// The folder.
    pub dir: PathBuf,
    /// The source.
    pub asked: String,
    /// The first of the files.
    pub file: String,
    /// What is another than it was, of that.
    pub what: String,
    /// The other files.
    pub others: Vec<String>,
}

impl fmt::Display for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Replaced { dir, asked, file, what, .. } = self;
        let path = dir.join(file);
        let path = path.display();
        write!(f, "{path}: {asked} has another file of this name than when it came ({what})")
    }
}

impl Replaced {
    /// The files of which the same is true.
    fn also(&self) -> String {
        const NAMED: usize = 3;
        let named = self.others.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        match self.others.len().saturating_sub(NAMED) {
            _ if self.others.is_empty() => String::new(),
            0 => format!(" (the same goes for {named})"),
            more => format!(" (the same goes for {named} and {more} more)"),
        }
    }

    fn it(&self) -> &'static str {
        if self.others.is_empty() { "it" } else { "these" }
    }
}

fn words(missing: &[Missing]) -> String {
    const NAMED: usize = 3;
    let named: Vec<_> =
        missing.iter().take(NAMED).map(|m| format!("{} ({})", m.name, m.why)).collect();
    match missing.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

impl From<ConvertError> for FetchError {
    fn from(error: ConvertError) -> FetchError {
        match error {
            ConvertError::Interrupted { .. } => FetchError::Interrupted,
            ConvertError::Full { path, .. } => FetchError::Full { path },
            ConvertError::OtherSource { path } | ConvertError::OtherRecipe { path, .. } => {
                FetchError::ForeignPack { path }
            }
            error => FetchError::Convert(Box::new(error)),
        }
    }
}

impl FetchError {
    /// A fault of the drive that experts are to be written to, told apart by what helps.
    pub(crate) fn cache(path: &Path, reason: io::Error) -> FetchError {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        match reason.kind() {
            PermissionDenied | ReadOnlyFilesystem => {
                FetchError::ReadOnly { path: path.to_owned(), reason }
            }
            _ => FetchError::disk(path, reason),
        }
    }

    /// A fault of our own drive, told apart by what helps.
    pub(crate) fn disk(path: &Path, reason: io::Error) -> FetchError {
        use io::ErrorKind::{FileTooLarge, PermissionDenied, QuotaExceeded};
        use io::ErrorKind::{ReadOnlyFilesystem, StorageFull};
        let path = path.to_owned();
        match reason.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => FetchError::Full { path },
            PermissionDenied | ReadOnlyFilesystem => FetchError::Forbidden { path, reason },
            _ => FetchError::Disk { path, reason },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_may_be_written_the_remedy_is_to_let_it() {
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem] {
            let line = FetchError::cache(Path::new("models"), kind.into()).to_string();
            assert!(line.starts_with("models: ") && line.contains("let this user write"), "{line}");
            assert!(!line.contains("run the same command again"), "{line}");
        }
        let full = FetchError::cache(Path::new("models"), io::ErrorKind::StorageFull.into());
        assert!(matches!(full, FetchError::Full { .. }));
    }
}
