//! The two products of absorbed latent attention.
#![allow(unsafe_code)]

use super::format::{BLOCK, Bf16, F32, Format, Int8, Mxfp4, Row};
use super::{Job, Output, Scratch, claim_all};
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
    q: *const f32,
    q_stride: usize,
    positions: usize,
    out: *mut f32,
}

/// Blocks of columns times tiles of positions: the sums stay in registers while the rows pass by.
#[inline(always)]
unsafe fn absorb<L: Lanes, D: Format>(work: Absorb) {
    // SAFETY: blocks and positions are within the work.
    unsafe {
        for block in 0..work.cols.div_ceil(BLOCK) {
            for t in 0..work.positions {
                absorb_block::<L, D>(work, block, t);
            }
        }
    }
}

#[inline(always)]
unsafe fn absorb_block<L: Lanes, D: Format>(work: Absorb, block: usize, t: usize) {
    let columns = BLOCK.min(work.cols - block * BLOCK);
    // SAFETY: a row is read through a padded copy when its last block is not whole.
    unsafe {
        let mut sums = [L::splat(0.0); 2];
        for r in 0..work.rows {
            let mut row = Row {
                main: work.row.main.add(r * work.stride.0 + block * D::BYTES),
                scales: work.row.scales.add(r * work.stride.1),
            };
            let mut q = *work.q.add(t * work.q_stride + r);
            if D::ROW_SCALE {
                q *= f16_to_f32(u16::from_le_bytes(row.scales.cast::<[u8; 2]>().read_unaligned()));
            } else {
                row.scales = row.scales.wrapping_add(block * D::SCALE_BYTES);
            }
            let mut padded = [0u8; 4 * BLOCK];
            if columns < BLOCK {
                row.main.copy_to_nonoverlapping(padded.as_mut_ptr(), D::BYTES / BLOCK * columns);
                row.main = padded.as_ptr();
            }
            let q = L::splat(q);
            sums[0] = L::fma(D::step::<L, 0>(row, 0), q, sums[0]);
            sums[1] = L::fma(D::step::<L, 1>(row, 0), q, sums[1]);
        }
        let mut lanes = [0.0; BLOCK];
        L::store(sums[0], lanes.as_mut_ptr());
        L::store(sums[1], lanes.as_mut_ptr().add(LANES));
        let out = work.out.add(t * work.cols + block * BLOCK);
        for c in 0..columns {
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
