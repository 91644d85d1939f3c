//! Holes in files: bytes that take no room on their drive.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use deltafin_store::hole::make_hole;

use crate::folder::NOTES;

/// Whether the drive of a folder takes bytes of a file back. It is tried on a small file.
pub(crate) fn is_possible(dir: &Path) -> bool {
    const BYTES: u64 = 1 << 16;
    let tried = try_in(dir, |file| {
        file.set_len(BYTES)?;
        make_hole(file, 0..BYTES)
    });
    tried.is_ok()
}

/// Whether bytes before others that were never written take no room on the drive of a folder: on exFAT and FAT,
/// and on some shares, they do. It is tried on a small file; where that fails, whoever writes next says why.
pub(crate) fn is_unwritten_free(dir: &Path) -> bool {
    const BYTES: u64 = 4 << 20;
    let tried = try_in(dir, |file| {
        file.write_all_at(&[1], BYTES)?;
        file.sync_all()?;
        Ok(file.metadata()?.blocks() * 512)
    });
    tried.map_or(true, |taken| taken < BYTES)
}

/// Tries something on a file of no name: whoever is killed meanwhile leaves nothing in the model's folder.
fn try_in<T>(dir: &Path, attempt: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
    let notes = dir.join(NOTES);
    let there = std::iter::once(&*notes).chain(dir.ancestors()).find(|path| path.is_dir());
    let path = there.unwrap_or(Path::new(".")).join(format!(".hole-{}", std::process::id()));
    let file = File::create(&path)?;
    fs::remove_file(&path)?;
    attempt(&file)
}

/// Whether a file is setup's own: bytes of one that has another name elsewhere, or lies elsewhere, are
/// somebody else's too.
pub(super) fn is_own(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_file() && meta.nlink() == 1)
}

/// Gives ranges of a file back, as (first byte, bytes), in their order. Its length stays. Those that follow each other go
/// as one: a block that two of them share would keep its room.
pub(super) fn free(path: &Path, ranges: impl Iterator<Item = (u64, u64)>) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let mut ranges = ranges.peekable();
    while let Some((offset, bytes)) = ranges.next() {
        let mut end = offset + bytes;
        while let Some((_, more)) = ranges.next_if(|next| next.0 == end) {
            end += more;
        }
        make_hole(&file, offset..end)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_two_ranges_share_goes_with_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let file = File::create(&path).unwrap();
        file.write_all_at(&vec![7; 1 << 20], 0).unwrap();
        file.sync_all().unwrap();
        let blocks = || file.metadata().unwrap().blocks();
        assert!(blocks() > 0);
        free(&path, [(0, 600_001), (600_001, (1 << 20) - 600_001)].into_iter()).unwrap();
        assert_eq!((blocks(), file.metadata().unwrap().len()), (0, 1 << 20));
    }

    #[test]
    fn trials_leave_nothing_and_find_what_this_drive_can() {
        let dir = tempfile::tempdir().unwrap();
        assert!(is_unwritten_free(dir.path()) && is_possible(dir.path()));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
