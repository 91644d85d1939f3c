//! Weight formats as blocks of 32 columns: two steps of sixteen lanes.
#![allow(unsafe_code)]

use crate::lanes::Lanes;

/// Columns of a block.
pub(super) const BLOCK: usize = 32;

/// Where a row's bytes begin.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) main: *const u8,
    pub(super) scales: *const u8,
}

/// How a block's bytes become lanes.
pub(super) trait Format {
    /// Bytes of weights of a block.
    const BYTES: usize;
    /// Bytes of scales of a block.
    const SCALE_BYTES: usize = 0;
    /// Whether rows may end within a block.
    const TAIL: bool = true;
    /// Whether the scales are one per row instead.
    const ROW_SCALE: bool = false;

    /// Where column `column` of a block is: lane `place % 16` of step `place / 16`.
    #[inline(always)]
    fn place(column: usize) -> usize {
        column
    }

    /// Step `STEP` (0 or 1) of block `block`.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set of `L`; the row has that block.
    unsafe fn step<L: Lanes, const STEP: usize>(row: Row, block: usize) -> L::F;
}

pub(super) struct F32;
pub(super) struct Bf16;
pub(super) struct Int8;
pub(super) struct Mxfp4;

impl Format for F32 {
    const BYTES: usize = 4 * BLOCK;
    #[inline(always)]
    unsafe fn step<L: Lanes, const STEP: usize>(row: Row, block: usize) -> L::F {
        // SAFETY: sixteen floats of the block; `load` needs no alignment.
        unsafe { L::load(row.main.add(Self::BYTES * block + 64 * STEP).cast()) }
    }
}

impl Format for Bf16 {
    const BYTES: usize = 2 * BLOCK;
    #[inline(always)]
    unsafe fn step<L: Lanes, const STEP: usize>(row: Row, block: usize) -> L::F {
        // SAFETY: sixteen weights of the block.
        unsafe { L::load_bf16(row.main.add(Self::BYTES * block + 32 * STEP)) }
    }
}

impl Format for Int8 {
    const BYTES: usize = BLOCK;
    const ROW_SCALE: bool = true;
    #[inline(always)]
    unsafe fn step<L: Lanes, const STEP: usize>(row: Row, block: usize) -> L::F {
        // SAFETY: sixteen weights of the block.
        unsafe { L::load_i8(row.main.add(Self::BYTES * block + 16 * STEP)) }
    }
}

impl Format for Mxfp4 {
    const BYTES: usize = BLOCK / 2;
    const SCALE_BYTES: usize = 1;
    const TAIL: bool = false;
    #[inline(always)]
    fn place(column: usize) -> usize {
        let (step, h, j) = (column / 16, column / 8 % 2, column % 8);
        16 * step + 2 * j + h
    }
    #[inline(always)]
    unsafe fn step<L: Lanes, const STEP: usize>(row: Row, block: usize) -> L::F {
        // SAFETY: the sixteen bytes of a group and its scale.
        unsafe { L::load_mxfp4::<STEP>(row.main.add(Self::BYTES * block), *row.scales.add(block)) }
    }
}
