//! The header of a safetensors shard.
//!
//! A file is an 8-byte little-endian length, that many bytes of JSON (spaces may follow the
//! object), then the tensors' bytes. A [`Header`] that parsed promises: names are unique,
//! dtypes are known, each range has exactly the size of its shape, and the ranges cover the
//! rest of the file without gap, overlap or remainder.

mod read;

use std::borrow::Cow;
use std::collections::HashSet;

use deltafin_spec::{Dtype, MAX_RANK, Shape};
use thiserror::Error;

use crate::json::quote;
use read::{RawTensor, read_json};

/// The longest header that is read. The largest known one, a layer of K3, has 0.8 MB.
pub const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Bytes of the length that every shard begins with.
const LENGTH_BYTES: u64 = 8;

/// What is wrong with a shard's header. Tensor names are quoted and cut when long.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages say what the fields are
pub enum HeaderError {
    #[error("the file has {found} bytes, fewer than the {wanted} that hold the header's length")]
    NoLength { wanted: u64, found: u64 },
    #[error(
        "the header claims {wanted} bytes, but only {found} follow its length; the file is \
         cut or no safetensors file"
    )]
    LengthBeyondFile { wanted: u64, found: u64 },
    #[error("the header claims {wanted} bytes, more than the {limit} that are accepted")]
    LengthAbsurd { wanted: u64, limit: u64 },
    #[error("{found} bytes of the {wanted} of length and header were given")]
    BytesMissing { wanted: u64, found: u64 },
    #[error("the header begins with byte {found:#04x} instead of '{{'")]
    NotAnObject { found: u8 },
    #[error("the header is empty")]
    Empty,
    #[error("the header is not the JSON it should be: {what}")]
    Json { what: String },
    #[error("tensor {tensor}: {what}")]
    Tensor { tensor: String, what: String },
    #[error("tensor {tensor} appears twice")]
    DuplicateName { tensor: String },
    #[error("tensor {tensor} has the unknown dtype {dtype}")]
    UnknownDtype { tensor: String, dtype: String },
    #[error("tensor {tensor} has more than {limit} dimensions")]
    RankTooHigh { tensor: String, limit: usize },
    #[error("tensor {tensor} of dtype {dtype} and shape {shape} has no size that fits 64 bits")]
    SizeOverflow { tensor: String, dtype: Dtype, shape: Shape },
    #[error("tensor {tensor} begins at {begin}, after its end at {end}")]
    RangeReversed { tensor: String, begin: u64, end: u64 },
    #[error(
        "tensor {tensor} of dtype {dtype} and shape {shape} wants {wanted} bytes, its range has {found}"
    )]
    RangeSize { tensor: String, dtype: Dtype, shape: Shape, wanted: u64, found: u64 },
    #[error("tensor {tensor} begins at {begin}, before the tensor in front of it ends at {end}")]
    Overlap { tensor: String, begin: u64, end: u64 },
    #[error("nothing claims the bytes from {end} to {begin}, where tensor {tensor} begins")]
    Gap { tensor: String, begin: u64, end: u64 },
    #[error("the header describes a file of {wanted} bytes, this one has {found}; it was cut")]
    FileTooShort { wanted: u64, found: u64 },
    #[error(
        "the header describes a file of {wanted} bytes, this one has {found}; it is not the \
         file that the header was written for"
    )]
    FileTooLong { wanted: u64, found: u64 },
}

/// A tensor as a header declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo<'a> {
    /// The name, unescaped.
    pub name: Cow<'a, str>,
    /// The element type.
    pub dtype: Dtype,
    /// The dimensions.
    pub shape: Shape,
    /// Where the bytes begin, counted from the start of the *file*.
    pub offset: u64,
    /// How many bytes there are.
    pub len: u64,
}

/// A parsed header: the tensors in the order of their bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// The tensors, ascending in the file.
    pub tensors: Vec<TensorInfo<'a>>,
    /// Where the tensors' bytes begin in the file.
    pub data_offset: u64,
}

/// How many bytes at the start of a file must be handed to [`Header::parse`], given its
/// first 8 (or fewer, if the file is shorter) and its length.
pub fn header_extent(first_bytes: &[u8], file_len: u64) -> Result<u64, HeaderError> {
    let no_length = || HeaderError::NoLength { wanted: LENGTH_BYTES, found: file_len };
    let room = file_len.checked_sub(LENGTH_BYTES).ok_or_else(no_length)?;
    let length = first_bytes.first_chunk::<8>().ok_or(HeaderError::BytesMissing {
        wanted: LENGTH_BYTES,
        found: first_bytes.len() as u64,
    })?;
    let wanted = u64::from_le_bytes(*length);
    if wanted > room {
        return Err(HeaderError::LengthBeyondFile { wanted, found: room });
    }
    if wanted > MAX_HEADER_BYTES {
        return Err(HeaderError::LengthAbsurd { wanted, limit: MAX_HEADER_BYTES });
    }
    Ok(LENGTH_BYTES + wanted)
}

impl<'a> Header<'a> {
    /// Parses the first bytes of a file of `file_len` bytes. Bytes after the header are
    /// ignored.
    pub fn parse(bytes: &'a [u8], file_len: u64) -> Result<Header<'a>, HeaderError> {
        let data_offset = header_extent(bytes, file_len)?;
        let json = bytes
            .get(LENGTH_BYTES as usize..data_offset as usize)
            .ok_or(HeaderError::BytesMissing { wanted: data_offset, found: bytes.len() as u64 })?;
        match json.first() {
            None => return Err(HeaderError::Empty),
            Some(b'{') => {}
            Some(&found) => return Err(HeaderError::NotAnObject { found }),
        }
        let mut raw = read_json(json)?;
        if !raw.is_sorted_by_key(|tensor| tensor.range) {
            raw.sort_by_key(|tensor| tensor.range);
        }
        refuse_duplicates(&raw)?;
        let end = check_cover(&raw)?;
        check_file(data_offset, end, file_len)?;
        let tensors = raw.into_iter().map(|tensor| tensor.place(data_offset)).collect();
        Ok(Header { tensors, data_offset })
    }

    /// The bytes of all tensors together.
    pub fn data_bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.len).sum()
    }
}

impl<'a> RawTensor<'a> {
    fn place(self, data_offset: u64) -> TensorInfo<'a> {
        let (begin, end) = self.range;
        TensorInfo {
            name: self.name,
            dtype: self.dtype,
            shape: self.shape,
            offset: data_offset + begin,
            len: end - begin,
        }
    }

    /// Whether the range has the size of the shape.
    fn check_size(&self) -> Result<(), HeaderError> {
        let (tensor, dtype, shape) = (|| quote(&self.name), self.dtype, self.shape);
        let (begin, end) = self.range;
        let Some(found) = end.checked_sub(begin) else {
            return Err(HeaderError::RangeReversed { tensor: tensor(), begin, end });
        };
        match shape.bytes(dtype) {
            None => Err(HeaderError::SizeOverflow { tensor: tensor(), dtype, shape }),
            Some(wanted) if wanted != found => {
                Err(HeaderError::RangeSize { tensor: tensor(), dtype, shape, wanted, found })
            }
            Some(_) => Ok(()),
        }
    }
}

fn refuse_duplicates(tensors: &[RawTensor<'_>]) -> Result<(), HeaderError> {
    let mut seen = HashSet::with_capacity(tensors.len());
    match tensors.iter().find(|tensor| !seen.insert(tensor.name.as_ref())) {
        Some(twice) => Err(HeaderError::DuplicateName { tensor: quote(&twice.name) }),
        None => Ok(()),
    }
}

/// Checks that the ranges, sorted, follow each other from 0 without a gap; gives their end.
fn check_cover(tensors: &[RawTensor<'_>]) -> Result<u64, HeaderError> {
    let mut end = 0;
    for tensor in tensors {
        tensor.check_size()?;
        let begin = tensor.range.0;
        let name = || quote(&tensor.name);
        match begin.cmp(&end) {
            std::cmp::Ordering::Less => {
                return Err(HeaderError::Overlap { tensor: name(), begin, end });
            }
            std::cmp::Ordering::Greater => {
                return Err(HeaderError::Gap { tensor: name(), begin, end });
            }
            std::cmp::Ordering::Equal => end = tensor.range.1,
        }
    }
    Ok(end)
}

fn check_file(data_offset: u64, end: u64, found: u64) -> Result<(), HeaderError> {
    let wanted = data_offset.saturating_add(end);
    match wanted.cmp(&found) {
        std::cmp::Ordering::Greater => Err(HeaderError::FileTooShort { wanted, found }),
        std::cmp::Ordering::Less => Err(HeaderError::FileTooLong { wanted, found }),
        std::cmp::Ordering::Equal => Ok(()),
    }
}

fn dtype_of(tensor: &str, name: &str) -> Result<Dtype, HeaderError> {
    Dtype::parse(name)
        .ok_or_else(|| HeaderError::UnknownDtype { tensor: quote(tensor), dtype: quote(name) })
}

fn rank_error(tensor: &str) -> HeaderError {
    HeaderError::RankTooHigh { tensor: quote(tensor), limit: MAX_RANK }
}
