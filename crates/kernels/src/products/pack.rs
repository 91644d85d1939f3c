//! Activations in the order in which the tiles read them.
//!
//! Positions are cut into tiles. A tile holds, for each block of 32 columns and each of its two
//! steps, one line of sixteen floats per position, in the lane order of the weight format:
//!
//! ```text
//! block 0: step 0: pos 0 | pos 1 | pos 2 | pos 3   step 1: pos 0 | pos 1 | ...   block 1: ...
//! ```
//!
//! so that a tile is read from front to back, whole cache lines at a time. The last tile is as
//! narrow as the positions that are left. Missing columns of the last block are zero.

use super::format::BLOCK;
use crate::lanes::LANES;

/// One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [f32; LANES]);

impl Line {
    pub(super) const ZERO: Line = Line([0.0; LANES]);
}

/// Lane order of a format's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Step `s` holds columns `16s..16s + 16`.
    Natural,
    /// Lane `2j + h` of step `s` holds column `16s + 8h + j`.
    Nibbles,
}

/// Positions of a full tile: as many sums as registers leave room for, see [`super::many`].
pub(super) const fn positions_per_tile(many_registers: bool) -> usize {
    if many_registers { 4 } else { 3 }
}

/// Lines that one position takes.
pub(super) fn lines_per_position(cols: usize) -> usize {
    cols.div_ceil(BLOCK) * (BLOCK / LANES)
}

/// Packs one tile: `x` holds its positions row after row, each `cols` wide, `out` takes its lines.
pub(super) fn pack_tile(x: &[f32], cols: usize, order: Order, out: &mut [Line]) {
    let positions = x.len() / cols;
    let blocks = out.chunks_exact_mut(BLOCK / LANES * positions);
    for (block, lines) in blocks.enumerate() {
        let (first, second) = lines.split_at_mut(positions);
        for (t, (a, b)) in first.iter_mut().zip(second).enumerate() {
            let row = &x[t * cols..(t + 1) * cols];
            let part = &row[block * BLOCK..cols.min((block + 1) * BLOCK)];
            match part.first_chunk::<BLOCK>() {
                Some(whole) => pack_block(whole, order, a, b),
                None => {
                    let mut padded = [0.0; BLOCK];
                    padded[..part.len()].copy_from_slice(part);
                    pack_block(&padded, order, a, b);
                }
            }
        }
    }
}

fn pack_block(x: &[f32; BLOCK], order: Order, first: &mut Line, second: &mut Line) {
    match order {
        Order::Natural => {
            first.0.copy_from_slice(&x[..LANES]);
            second.0.copy_from_slice(&x[LANES..]);
        }
        Order::Nibbles => {
            for j in 0..LANES / 2 {
                for h in 0..2 {
                    first.0[2 * j + h] = x[8 * h + j];
                    second.0[2 * j + h] = x[LANES + 8 * h + j];
                }
            }
        }
    }
}
