//! The inner loops: a few rows times a few positions, every pair in sixteen lanes of its own.
//!
//! On AMD Zen 4 a register holds sixteen lanes and one fused multiply-add of them starts per cycle.
//! Six rows and four positions keep 24 sums in registers, so a decoded step of weights serves four
//! and a line of activations six of them. With 16 registers of 8 lanes it is two rows and three
//! positions. One position is bound by memory: four rows side by side, and the lines of the next
//! four asked for in advance.
#![allow(unsafe_code)]

use super::format::{BLOCK, Format, Row};
use super::pack::{Line, lines_per_position};
use crate::lanes::{LANES, Lanes};

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
    unsafe fn from_row(self, first: usize) -> Work {
        // SAFETY: the caller stays within the rows.
        unsafe {
            let row = Row {
                main: self.row.main.add(first * self.stride.0),
                scales: self.row.scales.add(first * self.stride.1),
            };
            Work { row, rows: self.rows - first, y: self.y.add(first), ..self }
        }
    }

    /// The work of `positions` positions from `first` on; a tile begins there.
    #[inline(always)]
    unsafe fn from_position(self, first: usize, positions: usize) -> Work {
        // SAFETY: the caller stays within the positions.
        unsafe {
            let x = self.x.add(first * lines_per_position(self.cols));
            Work { x, positions, y: self.y.add(first * self.y_stride), ..self }
        }
    }
}

/// Positions of a full tile.
pub(super) const fn positions_per_tile(wide: bool) -> usize {
    if wide { 4 } else { 3 }
}

/// Activations that stay in the second-level cache while the rows pass by.
const PASS_BYTES: usize = 256 << 10;

/// All rows of `work` times all its positions.
///
/// # Safety
///
/// The CPU has the instruction set of `L`; the pointers of `work` are valid for its shape, in format
/// `D`, packed in tiles of `positions_per_tile(L::WIDE)`.
#[inline(always)]
pub(super) unsafe fn rows<L: Lanes, D: Format>(work: Work) {
    let tile = positions_per_tile(L::WIDE);
    let tile_bytes = tile * lines_per_position(work.cols) * size_of::<Line>();
    let pass = tile * (PASS_BYTES / tile_bytes.max(1)).max(1);
    let whole = work.positions - work.positions % tile;
    let mut first = 0;
    // SAFETY: passes, strips and tiles cut the work into parts of itself.
    unsafe {
        while first < whole {
            let positions = pass.min(whole - first);
            let part = work.from_position(first, positions);
            if L::WIDE {
                strips::<L, D, 6, 4>(part)
            } else {
                strips::<L, D, 2, 3>(part)
            }
            first += positions;
        }
        let rest = work.from_position(whole, work.positions - whole);
        match rest.positions {
            0 => {}
            1 => strips::<L, D, 4, 1>(rest),
            2 if L::WIDE => strips::<L, D, 6, 2>(rest),
            2 => strips::<L, D, 3, 2>(rest),
            _ if L::WIDE => strips::<L, D, 6, 3>(rest),
            _ => unreachable!("a rest is less than a tile"),
        }
    }
}

/// Strips of `R` rows, each times all tiles of `T` positions.
#[inline(always)]
unsafe fn strips<L: Lanes, D: Format, const R: usize, const T: usize>(work: Work) {
    // SAFETY: strips are within the rows.
    unsafe {
        let mut row = 0;
        while row + R <= work.rows {
            tiles::<L, D, R, T>(work.from_row(row));
            row += R;
        }
        while row < work.rows {
            tiles::<L, D, 1, T>(work.from_row(row));
            row += 1;
        }
    }
}

#[inline(always)]
unsafe fn tiles<L: Lanes, D: Format, const R: usize, const T: usize>(work: Work) {
    // SAFETY: tiles are within the positions.
    unsafe {
        prefetch_scales::<L, D, R>(work);
        let mut first = 0;
        while first < work.positions {
            let part = work.from_position(first, T);
            let sums = tile::<L, D, R, T>(part);
            for r in 0..R {
                for t in 0..T {
                    *part.y.add(t * part.y_stride + r) = L::fold(sums[r][t]);
                }
            }
            first += T;
        }
    }
}

/// Sums of `R` rows times `T` positions, a step of sixteen columns at a time.
#[inline(always)]
unsafe fn tile<L: Lanes, D: Format, const R: usize, const T: usize>(work: Work) -> [[L::F; T]; R] {
    // SAFETY: blocks are within the columns, the last one through a padded copy.
    unsafe {
        let mut sums = [[L::splat(0.0); T]; R];
        let next = work.row.main.wrapping_add(R * work.stride.0);
        let (blocks, rest) = (work.cols / BLOCK, work.cols % BLOCK);
        for block in 0..blocks {
            prefetch_block::<L, D, R>(next, block);
            let rows: [Row; R] = rows_of(work);
            let x: *const f32 = work.x.add(2 * T * block).cast();
            step::<L, D, R, T, 0>(&mut sums, &rows, block, x);
            step::<L, D, R, T, 1>(&mut sums, &rows, block, x.add(LANES * T));
        }
        if rest > 0 {
            let mut padded = [[0u8; 4 * BLOCK]; R];
            let rows: [Row; R] = rows_of(work);
            let mut padded_rows = rows;
            for r in 0..R {
                let bytes = D::BYTES / BLOCK * rest;
                let tail = rows[r].main.add(D::BYTES * blocks);
                tail.copy_to_nonoverlapping(padded[r].as_mut_ptr(), bytes);
                padded_rows[r].main = padded[r].as_ptr();
            }
            let x: *const f32 = work.x.add(2 * T * blocks).cast();
            step::<L, D, R, T, 0>(&mut sums, &padded_rows, 0, x);
            step::<L, D, R, T, 1>(&mut sums, &padded_rows, 0, x.add(LANES * T));
        }
        sums
    }
}

#[inline(always)]
unsafe fn step<L: Lanes, D: Format, const R: usize, const T: usize, const STEP: usize>(
    sums: &mut [[L::F; T]; R],
    rows: &[Row; R],
    block: usize,
    x: *const f32,
) {
    // SAFETY: the caller's block exists in the rows and in the packed activations.
    unsafe {
        let mut weights = [L::splat(0.0); R];
        for r in 0..R {
            weights[r] = D::step::<L, STEP>(rows[r], block);
        }
        for t in 0..T {
            let x = L::load(x.add(LANES * t));
            for r in 0..R {
                sums[r][t] = L::fma(weights[r], x, sums[r][t]);
            }
        }
    }
}

#[inline(always)]
unsafe fn rows_of<const R: usize>(work: Work) -> [Row; R] {
    let mut rows = [work.row; R];
    for (r, row) in rows.iter_mut().enumerate() {
        // SAFETY: the caller's work has `R` rows.
        unsafe {
            row.main = work.row.main.add(r * work.stride.0);
            row.scales = work.row.scales.add(r * work.stride.1);
        }
    }
    rows
}

/// Asks for as many bytes of the next strip, which begins at `next`, as a block of this one takes.
/// Rows lie one after the other, so a strip is one run of bytes. Past the end it asks in vain.
#[inline(always)]
unsafe fn prefetch_block<L: Lanes, D: Format, const R: usize>(next: *const u8, block: usize) {
    for line in 0..(R * D::BYTES).div_ceil(64) {
        // SAFETY: a prefetch cannot fault.
        unsafe { L::prefetch(next.wrapping_add(R * D::BYTES * block + 64 * line)) };
    }
}

/// Asks for the scales of the next strip.
#[inline(always)]
unsafe fn prefetch_scales<L: Lanes, D: Format, const R: usize>(work: Work) {
    if D::SCALE_BYTES > 0 {
        let strip = R * work.stride.1;
        for line in 0..strip.div_ceil(64) {
            // SAFETY: a prefetch cannot fault.
            unsafe { L::prefetch(work.row.scales.wrapping_add(strip + 64 * line)) };
        }
    }
}
