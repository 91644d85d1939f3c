//! Latent attention against f64, and split every way, also across the borders of blocks.

mod common;

use common::{
    Contents, Random, all_kernels, assert_close, assert_same_bits, same_everywhere, wide,
};
use deltafin_kernels::{Kernels, LatentDims, POSITIONS_PER_BLOCK};
use proptest::prelude::*;

/// A text of `rows` positions: all queries and the whole cache.
struct Text {
    dims: LatentDims,
    rows: usize,
    /// `[T, heads, nope + rope]`
    q: Vec<f32>,
    /// `[T, heads, latent]`, unlike the kernel's operand, so that rows can be cut out.
    q_latent: Vec<f32>,
    c: Vec<f32>,
    k_pe: Vec<f32>,
}

const SCALE: f32 = 0.31;

impl Text {
    fn seeded(dims: LatentDims, rows: usize) -> Text {
        let mut random = Random((rows * dims.heads * dims.latent) as u64);
        Text::new(dims, rows, Contents::Ordinary, &mut random)
    }

    fn new(dims: LatentDims, rows: usize, contents: Contents, random: &mut Random) -> Text {
        Text {
            rows,
            q: contents.floats(random, rows * dims.heads * (dims.nope + dims.rope), 1.5),
            q_latent: contents.floats(random, rows * dims.heads * dims.latent, 1.5),
            c: contents.floats(random, rows * dims.latent, 1.0),
            k_pe: contents.floats(random, rows * dims.rope, 1.0),
            dims,
        }
    }

    /// The result of rows `from..to` in one call, as `[T, heads, latent]`.
    fn call(&self, kernels: &Kernels, from: usize, to: usize) -> Vec<f32> {
        let LatentDims { heads, nope, rope, latent, .. } = self.dims;
        let rows = to - from;
        let q = &self.q[from * heads * (nope + rope)..to * heads * (nope + rope)];
        let q_latent = swapped(&self.q_latent[from * heads * latent..], rows, heads, latent);
        let mut out = vec![f32::NAN; rows * heads * latent];
        // The cache may be longer than the text so far.
        let (c, k_pe) = (&self.c, &self.k_pe);
        kernels.latent_attention(&self.dims, q, &q_latent, c, k_pe, from, SCALE, &mut out);
        swapped(&out, heads, rows, latent)
    }

    /// All rows, in calls that end at `ends`.
    fn in_calls(&self, kernels: &Kernels, ends: &[usize]) -> Vec<f32> {
        let starts = std::iter::once(&0).chain(ends);
        starts.zip(ends).flat_map(|(from, to)| self.call(kernels, *from, *to)).collect()
    }

    fn exact(&self) -> Vec<f64> {
        let LatentDims { heads, nope, rope, latent, .. } = self.dims;
        let (q, q_latent) = (wide(&self.q), wide(&self.q_latent));
        let (c, k_pe) = (wide(&self.c), wide(&self.k_pe));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut out = vec![0.0; self.rows * heads * latent];
        for unit in 0..self.rows * heads {
            let q_latent = &q_latent[unit * latent..][..latent];
            let q_pe = &q[unit * (nope + rope) + nope..][..rope];
            let scores: Vec<f64> = (0..=unit / heads)
                .map(|s| {
                    let latent = dot(q_latent, &c[s * latent..][..latent]);
                    (latent + dot(q_pe, &k_pe[s * rope..][..rope])) * f64::from(SCALE)
                })
                .collect();
            let sum: f64 = scores.iter().map(|s| s.exp()).sum();
            for (s, score) in scores.iter().enumerate() {
                for i in 0..latent {
                    out[unit * latent + i] += score.exp() / sum * c[s * latent + i];
                }
            }
        }
        out
    }
}

/// `[a, b, c]` as `[b, a, c]`.
fn swapped(x: &[f32], a: usize, b: usize, c: usize) -> Vec<f32> {
    let at = |j: usize, i: usize| &x[(i * b + j) * c..][..c];
    (0..b).flat_map(|j| (0..a).flat_map(move |i| at(j, i))).copied().collect()
}

fn check(dims: LatentDims, rows: usize, splits: &[&[usize]]) {
    let text = Text::seeded(dims, rows);
    let got = same_everywhere(|kernels| text.call(kernels, 0, rows));
    assert_close(&got, &text.exact(), 3e-6);
    for ends in splits {
        for kernels in all_kernels() {
            assert_same_bits(&text.in_calls(&kernels, ends), &got, "in several calls");
        }
    }
}

#[test]
fn odd_sizes_match_f64() {
    for (heads, nope, rope, latent) in [(1, 1, 0, 1), (2, 3, 5, 7), (3, 4, 16, 16), (7, 8, 9, 33)] {
        let dims = LatentDims { heads, nope, rope, v: 1, latent };
        for rows in [1, 2, 5, 66] {
            let one_by_one: Vec<usize> = (1..=rows).collect();
            check(dims, rows, &[&one_by_one]);
        }
    }
}

#[test]
fn splits_across_block_borders_change_nothing() {
    let dims = LatentDims { heads: 6, nope: 32, rope: 16, v: 32, latent: 80 };
    let b = POSITIONS_PER_BLOCK;
    let rows = 2 * b + 9;
    let one_by_one: Vec<usize> = (1..=rows).collect();
    check(
        dims,
        rows,
        &[
            &one_by_one,
            &[b - 1, b, b + 1, rows],
            &[3, b + 3, 2 * b + 3, rows],
            &[b, 2 * b, rows],
            &[2 * b + 8, rows],
        ],
    );
}

#[test]
fn released_shape_over_several_blocks() {
    let dims = LatentDims { heads: 12, nope: 128, rope: 64, v: 128, latent: 512 };
    let text = Text::seeded(dims, 150);
    let got = same_everywhere(|kernels| text.call(kernels, 147, 150));
    assert_close(&got, &text.exact()[147 * 12 * 512..], 3e-6);
}

#[test]
fn large_scores_neither_overflow_nor_vanish() {
    let dims = LatentDims { heads: 1, nope: 0, rope: 0, v: 1, latent: 16 };
    // Scores climb by 200 and fall again: whole blocks weigh nothing.
    let rows = 3 * POSITIONS_PER_BLOCK;
    let peak = rows / 2;
    let mut c = vec![0.0; rows * 16];
    for (s, row) in c.chunks_mut(16).enumerate() {
        row[0] = -200.0 * s.abs_diff(peak) as f32;
        row[1] = s as f32;
    }
    let mut q = vec![0.0; 16];
    q[0] = 1.0;
    let got = same_everywhere(|kernels| {
        let mut out = vec![0.0; 16];
        kernels.latent_attention(&dims, &[], &q, &c, &[], rows - 1, 1.0, &mut out);
        out
    });
    assert_eq!(got[..3], [0.0, peak as f32, 0.0]);
}

#[test]
fn nan_in_the_cache_shows() {
    let dims = LatentDims { heads: 4, nope: 0, rope: 0, v: 1, latent: 16 };
    let mut c = vec![1.0; 70 * 16];
    c[66 * 16 + 3] = f32::NAN;
    let got = same_everywhere(|kernels| {
        let mut out = vec![0.0; 64];
        kernels.latent_attention(&dims, &[], &[1.0; 64], &c, &[], 69, 1.0, &mut out);
        out
    });
    assert!(got.iter().all(|x| x.is_nan()));
}

#[test]
#[should_panic(expected = "the cache ends before the last row")]
fn a_short_cache_is_refused() {
    let dims = LatentDims { heads: 1, nope: 0, rope: 0, v: 1, latent: 2 };
    let mut out = [0.0; 2];
    Kernels::reference().latent_attention(&dims, &[], &[0.0; 2], &[0.0; 4], &[], 2, 1.0, &mut out);
}

proptest! {
    #![proptest_config(common::cases(48))]

    #[test]
    fn any_text(
        shape in (1usize..6, 0usize..4, 0usize..20, 1usize..70),
        rows in 1usize..140,
        cut in 0.0..1.0,
        contents in Contents::any(),
        seed in any::<u64>(),
    ) {
        let (heads, nope, rope, latent) = shape;
        let dims = LatentDims { heads, nope, rope, v: 1, latent };
        let text = Text::new(dims, rows, contents, &mut Random(seed));
        let got = same_everywhere(|kernels| text.call(kernels, 0, rows));
        let cut = (rows as f64 * cut) as usize;
        let split = text.in_calls(&Kernels::reference(), &[cut, rows]);
        assert_same_bits(&split, &got, "in two calls");
        if contents != Contents::Anything {
            assert_close(&got, &text.exact(), 3e-6);
        }
    }
}
