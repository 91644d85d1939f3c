//! Where the tensors of a pack's file lie: a rule that the writer follows and the parser replays.

use crate::record::TensorPlace;

/// Tensors and scales begin at multiples of this, a cache line, in the file and in any buffer
/// that is itself so aligned.
pub const TENSOR_ALIGN: u64 = 64;
/// A file's length is a multiple of this, so that a direct read of its last page is whole.
pub const FILE_ALIGN: u64 = 4096;

/// Places one run of bytes after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct PackLayout {
    end: u64,
}

impl PackLayout {
    /// The place of the next `bytes`, or nothing if it would overflow.
    pub fn place(&mut self, bytes: u64) -> Option<TensorPlace> {
        let offset = self.end.checked_next_multiple_of(TENSOR_ALIGN)?;
        self.end = offset.checked_add(bytes)?;
        Some(TensorPlace { offset, len: bytes })
    }

    /// The length of the file that ends after the last place, or nothing if it would overflow.
    pub fn file_bytes(&self) -> Option<u64> {
        self.end.checked_next_multiple_of(FILE_ALIGN)
    }
}
