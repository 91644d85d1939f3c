//! Operands so small that products are subnormal or vanish, and so large that sums overflow: the
//! results may be useless, but they are the same everywhere.

mod common;

use common::{Random, same_everywhere};
use deltafin_kernels::{Isa, LatentDims};

const SIZES: [f32; 6] = [1e-44, 1e-38, 1e-20, 1e15, 1e30, 3e38];

#[test]
fn norms_and_activations() {
    for size in SIZES {
        let mut random = Random(1);
        let (x, y, weight) = (random.vector(300, size), random.vector(300, size), [0.7; 50]);
        same_everywhere(|kernels| {
            let mut results = vec![x.clone(); 4];
            kernels.rms_norm_rows(&x, &weight, 1e-5, &mut results[0]);
            kernels.l2_normalize_heads(2, 50, &mut results[1], 1e-6, 0.1);
            kernels.gated_head_norms(2, &mut results[2], &weight, 1e-5, &y);
            kernels.situ_all(&mut results[3], &y, 4.0, 25.0);
            results.concat()
        });
    }
}

#[test]
fn kda() {
    let (heads, dim, rows) = (3, 20, 4);
    for size in SIZES {
        let mut random = Random(2);
        let len = rows * heads * dim;
        let [q, k, v, alpha] = [size, 1.0, size, 1.0].map(|size| random.vector(len, size));
        let (beta, start) =
            (random.fractions(rows * heads), random.vector(heads * dim * dim, size));
        let (weight, past) = (random.vector(heads * dim * 4, 1.0), random.vector(180, size));
        same_everywhere(|kernels| {
            let (mut state, mut out) = (start.clone(), vec![0.0; len]);
            kernels.kda_recurrence(heads, &q, &k, &v, &alpha, &beta, &mut state, &mut out);
            let (mut history, mut x) = (past.clone(), v.clone());
            kernels.short_conv(&weight, 4, &mut history, &mut x);
            let mut z = v.clone();
            kernels.kda_decay(heads, &[3.0; 3], &q[..heads * dim], -5.0, &mut z);
            [state, out, history, x, z].concat()
        });
    }
}

#[test]
fn attention() {
    let dims = LatentDims { heads: 3, nope: 1, rope: 3, v: 1, latent: 20 };
    for size in SIZES {
        let mut random = Random(3);
        let (q, q_latent) = (random.vector(2 * 3 * 4, 1.0), random.vector(3 * 2 * 20, 1.0));
        let (c, k_pe) = (random.vector(130 * 20, size), random.vector(130 * 3, size));
        same_everywhere(|kernels| {
            let mut out = vec![0.0; q_latent.len()];
            kernels.latent_attention(&dims, &q, &q_latent, &c, &k_pe, 128, 1.0, &mut out);
            out
        });
    }
}

#[test]
fn a_norm_whose_squares_overflow_is_nan_and_not_zero() {
    for isa in Isa::available() {
        let x = [3e19f32; 40];
        let mut out = [0.0; 40];
        deltafin_kernels::rms_norm(isa, &x, &[1.0; 40], 1e-5, &mut out);
        assert!(out.iter().all(|v| v.is_nan()), "{isa:?}");
        let mut x = x;
        deltafin_kernels::l2_normalize(isa, &mut x, 1e-6, 1.0);
        assert!(x.iter().all(|v| v.is_nan()), "{isa:?}");
    }
}
