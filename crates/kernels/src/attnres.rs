//! Block attention residuals: the input of a sublayer is a softmax mix of earlier block sums.
#![allow(unsafe_code)]

use crate::lanes::slices::{dot, load, store};
use crate::lanes::{LANES, Lanes, instantiate};
use crate::norm::inverse_rms;
use crate::{Isa, math};

/// Vectors that can be mixed: K3 has eight stored blocks and the running sum.
const MOST_VECTORS: usize = 64;

/// Mixes `count` stored block sums and the running sum `p` of one token (Kimi K3 technical report,
/// attention residuals):
///
/// ```text
/// V_j = blocks[j · stride ..][.. d] for j < count, then p          d = p.len()
/// s_j = (V_j · score_weight) · (1 / sqrt(mean(V_j²) + eps))
/// out = sum_j softmax(s)_j · V_j                                    raw V_j, ascending j
/// ```
///
/// `score_weight` is the norm's weight times the projection's, elementwise. `count` is at most 63.
#[track_caller]
#[allow(clippy::too_many_arguments)]
pub fn attention_residual(
    isa: Isa,
    blocks: &[f32],
    stride: usize,
    count: usize,
    p: &[f32],
    score_weight: &[f32],
    eps: f32,
    out: &mut [f32],
) {
    let d = p.len();
    assert_eq!(d, score_weight.len(), "one score weight per element");
    assert_eq!(d, out.len(), "one output per element");
    assert!(stride >= d || count <= 1, "blocks overlap");
    assert!(count == 0 || blocks.len() >= (count - 1) * stride + d, "fewer blocks than counted");
    assert!(count < MOST_VECTORS, "too many blocks");
    let mut vectors = [p; MOST_VECTORS];
    for (j, vector) in vectors[..count].iter_mut().enumerate() {
        *vector = &blocks[j * stride..][..d];
    }
    mix_on(isa, &vectors[..=count], score_weight, eps, out);
}

instantiate! {
    fn mix_on(vectors: &[&[f32]], score_weight: &[f32], eps: f32, out: &mut [f32]) = mix_lanes;
}

#[inline(always)]
unsafe fn mix_lanes<L: Lanes>(vectors: &[&[f32]], score_weight: &[f32], eps: f32, out: &mut [f32]) {
    // SAFETY: the caller proves the instruction set.
    unsafe {
        let mut weights = [0.0; MOST_VECTORS];
        let weights = &mut weights[..vectors.len()];
        for (weight, v) in weights.iter_mut().zip(vectors) {
            let score = L::fold(dot::<L>(v, score_weight, L::splat(0.0)));
            *weight = score * inverse_rms::<L>(v, eps);
        }
        softmax::<L>(weights);
        for (i, out) in out.chunks_mut(LANES).enumerate() {
            let mut sum = L::splat(0.0);
            for (weight, v) in weights.iter().zip(vectors) {
                let part = load::<L>(&v[i * LANES..]);
                sum = L::fma(L::splat(*weight), part, sum);
            }
            store::<L>(sum, out);
        }
    }
}

/// Softmax of a few scores: the exponentials are added one by one in ascending order.
#[inline(always)]
unsafe fn softmax<L: Lanes>(scores: &mut [f32]) {
    let largest = scores.iter().fold(f32::NEG_INFINITY, |m, s| if *s > m { *s } else { m });
    for part in scores.chunks_mut(LANES) {
        // SAFETY: the caller proves the instruction set.
        unsafe { store::<L>(math::exp::<L>(L::sub(load::<L>(part), L::splat(largest))), part) }
    }
    let sum = scores.iter().fold(0.0, |sum, e| sum + e);
    for s in scores {
        *s /= sum;
    }
}
