//! What this program may do in a folder.

use std::io;
use std::path::Path;

use rustix::fs;

use crate::{FetchError, folder};

/// What this program may do in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Keep what comes, and take it away.
    Full,
    /// Read what is here.
    ReadOnly,
}

impl Access {
    pub(super) fn writes(self) -> bool {
        self == Access::Full
    }

    /// A fault of the folder, told apart by what helps.
    pub(super) fn fault(self, path: &Path, reason: io::Error) -> FetchError {
        match self {
            Access::Full => FetchError::cache(path, reason),
            Access::ReadOnly => FetchError::disk(path, reason),
        }
    }
}

/// Refuses a folder whose notes are not to be written. It asks for no room: a full drive is another matter.
pub(super) fn check_writable(dir: &Path) -> io::Result<()> {
    let claims = folder::claims(dir);
    std::fs::create_dir_all(&claims)?;
    for path in [&dir.join(folder::NOTES), &claims] {
        fs::access(path, fs::Access::WRITE_OK | fs::Access::EXEC_OK)?;
    }
    Ok(())
}
