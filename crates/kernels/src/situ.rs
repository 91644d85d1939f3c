//! SiTU-GLU, the activation of every feed-forward layer (Kimi K3 technical report, section 2.3.2).
#![allow(unsafe_code)]

use crate::disjoint::{run_chunks, units_per_task};
use crate::lanes::slices::{load, store};
use crate::lanes::{LANES, Lanes, instantiate};
use crate::{Isa, Kernels, math};

/// `gate <- beta · tanh(gate / beta) · sigmoid(gate) · linear_beta · tanh(up / linear_beta)`.
///
/// The divisions are multiplications by the rounded reciprocals of the betas. NaN in either operand
/// gives NaN, but an infinity gives a finite value by the formula: whoever must notice one calls
/// [`all_finite`](crate::all_finite) on the operands before.
#[track_caller]
pub fn situ(isa: Isa, gate: &mut [f32], up: &[f32], beta: f32, linear_beta: f32) {
    assert_eq!(gate.len(), up.len(), "gate and up differ in length");
    situ_on(isa, gate, up, beta, linear_beta);
}

impl Kernels {
    /// [`situ`], elements shared out over the pool.
    #[track_caller]
    pub fn situ_all(&self, gate: &mut [f32], up: &[f32], beta: f32, linear_beta: f32) {
        assert_eq!(gate.len(), up.len(), "gate and up differ in length");
        let vectors = gate.len().div_ceil(LANES);
        let chunk = LANES * units_per_task(self.pool(), vectors, 64);
        run_chunks(self.pool(), gate, chunk, &|i, gate| {
            let up = &up[i * chunk..][..gate.len()];
            situ_on(self.isa(), gate, up, beta, linear_beta);
        });
    }
}

instantiate! {
    fn situ_on(gate: &mut [f32], up: &[f32], beta: f32, linear_beta: f32) = situ_lanes;
}

#[inline(always)]
unsafe fn situ_lanes<L: Lanes>(gate: &mut [f32], up: &[f32], beta: f32, linear_beta: f32) {
    for (gate, up) in gate.chunks_mut(LANES).zip(up.chunks(LANES)) {
        // SAFETY: the caller proves the instruction set.
        unsafe {
            let (g, u) = (load::<L>(gate), load::<L>(up));
            let gated = L::mul(capped::<L>(g, beta), math::sigmoid::<L>(g));
            store::<L>(L::mul(gated, capped::<L>(u, linear_beta)), gate);
        }
    }
}

/// `bound · tanh(x / bound)`: x, softly kept within ±bound.
#[inline(always)]
unsafe fn capped<L: Lanes>(x: L::F, bound: f32) -> L::F {
    // SAFETY: the caller proves the instruction set.
    unsafe {
        let tanh = math::tanh::<L>(L::mul(x, L::splat(1.0 / bound)));
        L::mul(L::splat(bound), tanh)
    }
}
