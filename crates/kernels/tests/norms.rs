//! Norms and the attention residual against f64.

mod common;

use common::{
    Contents, Random, SIZES, assert_close, same_everywhere, same_on_each_isa, sigmoid, wide,
};
use deltafin_kernels::{Isa, attention_residual, gated_head_norm, l2_normalize, rms_norm};
use proptest::prelude::*;

fn inverse_rms(x: &[f64], eps: f64) -> f64 {
    1.0 / (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64 + eps).sqrt()
}

#[track_caller]
fn check_rms_norm(d: usize, rows: usize, contents: Contents, random: &mut Random) {
    let (x, weight) = (contents.floats(random, d * rows, 3.0), random.vector(d, 1.0));
    let got = same_everywhere(|kernels| {
        let mut out = vec![0.0; x.len()];
        kernels.rms_norm_rows(&x, &weight, 1e-5, &mut out);
        out
    });
    let row_by_row = same_on_each_isa(|isa| {
        let mut out = vec![0.0; x.len()];
        for (x, out) in x.chunks(d).zip(out.chunks_mut(d)) {
            rms_norm(isa, x, &weight, 1e-5, out);
        }
        out
    });
    common::assert_same_bits(&got, &row_by_row, "rows at once and one by one");
    let x = wide(&x);
    let exact = x.chunks(d).flat_map(|x| {
        let r = inverse_rms(x, 1e-5);
        x.iter().zip(&weight).map(|(x, w)| x * r * f64::from(*w)).collect::<Vec<_>>()
    });
    if contents != Contents::Anything {
        assert_close(&got, &exact.collect::<Vec<_>>(), 1e-6);
    }
}

#[test]
fn rms_norm_matches_f64() {
    for d in SIZES {
        let rows = (200_000 / d).min(1000);
        check_rms_norm(d, rows, Contents::Ordinary, &mut Random(d as u64));
    }
}

#[test]
fn eps_rules_where_squares_vanish() {
    // 1e-25 squared is below the smallest float.
    let mut out = [0.0; 20];
    rms_norm(Isa::best(), &[1e-25; 20], &[1.0; 20], 1e-6, &mut out);
    assert_close(&out, &[1e-22; 20], 1e-6);
    let mut x = [1e-25; 20];
    l2_normalize(Isa::best(), &mut x, 1e-6, 0.5);
    assert_close(&x, &[5e-23; 20], 1e-6);
    let mut zeros = [0.0; 3];
    l2_normalize(Isa::best(), &mut zeros, 1e-6, 1.0);
    assert_eq!(zeros, [0.0; 3]);
}

#[track_caller]
fn check_l2_normalize(shape: (usize, usize), rows: usize, contents: Contents, random: &mut Random) {
    let (heads, dim) = shape;
    let x = contents.floats(random, rows * heads * dim, 2.0);
    let got = same_everywhere(|kernels| {
        let mut x = x.clone();
        kernels.l2_normalize_heads(heads, dim, &mut x, 1e-6, 0.25);
        x
    });
    let head_by_head = same_on_each_isa(|isa| {
        let mut x = x.clone();
        x.chunks_mut(dim).for_each(|head| l2_normalize(isa, head, 1e-6, 0.25));
        x
    });
    common::assert_same_bits(&got, &head_by_head, "heads at once and one by one");
    let x = wide(&x);
    let exact = x.chunks(dim).flat_map(|x| {
        let r = 0.25 / (x.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
        x.iter().map(|x| x * r).collect::<Vec<_>>()
    });
    if contents != Contents::Anything {
        assert_close(&got, &exact.collect::<Vec<_>>(), 1e-6);
    }
}

const HEADS: [(usize, usize); 5] = [(1, 1), (3, 7), (4, 16), (2, 100), (5, 128)];

#[test]
fn l2_normalize_matches_f64() {
    for shape in HEADS {
        check_l2_normalize(shape, 300, Contents::Ordinary, &mut Random(shape.1 as u64));
    }
}

#[track_caller]
fn check_gated_norm(shape: (usize, usize), rows: usize, contents: Contents, random: &mut Random) {
    let (heads, dim) = shape;
    let o = contents.floats(random, rows * heads * dim, 2.0);
    let (gate, weight) = (contents.floats(random, o.len(), 6.0), random.vector(dim, 1.0));
    let got = same_everywhere(|kernels| {
        let mut o = o.clone();
        kernels.gated_head_norms(heads, &mut o, &weight, 1e-5, &gate);
        o
    });
    let head_by_head = same_on_each_isa(|isa| {
        let mut o = o.clone();
        for (o, gate) in o.chunks_mut(dim).zip(gate.chunks(dim)) {
            gated_head_norm(isa, o, &weight, 1e-5, gate);
        }
        o
    });
    common::assert_same_bits(&got, &head_by_head, "heads at once and one by one");
    let (o, gate) = (wide(&o), wide(&gate));
    let exact = o.chunks(dim).zip(gate.chunks(dim)).flat_map(|(o, gate)| {
        let r = inverse_rms(o, 1e-5);
        let normed = o.iter().zip(&weight).map(|(o, w)| o * r * f64::from(*w));
        normed.zip(gate).map(|(y, g)| y * sigmoid(*g)).collect::<Vec<_>>()
    });
    if contents != Contents::Anything {
        assert_close(&got, &exact.collect::<Vec<_>>(), 1e-6);
    }
}

#[test]
fn gated_head_norm_matches_f64() {
    for shape in HEADS {
        check_gated_norm(shape, 300, Contents::Ordinary, &mut Random(shape.1 as u64));
    }
}

#[track_caller]
fn check_residual(d: usize, count: usize, contents: Contents, random: &mut Random) {
    let stride = d + 5;
    let blocks = contents.floats(random, count * stride, 3.0);
    let (p, score_weight) = (contents.floats(random, d, 0.5), random.vector(d, 0.7));
    let got = same_on_each_isa(|isa| {
        let mut out = vec![f32::NAN; d];
        attention_residual(isa, &blocks, stride, count, &p, &score_weight, 1e-5, &mut out);
        out
    });
    if contents != Contents::Anything {
        assert_close(&got, &exact_residual(&blocks, stride, &p, &score_weight), 2e-6);
    }
}

#[test]
fn attention_residual_matches_f64() {
    for (d, count) in SIZES.into_iter().flat_map(|d| [0, 1, 3, 8, 20].map(|count| (d, count))) {
        let mut random = Random((d * 100 + count) as u64);
        check_residual(d, count, Contents::Ordinary, &mut random);
    }
}

fn exact_residual(blocks: &[f32], stride: usize, p: &[f32], score_weight: &[f32]) -> Vec<f64> {
    let d = p.len();
    let mut vectors: Vec<Vec<f64>> = blocks.chunks(stride).map(|b| wide(&b[..d])).collect();
    vectors.push(wide(p));
    let score = |v: &Vec<f64>| {
        let r = inverse_rms(v, 1e-5);
        v.iter().zip(score_weight).map(|(v, w)| v * r * f64::from(*w)).sum::<f64>().exp()
    };
    let weights: Vec<f64> = vectors.iter().map(score).collect();
    let sum: f64 = weights.iter().sum();
    let mixed = |i: usize| vectors.iter().zip(&weights).map(|(v, w)| v[i] * w).sum::<f64>() / sum;
    (0..d).map(mixed).collect()
}

proptest! {
    #![proptest_config(common::cases(64))]

    #[test]
    fn any_rms_norm(
        d in 1usize..300,
        rows in 0usize..40,
        contents in Contents::any(),
        seed in any::<u64>(),
    ) {
        check_rms_norm(d, rows, contents, &mut Random(seed));
    }

    #[test]
    fn any_norm_of_heads(
        shape in (1usize..6, 1usize..140),
        rows in 0usize..20,
        contents in Contents::any(),
        seed in any::<u64>(),
    ) {
        check_l2_normalize(shape, rows, contents, &mut Random(seed));
        check_gated_norm(shape, rows, contents, &mut Random(seed));
    }

    #[test]
    fn any_attention_residual(
        d in 1usize..300,
        count in 0usize..20,
        contents in Contents::any(),
        seed in any::<u64>(),
    ) {
        check_residual(d, count, contents, &mut Random(seed));
    }
}
