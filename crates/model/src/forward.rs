//! The layer loop, readable top to bottom like the paper.
//!
//! ```text
//! p = E[token]; blocks = []
//! for each layer i:
//!     h = mix(blocks, p)                 p itself while there are no blocks
//!     every `attn_res_block` layers:     blocks.push(p); the sum starts again
//!     p = p + attention_i(rms(h))
//!     h = mix(blocks, p)
//!     p = p + ffn_i(rms(h))
//! logits = head · rms(mix(blocks, p))
//! ```
//!
//! The mix is block attention residuals (Kimi K3 technical report): a softmax over the stored sums
//! and the running one, scored on their normed values, mixing the raw ones. It never crosses rows.

use crate::weights::{
    Attention, AttentionView, Ffn, FfnView, Lease, ResidualMix, TailView, Vector,
};
use crate::workspace::{ROW_BLOCK, Workspace, sized};
use crate::{Ids, LayerState, Observer, Part, PassPlan, Place, State, StepError, Tap, Weights};
use deltafin_kernels::{Kernels, Matrix, Product, add, all_finite, attention_residual, multiply};
use deltafin_spec::{LayerId, ModelSpec};
use std::ops::Range;

/// The model: its dimensions, its arithmetic and its weights.
pub struct Forward<'a, W> {
    /// The dimensions.
    pub spec: &'a ModelSpec,
    /// The arithmetic.
    pub kernels: &'a Kernels,
    /// The weights.
    pub weights: &'a W,
}

/// The result of a step, for weights that fail with `E`.
pub(crate) type Step<E> = Result<(), StepError<E>>;

impl<W: Weights> Forward<'_, W> {
    /// Advances `state` by `ids` and leaves their final hidden rows in `ws`. `kind` says whose they are,
    /// for those who count, and `head` whether [`Forward::logits`] will follow; it may either way.
    ///
    /// On an error the state holds part of the pass and must be cleared or replaced.
    pub fn run(
        &self,
        kind: Ids,
        ids: &[u32],
        head: bool,
        state: &mut State,
        ws: &mut Workspace,
        observer: &mut dyn Observer,
    ) -> Step<W::Error> {
        self.admit(ids, state)?;
        let pass = PassPlan { ids: kind, rows: ids.len(), head };
        observer.pass(state.len(), pass);
        observer.part(Part::Embedding);
        self.weights.begin(pass);
        self.embed(ids, ws)?;
        ws.block_count = 0;
        for layer in self.spec.layer_ids() {
            if observer.layer(layer).is_break() {
                return Err(StepError::Interrupted);
            }
            self.layer(layer, ids.len(), state, ws, observer)?;
        }
        observer.part(Part::Head);
        let tail = self.weights.tail().map_err(StepError::Weights)?;
        self.finish(&tail.view(), ids.len(), ws)?;
        state.commit(ids.len());
        Ok(())
    }

    /// The output head, to be handed to [`Forward::logits`] as often as needed.
    pub fn head(&self) -> Result<W::Head<'_>, StepError<W::Error>> {
        self.weights.head().map_err(StepError::Weights)
    }

    /// Writes the logits (`[rows, vocab]`) of `rows` of the last pass.
    pub fn logits(
        &self,
        head: Matrix<'_>,
        rows: Range<usize>,
        ws: &mut Workspace,
        out: &mut [f32],
    ) -> Step<W::Error> {
        let hidden = self.spec.hidden;
        let x = &ws.last[rows.start * hidden..rows.end * hidden];
        self.kernels.products(&mut ws.scratch, &mut [Product { w: head, x, y: out }]);
        if all_finite(self.kernels.isa(), out) { Ok(()) } else { Err(StepError::HeadNotFinite) }
    }

    fn admit(&self, ids: &[u32], state: &State) -> Step<W::Error> {
        let (wanted, capacity) = (state.len() + ids.len(), state.capacity());
        if wanted > capacity {
            return Err(StepError::ContextFull { wanted, capacity });
        }
        match ids.iter().find(|&&id| id as usize >= self.spec.vocab) {
            Some(&id) => Err(StepError::UnknownToken { id, vocab: self.spec.vocab }),
            None => Ok(()),
        }
    }

    fn embed(&self, ids: &[u32], ws: &mut Workspace) -> Step<W::Error> {
        let hidden = self.spec.hidden;
        let sum = sized(&mut ws.sum, ids.len() * hidden);
        for (id, row) in ids.iter().zip(sum.chunks_exact_mut(hidden)) {
            self.weights.embed(*id, row).map_err(StepError::Weights)?;
            if !all_finite(self.kernels.isa(), row) {
                return Err(StepError::EmbeddingNotFinite { id: *id });
            }
        }
        Ok(())
    }

    fn layer(
        &self,
        layer: LayerId,
        rows: usize,
        state: &mut State,
        ws: &mut Workspace,
        observer: &mut dyn Observer,
    ) -> Step<W::Error> {
        observer.part(Part::SpineWait);
        let half = self.weights.attention(layer).map_err(StepError::Weights)?;
        self.attention_half(layer, &half.view(), rows, state, ws, observer)?;
        // Where memory is short, what comes next is read into its place.
        drop(half);
        observer.part(Part::SpineWait);
        let half = self.weights.ffn(layer).map_err(StepError::Weights)?;
        self.ffn_half(layer, &half.view(), rows, ws, observer)?;
        let width = rows * self.spec.hidden;
        observer.rows(layer, Tap::Hidden, 0, &ws.sum[..width]);
        self.finite(&ws.sum[..width], layer, Place::Ffn)
    }

    /// `p = p + attention(rms(mix))`, pushing `p` first where a block of layers begins.
    fn attention_half(
        &self,
        layer: LayerId,
        w: &AttentionView<'_>,
        rows: usize,
        state: &mut State,
        ws: &mut Workspace,
        observer: &mut dyn Observer,
    ) -> Step<W::Error> {
        let hidden = self.spec.hidden;
        let starts_block = layer.index().is_multiple_of(self.spec.attn_res_block);
        observer.part(Part::AttentionSpine);
        self.mix_and_norm(&w.mix, w.norm, rows, ws);
        if starts_block {
            push_block(ws, rows * hidden);
        }
        let position = state.len();
        let mut end = 0;
        while end < rows {
            // Marks cut blocks, not passes: no weight is read twice for one.
            let mark = state.next_mark(position + end).map_or(rows, |mark| mark - position);
            let block = end..rows.min(end + ROW_BLOCK).min(mark);
            end = block.end;
            let normed = range(&block, hidden);
            observer.rows(layer, Tap::AttentionIn, block.start, &ws.normed[normed.clone()]);
            match (&w.attention, state.layer_mut(layer.index())) {
                (Attention::Kda(kda), LayerState::Kda(s)) => {
                    self.kda(layer, kda, block.clone(), s, ws, observer)?;
                }
                (Attention::Mla(mla), LayerState::Mla(s)) => {
                    let position = position + block.start;
                    self.mla(layer, mla, block.clone(), position, s, ws, observer)?;
                }
                _ => unreachable!("weights and state were built from one specification"),
            }
            state.pass_by(layer.index(), position + end);
            let out = &ws.out[..block.len() * hidden];
            observer.rows(layer, Tap::AttentionOut, block.start, out);
            let sum = &mut ws.sum[normed];
            if starts_block {
                sum.copy_from_slice(out);
            } else {
                add(self.kernels.isa(), sum, out);
            }
        }
        self.finite(&ws.sum[..rows * hidden], layer, Place::Attention)
    }

    /// `p = p + ffn(rms(mix))`.
    fn ffn_half(
        &self,
        layer: LayerId,
        w: &FfnView<'_>,
        rows: usize,
        ws: &mut Workspace,
        observer: &mut dyn Observer,
    ) -> Step<W::Error> {
        let hidden = self.spec.hidden;
        observer.part(Part::FfnSpine);
        self.mix_and_norm(&w.mix, w.norm, rows, ws);
        observer.rows(layer, Tap::FfnIn, 0, &ws.normed[..rows * hidden]);
        self.finite(&ws.normed[..rows * hidden], layer, Place::Ffn)?;
        if let Ffn::Moe(moe) = &w.ffn {
            self.routed_experts(layer, moe, rows, ws, observer)?;
            observer.part(Part::FfnSpine);
        }
        for block in row_blocks(rows) {
            match &w.ffn {
                Ffn::Dense(glu) => self.dense(layer, glu, block.clone(), ws)?,
                Ffn::Moe(moe) => self.leave_latent(moe, block.clone(), ws),
            }
            let out = &ws.out[..block.len() * hidden];
            observer.rows(layer, Tap::FfnOut, block.start, out);
            add(self.kernels.isa(), &mut ws.sum[range(&block, hidden)], out);
        }
        Ok(())
    }

    /// The final mix and norm into `ws.last`.
    fn finish(&self, w: &TailView<'_>, rows: usize, ws: &mut Workspace) -> Step<W::Error> {
        self.mix_and_norm(&w.mix, w.norm, rows, ws);
        let len = rows * self.spec.hidden;
        ws.last.clear();
        ws.last.extend_from_slice(&ws.normed[..len]);
        if all_finite(self.kernels.isa(), &ws.last) {
            Ok(())
        } else {
            Err(StepError::HeadNotFinite)
        }
    }

    /// `ws.normed = rms(mix(blocks, p))` for all rows.
    fn mix_and_norm(
        &self,
        mix: &ResidualMix<'_>,
        norm: Vector<'_>,
        rows: usize,
        ws: &mut Workspace,
    ) {
        let (hidden, isa) = (self.spec.hidden, self.kernels.isa());
        let weight = sized(&mut ws.norm, hidden);
        mix.norm.read(weight);
        let score = sized(&mut ws.score, hidden);
        mix.proj.read(score);
        multiply(isa, score, weight);
        norm.read(weight);
        let normed = sized(&mut ws.normed, rows * hidden);
        for block in row_blocks(rows) {
            let at = range(&block, hidden);
            if ws.block_count == 0 {
                let sum = &ws.sum[at.clone()];
                self.kernels.rms_norm_rows(sum, weight, self.spec.rms_eps, &mut normed[at]);
                continue;
            }
            let mixed = sized(&mut ws.mixed, block.len() * hidden);
            for (row, out) in block.clone().zip(mixed.chunks_exact_mut(hidden)) {
                let p = &ws.sum[row * hidden..(row + 1) * hidden];
                let blocks = &ws.blocks[row * hidden..];
                let (stride, eps) = (rows * hidden, self.spec.rms_eps);
                attention_residual(isa, blocks, stride, ws.block_count, p, score, eps, out);
            }
            self.kernels.rms_norm_rows(mixed, weight, self.spec.rms_eps, &mut normed[at]);
        }
    }

    pub(crate) fn finite(&self, values: &[f32], layer: LayerId, place: Place) -> Step<W::Error> {
        if all_finite(self.kernels.isa(), values) {
            Ok(())
        } else {
            Err(StepError::NotFinite { layer, place })
        }
    }
}

/// Stores the running sum as one more block.
fn push_block(ws: &mut Workspace, len: usize) {
    let at = ws.block_count * len;
    sized(&mut ws.blocks, at + len)[at..].copy_from_slice(&ws.sum[..len]);
    ws.block_count += 1;
}

/// `0..rows` in pieces of [`ROW_BLOCK`].
pub(crate) fn row_blocks(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(ROW_BLOCK).map(move |start| start..rows.min(start + ROW_BLOCK))
}

/// Where `rows` of the given width lie.
pub(crate) fn range(rows: &Range<usize>, width: usize) -> Range<usize> {
    rows.start * width..rows.end * width
}
