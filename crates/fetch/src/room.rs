//! Whether a drive has room for what is to come.

use std::io;
use std::path::Path;

use crate::folder::{Folder, part_path, taken_bytes};
use crate::listing::{Listing, RemoteFile};
use crate::packed::Packer;
use crate::wanted::Goal;
use crate::{FetchError, Wanted, layered, prospect};

/// What is left free beside a whole checkpoint, unless it was asked for: a hundredth of it, at most 1 GiB.
pub(crate) fn spare(bytes: u64) -> u64 {
    (bytes / 100).min(1 << 30)
}

/// How many bytes there is room for where a folder is, or would be.
pub(crate) fn free_bytes(dir: &Path) -> io::Result<u64> {
    let there = dir.ancestors().find(|path| path.exists());
    let there = there.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let room = rustix::fs::statvfs(there)?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}

/// Bytes that the drive has to have room for so that all files are in a folder.
pub(crate) fn needed(dir: &Path, listing: &Listing) -> u64 {
    let missing = |file: &RemoteFile| {
        let here = [dir.join(&file.name), part_path(dir, &file.name)];
        let taken = here.iter().map(|path| taken_bytes(path)).max().unwrap_or(0);
        file.bytes.saturating_sub(taken)
    };
    let missing = listing.files.iter().map(missing).fold(0, u64::saturating_add);
    missing.saturating_sub(layered::given_back(dir, listing))
}

/// Refuses before the first byte what the drive has no room for. Gives the bytes that will be here when
/// all that is wanted is.
pub(crate) fn check(
    folder: &Folder,
    listing: &Listing,
    goal: &Goal,
    packer: Option<&Packer>,
) -> Result<u64, FetchError> {
    let dir = folder.dir();
    let looks = || listing.files.iter().filter_map(|file| prospect::look(dir, file, goal));
    let (total, missing) = match goal.wanted {
        Wanted::All | Wanted::Fitting => (listing.bytes(), needed(dir, listing)),
        Wanted::Spine | Wanted::Layers(_) => looks().fold((0, 0), |(total, missing), file| {
            (total + file.here + file.missing, missing + file.missing)
        }),
    };
    let missing = match packer {
        None => missing,
        Some(packer) => packer.room(looks().map(|file| file.missing).sum(), goal)?,
    };
    let free = free_bytes(dir).map_err(|error| FetchError::disk(dir, error))?;
    match missing > free {
        true => Err(FetchError::Room { path: dir.to_owned(), needed: missing, free }),
        false => Ok(total),
    }
}
