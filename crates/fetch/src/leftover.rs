//! What installations left in a folder that no finished checkpoint needs.
//!
//! The folder is locked as an installation locks it, so what is found belongs to nobody at work, until the
//! lock is let go of.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::folder::{self, Kind, taken_bytes};
use crate::listing::RemoteFile;
use crate::map::Map;
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

/// Which bytes of a file go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Within(Bytes);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Bytes {
    /// What its map does not speak of.
    Unnoted { dir: PathBuf, file: RemoteFile },
    /// All from this one on.
    From(u64),
}

impl Leftover {
    /// Frees it. Its folder has to be locked, as by the [`Leftovers`] it is from.
    pub fn remove(&self) -> io::Result<()> {
        match &self.within {
            Some(Within(Bytes::Unnoted { dir, file })) => stray::free(dir, file),
            Some(Within(Bytes::From(end))) => {
                OpenOptions::new().write(true).open(&self.path)?.set_len(*end)
            }
            None => fs::remove_file(&self.path),
        }
    }
}

/// The leftovers of a folder, which stays locked while this lives.
#[derive(Debug)]
pub struct Leftovers {
    found: Vec<Leftover>,
    free_slots: u64,
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
        folder::check_seen(dir)?;
        if !dir.join(folder::NOTES).is_dir() {
            return Ok(Leftovers { found: Vec::new(), free_slots: 0, _lock: None });
        }
        let lock = folder::lock(dir)?;
        let record = folder::record(dir)?;
        let disk = |error| FetchError::disk(dir, error);
        let mut found = parts(dir, record.as_ref()).map_err(disk)?;
        found.extend(notes(dir, record.as_ref()).map_err(disk)?);
        let free_slots = match (folder::state(dir), &record) {
            (Some((Kind::Stream, true)), Some(record)) => {
                slots(dir, record, &mut found).map_err(disk)?
            }
            _ => 0,
        };
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Leftovers { found, free_slots, _lock: Some(lock) })
    }

    /// Bytes of layers' files that have no expert, and that experts which come fill: they lie between others.
    pub fn free_slots(&self) -> u64 {
        self.free_slots
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
            let unnoted = Bytes::Unnoted { dir: dir.to_owned(), file: file.clone() };
            let within = Some(Within(unnoted));
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

/// Room at the end of layers' files that no expert has; gives the bytes between experts.
fn slots(dir: &Path, record: &Record, found: &mut Vec<Leftover>) -> io::Result<u64> {
    let free = layered::free_slots(dir, &record.listing.files)?;
    for slots in free.iter().filter(|slots| slots.after > 0) {
        found.push(Leftover {
            path: layered::records_path(dir, slots.layer),
            bytes: slots.after,
            usefulness: Use::None,
            within: Some(Within(Bytes::From(slots.end))),
        });
    }
    Ok(free.iter().map(|slots| slots.between).sum())
}

/// Notes that are of no file that is wanted, with what they speak of, and those that were not finished being written.
fn notes(dir: &Path, record: Option<&Record>) -> io::Result<Vec<Leftover>> {
    // Where nothing says what is wanted, nobody knows that something is not.
    let is_wanted = |name: &str| {
        record.is_none_or(|record| record.listing.files.iter().any(|file| file.name == name))
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(dir.join(folder::NOTES))? {
        let entry = entry?;
        let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
        if !entry.file_type()?.is_file() {
            continue;
        }
        match name.strip_suffix(".map") {
            Some(of) if !is_wanted(of) => {
                found.extend(former(dir, of, &path)?);
                found.push(leftover(path, Use::None));
            }
            _ if name.ends_with(".new") => found.push(leftover(path, Use::None)),
            _ => {}
        }
    }
    Ok(found)
}

/// What is here of a file that a former source had: in the making, and a finished shard. A small file that was proven
/// may be of use to its owner, and costs nothing.
fn former(dir: &Path, name: &str, map: &Path) -> io::Result<Vec<Leftover>> {
    let Some((file, known)) = Map::read_any(map)?.filter(|(file, _)| file.name == name) else {
        return Ok(Vec::new());
    };
    let is_file = |path: &PathBuf| path.symlink_metadata().is_ok_and(|meta| meta.is_file());
    let making = [folder::part_path(dir, name), layered::base_path(dir, name)];
    let shard = Some(dir.join(name)).filter(|path| {
        let has_length = || path.metadata().is_ok_and(|meta| meta.len() == file.bytes);
        file.is_shard() && known.proven && has_length()
    });
    let there = making.into_iter().chain(shard).filter(is_file);
    Ok(there.map(|path| leftover(path, Use::None)).collect())
}

fn leftover(path: PathBuf, usefulness: Use) -> Leftover {
    Leftover { bytes: taken_bytes(&path), path, usefulness, within: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use crate::map::Known;
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
    fn what_a_former_source_had_is_found_by_its_maps_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        drop(begun(dir.path()));
        let file = |name: &str| RemoteFile { name: name.to_owned(), bytes: 9, proof: Proof::None };
        let map = |name: &str, proven| {
            let known = Known { proven, ..Known::default() };
            Map::create(&folder::map_path(dir.path(), name), &file(name), known).unwrap();
        };
        for name in ["old-1.safetensors.part", "old-1.safetensors.base", "old-2.safetensors"] {
            fs::write(dir.path().join(name), "123456789").unwrap();
        }
        fs::write(dir.path().join("old-3.safetensors"), "of another length").unwrap();
        fs::write(dir.path().join("old.json"), "123456789").unwrap();
        fs::write(dir.path().join("strange.safetensors"), "123456789").unwrap();
        map("old-1.safetensors", false);
        for name in ["old-2.safetensors", "old-3.safetensors", "old.json"] {
            map(name, true);
        }
        let left = Leftovers::of(dir.path()).unwrap();
        let former = [
            "config.map.new",
            "gone.json.map",
            "old-1.safetensors.map",
            "old-2.safetensors.map",
            "old-3.safetensors.map",
            "old.json.map",
            "old-1.safetensors.base",
            "old-1.safetensors.part",
            "old-2.safetensors",
        ];
        assert_eq!(names(&left, Use::None), former);
        drop(left);
        // Without a record nobody knows what is of use.
        fs::remove_file(dir.path().join(folder::NOTES).join(UNFINISHED)).unwrap();
        assert_eq!(names(&Leftovers::of(dir.path()).unwrap(), Use::None), ["config.map.new"]);
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
