//! One block of positions for a few (head, row) pairs at a time.
//!
//! Sharing each loaded cache row among `R` pairs, and each query among `P` positions, is what keeps
//! the multipliers busy; it changes which sums are computed together and no sum's order.
#![allow(unsafe_code)]
// Tiles are indexed by constants, so that all of their sums are registers.
#![allow(clippy::needless_range_loop)]

use super::{Attention, POSITIONS_PER_BLOCK};
use crate::lanes::slices::{load, load_at, store, store_at, to_array};
use crate::lanes::{LANES, Lanes};
use crate::math;
use std::array::from_fn;
use std::ops::Range;

/// The softmax of one pair so far.
#[derive(Clone, Copy)]
pub(super) struct Running {
    pub(super) max: f32,
    pub(super) sum: f32,
}

impl Running {
    pub(super) const START: Running = Running { max: f32::NEG_INFINITY, sum: 0.0 };
}

/// Scores, then their exponentials, of one pair on one block.
type Weights = [f32; POSITIONS_PER_BLOCK];

/// Adds the block at `base` to the `R` pairs from `pair` on, whose running sums are `out`.
///
/// # Safety
///
/// The CPU has the instruction set of `L`.
#[inline(always)]
pub(super) unsafe fn attend_block<L: Lanes, const R: usize, const P: usize>(
    attention: &Attention<'_>,
    base: usize,
    pair: usize,
    running: &mut [Running],
    out: &mut [f32],
) {
    let counts: [usize; R] =
        from_fn(|r| attention.visible(pair + r).saturating_sub(base).min(POSITIONS_PER_BLOCK));
    let (mut fewest, mut most) = (POSITIONS_PER_BLOCK, 0);
    for count in counts {
        (fewest, most) = (fewest.min(count), most.max(count));
    }
    // SAFETY: the caller proves the instruction set.
    unsafe {
        let mut weights = [[f32::NEG_INFINITY; POSITIONS_PER_BLOCK]; R];
        score_block::<L, R, P>(attention, base, pair, most, &mut weights);
        for r in 0..R {
            if counts[r] > 0 {
                weights[r][counts[r]..].fill(f32::NEG_INFINITY);
                let out = &mut out[r * attention.dims.latent..][..attention.dims.latent];
                soften::<L>(&mut weights[r], &mut running[r], out);
            }
        }
        accumulate::<L, R, P>(attention, base, 0..fewest, &weights, out);
        for r in 0..R {
            let out = &mut out[r * attention.dims.latent..][..attention.dims.latent];
            let own = fewest..counts[r];
            accumulate::<L, 1, P>(attention, base, own, &[weights[r]], out);
        }
    }
}

/// The scores of the block's first `count` positions.
#[inline(always)]
unsafe fn score_block<L: Lanes, const R: usize, const P: usize>(
    attention: &Attention<'_>,
    base: usize,
    pair: usize,
    count: usize,
    scores: &mut [Weights; R],
) {
    let in_tiles = count - count % P;
    // SAFETY: the caller proves the instruction set.
    unsafe {
        for i in (0..in_tiles).step_by(P) {
            score_tile::<L, R, P>(attention, base, pair, i, scores);
        }
        for i in in_tiles..count {
            score_tile::<L, R, 1>(attention, base, pair, i, scores);
        }
    }
}

/// The scores of `P` positions from the block's `i`-th on.
#[inline(always)]
unsafe fn score_tile<L: Lanes, const R: usize, const P: usize>(
    attention: &Attention<'_>,
    base: usize,
    pair: usize,
    i: usize,
    scores: &mut [Weights; R],
) {
    // SAFETY: the caller proves the instruction set.
    unsafe {
        let mut sums = [[L::splat(0.0); P]; R];
        let queries = from_fn(|r| attention.latent_query(pair + r));
        let keys = from_fn(|p| attention.latent_key(base + i + p));
        dots::<L, R, P>(&queries, &keys, &mut sums);
        let queries = from_fn(|r| attention.rope_query(pair + r));
        let keys = from_fn(|p| attention.rope_key(base + i + p));
        dots::<L, R, P>(&queries, &keys, &mut sums);
        for (scores, sums) in scores.iter_mut().zip(sums) {
            for (score, sum) in scores[i..].iter_mut().zip(sums) {
                *score = L::fold(sum) * attention.scale;
            }
        }
    }
}

/// `sums[r][p] += queries[r] · keys[p]`, lane by lane in ascending order.
#[inline(always)]
unsafe fn dots<L: Lanes, const R: usize, const P: usize>(
    queries: &[&[f32]; R],
    keys: &[&[f32]; P],
    sums: &mut [[L::F; P]; R],
) {
    let len = queries[0].len();
    assert!(
        queries.iter().chain(keys).all(|x| x.len() == len),
        "queries and keys differ in length"
    );
    let whole = len - len % LANES;
    // SAFETY: sixteen elements from `i` on are inside all slices; the instruction set is the caller's.
    unsafe {
        for i in (0..whole).step_by(LANES) {
            let mut k = [L::splat(0.0); P];
            for p in 0..P {
                k[p] = L::load(keys[p].as_ptr().add(i));
            }
            for r in 0..R {
                let q = L::load(queries[r].as_ptr().add(i));
                for p in 0..P {
                    sums[r][p] = L::fma(q, k[p], sums[r][p]);
                }
            }
        }
        if whole < len {
            for r in 0..R {
                for p in 0..P {
                    let (q, k) = (load::<L>(&queries[r][whole..]), load::<L>(&keys[p][whole..]));
                    sums[r][p] = L::fma(q, k, sums[r][p]);
                }
            }
        }
    }
}

/// The first unless the second is greater, as the lanes have it.
fn f32_max(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

/// Turns the scores of one pair into exponentials, and brings `running` and `out` to their maximum.
#[inline(always)]
unsafe fn soften<L: Lanes>(weights: &mut Weights, running: &mut Running, out: &mut [f32]) {
    // SAFETY: the caller proves the instruction set.
    unsafe {
        let mut max = L::splat(running.max);
        for part in weights.chunks_exact(LANES) {
            max = L::max(load::<L>(part), max);
        }
        let max = to_array::<L>(max).into_iter().fold(running.max, f32_max);
        let factor = to_array::<L>(math::exp::<L>(L::splat(running.max - max)))[0];
        let mut sum = L::splat(0.0);
        for part in weights.chunks_exact_mut(LANES) {
            let p = math::exp::<L>(L::sub(load::<L>(part), L::splat(max)));
            store::<L>(p, part);
            sum = L::add(sum, p);
        }
        *running = Running { max, sum: running.sum.mul_add(factor, L::fold(sum)) };
        if factor != 1.0 {
            rescale::<L>(out, factor);
        }
    }
}

/// `x *= by`.
///
/// # Safety
///
/// The CPU has the instruction set of `L`.
#[inline(always)]
pub(super) unsafe fn rescale<L: Lanes>(x: &mut [f32], by: f32) {
    for x in x.chunks_mut(LANES) {
        // SAFETY: the caller proves the instruction set.
        unsafe { store::<L>(L::mul(load::<L>(x), L::splat(by)), x) }
    }
}

/// `out[r] = fma(weights[r][i], c_i, out[r])` for the block's positions `i` in ascending order.
#[inline(always)]
unsafe fn accumulate<L: Lanes, const R: usize, const N: usize>(
    attention: &Attention<'_>,
    base: usize,
    positions: Range<usize>,
    weights: &[Weights; R],
    out: &mut [f32],
) {
    let latent = attention.dims.latent;
    if positions.is_empty() {
        return;
    }
    let rows = &attention.c[(base + positions.start) * latent..(base + positions.end) * latent];
    let weights = weights.each_ref().map(|w| &w[positions.clone()]);
    let whole = latent - latent % LANES;
    let in_tiles = latent - latent % (N * LANES);
    // SAFETY: the caller proves the instruction set; the columns are within the rows.
    unsafe {
        for column in (0..in_tiles).step_by(N * LANES) {
            accumulate_columns::<L, R, N, true>(rows, latent, column, &weights, out);
        }
        for column in (in_tiles..whole).step_by(LANES) {
            accumulate_columns::<L, R, 1, true>(rows, latent, column, &weights, out);
        }
        if whole < latent {
            accumulate_columns::<L, R, 1, false>(rows, latent, whole, &weights, out);
        }
    }
}

/// [`accumulate`] on the `N · 16` columns from `column` on, which are there when `WHOLE`.
#[inline(always)]
unsafe fn accumulate_columns<L: Lanes, const R: usize, const N: usize, const WHOLE: bool>(
    rows: &[f32],
    latent: usize,
    column: usize,
    weights: &[&[f32]; R],
    out: &mut [f32],
) {
    // SAFETY: the caller proves the instruction set and that whole columns are within the rows.
    unsafe {
        let mut sums = [[L::splat(0.0); N]; R];
        for r in 0..R {
            for n in 0..N {
                let out = &out[r * latent..(r + 1) * latent];
                sums[r][n] = load_at::<L, WHOLE>(out, column + n * LANES);
            }
        }
        for (i, row) in rows.chunks_exact(latent).enumerate() {
            let mut c = [L::splat(0.0); N];
            for n in 0..N {
                c[n] = load_at::<L, WHOLE>(row, column + n * LANES);
            }
            for r in 0..R {
                let weight = L::splat(*weights[r].get_unchecked(i));
                for n in 0..N {
                    sums[r][n] = L::fma(weight, c[n], sums[r][n]);
                }
            }
        }
        for r in 0..R {
            for n in 0..N {
                let out = &mut out[r * latent..(r + 1) * latent];
                store_at::<L, WHOLE>(sums[r][n], out, column + n * LANES);
            }
        }
    }
}
