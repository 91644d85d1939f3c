//! Kimi Delta Attention: the decay gate and the recurrence over the matrix state.
#![allow(unsafe_code)]
// Tiles are indexed by constants, so that all of their sums are registers.
#![allow(clippy::needless_range_loop)]

use crate::disjoint::{Disjoint, run_chunks, units_per_task};
use crate::lanes::slices::{load, load_at, store, store_at};
use crate::lanes::{LANES, Lanes, instantiate};
use crate::norm::row_count;
use crate::{Kernels, math};

impl Kernels {
    /// The decay of every state row (Kimi K3 technical report, equation 5; FLA
    /// `naive_kda_lowerbound_gate`): `z <- exp(lower_bound · sigmoid(exp(a_log[h]) · (z + dt_bias)))`.
    ///
    /// `z` is `[T, heads · dim]`, `dt_bias` is `[heads · dim]`. `a_log` holds one value per head and
    /// may hold padding after them.
    #[track_caller]
    pub fn kda_decay(
        &self,
        heads: usize,
        a_log: &[f32],
        dt_bias: &[f32],
        lower_bound: f32,
        z: &mut [f32],
    ) {
        assert!(a_log.len() >= heads, "one a_log per head");
        let dim = row_count(dt_bias.len(), heads);
        let rows = row_count(z.len(), dt_bias.len());
        let per_task = units_per_task(self.pool(), rows * heads, 4 * dim);
        run_chunks(self.pool(), z, per_task * dim, &|i, z| {
            for (unit, z) in (i * per_task..).zip(z.chunks_exact_mut(dim)) {
                let head = unit % heads;
                let dt_bias = &dt_bias[head * dim..][..dim];
                decay_on(self.isa(), a_log[head], dt_bias, lower_bound, z);
            }
        });
    }

    /// The gated delta rule, row after row (FLA `naive_recurrent_kda`). Per head, with the state
    /// `S[d, v]`, d the key's index and v the value's:
    ///
    /// ```text
    /// D[d, v] = alpha[d] · S[d, v]                            decay first
    /// u[v]    = v[v] - sum_d D[d, v] · k[d]                   ascending d, one fma each, from 0
    /// S[d, v] = fma(beta · k[d], u[v], D[d, v])
    /// o[v]    = sum_d S[d, v] · q[d]                          ascending d, one fma each, from 0
    /// ```
    ///
    /// `q` (normalised and scaled), `k` (normalised), `v`, `alpha` and `out` are `[T, heads · dim]`,
    /// `beta` is `[T, heads]`, `state` is `[heads, dim, dim]`.
    #[track_caller]
    #[allow(clippy::too_many_arguments)]
    pub fn kda_recurrence(
        &self,
        heads: usize,
        q: &[f32],
        k: &[f32],
        v: &[f32],
        alpha: &[f32],
        beta: &[f32],
        state: &mut [f32],
        out: &mut [f32],
    ) {
        let rows = row_count(beta.len(), heads);
        let area = row_count(state.len(), heads);
        let dim = area.isqrt();
        assert_eq!(dim * dim, area, "the state of a head is square");
        for x in [q, k, v, alpha, &*out] {
            assert_eq!(x.len(), rows * heads * dim, "q, k, v, alpha and out are [T, heads * dim]");
        }
        let per_task = units_per_task(self.pool(), heads, rows * area / 4);
        let out = Disjoint::new(out);
        run_chunks(self.pool(), state, per_task * area, &|i, states| {
            for (head, state) in (i * per_task..).zip(states.chunks_exact_mut(area)) {
                for unit in (head..rows * heads).step_by(heads) {
                    let place = unit * dim..(unit + 1) * dim;
                    let [q, k, v, alpha] = [q, k, v, alpha].map(|x| &x[place.clone()]);
                    // SAFETY: (row, head) pairs do not overlap; heads are shared out by `run_chunks`.
                    let out = unsafe { out.part(place) };
                    step_on(self.isa(), &Step { q, k, v, alpha, beta: beta[unit] }, state, out);
                }
            }
        });
    }
}

instantiate! {
    fn decay_on(a_log: f32, dt_bias: &[f32], lower_bound: f32, z: &mut [f32]) = decay_lanes;
}

#[inline(always)]
unsafe fn decay_lanes<L: Lanes>(a_log: f32, dt_bias: &[f32], lower_bound: f32, z: &mut [f32]) {
    // SAFETY: the caller proves the instruction set.
    unsafe {
        let rate = math::exp::<L>(L::splat(a_log));
        for (z, bias) in z.chunks_mut(LANES).zip(dt_bias.chunks(LANES)) {
            let gate = math::sigmoid::<L>(L::mul(rate, L::add(load::<L>(z), load::<L>(bias))));
            store::<L>(math::exp::<L>(L::mul(L::splat(lower_bound), gate)), z);
        }
    }
}

/// What one head reads in one row.
struct Step<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    alpha: &'a [f32],
    beta: f32,
}

instantiate! {
    fn step_on(step: &Step<'_>, state: &mut [f32], out: &mut [f32]) = step_lanes;
}

/// Columns of the state are independent: strips of them are read twice and written once while they
/// are in the nearest cache.
#[inline(always)]
unsafe fn step_lanes<L: Lanes>(step: &Step<'_>, state: &mut [f32], out: &mut [f32]) {
    /// Enough chains of multiply-adds to hide their latency, on every instruction set.
    const WIDE: usize = 4;
    let dim = out.len();
    let (whole, wide) = (dim - dim % LANES, dim - dim % (WIDE * LANES));
    // SAFETY: the caller proves the instruction set; the columns are within the rows.
    unsafe {
        for column in (0..wide).step_by(WIDE * LANES) {
            strip::<L, WIDE, true>(step, column, state, out);
        }
        for column in (wide..whole).step_by(LANES) {
            strip::<L, 1, true>(step, column, state, out);
        }
        if whole < dim {
            strip::<L, 1, false>(step, whole, state, out);
        }
    }
}

/// The step on the `N · 16` columns from `column` on, which are there when `WHOLE`.
#[inline(always)]
unsafe fn strip<L: Lanes, const N: usize, const WHOLE: bool>(
    step: &Step<'_>,
    column: usize,
    state: &mut [f32],
    out: &mut [f32],
) {
    let dim = out.len();
    // SAFETY: the caller proves the instruction set and that whole columns are within the rows.
    unsafe {
        let error = prediction_error::<L, N, WHOLE>(step, column, state);
        let mut read = [L::splat(0.0); N];
        for ((row, k), (q, alpha)) in
            state.chunks_exact_mut(dim).zip(step.k).zip(step.q.iter().zip(step.alpha))
        {
            let (write, q, alpha) = (L::splat(step.beta * k), L::splat(*q), L::splat(*alpha));
            for n in 0..N {
                let decayed = L::mul(alpha, load_at::<L, WHOLE>(row, column + n * LANES));
                let written = L::fma(write, error[n], decayed);
                store_at::<L, WHOLE>(written, row, column + n * LANES);
                read[n] = L::fma(written, q, read[n]);
            }
        }
        for n in 0..N {
            store_at::<L, WHOLE>(read[n], out, column + n * LANES);
        }
    }
}

/// `u`: the value less what the decayed state predicts from the key.
#[inline(always)]
unsafe fn prediction_error<L: Lanes, const N: usize, const WHOLE: bool>(
    step: &Step<'_>,
    column: usize,
    state: &[f32],
) -> [L::F; N] {
    // SAFETY: the caller proves the instruction set and that whole columns are within the rows.
    unsafe {
        let mut sums = [L::splat(0.0); N];
        for ((row, k), alpha) in state.chunks_exact(step.v.len()).zip(step.k).zip(step.alpha) {
            let (k, alpha) = (L::splat(*k), L::splat(*alpha));
            for n in 0..N {
                let s = load_at::<L, WHOLE>(row, column + n * LANES);
                sums[n] = L::fma(L::mul(alpha, s), k, sums[n]);
            }
        }
        for n in 0..N {
            sums[n] = L::sub(load_at::<L, WHOLE>(step.v, column + n * LANES), sums[n]);
        }
        sums
    }
}
