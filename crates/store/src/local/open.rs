//! Opening a shard's file through the page cache, or past it.

use std::fs::File;
#[cfg(target_os = "linux")]
use std::fs::OpenOptions;
use std::io;
use std::path::Path;

/// How a file is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Reads go through the page cache.
    Cached = 0,
    /// Reads go from the drive to the buffer; both must be aligned.
    Direct = 1,
}

pub(super) fn open(path: &Path, way: Way) -> io::Result<File> {
    match way {
        Way::Cached => File::open(path),
        Way::Direct => open_direct(path),
    }
}

#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

#[cfg(target_os = "macos")]
fn open_direct(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    rustix::fs::fcntl_nocache(&file, true)?;
    Ok(file)
}
