//! Whether the drive of a folder takes room within a file back, so that a limit can be kept there.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use deltafin_store::hole::make_hole;

use crate::packed::hole;
use crate::{FetchError, folder};

/// Refuses a folder whose drive takes nothing back. On a full drive, where a limit is what makes room, nothing can be
/// written to try it with; then the file system's own word counts.
pub(super) fn check(dir: &Path) -> Result<(), FetchError> {
    let path = folder::scratch(dir);
    let tried = tried(&path);
    let _ = fs::remove_file(&path);
    let none = |reason| FetchError::NoHoles { path: dir.to_owned(), reason };
    match tried {
        Ok(true) => Ok(()),
        Ok(false) => Err(none(io::Error::other("what was given back is still there"))),
        Err(error) => match FetchError::disk(&path, error) {
            FetchError::Disk { reason, .. } => Err(none(reason)),
            FetchError::Full { .. } if hole::is_possible(dir) => Ok(()),
            other => Err(other),
        },
    }
}

/// Tries it in earnest: what a file system says and what it does are two things.
fn tried(path: &Path) -> io::Result<bool> {
    const BYTES: u64 = 1 << 20;
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).open(path)?;
    file.write_all_at(&vec![1; BYTES as usize], 0)?;
    make_hole(&file, 0..BYTES / 2)?;
    let mut byte = [1];
    file.read_exact_at(&mut byte, 0)?;
    Ok(byte == [0])
}
