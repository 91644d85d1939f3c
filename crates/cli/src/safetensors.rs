//! Writes a safetensors file whose tensors arrive in pieces, in any order.
//!
//! All names and shapes are known before the first value, so the header is written first and
//! every piece goes to its place.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::new_file::{NewFile, Unfinished};

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

/// A file in the making.
#[derive(Debug)]
pub(crate) struct Writer {
    file: NewFile,
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
        let (header, starts) = layout(&tensors);
        let total = starts.last().copied().unwrap_or(0) + tensors.last().map_or(0, Tensor::bytes);
        let mut file = NewFile::create(path, unfinished)?;
        let begun = file.write_all(&header).and_then(|()| file.file().set_len(total));
        begun.map_err(|e| file.cannot_write(&e))?;
        Ok(Writer { file, starts, tensors })
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
        let file = self.file.file();
        let written = file.seek(place).and_then(|_| file.write_all(&bytes));
        written.map_err(|e| self.file.cannot_write(&e))
    }

    /// Gives the complete file its name.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.file.finish()
    }
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

#[cfg(test)]
mod tests {
    use std::fs;

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
}
