//! A second copy of a pack's list, among the notes of its folder: with it nothing has to come again where the list is lost,
//! for the files can be proven.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use deltafin_checkpoint::Recipe;
use deltafin_checkpoint::pack::MANIFEST;
use deltafin_store::pack_dir;

use crate::folder::NOTES;

/// Where the copy is.
fn path(dir: &Path, recipe: Recipe) -> PathBuf {
    dir.join(NOTES).join(format!("spine-{recipe}.json"))
}

/// Keeps a copy of the list of a finished pack.
pub(super) fn keep(dir: &Path, recipe: Recipe, pack: &Path) -> io::Result<()> {
    let (list, copy) = (pack.join(MANIFEST), path(dir, recipe));
    match fs::read(&copy).ok() == Some(fs::read(&list)?) {
        true => Ok(()),
        false => replace(&list, &copy),
    }
}

/// Gives a pack that has no list the copy, as that of a pack in the making: each file is held against it.
pub(super) fn restore(dir: &Path, recipe: Recipe, pack: &Path) -> io::Result<()> {
    let (copy, unfinished) = (path(dir, recipe), pack.join(format!("{MANIFEST}.part")));
    let has_list = pack.join(MANIFEST).exists() || unfinished.exists();
    match has_list || !copy.exists() || !pack.is_dir() {
        true => Ok(()),
        false => replace(&copy, &unfinished),
    }
}

/// Removes the list of a pack and its copy: nothing in the pack's folder counts from here on.
pub(crate) fn forget(dir: &Path, recipe: Recipe) -> io::Result<()> {
    let pack = pack_dir(dir, recipe);
    for path in [path(dir, recipe), pack.join(format!("{MANIFEST}.part")), pack.join(MANIFEST)] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Copies a file to where another may be, which is whole or not there at every moment.
fn replace(from: &Path, to: &Path) -> io::Result<()> {
    let mut new = to.as_os_str().to_owned();
    new.push(".new");
    fs::copy(from, &new)?;
    File::open(&new)?.sync_all()?;
    fs::rename(&new, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_lost_is_restored_and_one_that_is_there_stays() {
        let dir = tempfile::tempdir().unwrap();
        let pack = dir.path().join("spine-int8");
        fs::create_dir(dir.path().join(NOTES)).unwrap();
        restore(dir.path(), Recipe::Int8, &pack).unwrap();
        assert!(!pack.exists());
        fs::create_dir(&pack).unwrap();
        let (list, part) = (pack.join(MANIFEST), pack.join("manifest.json.part"));
        for text in ["first", "second"] {
            fs::write(&list, text).unwrap();
            keep(dir.path(), Recipe::Int8, &pack).unwrap();
            restore(dir.path(), Recipe::Int8, &pack).unwrap();
            assert!(!part.exists());
            fs::remove_file(&list).unwrap();
            restore(dir.path(), Recipe::Int8, &pack).unwrap();
            assert_eq!(fs::read_to_string(&part).unwrap(), text);
            fs::remove_file(&part).unwrap();
        }
    }
}
