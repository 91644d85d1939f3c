//! A guess at the next layer's routes, made while this layer's experts are on their way.
//!
//! The next layer's router is applied to the hidden state as it is now, without this layer's
//! feed-forward and the next one's attention. Only bytes move earlier by it: no value depends on it.

use crate::forward::row_blocks;
use crate::router::{RouterBuffers, choose};
use crate::weights::{Ffn, FfnView, Lease, Moe};
use crate::workspace::{Workspace, sized};
use crate::{Forward, Weights};
use deltafin_kernels::{Product, attention_residual, multiply, sigmoid};
use deltafin_spec::{ExpertId, LayerId};
use std::ops::Range;

/// Up to so many rows, each row's best choices are guessed.
const FEW_ROWS: usize = 8;

/// How many of a row's experts are guessed. The first ones are right far more often than the rest.
const BEST: usize = 6;

/// With more rows, an expert is guessed that so many rows would choose: that none of them does in the
/// end is then unlikely.
const VOTES: u32 = 4;

/// Intermediates; nothing of a pass's own buffers is touched.
#[derive(Default)]
pub(crate) struct PredictBuffers {
    /// `[hidden]`: a norm's weights, and a mix's folded score weights.
    norm: Vec<f32>,
    score: Vec<f32>,
    /// `[rows of a block, hidden]`: the mix, and the same normed.
    mixed: Vec<f32>,
    normed: Vec<f32>,
    /// `[rows of a block, experts]`.
    scores: Vec<f32>,
    correction: Vec<f32>,
    router: RouterBuffers,
    experts: Vec<u32>,
    weights: Vec<f32>,
    /// `[experts]`: rows that would choose the expert.
    votes: Vec<u32>,
    guesses: Vec<ExpertId>,
}

impl<W: Weights> Forward<'_, W> {
    /// Tells the weights which experts the layer after `layer` is likely to need.
    pub(crate) fn predict(&self, layer: LayerId, rows: usize, ws: &mut Workspace) {
        let next = LayerId::new(layer.number() + 1);
        if next.index() >= self.spec.layers.len() {
            return;
        }
        let Some(half) = self.weights.peek(next) else { return };
        let view = half.view();
        let Ffn::Moe(moe) = &view.ffn else { return };
        let b = &mut ws.predict;
        b.guesses.clear();
        b.votes.clear();
        b.votes.resize(self.spec.moe.experts, 0);
        for block in row_blocks(rows) {
            self.next_input(&view, block.clone(), rows, ws);
            self.choices(moe, block.len(), rows <= FEW_ROWS, ws);
        }
        if rows > FEW_ROWS {
            let PredictBuffers { votes, guesses, .. } = &mut ws.predict;
            let ids = self.spec.moe.expert_ids();
            guesses.extend(ids.filter(|id| votes[id.index()] >= VOTES));
        }
        self.weights.expect(next, &ws.predict.guesses);
    }

    /// The next layer's feed-forward input for a block of rows, as far as it is known.
    fn next_input(&self, view: &FfnView<'_>, block: Range<usize>, rows: usize, ws: &mut Workspace) {
        let (hidden, isa, eps) = (self.spec.hidden, self.kernels.isa(), self.spec.rms_eps);
        let b = &mut ws.predict;
        let norm = sized(&mut b.norm, hidden);
        view.mix.norm.read(norm);
        let score = sized(&mut b.score, hidden);
        view.mix.proj.read(score);
        multiply(isa, score, norm);
        view.norm.read(norm);
        let mixed = sized(&mut b.mixed, block.len() * hidden);
        for (row, out) in block.clone().zip(mixed.chunks_exact_mut(hidden)) {
            let p = &ws.sum[row * hidden..(row + 1) * hidden];
            if ws.block_count == 0 {
                out.copy_from_slice(p);
                continue;
            }
            let (blocks, stride) = (&ws.blocks[row * hidden..], rows * hidden);
            attention_residual(isa, blocks, stride, ws.block_count, p, score, eps, out);
        }
        let normed = sized(&mut b.normed, block.len() * hidden);
        self.kernels.rms_norm_rows(mixed, norm, eps, normed);
    }

    /// Counts the choices of the rows in `ws.predict.normed`; the best of each are guesses `at_once`.
    fn choices(&self, moe: &Moe<'_>, rows: usize, at_once: bool, ws: &mut Workspace) {
        let spec = &self.spec.moe;
        let b = &mut ws.predict;
        let scores = sized(&mut b.scores, rows * spec.experts);
        let x = &b.normed[..rows * self.spec.hidden];
        self.kernels.products(&mut ws.scratch, &mut [Product { w: moe.router, x, y: scores }]);
        sigmoid(self.kernels.isa(), scores);
        let correction = sized(&mut b.correction, spec.experts);
        moe.correction.read(correction);
        b.experts.resize(spec.top_k, 0);
        b.weights.resize(spec.top_k, 0.0);
        for scores in scores.chunks_exact(spec.experts) {
            choose(spec, scores, correction, &mut b.router, &mut b.experts, &mut b.weights);
            b.experts.iter().for_each(|&expert| b.votes[expert as usize] += 1);
            if !at_once {
                continue;
            }
            for expert in b.experts.iter().take(BEST).map(|&expert| ExpertId::new(expert)) {
                if !b.guesses.contains(&expert) {
                    b.guesses.push(expert);
                }
            }
        }
    }
}
