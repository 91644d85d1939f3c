//! What installations left in a folder that no finished checkpoint needs.
//!
//! The folder is locked as an installation locks it, so what is found belongs to nobody at work, until the
//! lock is let go of.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::folder::{self, Kind, taken_bytes};
use crate::listing::RemoteFile;
use crate::record::Record;
use crate::{FetchError, layered, stray};

/// Of what use a leftover still is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// An installation that is run again goes on from it.
    GoesOn,
    /// To nobody.
    None,
}

/// A file that no finished checkpoint needs, or bytes of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes of the drive that it takes.
    pub bytes: u64,
    /// Of what use it is.
    pub usefulness: Use,
    /// Of these bytes the file goes on without them; nothing where it is the file that goes.
    pub within: Option<Within>,
}

/// A file whose room is given back in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Within {
    dir: PathBuf,
    file: RemoteFile,
}

impl Leftover {
    /// Frees it. Its folder has to be locked, as by the [`Leftovers`] it is from.
    pub fn remove(&self) -> io::Result<()> {
        match &self.within {
            Some(Within { dir, file }) => stray::free(dir, file),
            None => fs::remove_file(&self.path),
        }
    }
}

/// The leftovers of a folder, which stays locked while this lives.
#[derive(Debug)]
pub struct Leftovers {
    found: Vec<Leftover>,
    /// Nothing where setup was never at work.
    _lock: Option<File>,
}

impl Leftovers {
    /// Looks for them. A folder in which nothing was installed has none.
    ///
    /// # Errors
    /// When an installation is at work there, a program runs the model and fetches into it, or the folder
    /// cannot be read.
    pub fn of(dir: &Path) -> Result<Leftovers, FetchError> {
        if !dir.join(folder::NOTES).is_dir() {
            return Ok(Leftovers { found: Vec::new(), _lock: None });
        }
        let lock = folder::lock(dir)?;
        let record = folder::record(dir)?;
        let disk = |error| FetchError::disk(dir, error);
        let mut found = parts(dir, record.as_ref()).map_err(disk)?;
        found.extend(notes(dir, record.as_ref()).map_err(disk)?);
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Leftovers { found, _lock: Some(lock) })
    }

    /// What was found, by path.
    pub fn found(&self) -> &[Leftover] {
        &self.found
    }
}

/// Files in the making, beside the finished ones. Those that setup did not begin are not looked at.
fn parts(dir: &Path, record: Option<&Record>) -> io::Result<Vec<Leftover>> {
    let names = record.into_iter().flat_map(|record| &record.listing.files);
    let parts = names.map(|file| (file, folder::part_path(dir, &file.name)));
    let is_there = |(_, path): &(&RemoteFile, PathBuf)| {
        path.symlink_metadata().is_ok_and(|meta| meta.is_file())
    };
    let there = parts.filter(is_there);
    let all = |usefulness| -> io::Result<Vec<Leftover>> {
        let parts = there.clone().map(|(_, path)| path).chain(by_layer(dir, record)?);
        Ok(parts.map(|path| leftover(path, usefulness)).collect())
    };
    match folder::state(dir) {
        Some((_, false)) => all(Use::GoesOn),
        Some((Kind::Full, true)) => all(Use::None),
        Some((Kind::Stream, true)) => strays(dir, there),
        None => Ok(Vec::new()),
    }
}

/// What lies layer by layer, where shards are to become whole, or are.
fn by_layer(dir: &Path, record: Option<&Record>) -> io::Result<Vec<PathBuf>> {
    let names = record.into_iter().flat_map(|record| &record.listing.files);
    let bases = names.map(|file| layered::base_path(dir, &file.name)).filter(|path| path.is_file());
    let mut found: Vec<PathBuf> = bases.collect();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_str().and_then(layered::layer_of).is_some()
            && entry.file_type()?.is_file()
        {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Where experts come when they are needed, what is in the making is in use, and what its maps do not speak of
/// is not.
fn strays<'f>(
    dir: &Path,
    parts: impl Iterator<Item = (&'f RemoteFile, PathBuf)>,
) -> io::Result<Vec<Leftover>> {
    let mut found = Vec::new();
    for (file, path) in parts {
        let bytes = stray::bytes(dir, file)?;
        if bytes > 0 {
            let within = Some(Within { dir: dir.to_owned(), file: file.clone() });
            found.push(Leftover { path, bytes, usefulness: Use::None, within });
        }
    }
    // Whoever claimed these has ended: nobody else has the folder.
    let claims = folder::claims(dir);
    if claims.is_dir() {
        for entry in fs::read_dir(claims)? {
            found.push(leftover(entry?.path(), Use::None));
        }
    }
    Ok(found)
}

/// Notes that are of no file that is wanted, or were not finished being written.
fn notes(dir: &Path, record: Option<&Record>) -> io::Result<Vec<Leftover>> {
    let wanted = |name: &str| {
        let files = record.map(|record| &record.listing.files);
        let of = name.strip_suffix(".map");
        of.is_none_or(|of| files.is_some_and(|files| files.iter().any(|file| file.name == of)))
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(dir.join(folder::NOTES))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_file() && (name.ends_with(".new") || !wanted(&name)) {
            found.push(leftover(entry.path(), Use::None));
        }
    }
    Ok(found)
}

fn leftover(path: PathBuf, usefulness: Use) -> Leftover {
    Leftover { bytes: taken_bytes(&path), path, usefulness, within: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use crate::{Listing, Proof};

    const FINISHED: &str = "install.json";
    const UNFINISHED: &str = "install.json.part";

    fn begun(dir: &Path) -> Folder {
        let folder = Folder::open(dir).unwrap();
        let file = |name: &str| RemoteFile { name: name.to_owned(), bytes: 9, proof: Proof::None };
        let files = vec![file("config.json"), file("model.safetensors")];
        let listing = Listing { source: "hf:a/b@c".to_owned(), files };
        let record = Record { asked: "hf:a/b".to_owned(), listing };
        record.write(&dir.join(folder::NOTES).join(UNFINISHED)).unwrap();
        for name in ["config.json", "model.safetensors.part", "other.part"] {
            fs::write(dir.join(name), "123456789").unwrap();
        }
        for name in ["config.json.map", "gone.json.map", "config.map.new"] {
            fs::write(dir.join(folder::NOTES).join(name), "x").unwrap();
        }
        folder
    }

    fn names(found: &Leftovers, usefulness: Use) -> Vec<String> {
        let of = found.found().iter().filter(|left| left.usefulness == usefulness);
        of.map(|left| left.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn what_goes_on_and_what_nobody_needs_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Leftovers::of(dir.path()).unwrap().found().is_empty());
        let held = begun(dir.path());
        assert!(matches!(Leftovers::of(dir.path()), Err(FetchError::Busy { .. })));
        drop(held);
        let left = Leftovers::of(dir.path()).unwrap();
        assert!(matches!(Folder::open(dir.path()), Err(FetchError::Busy { .. })), "locked");
        assert_eq!(names(&left, Use::GoesOn), ["model.safetensors.part"]);
        assert_eq!(names(&left, Use::None), ["config.map.new", "gone.json.map"]);
        drop(left);
        let notes = dir.path().join(folder::NOTES);
        fs::rename(notes.join(UNFINISHED), notes.join(FINISHED)).unwrap();
        let left = Leftovers::of(dir.path()).unwrap();
        let wanted = ["config.map.new", "gone.json.map", "model.safetensors.part"];
        assert_eq!(names(&left, Use::None), wanted, "not other.part: another program's");
    }
}
