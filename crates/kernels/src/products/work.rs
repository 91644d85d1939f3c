//! A piece of a product for one thread, down to bare pointers.
#![allow(unsafe_code)]

use super::few::few;
use super::format::{BLOCK, Format, Row};
use super::many::many;
use super::pack::{Line, lines_per_position, positions_per_tile};
use crate::lanes::Lanes;

/// Rows times positions, everything already checked.
#[derive(Clone, Copy)]
pub(super) struct Work {
    /// The first row, and the bytes from one to the next.
    pub(super) row: Row,
    pub(super) stride: (usize, usize),
    pub(super) rows: usize,
    pub(super) cols: usize,
    /// Packed activations of all positions.
    pub(super) x: *const Line,
    pub(super) positions: usize,
    /// The first row's output of position 0, and the floats from one position to the next.
    pub(super) y: *mut f32,
    pub(super) y_stride: usize,
}

impl Work {
    /// The work from row `first` on.
    #[inline(always)]
    pub(super) unsafe fn starting_at_row(self, first: usize) -> Work {
        // SAFETY: the caller stays within the rows.
        unsafe {
            let (row, y) = (self.row_at(first), self.y.add(first));
            Work { row, rows: self.rows - first, y, ..self }
        }
    }

    /// The work of `positions` positions from `first` on; a tile begins there.
    #[inline(always)]
    pub(super) unsafe fn starting_at(self, first: usize, positions: usize) -> Work {
        // SAFETY: the caller stays within the positions.
        unsafe {
            let x = self.x.add(first * lines_per_position(self.cols));
            Work { x, positions, y: self.y.add(first * self.y_stride), ..self }
        }
    }

    /// Row `r`.
    #[inline(always)]
    pub(super) unsafe fn row_at(&self, r: usize) -> Row {
        // SAFETY: the caller stays within the rows.
        unsafe {
            Row {
                main: self.row.main.add(r * self.stride.0),
                scales: self.row.scales.add(r * self.stride.1),
            }
        }
    }
}

/// All rows of `work` times all its positions.
///
/// # Safety
///
/// The CPU has the instruction set of `L`; the pointers of `work` are valid for its shape, in format
/// `D`, packed in tiles of `positions_per_tile(L::MANY)`.
#[inline(always)]
pub(super) unsafe fn rows<L: Lanes, D: Format>(work: Work) {
    // SAFETY: by the caller's word.
    unsafe {
        if work.positions <= positions_per_tile(L::MANY) {
            few::<L, D>(work);
        } else {
            many::<L, D>(work);
        }
    }
}

/// The last columns of a row, fewer than a block, followed by zeros.
#[inline(always)]
pub(super) unsafe fn padded_block<D: Format>(row: Row, cols: usize) -> [u8; 4 * BLOCK] {
    let mut padded = [0u8; 4 * BLOCK];
    // SAFETY: the rest of the row's `cols` columns.
    unsafe {
        let rest = row.main.add(D::BYTES * (cols / BLOCK));
        rest.copy_to_nonoverlapping(padded.as_mut_ptr(), D::BYTES / BLOCK * (cols % BLOCK));
    }
    padded
}
