//! The two products of absorbed latent attention.
#![allow(unsafe_code)]
// Rows and positions index several arrays at once, and counted loops are the ones that unroll.
#![allow(clippy::needless_range_loop)]

use super::claim::claim_all;
use super::format::{BLOCK, Bf16, F32, Format, Int8, Mxfp4, Row};
use super::work::padded_block;
use super::{Job, Output, Scratch};
use crate::lanes::{LANES, Lanes, instantiate};
use crate::matrix::f16_to_f32;
use crate::{Kernels, LatentDims, Matrix, Weights};

impl Kernels {
    /// Carries queries into the latent space:
    /// `out[h][t][c] = Σ_r kv_b[key_row(h) + r][c] * q[t][h][r]` over the `nope` rows of head `h`.
    ///
    /// Each output is one chain of fused multiply-adds from zero in ascending `r`. An int8 row scale
    /// multiplies `q` first. `q` is `[T, heads, nope + rope]`, `out` is `[heads][T][latent]`.
    ///
    /// # Panics
    ///
    /// If a slice or the matrix does not fit `dims`.
    pub fn absorb_keys(&self, kv_b: Matrix<'_>, dims: &LatentDims, q: &[f32], out: &mut [f32]) {
        assert_eq!((kv_b.rows(), kv_b.cols()), (dims.kv_b_rows(), dims.latent), "shape of kv_b");
        let positions = q.len() / (dims.heads * dims.query()).max(1);
        assert_eq!(q.len(), positions * dims.heads * dims.query(), "queries");
        assert_eq!(out.len(), dims.heads * positions * dims.latent, "absorbed queries");
        let out = Output(out.as_mut_ptr());
        claim_all(self.pool(), dims.heads, &|h| {
            let w = kv_b.row_range(dims.key_row(h)..dims.value_row(h));
            let (main, scales) = w.weights().parts();
            let out: Output = out;
            let work = Absorb {
                row: Row { main: main.as_ptr(), scales: scales.as_ptr() },
                stride: w.row_stride(),
                rows: dims.nope,
                cols: dims.latent,
                next: main.as_ptr().wrapping_add((dims.nope + dims.v) * w.row_stride().0),
                q: q.as_ptr().wrapping_add(h * dims.query()),
                q_stride: dims.heads * dims.query(),
                positions,
                out: out.0.wrapping_add(h * positions * dims.latent),
            };
            match w.weights() {
                Weights::F32(_) => absorb_f32(self.isa(), work),
                Weights::Bf16(_) => absorb_bf16(self.isa(), work),
                Weights::Int8 { .. } => absorb_int8(self.isa(), work),
                Weights::Mxfp4 { .. } => absorb_mxfp4(self.isa(), work),
            }
        });
    }

    /// Expands latent sums to values: `out[t][h * v + r]` is row `value_row(h) + r` of `kv_b` times
    /// `ctx[h][t]`, in the order of [`products`](Self::products). `ctx` is `[heads][T][latent]`,
    /// `out` is `[T, heads * v]`.
    ///
    /// # Panics
    ///
    /// If a slice or the matrix does not fit `dims`.
    pub fn expand_values(
        &self,
        scratch: &mut Scratch,
        kv_b: Matrix<'_>,
        dims: &LatentDims,
        ctx: &[f32],
        out: &mut [f32],
    ) {
        assert_eq!((kv_b.rows(), kv_b.cols()), (dims.kv_b_rows(), dims.latent), "shape of kv_b");
        let width = dims.heads * dims.v;
        let positions = out.len() / width.max(1);
        assert_eq!(out.len(), positions * width, "values");
        assert_eq!(ctx.len(), dims.heads * positions * dims.latent, "latent sums");
        let y = Output(out.as_mut_ptr());
        let per_head = positions * dims.latent;
        let job = |h: usize| {
            let y: Output = y;
            Job {
                w: kv_b.row_range(dims.value_row(h)..dims.key_row(h + 1)),
                x: &ctx[h * per_head..(h + 1) * per_head],
                positions,
                y: Output(y.0.wrapping_add(h * dims.v)),
                y_stride: width,
            }
        };
        // SAFETY: heads have columns of their own in `out`, whose length was asserted.
        unsafe { self.run_jobs(scratch, dims.heads, &job) };
    }
}

/// One head's keys and the queries of all positions, everything checked.
#[derive(Clone, Copy)]
struct Absorb {
    row: Row,
    stride: (usize, usize),
    rows: usize,
    cols: usize,
    /// The next head's keys. They are asked for from front to back while this head's are worked on,
    /// a few lines per row at a time and out of order, which the hardware would not foresee.
    next: *const u8,
    q: *const f32,
    q_stride: usize,
    positions: usize,
    out: *mut f32,
}

/// Groups of columns times tiles of positions: sums stay in registers while the rows pass by.
#[inline(always)]
unsafe fn absorb<L: Lanes, D: Format>(work: Absorb) {
    let whole = work.cols / BLOCK;
    let mut block = 0;
    // SAFETY: groups are within the columns.
    unsafe {
        while block + 2 <= whole {
            absorb_group::<L, D, 2>(work, block);
            block += 2;
        }
        while block * BLOCK < work.cols {
            absorb_group::<L, D, 1>(work, block);
            block += 1;
        }
    }
}

/// `B` blocks of columns; a single one may end early.
#[inline(always)]
unsafe fn absorb_group<L: Lanes, D: Format, const B: usize>(work: Absorb, block: usize) {
    let mut t = 0;
    // SAFETY: tiles are within the positions.
    unsafe {
        while L::MANY && t + 4 <= work.positions {
            absorb_tile::<L, D, B, 4>(work, block, t);
            t += 4;
        }
        while t < work.positions {
            absorb_tile::<L, D, B, 1>(work, block, t);
            t += 1;
        }
    }
}

#[inline(always)]
unsafe fn absorb_tile<L: Lanes, D: Format, const B: usize, const T: usize>(
    work: Absorb,
    block: usize,
    t: usize,
) {
    let columns = (B * BLOCK).min(work.cols - block * BLOCK);
    // SAFETY: a row is read through a padded copy when its last block is not whole.
    unsafe {
        let mut sums = [[[L::splat(0.0); 2]; B]; T];
        for r in 0..work.rows {
            let main = work.row.main.add(r * work.stride.0);
            let scales = work.row.scales.add(r * work.stride.1);
            let mut row = Row { main: main.add(block * D::BYTES), scales };
            if t == 0 {
                let next = work.next.wrapping_add((block * work.rows + r * B) * D::BYTES);
                for line in 0..(B * D::BYTES).div_ceil(64) {
                    L::prefetch(next.wrapping_add(64 * line));
                }
            }
            if !D::ROW_SCALE {
                row.scales = scales.wrapping_add(block * D::SCALE_BYTES);
            }
            let padded;
            if D::TAIL && B == 1 && columns < BLOCK {
                padded = padded_block::<D>(Row { main, scales }, work.cols);
                row.main = padded.as_ptr();
            }
            let mut weights = [[L::splat(0.0); 2]; B];
            for b in 0..B {
                weights[b] = [D::step::<L, 0>(row, b), D::step::<L, 1>(row, b)];
            }
            for i in 0..T {
                let mut q = *work.q.add((t + i) * work.q_stride + r);
                if D::ROW_SCALE {
                    q *= row_scale(scales);
                }
                let q = L::splat(q);
                for b in 0..B {
                    sums[i][b][0] = L::fma(weights[b][0], q, sums[i][b][0]);
                    sums[i][b][1] = L::fma(weights[b][1], q, sums[i][b][1]);
                }
            }
        }
        for i in 0..T {
            let out = work.out.add((t + i) * work.cols + block * BLOCK);
            for b in 0..B {
                let count = BLOCK.min(columns - b * BLOCK);
                store_block::<L, D>(sums[i][b], out.add(b * BLOCK), count);
            }
        }
    }
}

#[inline(always)]
unsafe fn row_scale(scales: *const u8) -> f32 {
    // SAFETY: the caller's row has a scale of two bytes.
    f16_to_f32(u16::from_le_bytes(unsafe { scales.cast::<[u8; 2]>().read_unaligned() }))
}

/// Writes the first `count` columns of a block, in order.
#[inline(always)]
unsafe fn store_block<L: Lanes, D: Format>(block: [L::F; 2], out: *mut f32, count: usize) {
    let mut lanes = [0.0; BLOCK];
    // SAFETY: the array holds a block, `out` `count` floats.
    unsafe {
        L::store(block[0], lanes.as_mut_ptr());
        L::store(block[1], lanes.as_mut_ptr().add(LANES));
        for c in 0..count {
            *out.add(c) = lanes[D::place(c)];
        }
    }
}

#[inline(always)]
unsafe fn absorb_f32_lanes<L: Lanes>(work: Absorb) {
    // SAFETY: the caller's work is of this format.
    unsafe { absorb::<L, F32>(work) }
}
#[inline(always)]
unsafe fn absorb_bf16_lanes<L: Lanes>(work: Absorb) {
    // SAFETY: the caller's work is of this format.
    unsafe { absorb::<L, Bf16>(work) }
}
#[inline(always)]
unsafe fn absorb_int8_lanes<L: Lanes>(work: Absorb) {
    // SAFETY: the caller's work is of this format.
    unsafe { absorb::<L, Int8>(work) }
}
#[inline(always)]
unsafe fn absorb_mxfp4_lanes<L: Lanes>(work: Absorb) {
    // SAFETY: the caller's work is of this format.
    unsafe { absorb::<L, Mxfp4>(work) }
}

instantiate! { fn absorb_f32(work: Absorb) = absorb_f32_lanes; }
instantiate! { fn absorb_bf16(work: Absorb) = absorb_bf16_lanes; }
instantiate! { fn absorb_int8(work: Absorb) = absorb_int8_lanes; }
instantiate! { fn absorb_mxfp4(work: Absorb) = absorb_mxfp4_lanes; }
