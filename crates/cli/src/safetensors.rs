//! Writes a safetensors file whose tensors arrive in pieces, in any order.
//!
//! All names and shapes are known before the first value, so the header is written first and
//! every piece goes to its place. The file gets its name when it is complete; whoever finds it can
//! trust it.

use std::fs;
use std::io::{Error, ErrorKind, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};
use tempfile::NamedTempFile;

use crate::failure::Failure;

/// What the elements are; four bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    /// `f32`.
    F32,
    /// `i32`.
    I32,
}

/// A tensor to come: rows of equal width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tensor {
    /// Its name in the file.
    pub(crate) name: String,
    /// What it holds.
    pub(crate) element: Element,
    /// How many rows.
    pub(crate) rows: usize,
    /// Elements of a row.
    pub(crate) width: usize,
}

impl Tensor {
    fn bytes(&self) -> u64 {
        (self.rows * self.width * 4) as u64
    }
}

/// Where a file in the making is, for whoever has to end the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unfinished(Arc<Mutex<Option<PathBuf>>>);

impl Unfinished {
    /// Removes the file, if there is one, and lets no other begin or get its name.
    pub(crate) fn remove_for_good(&self) {
        let place = self.place();
        if let Some(path) = place.as_deref() {
            // Whether it is gone or cannot be removed: nothing is left to do.
            let _ = fs::remove_file(path);
        }
        std::mem::forget(place);
    }

    fn place(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file in the making.
#[derive(Debug)]
pub(crate) struct Writer {
    /// Gone when dropped, unless it got its name.
    file: NamedTempFile,
    path: PathBuf,
    unfinished: Unfinished,
    starts: Vec<u64>,
    tensors: Vec<Tensor>,
}

impl Writer {
    /// Begins a file with these tensors. Until [`Writer::finish`] it has a name of its own.
    pub(crate) fn create(
        path: &Path,
        tensors: Vec<Tensor>,
        unfinished: &Unfinished,
    ) -> Result<Writer, Failure> {
        let path = target(path)?;
        let (header, starts) = layout(&tensors);
        let total = starts.last().copied().unwrap_or(0) + tensors.last().map_or(0, Tensor::bytes);
        let mut place = unfinished.place();
        let begun = unnamed_beside(&path).and_then(|mut file| {
            *place = Some(file.path().to_owned());
            file.as_file_mut().write_all(&header)?;
            file.as_file().set_len(total)?;
            Ok(file)
        });
        let file = begun.map_err(|e| cannot_write(&path, &e))?;
        Ok(Writer { file, path, unfinished: unfinished.clone(), starts, tensors })
    }

    /// Writes whole rows of `f32` values, the first of which is row `first`.
    pub(crate) fn rows(&mut self, at: usize, first: usize, values: &[f32]) -> Result<(), Failure> {
        debug_assert_eq!(self.tensors[at].element, Element::F32);
        self.put(at, first, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// Writes whole rows of `i32` values, the first of which is row `first`.
    pub(crate) fn numbers(
        &mut self,
        at: usize,
        first: usize,
        values: &[i32],
    ) -> Result<(), Failure> {
        debug_assert_eq!(self.tensors[at].element, Element::I32);
        self.put(at, first, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    fn put(&mut self, at: usize, first: usize, bytes: Vec<u8>) -> Result<(), Failure> {
        let offset = (first * self.tensors[at].width * 4) as u64;
        assert!(offset + bytes.len() as u64 <= self.tensors[at].bytes(), "rows beyond the tensor");
        let place = SeekFrom::Start(self.starts[at] + offset);
        let file = self.file.as_file_mut();
        let written = file.seek(place).and_then(|_| file.write_all(&bytes));
        written.map_err(|e| cannot_write(&self.path, &e))
    }

    /// Gives the complete file its name.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let Writer { file, path, unfinished, .. } = self;
        let synced = file.as_file().sync_all();
        let mut place = unfinished.place();
        let named = synced.and_then(|()| Ok(file.persist(&path)?));
        *place = None;
        named.map(|_| ()).map_err(|e| cannot_write(&path, &e))
    }
}

/// The file that `path` stands for: links are followed, and what is there must be an ordinary file,
/// for it is going to be replaced.
pub(crate) fn target(path: &Path) -> Result<PathBuf, Failure> {
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

fn folder_of(path: &Path) -> &Path {
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

/// The header, length included, and where each tensor starts in the file.
fn layout(tensors: &[Tensor]) -> (Vec<u8>, Vec<u64>) {
    let mut entries = Map::new();
    let mut offsets = Vec::new();
    let mut end = 0;
    for tensor in tensors {
        let begin = end;
        end += tensor.bytes();
        let dtype = match tensor.element {
            Element::F32 => "F32",
            Element::I32 => "I32",
        };
        let shape = [tensor.rows, tensor.width];
        let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": [begin, end] });
        entries.insert(tensor.name.clone(), entry);
        offsets.push(begin);
    }
    let mut header = Value::Object(entries).to_string().into_bytes();
    // The data begin at a multiple of eight.
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.append(&mut header);
    let data = bytes.len() as u64;
    (bytes, offsets.into_iter().map(|offset| data + offset).collect())
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::about(format!("cannot write {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(name: &str, element: Element, rows: usize, width: usize) -> Tensor {
        Tensor { name: name.to_owned(), element, rows, width }
    }

    #[test]
    fn pieces_in_any_order_make_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.safetensors");
        let tensors = vec![tensor("a", Element::F32, 3, 2), tensor("b", Element::I32, 1, 2)];
        let mut writer = Writer::create(&path, tensors, &Unfinished::default()).unwrap();
        writer.numbers(1, 0, &[7, -1]).unwrap();
        writer.rows(0, 1, &[3.0, 4.0, 5.0, 6.0]).unwrap();
        writer.rows(0, 0, &[1.0, 2.0]).unwrap();
        assert!(!path.exists());
        writer.finish().unwrap();

        let bytes = fs::read(&path).unwrap();
        let header_len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        assert_eq!(header_len % 8, 0);
        let header: Value = serde_json::from_slice(&bytes[8..8 + header_len]).unwrap();
        assert_eq!(header["a"]["shape"], json!([3, 2]));
        assert_eq!(header["b"]["data_offsets"], json!([24, 32]));
        let data = &bytes[8 + header_len..];
        let wanted = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|v| v.to_le_bytes());
        let wanted: Vec<u8> =
            wanted.chain([7i32, -1].iter().flat_map(|v| v.to_le_bytes())).collect();
        assert_eq!(data, wanted);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    fn write_one(path: &Path) -> Result<(), Failure> {
        let mut writer =
            Writer::create(path, vec![tensor("a", Element::F32, 1, 1)], &Unfinished::default())?;
        writer.rows(0, 0, &[1.0])?;
        writer.finish()
    }

    #[test]
    fn links_are_followed_and_odd_targets_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("real"), "old").unwrap();
        std::os::unix::fs::symlink("real", at("link")).unwrap();
        write_one(&at("link")).unwrap();
        assert!(at("link").is_symlink());
        assert!(fs::read(at("real")).unwrap().len() > 3);
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
        let first =
            Writer::create(&path, vec![tensor("a", Element::F32, 1, 1)], &Unfinished::default())
                .unwrap();
        write_one(&path).unwrap();
        first.finish().unwrap();
        assert_eq!(fs::read_to_string(own).unwrap(), "precious");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn an_unfinished_file_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.safetensors");
        drop(
            Writer::create(&path, vec![tensor("a", Element::F32, 1, 1)], &Unfinished::default())
                .unwrap(),
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn whoever_ends_the_process_can_remove_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.safetensors");
        let unfinished = Unfinished::default();
        let writer = Writer::create(&path, vec![tensor("a", Element::F32, 1, 1)], &unfinished);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        unfinished.remove_for_good();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        drop(writer);
    }
}
