//! Few positions: bound by memory, so weights are decoded where they are used.
//!
//! A few rows side by side share each line of activations and hide the latency of their sums: four,
//! eight of bf16 because its activations are large beside its weights, two with few registers. The
//! lines of strips to come are asked for in advance: on AMD Zen 4 at 3.67 GHz one core reads 12 GB/s
//! without, 30 GB/s with it. They go to the second-level cache; the first would lose them again.
#![allow(unsafe_code)]
// Rows and positions index several arrays at once, and counted loops are the ones that unroll.
#![allow(clippy::needless_range_loop)]

use super::format::{BLOCK, Bf16, Format, Row};
use super::pack::Line;
use super::work::{Work, padded_block};
use crate::lanes::{LANES, Lanes};

/// How far ahead to ask for weights, at least.
const AHEAD_BYTES: usize = 24 << 10;

/// All rows times at most a tile of positions.
///
/// # Safety
///
/// As for [`super::work::rows`].
#[inline(always)]
pub(super) unsafe fn few<L: Lanes, D: Format>(work: Work) {
    // SAFETY: by the caller's word.
    unsafe {
        match work.positions {
            0 => {}
            1 if L::MANY && D::BYTES == Bf16::BYTES => strips::<L, D, 8, 1>(work),
            1 if L::MANY => strips::<L, D, 4, 1>(work),
            1 => strips::<L, D, 2, 1>(work),
            2 if L::MANY => strips::<L, D, 4, 2>(work),
            3 if L::MANY => strips::<L, D, 4, 3>(work),
            4 if L::MANY => strips::<L, D, 4, 4>(work),
            2 => strips::<L, D, 2, 2>(work),
            3 => strips::<L, D, 2, 3>(work),
            _ => unreachable!("more than a tile of positions"),
        }
    }
}

/// Strips of `R` rows.
#[inline(always)]
unsafe fn strips<L: Lanes, D: Format, const R: usize, const T: usize>(work: Work) {
    // SAFETY: strips are within the rows.
    unsafe {
        let mut row = 0;
        while row + R <= work.rows {
            strip::<L, D, R, T>(work.starting_at_row(row));
            row += R;
        }
        while row < work.rows {
            strip::<L, D, 1, T>(work.starting_at_row(row));
            row += 1;
        }
    }
}

/// `R` rows times `T` positions, each pair in sixteen lanes of its own.
#[inline(always)]
unsafe fn strip<L: Lanes, D: Format, const R: usize, const T: usize>(work: Work) {
    // SAFETY: blocks are within the columns, the last one through a padded copy.
    unsafe {
        let mut sums = [[L::splat(0.0); T]; R];
        let mut rows = [work.row; R];
        for r in 0..R {
            rows[r] = work.row_at(r);
        }
        let strip_bytes = R * work.stride.0;
        let ahead = AHEAD_BYTES.div_ceil(strip_bytes.max(1)) * strip_bytes;
        let ahead = work.row.main.wrapping_add(ahead);
        prefetch_scales::<L, D, R>(work);
        let blocks = work.cols / BLOCK;
        for block in 0..blocks {
            prefetch_block::<L, D, R>(ahead, block);
            add_block::<L, D, R, T>(&mut sums, &rows, block, work.x.add(2 * T * block));
        }
        if D::TAIL && !work.cols.is_multiple_of(BLOCK) {
            let mut padded = [[0; 4 * BLOCK]; R];
            for r in 0..R {
                padded[r] = padded_block::<D>(rows[r], work.cols);
                rows[r].main = padded[r].as_ptr();
            }
            add_block::<L, D, R, T>(&mut sums, &rows, 0, work.x.add(2 * T * blocks));
        }
        for r in 0..R {
            for t in 0..T {
                *work.y.add(t * work.y_stride + r) = L::fold(sums[r][t]);
            }
        }
    }
}

/// Adds a block of 32 columns, row after row: few decoded weights are alive at a time.
#[inline(always)]
unsafe fn add_block<L: Lanes, D: Format, const R: usize, const T: usize>(
    sums: &mut [[L::F; T]; R],
    rows: &[Row; R],
    block: usize,
    x: *const Line,
) {
    // SAFETY: the caller's block exists in the rows and in the packed activations.
    unsafe {
        let x: *const f32 = x.cast();
        for r in 0..R {
            let weights = [D::step::<L, 0>(rows[r], block), D::step::<L, 1>(rows[r], block)];
            for t in 0..T {
                let first = L::load(x.add(LANES * t));
                sums[r][t] = L::fma(weights[0], first, sums[r][t]);
            }
            for t in 0..T {
                let second = L::load(x.add(LANES * (T + t)));
                sums[r][t] = L::fma(weights[1], second, sums[r][t]);
            }
        }
    }
}

/// Asks for as many bytes of a later strip, which begins at `ahead`, as a block of this one takes.
/// Rows lie one after the other, so a strip is one run of bytes. Past the end it asks in vain.
#[inline(always)]
unsafe fn prefetch_block<L: Lanes, D: Format, const R: usize>(ahead: *const u8, block: usize) {
    for line in 0..(R * D::BYTES).div_ceil(64) {
        // SAFETY: a prefetch cannot fault.
        unsafe { L::prefetch(ahead.wrapping_add(R * D::BYTES * block + 64 * line)) };
    }
}

/// Asks for the scales of the strip after the next.
#[inline(always)]
unsafe fn prefetch_scales<L: Lanes, D: Format, const R: usize>(work: Work) {
    if D::SCALE_BYTES > 0 {
        let strip = R * work.stride.1;
        for line in 0..strip.div_ceil(64) {
            // SAFETY: a prefetch cannot fault.
            unsafe { L::prefetch(work.row.scales.wrapping_add(2 * strip + 64 * line)) };
        }
    }
}
