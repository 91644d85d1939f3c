//! What a conversion does to a drive. Tests put a drive behind it that fails, or dies, at any step.

use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::path::Path;

/// A drive that is written to.
pub(crate) trait Disk {
    /// A file that is being written.
    type File: Output;

    /// Makes a folder and those above it.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes an empty file; one that is there is emptied.
    fn create(&self, path: &Path) -> io::Result<Self::File>;
    /// Gives a file another name, which it takes from whatever has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes names in a folder last.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// How many bytes there is room for.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
}

/// Bytes that are written one after the other.
pub(crate) trait Output {
    /// Appends.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Forgets what is beyond `len`, and goes on from there.
    fn rewind(&mut self, len: u64) -> io::Result<()>;
    /// Makes what was written last.
    fn sync(&mut self) -> io::Result<()>;
}

/// The file system.
pub(crate) struct FileSystem;

impl Disk for FileSystem {
    type File = File;

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        File::create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let room = rustix::fs::statvfs(dir)?;
        Ok(room.f_bavail.saturating_mul(room.f_frsize))
    }
}

impl Output for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn rewind(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)?;
        self.seek(io::SeekFrom::Start(len)).map(drop)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// Memory is a drive that never fails.
impl Output for Vec<u8> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn rewind(&mut self, len: u64) -> io::Result<()> {
        self.truncate(len as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
