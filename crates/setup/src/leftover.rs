//! What conversions left in a pack's folder that no finished pack needs.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use deltafin_checkpoint::pack::MANIFEST;

use crate::ConvertError;
use crate::target::{HOLDER, PART, lock};

/// The leftovers of a pack's folder, which stays locked while this lives.
#[derive(Debug)]
pub struct PackLeftovers {
    paths: Vec<PathBuf>,
    goes_on: bool,
    _lock: File,
}

impl PackLeftovers {
    /// Looks for them: of a finished pack, files in the making; of an unfinished one, all its files.
    ///
    /// # Errors
    /// When a conversion is at work there, or the folder cannot be read.
    pub fn of(dir: &Path) -> Result<PackLeftovers, ConvertError> {
        let lock = lock(dir)?;
        let goes_on = !dir.join(MANIFEST).exists();
        let paths = files(dir, goes_on);
        let paths = paths.map_err(|error| ConvertError::writing(dir, error, 0, 0))?;
        Ok(PackLeftovers { paths, goes_on, _lock: lock })
    }

    /// The files, by name.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Whether a conversion that is run again goes on from them.
    pub fn goes_on(&self) -> bool {
        self.goes_on
    }
}

/// Removes a pack, its list first: what is left of it, if that is stopped, is no pack. Files of others stay, and their
/// folder with them. [`PackLeftovers`] keep others out.
pub fn remove_pack(dir: &Path) -> io::Result<()> {
    let list = dir.join(MANIFEST);
    fs::remove_file(list)?;
    for path in files(dir, true)? {
        fs::remove_file(path)?;
    }
    match fs::remove_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed,
    }
}

fn files(dir: &Path, is_unfinished: bool) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours = name.ends_with(PART) || name == HOLDER;
        let is_whole = name.ends_with(".spine");
        if entry.file_type()?.is_file() && (is_ours || is_unfinished && is_whole) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_pack_keeps_its_files() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["head.spine", "layer-000.spine", "layer-001.spine.part", "notes.txt"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        let left = PackLeftovers::of(dir.path()).unwrap();
        assert!(left.goes_on() && left.paths().len() == 3, "{left:?}");
        let busy = PackLeftovers::of(dir.path()).unwrap_err();
        assert!(matches!(busy, ConvertError::Busy { .. }), "{busy}");
        drop(left);
        fs::write(dir.path().join(MANIFEST), "{}").unwrap();
        let left = PackLeftovers::of(dir.path()).unwrap();
        assert!(!left.goes_on(), "{left:?}");
        assert_eq!(left.paths(), [dir.path().join("layer-001.spine.part")]);
        remove_pack(dir.path()).unwrap();
        let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["notes.txt"]);
    }
}
