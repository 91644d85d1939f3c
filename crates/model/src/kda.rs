//! Kimi Delta Attention (Kimi Linear and K3 reports; FLA `kda` reference).
//!
//! ```text
//! q, k, v = silu(conv(W x))             causal, depthwise
//! q, k    = l2(q)·dim^-½, l2(k)         per head
//! β       = sigmoid(W_b x)              per head
//! α       = exp(lower·sigmoid(exp(A)·(W_fb W_fa x + dt)))
//! S       = diag(α)·S;  S += β k (v − Sᵀk)ᵀ;  o = Sᵀq
//! out     = W_o (rms(o)·w·sigmoid(W_g x))
//! ```

use crate::forward::{Step, range};
use crate::weights::{Kda, Vector};
use crate::workspace::{Workspace, sized};
use crate::{Forward, KdaState, Observer, Part, Place, Weights};
use deltafin_kernels::{Product, sigmoid};
use deltafin_spec::{L2_NORM_EPS, LayerId};
use std::ops::Range;

/// Intermediates of one block of rows.
#[derive(Default)]
pub(crate) struct KdaBuffers {
    /// q, k, v, `[rows, channels]` each.
    qkv: [Vec<f32>; 3],
    /// `[rows, rank]`.
    decay_rank: Vec<f32>,
    /// The decay's input, then α, `[rows, channels]`.
    alpha: Vec<f32>,
    /// `[rows, heads]`.
    beta: Vec<f32>,
    /// `[rows, channels]`.
    gate: Vec<f32>,
    /// `[rows, channels]`.
    heads_out: Vec<f32>,
    /// Convolution weights, `[channels, taps]`.
    conv: Vec<f32>,
    a_log: Vec<f32>,
    dt_bias: Vec<f32>,
    o_norm: Vec<f32>,
}

impl<W: Weights> Forward<'_, W> {
    /// `ws.out = kda(ws.normed[rows])`, advancing `state` by the rows.
    pub(crate) fn kda(
        &self,
        layer: LayerId,
        w: &Kda<'_>,
        rows: Range<usize>,
        state: &mut KdaState,
        ws: &mut Workspace,
        observer: &mut dyn Observer,
    ) -> Step<W::Error> {
        let (kernels, spec, n) = (self.kernels, &self.spec.kda, rows.len());
        let (heads, dim, channels) = (spec.heads, spec.head_dim, spec.channels());
        let x = &ws.normed[range(&rows, self.spec.hidden)];
        let out = sized(&mut ws.out, n * self.spec.hidden);
        let b = &mut ws.kda;

        let [q, k, v] = b.qkv.each_mut().map(|buffer| sized(buffer, n * channels));
        let decay_rank = sized(&mut b.decay_rank, n * w.f_a.rows());
        let alpha = sized(&mut b.alpha, n * channels);
        let beta = sized(&mut b.beta, n * heads);
        let gate = sized(&mut b.gate, n * channels);
        kernels.products(
            &mut ws.scratch,
            &mut [
                Product { w: w.qkv[0], x, y: q },
                Product { w: w.qkv[1], x, y: k },
                Product { w: w.qkv[2], x, y: v },
                Product { w: w.f_a, x, y: decay_rank },
                Product { w: w.beta, x, y: beta },
                Product { w: w.gate, x, y: gate },
            ],
        );
        kernels.products(&mut ws.scratch, &mut [Product { w: w.f_b, x: decay_rank, y: alpha }]);
        // Sigmoids further on would hide an infinity, so all projections are looked at here.
        for values in [&*q, &*k, &*v, &*alpha, &*beta, &*gate] {
            self.finite(values, layer, Place::Attention)?;
        }

        observer.part(Part::Attention);
        let taps = spec.conv_kernel;
        for (i, x) in [&mut *q, &mut *k, &mut *v].into_iter().enumerate() {
            let conv = load(w.conv[i], &mut b.conv, channels * taps);
            kernels.short_conv(conv, taps, &mut state.history[i], x);
        }
        kernels.l2_normalize_heads(heads, dim, q, L2_NORM_EPS, 1.0 / (dim as f32).sqrt());
        kernels.l2_normalize_heads(heads, dim, k, L2_NORM_EPS, 1.0);
        sigmoid(kernels.isa(), beta);
        let a_log = load(w.a_log, &mut b.a_log, heads);
        let dt_bias = load(w.dt_bias, &mut b.dt_bias, channels);
        // The decay is bounded whatever these are: an infinity would pass through it unseen.
        self.finite(a_log, layer, Place::Attention)?;
        self.finite(dt_bias, layer, Place::Attention)?;
        kernels.kda_decay(heads, a_log, dt_bias, spec.gate_lower_bound, alpha);

        let o = sized(&mut b.heads_out, n * channels);
        kernels.kda_recurrence(heads, q, k, v, alpha, beta, &mut state.associations, o);
        let o_norm = load(w.o_norm, &mut b.o_norm, dim);
        kernels.gated_head_norms(heads, o, o_norm, self.spec.rms_eps, gate);
        observer.part(Part::AttentionSpine);
        kernels.products(&mut ws.scratch, &mut [Product { w: w.output, x: o, y: out }]);
        Ok(())
    }
}

/// `vector` as f32 in `buffer`.
fn load<'b>(vector: Vector<'_>, buffer: &'b mut Vec<f32>, len: usize) -> &'b [f32] {
    let out = sized(buffer, len);
    vector.read(out);
    out
}
