//! The small files of a checkpoint, wherever they are.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::OpenError;
use crate::error::reason;
use crate::local::not_found;

/// Bytes of a small file.
pub(crate) type FileBytes = Cow<'static, [u8]>;

/// A set of named files that are read whole.
pub(crate) trait Folder {
    /// The bytes of a file, or nothing if there is none. Longer files than `limit` are
    /// refused before they are read.
    fn read(&self, name: &str, limit: u64) -> Result<Option<FileBytes>, OpenError>;

    /// Whether there is such a file.
    fn has(&self, name: &str) -> bool;

    /// The names that end in `.safetensors`, ascending.
    fn shard_files(&self) -> Vec<String>;

    /// The file's path in messages.
    fn path(&self, name: &str) -> PathBuf;

    /// The folder in the file system, if it is one.
    fn directory(&self) -> Option<&Path> {
        None
    }
}

/// A folder of the file system.
pub(crate) struct DirFolder<'p>(pub(crate) &'p Path);

impl Folder for DirFolder<'_> {
    fn read(&self, name: &str, limit: u64) -> Result<Option<FileBytes>, OpenError> {
        let path = self.0.join(name);
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return if path.is_symlink() { Err(not_found(&path)) } else { Ok(None) };
            }
            Err(error) => return Err(OpenError::Io { path, reason: reason(&error) }),
        };
        if !metadata.is_file() {
            return Err(OpenError::NotAFile { path });
        }
        if metadata.len() > limit {
            return Err(OpenError::TooLarge { path, found: metadata.len(), limit });
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        // The file may grow while it is read; the limit holds all the same.
        let read = File::open(&path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
        match read {
            Ok(_) => Ok(Some(Cow::Owned(bytes))),
            Err(error) => Err(OpenError::Io { path, reason: reason(&error) }),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }

    fn shard_files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0).into_iter().flatten().flatten();
        shard_names(entries.filter_map(|entry| entry.file_name().into_string().ok()))
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.0.to_owned() } else { self.0.join(name) }
    }

    fn directory(&self) -> Option<&Path> {
        Some(self.0)
    }
}

/// Files that are part of the program.
pub(crate) struct MemoryFolder<'f>(pub(crate) &'f [(&'f str, &'static [u8])]);

impl Folder for MemoryFolder<'_> {
    fn read(&self, name: &str, limit: u64) -> Result<Option<FileBytes>, OpenError> {
        let Some((_, bytes)) = self.0.iter().find(|(known, _)| *known == name) else {
            return Ok(None);
        };
        let found = bytes.len() as u64;
        if found > limit {
            return Err(OpenError::TooLarge { path: self.path(name), found, limit });
        }
        Ok(Some(Cow::Borrowed(bytes)))
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == name)
    }

    fn shard_files(&self) -> Vec<String> {
        shard_names(self.0.iter().map(|(name, _)| (*name).to_owned()))
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(if name.is_empty() { "memory" } else { name })
    }
}

fn shard_names(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<_> = names.filter(|name| name.ends_with(".safetensors")).collect();
    names.sort();
    names
}

/// Partial files that a stopped transfer leaves behind, by name.
pub(crate) fn leftovers(dir: &Path) -> Vec<String> {
    const ENDINGS: [&str; 2] = [".incomplete", ".part"];
    let mut places = vec![dir.to_owned(), dir.join(".cache/huggingface/download")];
    if dir.parent().is_some_and(|parent| parent.ends_with("snapshots")) {
        places.push(dir.join("../../blobs"));
    }
    let entries = places.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> =
        names.filter(|name| ENDINGS.iter().any(|ending| name.ends_with(ending))).collect();
    names.sort();
    names
}

/// The first few names, and how many more there are.
pub(crate) fn some_names(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
