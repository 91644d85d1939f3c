//! Giving bytes of a file back to its drive.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Whether the drive of a folder takes bytes of a file back. It is tried on a small file.
pub(crate) fn is_possible(dir: &Path) -> bool {
    const BYTES: u64 = 1 << 16;
    let there = dir.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("."));
    let path = there.join(format!(".deltafin-hole-{}", std::process::id()));
    let tried = File::create(&path).and_then(|file| {
        file.set_len(BYTES)?;
        punch(&file, 0, BYTES)
    });
    let _ = fs::remove_file(&path);
    tried.is_ok()
}

/// Whether a file is setup's own: bytes of one that has another name elsewhere, or lies elsewhere, are
/// somebody else's too.
pub(super) fn is_own(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_file() && meta.nlink() == 1)
}

/// Gives ranges of a file back, as (first byte, bytes). Its length stays.
pub(super) fn free(path: &Path, ranges: impl Iterator<Item = (u64, u64)>) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    for (offset, bytes) in ranges {
        punch(&file, offset, bytes)?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn punch(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fallocate(file, hole, offset, bytes)?)
}

#[cfg(target_os = "macos")]
fn punch(_: &File, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
