//! Many positions: bound by arithmetic, so weights are decoded once for many multiply-adds.
//!
//! A strip of rows is decoded a chunk of columns at a time into a panel in the first-level cache,
//! and the panel is multiplied with every tile of positions. Sums wait in memory between chunks; the
//! chain of each (row, position) goes on where it stopped, so chunks change no bit.
//!
//! ```text
//!            chunk 0   chunk 1  ...                  tile 0     tile 1
//! strip 0   [panel  ] [panel  ]         times       4 positions 4 positions ...
//! strip 1   ...
//! ```
//!
//! A tile of sums stays in registers: with 32 registers six rows by four positions, with 16 four by
//! three. Where sixteen lanes take several registers, each part of the lanes is a pass of its own.
#![allow(unsafe_code)]
// Rows and positions index several arrays at once, and counted loops are the ones that unroll.
#![allow(clippy::needless_range_loop)]

use super::format::{BLOCK, Format};
use super::pack::{Line, positions_per_tile};
use super::work::{Work, padded_block};
use crate::lanes::{LANES, Lanes};
use std::mem::MaybeUninit;

/// Blocks of a chunk: 512 columns.
const CHUNK: usize = 16;
/// Most rows of a strip. Six times 512 columns are 12 KiB of panel.
const STRIP: usize = 8;
/// Most positions for which a panel is used before it is decoded again.
const PASS: usize = 64;

/// Rows of a tile, with many registers and with few.
const fn rows_per_tile(many_registers: bool) -> usize {
    if many_registers { 6 } else { 4 }
}

/// Memory of one strip, on the stack.
struct Strip {
    /// Decoded weights `[step][row]`.
    panel: MaybeUninit<[Line; CHUNK * (BLOCK / LANES) * STRIP]>,
    /// Sums `[tile][row][position in tile]`.
    sums: MaybeUninit<[Line; STRIP * PASS]>,
}

/// All rows times all positions.
///
/// # Safety
///
/// As for [`super::work::rows`].
#[inline(always)]
pub(super) unsafe fn many<L: Lanes, D: Format>(work: Work) {
    let pass = PASS - PASS % positions_per_tile(L::MANY);
    let height = if L::MANY { 6 } else { STRIP };
    let mut memory = Strip { panel: MaybeUninit::uninit(), sums: MaybeUninit::uninit() };
    // SAFETY: passes and strips cut the work into parts of itself.
    unsafe {
        let mut first = 0;
        while first < work.positions {
            let positions = pass.min(work.positions - first);
            let part = work.starting_at(first, positions);
            let mut row = 0;
            while row < work.rows {
                let strip = part.starting_at_row(row);
                let rows = height.min(strip.rows);
                strip_times_tiles::<L, D>(Work { rows, ..strip }, &mut memory);
                row += rows;
            }
            first += positions;
        }
    }
}

/// One strip times one pass of positions.
#[inline(always)]
unsafe fn strip_times_tiles<L: Lanes, D: Format>(work: Work, memory: &mut Strip) {
    let panel: *mut f32 = memory.panel.as_mut_ptr().cast();
    let sums: *mut f32 = memory.sums.as_mut_ptr().cast();
    let blocks = work.cols.div_ceil(BLOCK);
    // SAFETY: a strip has at most `STRIP` rows, a pass at most `PASS` positions, a chunk at most
    // `CHUNK` blocks; sums are zeroed before they are read, the panel is decoded before.
    unsafe {
        sums.write_bytes(0, work.rows * work.positions * LANES);
        let mut block = 0;
        while block < blocks {
            let count = CHUNK.min(blocks - block);
            for r in 0..work.rows {
                decode_row::<L, D>(work, r, block, count, panel);
            }
            if L::MANY {
                all_tiles::<L, 4>(work, block, count, panel, sums);
            } else {
                all_tiles::<L, 3>(work, block, count, panel, sums);
            }
            block += count;
        }
        fold_all::<L>(work, sums);
    }
}

/// Decodes blocks of row `r` into the panel and asks for the same of the next strip.
#[inline(always)]
unsafe fn decode_row<L: Lanes, D: Format>(
    work: Work,
    r: usize,
    first: usize,
    count: usize,
    panel: *mut f32,
) {
    // SAFETY: the caller's blocks exist, the last one through a padded copy.
    unsafe {
        let row = work.row_at(r);
        let next = row.main.wrapping_add(work.rows * work.stride.0 + first * D::BYTES);
        for line in 0..(count * D::BYTES).div_ceil(64) {
            L::prefetch(next.wrapping_add(64 * line));
        }
        let whole = count.min(work.cols / BLOCK - first);
        for b in 0..whole {
            let out = panel.add((2 * b * work.rows + r) * LANES);
            L::store(D::step::<L, 0>(row, first + b), out);
            L::store(D::step::<L, 1>(row, first + b), out.add(work.rows * LANES));
        }
        if D::TAIL && whole < count {
            let padded = padded_block::<D>(row, work.cols);
            let row = super::format::Row { main: padded.as_ptr(), ..row };
            let out = panel.add((2 * whole * work.rows + r) * LANES);
            L::store(D::step::<L, 0>(row, 0), out);
            L::store(D::step::<L, 1>(row, 0), out.add(work.rows * LANES));
        }
    }
}

/// The panel times all tiles, full ones of `T` positions and the rest.
#[inline(always)]
unsafe fn all_tiles<L: Lanes, const T: usize>(
    work: Work,
    block: usize,
    count: usize,
    panel: *const f32,
    sums: *mut f32,
) {
    let mut t = 0;
    // SAFETY: tiles are within the positions.
    unsafe {
        while t < work.positions {
            let width = T.min(work.positions - t);
            let x = work.starting_at(t, width).x.add(2 * width * block).cast();
            let sums = sums.add(t * work.rows * LANES);
            match width {
                1 => tile_rows::<L, 1>(work.rows, count, panel, x, sums),
                2 => tile_rows::<L, 2>(work.rows, count, panel, x, sums),
                3 => tile_rows::<L, 3>(work.rows, count, panel, x, sums),
                _ if T == 4 => tile_rows::<L, 4>(work.rows, count, panel, x, sums),
                _ => unreachable!("wider than a tile"),
            }
            t += width;
        }
    }
}

/// All rows of the panel times one tile.
#[inline(always)]
unsafe fn tile_rows<L: Lanes, const T: usize>(
    rows: usize,
    count: usize,
    panel: *const f32,
    x: *const f32,
    sums: *mut f32,
) {
    let height = rows_per_tile(L::MANY);
    let mut r = 0;
    // SAFETY: rows are within the panel.
    unsafe {
        while r < rows {
            let (panel, sums) = (panel.add(r * LANES), sums.add(r * T * LANES));
            if r + height > rows {
                tile::<L, 1, T>(rows, count, panel, x, sums);
                r += 1;
            } else if L::MANY {
                tile::<L, 6, T>(rows, count, panel, x, sums);
                r += 6;
            } else {
                tile::<L, 4, T>(rows, count, panel, x, sums);
                r += 4;
            }
        }
    }
}

/// `R` rows times `T` positions, over `count` blocks.
#[inline(always)]
unsafe fn tile<L: Lanes, const R: usize, const T: usize>(
    panel_rows: usize,
    count: usize,
    panel: *const f32,
    x: *const f32,
    sums: *mut f32,
) {
    let width = LANES / L::PARTS;
    for part in 0..L::PARTS {
        // SAFETY: as for the caller; a part is `width` floats of each line.
        unsafe {
            let (mut w, mut x) = (panel.add(part * width), x.add(part * width));
            let sums = sums.add(part * width);
            let mut acc = [[L::load_part(sums); T]; R];
            for r in 0..R {
                for t in 0..T {
                    acc[r][t] = L::load_part(sums.add((r * T + t) * LANES));
                }
            }
            for _ in 0..2 * count {
                let mut xs = [L::load_part(x); T];
                for t in 0..T {
                    xs[t] = L::load_part(x.add(t * LANES));
                }
                for r in 0..R {
                    let weight = L::load_part(w.add(r * LANES));
                    for t in 0..T {
                        acc[r][t] = L::fma_part(weight, xs[t], acc[r][t]);
                    }
                }
                w = w.add(panel_rows * LANES);
                x = x.add(T * LANES);
            }
            for r in 0..R {
                for t in 0..T {
                    L::store_part(acc[r][t], sums.add((r * T + t) * LANES));
                }
            }
        }
    }
}

/// Folds the sums into the results.
#[inline(always)]
unsafe fn fold_all<L: Lanes>(work: Work, sums: *const f32) {
    let tile = positions_per_tile(L::MANY);
    let mut t = 0;
    while t < work.positions {
        let width = tile.min(work.positions - t);
        for r in 0..work.rows {
            for i in 0..width {
                // SAFETY: every pair of the strip and the pass has its line of sums.
                unsafe {
                    let line = sums.add((t * work.rows + r * width + i) * LANES);
                    *work.y.add((t + i) * work.y_stride + r) = L::fold(L::load(line));
                }
            }
        }
        t += width;
    }
}
