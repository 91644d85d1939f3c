//! Norms of one vector, and of the rows or heads of many. Sums of squares are dot products of a vector
//! with itself: sixteen lanes, folded once. `1 / sqrt` is two correctly rounded operations. As in every
//! fp32 norm, squares of elements beyond 1e19 overflow; the result is then NaN.
#![allow(unsafe_code)]

use crate::disjoint::{run_chunks, units_per_task};
use crate::lanes::slices::{dot, load, store};
use crate::lanes::{LANES, Lanes, instantiate};
use crate::{Isa, Kernels, math};

/// Root mean square norm: `out = weight · (x · (1 / sqrt(mean(x²) + eps)))`.
#[track_caller]
pub fn rms_norm(isa: Isa, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    assert_eq!(x.len(), weight.len(), "one weight per element");
    assert_eq!(x.len(), out.len(), "one output per element");
    rms_norm_on(isa, x, weight, eps, out);
}

/// `x <- (x · (1 / sqrt(sum(x²) + eps))) · scale`, the q and k norm of a KDA head: eps is added to
/// the sum of squares under the root (FLA `l2norm`).
pub fn l2_normalize(isa: Isa, x: &mut [f32], eps: f32, scale: f32) {
    l2_normalize_heads_on(isa, x.len().max(1), x, eps, scale);
}

/// The output norm of one KDA head: `o <- ((o · (1 / sqrt(mean(o²) + eps))) · weight) · sigmoid(gate)`
/// (FLA `FusedRMSNormGated`; Kimi K3 technical report, equation 6).
#[track_caller]
pub fn gated_head_norm(isa: Isa, o: &mut [f32], weight: &[f32], eps: f32, gate: &[f32]) {
    assert_eq!(o.len(), weight.len(), "one weight per element");
    assert_eq!(o.len(), gate.len(), "one gate per element");
    gated_head_norms_on(isa, o, weight, eps, gate);
}

impl Kernels {
    /// [`rms_norm`] of every row: `x` and `out` are `[T, d]`, `weight` is `[d]`.
    #[track_caller]
    pub fn rms_norm_rows(&self, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
        assert_eq!(x.len(), out.len(), "one output per element");
        let d = weight.len();
        let rows = row_count(x.len(), d);
        let chunk = d * units_per_task(self.pool(), rows, d / 4);
        run_chunks(self.pool(), out, chunk, &|i, out| {
            for (x, out) in x[i * chunk..].chunks_exact(d).zip(out.chunks_exact_mut(d)) {
                rms_norm_on(self.isa(), x, weight, eps, out);
            }
        });
    }

    /// [`l2_normalize`] of every head: `x` is `[T, heads · dim]`.
    #[track_caller]
    pub fn l2_normalize_heads(
        &self,
        heads: usize,
        dim: usize,
        x: &mut [f32],
        eps: f32,
        scale: f32,
    ) {
        let rows = row_count(x.len(), heads * dim);
        let chunk = dim * units_per_task(self.pool(), rows * heads, dim / 8);
        run_chunks(self.pool(), x, chunk, &|_, x| {
            l2_normalize_heads_on(self.isa(), dim, x, eps, scale);
        });
    }

    /// [`gated_head_norm`] of every head: `o` and `gate` are `[T, heads · dim]`, `weight` is `[dim]`.
    #[track_caller]
    pub fn gated_head_norms(
        &self,
        heads: usize,
        o: &mut [f32],
        weight: &[f32],
        eps: f32,
        gate: &[f32],
    ) {
        assert_eq!(o.len(), gate.len(), "one gate per element");
        let dim = weight.len();
        let rows = row_count(o.len(), heads * dim);
        let chunk = dim * units_per_task(self.pool(), rows * heads, dim / 2);
        run_chunks(self.pool(), o, chunk, &|i, o| {
            gated_head_norms_on(self.isa(), o, weight, eps, &gate[i * chunk..][..o.len()]);
        });
    }
}

/// How many rows of `row` elements make up `len`.
#[track_caller]
pub(crate) fn row_count(len: usize, row: usize) -> usize {
    assert!(row > 0 && len.is_multiple_of(row), "{len} elements are not whole rows of {row}");
    len / row
}

instantiate! {
    fn rms_norm_on(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) = rms_norm_lanes;
}
instantiate! {
    fn l2_normalize_heads_on(dim: usize, x: &mut [f32], eps: f32, scale: f32) = l2_normalize_lanes;
}
instantiate! {
    fn gated_head_norms_on(o: &mut [f32], weight: &[f32], eps: f32, gate: &[f32]) = gated_lanes;
}

// SAFETY, for all below: the caller proves the instruction set, as `instantiate!` does.

/// 1 / sqrt(mean(x²) + eps).
#[inline(always)]
pub(crate) unsafe fn inverse_rms<L: Lanes>(x: &[f32], eps: f32) -> f32 {
    // SAFETY: see above.
    let squares = unsafe { L::fold(dot::<L>(x, x, L::splat(0.0))) };
    inverse_root(squares / x.len() as f32 + eps)
}

/// `1 / sqrt(x)`, and NaN where the squares overflowed: a norm of 0 would turn a value that is out
/// of range into an ordinary one.
pub(crate) fn inverse_root(x: f32) -> f32 {
    if x.is_finite() { 1.0 / x.sqrt() } else { f32::NAN }
}

#[inline(always)]
unsafe fn rms_norm_lanes<L: Lanes>(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    // SAFETY: see above.
    unsafe {
        let r = L::splat(inverse_rms::<L>(x, eps));
        let parts = x.chunks(LANES).zip(weight.chunks(LANES)).zip(out.chunks_mut(LANES));
        for ((x, w), out) in parts {
            store::<L>(L::mul(load::<L>(w), L::mul(load::<L>(x), r)), out);
        }
    }
}

#[inline(always)]
unsafe fn l2_normalize_lanes<L: Lanes>(dim: usize, x: &mut [f32], eps: f32, scale: f32) {
    for head in x.chunks_exact_mut(dim) {
        // SAFETY: see above.
        unsafe {
            let squares = L::fold(dot::<L>(head, head, L::splat(0.0)));
            let (r, scale) = (L::splat(inverse_root(squares + eps)), L::splat(scale));
            for x in head.chunks_mut(LANES) {
                store::<L>(L::mul(L::mul(load::<L>(x), r), scale), x);
            }
        }
    }
}

#[inline(always)]
unsafe fn gated_lanes<L: Lanes>(o: &mut [f32], weight: &[f32], eps: f32, gate: &[f32]) {
    let dim = weight.len();
    for (head, gate) in o.chunks_exact_mut(dim).zip(gate.chunks_exact(dim)) {
        // SAFETY: see above.
        unsafe {
            let r = L::splat(inverse_rms::<L>(head, eps));
            let parts = head.chunks_mut(LANES).zip(weight.chunks(LANES)).zip(gate.chunks(LANES));
            for ((o, w), g) in parts {
                let normed = L::mul(L::mul(load::<L>(o), r), load::<L>(w));
                store::<L>(L::mul(normed, math::sigmoid::<L>(load::<L>(g))), o);
            }
        }
    }
}
