//! Gated multi-head latent attention without positions, on the latent cache.
//!
//! ```text
//! q       = W_qb rms(W_qa x)                       per head: nope, rope
//! c, k_pe = rms(W_kva x first), W_kva x rest       the cache: one row per position
//! q_lat_h = K_hᵀ q_nope_h                          absorbed: keys are never expanded
//! p       = softmax((q_lat·c + q_pe·k_pe)·(nope+rope)^-½)
//! out     = W_o (concat_h V_h Σ p c · sigmoid(W_g x))
//! ```

use crate::forward::{Step, range};
use crate::weights::Mla;
use crate::workspace::{Workspace, sized};
use crate::{Forward, LatentCache, Observer, Part, Place, Weights};
use deltafin_kernels::{LatentDims, Product, multiply_sigmoid};
use deltafin_spec::{LayerId, MLA_NORM_EPS};
use std::ops::Range;

/// Intermediates of one block of rows.
#[derive(Default)]
pub(crate) struct MlaBuffers {
    /// `[rows, q rank]`, before and after its norm.
    q_rank: [Vec<f32>; 2],
    /// `[rows, heads, nope + rope]`.
    q: Vec<f32>,
    /// `[rows, latent + rope]`.
    kv: Vec<f32>,
    /// `[heads][rows, latent]`: absorbed queries, and the attention's output.
    latent: [Vec<f32>; 2],
    /// `[rows, heads × v]`.
    heads_out: Vec<f32>,
    /// `[rows, heads × v]`.
    gate: Vec<f32>,
}

impl<W: Weights> Forward<'_, W> {
    /// `ws.out = mla(ws.normed[rows])`; the first of the rows stands at `position` of the sequence.
    #[allow(clippy::too_many_arguments)] // Each names another thing.
    pub(crate) fn mla(
        &self,
        layer: LayerId,
        w: &Mla<'_>,
        rows: Range<usize>,
        position: usize,
        cache: &mut LatentCache,
        ws: &mut Workspace,
        observer: &mut dyn Observer,
    ) -> Step<W::Error> {
        let (kernels, spec, n) = (self.kernels, &self.spec.mla, rows.len());
        let dims = LatentDims {
            heads: spec.heads,
            nope: spec.qk_nope,
            rope: spec.qk_rope,
            v: spec.v_head,
            latent: spec.kv_lora,
        };
        let x = &ws.normed[range(&rows, self.spec.hidden)];
        let out = sized(&mut ws.out, n * self.spec.hidden);
        let norm = sized(&mut ws.norm, spec.q_lora.max(spec.kv_lora));
        let b = &mut ws.mla;

        let [q_raw, q_rank] = b.q_rank.each_mut().map(|buffer| sized(buffer, n * spec.q_lora));
        let kv = sized(&mut b.kv, n * spec.cache_width());
        let gate = sized(&mut b.gate, n * spec.out_width());
        kernels.products(
            &mut ws.scratch,
            &mut [
                Product { w: w.q_a, x, y: q_raw },
                Product { w: w.kv_a, x, y: kv },
                Product { w: w.gate, x, y: gate },
            ],
        );
        // Norms and the gate's sigmoid would hide an infinity.
        for values in [&*q_raw, &*kv, &*gate] {
            self.finite(values, layer, Place::Attention)?;
        }

        w.q_norm.read(&mut norm[..spec.q_lora]);
        kernels.rms_norm_rows(q_raw, &norm[..spec.q_lora], MLA_NORM_EPS, q_rank);
        w.kv_norm.read(&mut norm[..spec.kv_lora]);
        self.append(kv, &norm[..spec.kv_lora], position, cache);

        let q = sized(&mut b.q, n * spec.heads * spec.qk_head());
        kernels.products(&mut ws.scratch, &mut [Product { w: w.q_b, x: q_rank, y: q }]);
        observer.part(Part::Attention);
        let [q_latent, attended] =
            b.latent.each_mut().map(|buffer| sized(buffer, spec.heads * n * spec.kv_lora));
        kernels.absorb_keys(w.kv_b, &dims, q, q_latent);
        let scale = 1.0 / (spec.qk_head() as f32).sqrt();
        let seen = position + n;
        let (c, k_pe) = (&cache.latent[..seen * spec.kv_lora], &cache.rope[..seen * spec.qk_rope]);
        kernels.latent_attention(&dims, q, q_latent, c, k_pe, position, scale, attended);

        let o = sized(&mut b.heads_out, n * spec.out_width());
        kernels.expand_values(&mut ws.scratch, w.kv_b, &dims, attended, o);
        multiply_sigmoid(kernels.isa(), o, gate);
        observer.part(Part::AttentionSpine);
        kernels.products(&mut ws.scratch, &mut [Product { w: w.output, x: o, y: out }]);
        Ok(())
    }

    /// Writes cache rows from `position` on: the normed latent and the un-normed shared key part.
    fn append(&self, kv: &[f32], norm: &[f32], position: usize, cache: &mut LatentCache) {
        let (isa, spec) = (self.kernels.isa(), &self.spec.mla);
        let latents = cache.latent[position * spec.kv_lora..].chunks_exact_mut(spec.kv_lora);
        let ropes = cache.rope[position * spec.qk_rope..].chunks_exact_mut(spec.qk_rope);
        for ((row, latent), rope) in kv.chunks_exact(spec.cache_width()).zip(latents).zip(ropes) {
            let (c, k_pe) = row.split_at(spec.kv_lora);
            deltafin_kernels::rms_norm(isa, c, norm, MLA_NORM_EPS, latent);
            rope.copy_from_slice(k_pe);
        }
    }
}
