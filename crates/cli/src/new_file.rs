//! Files that get their name when they are complete: whoever finds one can trust it.

use std::fs::{self, File};
use std::io::{self, Error, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

use crate::failure::Failure;

/// Where files in the making are, for whoever has to end the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unfinished(Arc<Mutex<Vec<PathBuf>>>);

impl Unfinished {
    /// Removes the files, if there are any, and lets no other begin or get its name.
    pub(crate) fn remove_for_good(&self) {
        let places = self.places();
        for path in places.iter() {
            // Whether it is gone or cannot be removed: nothing is left to do.
            let _ = fs::remove_file(path);
        }
        std::mem::forget(places);
    }

    fn places(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file in the making.
#[derive(Debug)]
pub(crate) struct NewFile {
    /// Gone when dropped, unless it got its name.
    file: NamedTempFile,
    path: PathBuf,
    unfinished: Unfinished,
}

impl NewFile {
    /// Begins a file. Until [`NewFile::finish`] it has a name of its own.
    pub(crate) fn create(path: &Path, unfinished: &Unfinished) -> Result<NewFile, Failure> {
        let path = target(path)?;
        let mut places = unfinished.places();
        let file = unnamed_beside(&path).map_err(|e| cannot_write(&path, &e))?;
        places.push(file.path().to_owned());
        drop(places);
        Ok(NewFile { file, path, unfinished: unfinished.clone() })
    }

    /// The file as it is so far.
    pub(crate) fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// A failed write to it, in words.
    pub(crate) fn cannot_write(&self, error: &Error) -> Failure {
        cannot_write(&self.path, error)
    }

    /// Gives the complete file its name.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let NewFile { file, path, unfinished } = self;
        let synced = file.as_file().sync_all();
        let mut places = unfinished.places();
        places.retain(|place| place != file.path());
        // The errors of what makes such files name it by the name that nobody gave.
        let named = synced.and_then(|()| file.persist(&path).map_err(|refused| refused.error));
        named.map(|_| ()).map_err(|e| cannot_write(&path, &e))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

/// The file that `path` stands for: links are followed, and what is there must be an ordinary file,
/// for it is going to be replaced.
pub(crate) fn target(path: &Path) -> Result<PathBuf, Failure> {
    if path.as_os_str() == "-" {
        return Err(Failure::new(
            "cannot write -: it does not stand for standard output here; give the name of a file, \
             which may be ./-",
        ));
    }
    replaceable(path).map_err(|e| cannot_write(path, &e))
}

fn replaceable(path: &Path) -> Result<PathBuf, Error> {
    let found = match fs::canonicalize(path) {
        Ok(found) => found,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return match path.is_symlink() {
                true => Err(Error::other("it is a link that leads nowhere; give another name")),
                false if !folder_of(path).is_dir() => {
                    Err(Error::other("there is no such folder; make it, or give another name"))
                }
                false => Ok(path.to_owned()),
            };
        }
        Err(e) => return Err(e),
    };
    match fs::metadata(&found)?.is_file() {
        true => Ok(found),
        false => Err(Error::other("it is there and is not an ordinary file; give another name")),
    }
}

/// Whether two names would be of one file.
pub(crate) fn is_same(a: &Path, b: &Path) -> Result<bool, Failure> {
    let place = |path: &Path| {
        let target = target(path)?;
        let folder = fs::canonicalize(folder_of(&target)).map_err(|e| cannot_write(path, &e))?;
        Ok::<_, Failure>((folder, target.file_name().map(ToOwned::to_owned)))
    };
    Ok(place(a)? == place(b)?)
}

/// The folder that a name is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A new file under a name nobody else has, in the folder that `path` is in.
fn unnamed_beside(path: &Path) -> Result<NamedTempFile, Error> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".").suffix(".partial");
    // As any file that a program makes; what the user masks is masked.
    builder.permissions(fs::Permissions::from_mode(0o666));
    // The error itself names the file in the making, which nobody asked for.
    builder.tempfile_in(folder_of(path)).map_err(|e| {
        let kind = e.kind();
        Error::new(kind, format!("{kind}; give a name in a folder that can be written"))
    })
}

/// A failed write of the file with this name.
pub(crate) fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::about(format!("cannot write {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(path: &Path) -> Result<NewFile, Failure> {
        NewFile::create(path, &Unfinished::default())
    }

    fn write_one(path: &Path) -> Result<(), Failure> {
        let mut file = create(path)?;
        file.write_all(b"four").unwrap();
        file.finish()
    }

    #[test]
    fn links_are_followed_and_odd_targets_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("real"), "older").unwrap();
        std::os::unix::fs::symlink("real", at("link")).unwrap();
        write_one(&at("link")).unwrap();
        assert!(at("link").is_symlink());
        assert_eq!(fs::read_to_string(at("real")).unwrap(), "four");
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        for odd in ["dangling", "folder"] {
            assert!(write_one(&at(odd)).is_err(), "{odd}");
        }
        assert!(at("dangling").is_symlink() && at("folder").is_dir());
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named_as_it_was_given() {
        let folder = tempfile::tempdir().unwrap();
        let lost = folder.path().join("no/out.st");
        let said = write_one(&lost).unwrap_err().line().unwrap_or_default();
        assert!(said.contains(lost.to_str().unwrap()) && said.contains("no such folder"), "{said}");
        let error = unnamed_beside(&lost).unwrap_err().to_string();
        assert!(!error.contains(".partial") && error.contains("can be written"), "{error}");
    }

    #[test]
    fn files_of_others_and_each_others_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.st");
        let own = folder.path().join("out.st.partial");
        fs::write(&own, "precious").unwrap();
        let first = create(&path).unwrap();
        write_one(&path).unwrap();
        first.finish().unwrap();
        assert_eq!(fs::read_to_string(own).unwrap(), "precious");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn an_unfinished_file_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.safetensors");
        drop(create(&path).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn whoever_ends_the_process_can_remove_what_is_unfinished() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let unfinished = Unfinished::default();
        let [first, second, third] =
            ["1", "2", "3"].map(|name| NewFile::create(&at(name), &unfinished).unwrap());
        third.finish().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
        unfinished.remove_for_good();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(at("3").is_file());
        drop((first, second));
    }
}
