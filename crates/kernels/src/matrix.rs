//! Weight matrices as they lie in a checkpoint: borrowed bytes of any alignment, checked once.
//!
//! Which column of a row goes to which of the sixteen lanes is part of each format's definition:
//!
//! * **f32, bf16, int8**: lane `c mod 16`, in blocks of sixteen ascending columns.
//! * **MXFP4**: sixteen ascending columns are eight bytes, two little-endian words of eight nibbles.
//!   Lane `2j + h` gets nibble `j` of word `h`, which is column `8h + j` (`j` in 0..8, `h` in 0..2).
//!   The decoded weight carries its scale.

use std::fmt;
use std::ops::Range;

/// Columns that share one scale in MXFP4.
pub(crate) const GROUP: usize = 32;

/// The bytes of a matrix, row after row, little-endian.
#[derive(Clone, Copy, Debug)]
pub enum Weights<'a> {
    /// Single precision.
    F32(&'a [u8]),
    /// The upper halves of single-precision floats.
    Bf16(&'a [u8]),
    /// Signed bytes with one scale per row. The scale multiplies the folded sum once.
    Int8 {
        /// One signed byte per weight.
        codes: &'a [u8],
        /// One half-precision float per row.
        scales: &'a [u8],
    },
    /// Four-bit floats (E2M1) in groups of 32 columns with one power of two per group.
    ///
    /// A weight is its code times `2^(scale - 127)` rounded to fp32: exact but for the topmost
    /// scales, where it is infinite. Scale 255 makes every weight of its group NaN.
    Mxfp4 {
        /// Two codes per byte, the even column in the low half.
        packed: &'a [u8],
        /// One exponent byte (E8M0) per group.
        scales: &'a [u8],
    },
}

impl<'a> Weights<'a> {
    /// Bytes of `columns` columns of one row: of weights and of scales.
    fn row_bytes(&self, columns: usize) -> Option<(usize, usize)> {
        match self {
            Weights::F32(_) => Some((columns.checked_mul(4)?, 0)),
            Weights::Bf16(_) => Some((columns.checked_mul(2)?, 0)),
            Weights::Int8 { .. } => Some((columns, 2)),
            Weights::Mxfp4 { .. } => Some((columns / 2, columns / GROUP)),
        }
    }

    /// The weights' bytes and the scales' bytes.
    pub(crate) fn parts(&self) -> (&'a [u8], &'a [u8]) {
        match *self {
            Weights::F32(bytes) | Weights::Bf16(bytes) => (bytes, &[]),
            Weights::Int8 { codes, scales } => (codes, scales),
            Weights::Mxfp4 { packed, scales } => (packed, scales),
        }
    }

    /// The same format over other bytes.
    fn with_parts(&self, main: &'a [u8], scales: &'a [u8]) -> Weights<'a> {
        match self {
            Weights::F32(_) => Weights::F32(main),
            Weights::Bf16(_) => Weights::Bf16(main),
            Weights::Int8 { .. } => Weights::Int8 { codes: main, scales },
            Weights::Mxfp4 { .. } => Weights::Mxfp4 { packed: main, scales },
        }
    }
}

/// Why bytes are not a matrix of the shape claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatrixError {
    /// The weights have another length than the shape demands.
    Weights {
        /// Bytes the shape demands.
        wanted: usize,
        /// Bytes given.
        got: usize,
    },
    /// The scales have another length than the shape demands.
    Scales {
        /// Bytes the shape demands.
        wanted: usize,
        /// Bytes given.
        got: usize,
    },
    /// MXFP4 rows must be whole groups of 32 columns.
    PartialGroup {
        /// Columns claimed.
        columns: usize,
    },
    /// The shape has more bytes than can be addressed.
    TooLarge {
        /// Rows claimed.
        rows: usize,
        /// Columns claimed.
        columns: usize,
    },
}

impl fmt::Display for MatrixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MatrixError::Weights { wanted, got } => {
                write!(f, "the matrix needs {wanted} bytes of weights and got {got}")
            }
            MatrixError::Scales { wanted, got } => {
                write!(f, "the matrix needs {wanted} bytes of scales and got {got}")
            }
            MatrixError::PartialGroup { columns } => {
                write!(f, "an MXFP4 row is whole groups of {GROUP} columns, not {columns} columns")
            }
            MatrixError::TooLarge { rows, columns } => {
                write!(f, "a matrix of {rows} x {columns} exceeds the address space")
            }
        }
    }
}

impl std::error::Error for MatrixError {}

/// A matrix whose bytes have been checked against its shape.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    rows: usize,
    cols: usize,
    weights: Weights<'a>,
}

impl<'a> Matrix<'a> {
    /// Checks that `weights` are `rows` x `cols`.
    pub fn new(rows: usize, cols: usize, weights: Weights<'a>) -> Result<Self, MatrixError> {
        if matches!(weights, Weights::Mxfp4 { .. }) && !cols.is_multiple_of(GROUP) {
            return Err(MatrixError::PartialGroup { columns: cols });
        }
        let whole = |per_row: usize| per_row.checked_mul(rows);
        let (main, scales) = weights
            .row_bytes(cols)
            .and_then(|(main, scales)| Some((whole(main)?, whole(scales)?)))
            .ok_or(MatrixError::TooLarge { rows, columns: cols })?;
        let got = weights.parts();
        if got.0.len() != main {
            return Err(MatrixError::Weights { wanted: main, got: got.0.len() });
        }
        if got.1.len() != scales {
            return Err(MatrixError::Scales { wanted: scales, got: got.1.len() });
        }
        Ok(Matrix { rows, cols, weights })
    }

    /// Outputs of a product.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Inputs of a product.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The bytes and their format.
    pub fn weights(&self) -> Weights<'a> {
        self.weights
    }

    /// Bytes of weights and scales together: what one product reads.
    pub fn bytes(&self) -> usize {
        let (main, scales) = self.weights.parts();
        main.len() + scales.len()
    }

    /// The rows of `range` as a matrix.
    ///
    /// # Panics
    ///
    /// If the range is not within the rows.
    pub fn row_range(self, range: Range<usize>) -> Matrix<'a> {
        assert!(
            range.start <= range.end && range.end <= self.rows,
            "{range:?} of {} rows",
            self.rows
        );
        let (main, scales) = self.weights.parts();
        let per_row = self.row_stride();
        let weights = self.weights.with_parts(
            &main[range.start * per_row.0..range.end * per_row.0],
            &scales[range.start * per_row.1..range.end * per_row.1],
        );
        Matrix { rows: range.len(), cols: self.cols, weights }
    }

    /// Bytes from one row to the next: of weights and of scales.
    pub(crate) fn row_stride(&self) -> (usize, usize) {
        // Cannot overflow: `new` computed it for these columns, or there are no rows.
        self.weights.row_bytes(self.cols).unwrap_or((0, 0))
    }
}

/// The value of a half-precision float.
pub(crate) fn f16_to_f32(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let magnitude = u32::from(half & 0x7fff);
    let bits = match magnitude {
        0 => 0,
        // Subnormal: an integer count of 2^-24, exact in fp32.
        1..0x400 => (magnitude as f32 * f32::from_bits(0x3380_0000)).to_bits(),
        0x400..0x7c00 => (magnitude << 13) + ((127 - 15) << 23),
        _ => 0x7f80_0000 | (magnitude << 13),
    };
    f32::from_bits(sign | bits)
}

#[cfg(test)]
mod tests;
