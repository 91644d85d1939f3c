//! The products of absorbed latent attention: their order, written out in floats, and a twin in f64.

use super::twin::{Contents, Exact, cases, exact};
use super::{KINDS, Kind, Random, Stored, assert_same_bits, every_way, product};
use crate::{Isa, Kernels, LatentDims, Scratch, Serial};
use proptest::prelude::*;
use std::sync::Arc;

/// Weights of one shape and the operands of both products.
struct Inputs {
    dims: LatentDims,
    positions: usize,
    stored: Stored,
    /// `[T, heads, nope + rope]`
    q: Vec<f32>,
    /// `[heads][T][latent]`
    ctx: Vec<f32>,
}

impl Inputs {
    fn random(
        kind: Kind,
        mut dims: LatentDims,
        positions: usize,
        contents: Contents,
        random: &mut Random,
    ) -> Inputs {
        let stored = contents.weights((kind, dims.kv_b_rows(), dims.latent), random);
        dims.latent = stored.cols;
        let q = contents.floats(positions * dims.heads * dims.query(), random);
        let ctx = contents.floats(dims.heads * positions * dims.latent, random);
        Inputs { dims, positions, stored, q, ctx }
    }

    fn heads_and_positions(&self) -> impl Iterator<Item = (usize, usize)> {
        let positions = self.positions;
        (0..self.dims.heads).flat_map(move |h| (0..positions).map(move |t| (h, t)))
    }

    /// What head `h` asks at position `t`.
    fn query(&self, h: usize, t: usize) -> &[f32] {
        &self.q[(t * self.dims.heads + h) * self.dims.query()..][..self.dims.nope]
    }

    /// The definition of `absorb_keys`, written out.
    fn absorbed(&self) -> Vec<f32> {
        let mut out = Vec::new();
        for (h, t) in self.heads_and_positions() {
            for c in 0..self.dims.latent {
                out.push(self.query(h, t).iter().enumerate().fold(0f32, |sum, (r, q)| {
                    let (weight, scale) = self.stored.weight(self.dims.key_row(h) + r, c);
                    (weight as f32).mul_add(q * scale as f32, sum)
                }));
            }
        }
        out
    }

    /// `absorb_keys` in f64. A query times its row scale is rounded once before the sum.
    fn absorbed_exactly(&self) -> impl Iterator<Item = Exact> {
        self.heads_and_positions().flat_map(move |(h, t)| {
            (0..self.dims.latent).map(move |c| {
                let weight = |r: usize| self.stored.weight(self.dims.key_row(h) + r, c);
                let term = |(r, q): (usize, &f32)| (weight(r).0, f64::from(*q) * weight(r).1);
                let terms = self.query(h, t).iter().enumerate().map(term);
                // A scaled query beyond the floats is infinite, even where its weight is zero.
                let in_range = terms.clone().all(|(_, q)| q.abs() < f64::from(f32::MAX) / 2.0);
                let size: f64 = (0..self.dims.nope).map(|r| weight(r).0.abs()).sum();
                let exact = Exact::sum(terms, 1.0, self.dims.nope + 3);
                exact.wider_by(size * 2f64.powi(-150)).only_if(in_range)
            })
        })
    }

    /// `expand_values` as one product per head.
    fn expanded(&self) -> Vec<f32> {
        let LatentDims { heads, v, latent, .. } = self.dims;
        let mut out = vec![0.0; self.positions * heads * v];
        for (h, t) in self.heads_and_positions() {
            let first = self.dims.value_row(h);
            let w = self.stored.matrix().row_range(first..first + v);
            let ctx = &self.ctx[(h * self.positions + t) * latent..][..latent];
            let y = product(&Kernels::new(Isa::SCALAR, Arc::new(Serial)), w, ctx, 1);
            out[(t * heads + h) * v..][..v].copy_from_slice(&y);
        }
        out
    }

    /// `expand_values` in f64.
    fn expanded_exactly(&self) -> impl Iterator<Item = Exact> {
        let LatentDims { heads, v, latent, .. } = self.dims;
        (0..self.positions * heads * v).map(move |i| {
            let (t, h, r) = (i / (heads * v), i / v % heads, i % v);
            let ctx = &self.ctx[(h * self.positions + t) * latent..][..latent];
            exact(&self.stored, self.dims.value_row(h) + r, ctx)
        })
    }

    #[track_caller]
    fn check(&self) {
        let kind = self.stored.kind;
        let (absorbed, expanded) = (self.absorbed(), self.expanded());
        let near = |got: &[f32], exact: &mut dyn Iterator<Item = Exact>, what| {
            for (i, got) in got.iter().enumerate() {
                let exact = exact.next().expect("the twin is as long");
                exact.assert_near(*got, &(what, kind, self.dims, i));
            }
        };
        near(&absorbed, &mut self.absorbed_exactly(), "absorb");
        near(&expanded, &mut self.expanded_exactly(), "expand");
        for (name, kernels) in every_way() {
            let w = self.stored.matrix();
            let mut out = vec![f32::NAN; absorbed.len()];
            kernels.absorb_keys(w, &self.dims, &self.q, &mut out);
            assert_same_bits(&out, &absorbed, &("absorb", kind, &name));
            let mut out = vec![f32::NAN; expanded.len()];
            kernels.expand_values(&mut Scratch::default(), w, &self.dims, &self.ctx, &mut out);
            assert_same_bits(&out, &expanded, &("expand", kind, &name));
        }
    }
}

#[test]
fn both_keep_their_order_and_are_close_to_the_twin() {
    let mut random = Random(6);
    for (kind, latent) in KINDS.into_iter().flat_map(|k| [(k, 64), (k, 50)]) {
        let dims = LatentDims { heads: 3, nope: 7, rope: 2, v: 5, latent };
        for positions in [0, 1, 2, 9] {
            let contents = Contents::Ordinary;
            Inputs::random(kind, dims, positions, contents, &mut random).check();
        }
    }
}

#[test]
fn every_scale_in_both() {
    // As many rows as there are bytes, or halves whose upper byte is every byte.
    let dims = LatentDims { heads: 4, nope: 40, rope: 1, v: 24, latent: 32 };
    let mut random = Random(8);
    for kind in [Kind::Int8, Kind::Mxfp4] {
        for positions in [1, 5] {
            let mut inputs = Inputs::random(kind, dims, positions, Contents::Ordinary, &mut random);
            let scales = &mut inputs.stored.scales[1..];
            let upper = scales.len() / dims.kv_b_rows();
            for (s, scale) in scales.chunks_mut(upper).enumerate() {
                scale[upper - 1] = s as u8;
            }
            inputs.check();
        }
    }
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn any_shape_and_contents_in_both(
        kind in proptest::sample::select(KINDS.to_vec()),
        heads in 1usize..5,
        nope in 0usize..20,
        rope in 1usize..3,
        v in 1usize..20,
        latent in 1usize..140,
        positions in 0usize..10,
        contents in Contents::any(),
        seed in any::<u64>(),
    ) {
        let dims = LatentDims { heads, nope, rope, v, latent };
        Inputs::random(kind, dims, positions, contents, &mut Random(seed)).check();
    }
}
