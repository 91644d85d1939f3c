//! The roles that tensors play, with their names, dtypes and shapes: a table in code.
//!
//! Matrices are `[out, in]`, row major. Roles are named by what they do, so that the
//! two meanings of `g_proj` (KDA and MLA) have two names.

use crate::{Dtype, FfnKind, LayerKind, LayerSpec, MXFP4_GROUP, ModelSpec, Shape};

/// The stored `A_log` is zero-padded to a multiple of this many entries.
const A_LOG_PAD: usize = 128;

macro_rules! roles {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $suffix:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every role, in roster order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The part of the tensor's name that this role decides.
            pub const fn suffix(self) -> &'static str {
                match self { $($name::$variant => $suffix,)* }
            }
        }
    };
}

roles! {
    /// A tensor of a layer that every token uses.
    SpineTensor {
        /// Norm before the attention.
        InputNorm = "input_layernorm.weight",
        /// Norm before the feed-forward half.
        PostAttentionNorm = "post_attention_layernorm.weight",
        /// Key norm of the mix before the attention.
        AttnResNorm = "self_attention_res_norm.weight",
        /// Query of the mix before the attention.
        AttnResProj = "self_attention_res_proj.weight",
        /// Key norm of the mix before the feed-forward half.
        MlpResNorm = "mlp_res_norm.weight",
        /// Query of the mix before the feed-forward half.
        MlpResProj = "mlp_res_proj.weight",

        /// KDA query projection.
        KdaQ = "self_attn.q_proj.weight",
        /// KDA key projection.
        KdaK = "self_attn.k_proj.weight",
        /// KDA value projection.
        KdaV = "self_attn.v_proj.weight",
        /// Short convolution over queries.
        KdaQConv = "self_attn.q_conv1d.weight",
        /// Short convolution over keys.
        KdaKConv = "self_attn.k_conv1d.weight",
        /// Short convolution over values.
        KdaVConv = "self_attn.v_conv1d.weight",
        /// First factor of the decay projection.
        KdaDecayA = "self_attn.f_a_proj.weight",
        /// Second factor of the decay projection.
        KdaDecayB = "self_attn.f_b_proj.weight",
        /// Write strength, one row per head.
        KdaBeta = "self_attn.b_proj.weight",
        /// Log of the decay rate per head; may be stored zero-padded.
        KdaALog = "self_attn.A_log",
        /// Bias of the decay.
        KdaDtBias = "self_attn.dt_bias",
        /// Output gate of KDA.
        KdaGate = "self_attn.g_proj.weight",
        /// Norm of a head's output, shared by all heads.
        KdaOutNorm = "self_attn.o_norm.weight",
        /// Output projection of KDA.
        KdaOut = "self_attn.o_proj.weight",

        /// First factor of the MLA query projection.
        MlaQA = "self_attn.q_a_proj.weight",
        /// Norm between the factors of the query projection.
        MlaQANorm = "self_attn.q_a_layernorm.weight",
        /// Second factor of the MLA query projection.
        MlaQB = "self_attn.q_b_proj.weight",
        /// Projection to the latent and the shared key part.
        MlaKvA = "self_attn.kv_a_proj_with_mqa.weight",
        /// Norm of the latent.
        MlaKvANorm = "self_attn.kv_a_layernorm.weight",
        /// Projection from the latent to keys and values.
        MlaKvB = "self_attn.kv_b_proj.weight",
        /// Output gate of MLA.
        MlaGate = "self_attn.g_proj.weight",
        /// Output projection of MLA.
        MlaOut = "self_attn.o_proj.weight",

        /// Gate projection of the dense MLP.
        DenseGate = "mlp.gate_proj.weight",
        /// Up projection of the dense MLP.
        DenseUp = "mlp.up_proj.weight",
        /// Down projection of the dense MLP.
        DenseDown = "mlp.down_proj.weight",

        /// Router, one row per expert.
        Router = "block_sparse_moe.gate.weight",
        /// Bias that selects experts and never weighs them.
        RouterBias = "block_sparse_moe.gate.e_score_correction_bias",
        /// Projection into the latent space of the experts.
        LatentDown = "block_sparse_moe.routed_expert_down_proj.weight",
        /// Norm of the experts' weighted sum.
        LatentNorm = "block_sparse_moe.routed_expert_norm.weight",
        /// Projection out of the latent space.
        LatentUp = "block_sparse_moe.routed_expert_up_proj.weight",
        /// Gate projection of the shared experts.
        SharedGate = "block_sparse_moe.shared_experts.gate_proj.weight",
        /// Up projection of the shared experts.
        SharedUp = "block_sparse_moe.shared_experts.up_proj.weight",
        /// Down projection of the shared experts.
        SharedDown = "block_sparse_moe.shared_experts.down_proj.weight",
    }
}

roles! {
    /// A tensor of one routed expert: three MXFP4 matrices, each as nibbles and scales.
    ExpertTensor {
        /// Nibbles of the gate matrix.
        W1Packed = "w1.weight_packed",
        /// Scales of the gate matrix.
        W1Scale = "w1.weight_scale",
        /// Nibbles of the down matrix.
        W2Packed = "w2.weight_packed",
        /// Scales of the down matrix.
        W2Scale = "w2.weight_scale",
        /// Nibbles of the up matrix.
        W3Packed = "w3.weight_packed",
        /// Scales of the up matrix.
        W3Scale = "w3.weight_scale",
    }
}

roles! {
    /// A tensor that belongs to no layer.
    GlobalTensor {
        /// One row per token id.
        Embed = "model.embed_tokens.weight",
        /// The last norm.
        Norm = "model.norm.weight",
        /// Key norm of the last mix.
        OutputResNorm = "model.output_attn_res_norm.weight",
        /// Query of the last mix.
        OutputResProj = "model.output_attn_res_proj.weight",
        /// One row per token id, read for the logits.
        Head = "lm_head.weight",
    }
}

impl SpineTensor {
    /// Whether a layer of this kind has the tensor; `moe_norm` is [`crate::MoeSpec::latent_norm`].
    pub fn belongs_to(self, layer: LayerSpec, moe_norm: bool) -> bool {
        use SpineTensor::*;
        match self {
            InputNorm | PostAttentionNorm | AttnResNorm | AttnResProj | MlpResNorm | MlpResProj => {
                true
            }
            KdaQ | KdaK | KdaV | KdaQConv | KdaKConv | KdaVConv | KdaDecayA | KdaDecayB
            | KdaBeta | KdaALog | KdaDtBias | KdaGate | KdaOutNorm | KdaOut => {
                layer.attention == LayerKind::Kda
            }
            MlaQA | MlaQANorm | MlaQB | MlaKvA | MlaKvANorm | MlaKvB | MlaGate | MlaOut => {
                layer.attention == LayerKind::Mla
            }
            DenseGate | DenseUp | DenseDown => layer.ffn == FfnKind::Dense,
            LatentNorm => layer.ffn == FfnKind::Moe && moe_norm,
            Router | RouterBias | LatentDown | LatentUp | SharedGate | SharedUp | SharedDown => {
                layer.ffn == FfnKind::Moe
            }
        }
    }

    /// The dtype in the released checkpoint.
    pub fn dtype(self) -> Dtype {
        use SpineTensor::*;
        match self {
            KdaQConv | KdaKConv | KdaVConv | KdaALog | KdaDtBias | KdaOutNorm | RouterBias => {
                Dtype::F32
            }
            _ => Dtype::Bf16,
        }
    }

    /// The shape in a checkpoint of this model.
    pub fn shape(self, spec: &ModelSpec) -> Shape {
        use SpineTensor::*;
        let ModelSpec { hidden, kda, mla, moe, dense_width, .. } = spec;
        let hidden = *hidden;
        match self {
            InputNorm | PostAttentionNorm | AttnResNorm | MlpResNorm => Shape::of([hidden]),
            AttnResProj | MlpResProj => Shape::of([1, hidden]),
            KdaQ | KdaK | KdaV | KdaGate => Shape::of([kda.channels(), hidden]),
            KdaQConv | KdaKConv | KdaVConv => Shape::of([kda.channels(), 1, kda.conv_kernel]),
            KdaDecayA => Shape::of([kda.head_dim, hidden]),
            KdaDecayB => Shape::of([kda.channels(), kda.head_dim]),
            KdaBeta => Shape::of([kda.heads, hidden]),
            KdaALog => Shape::of([kda.heads.next_multiple_of(A_LOG_PAD)]),
            KdaDtBias => Shape::of([kda.channels()]),
            KdaOutNorm => Shape::of([kda.head_dim]),
            KdaOut => Shape::of([hidden, kda.channels()]),
            MlaQA => Shape::of([mla.q_lora, hidden]),
            MlaQANorm => Shape::of([mla.q_lora]),
            MlaQB => Shape::of([mla.heads * mla.qk_head(), mla.q_lora]),
            MlaKvA => Shape::of([mla.cache_width(), hidden]),
            MlaKvANorm => Shape::of([mla.kv_lora]),
            MlaKvB => Shape::of([mla.heads * (mla.qk_nope + mla.v_head), mla.kv_lora]),
            MlaGate => Shape::of([mla.out_width(), hidden]),
            MlaOut => Shape::of([hidden, mla.out_width()]),
            DenseGate | DenseUp => Shape::of([*dense_width, hidden]),
            DenseDown => Shape::of([hidden, *dense_width]),
            Router => Shape::of([moe.experts, hidden]),
            RouterBias => Shape::of([moe.experts]),
            LatentDown => Shape::of([moe.latent, hidden]),
            LatentNorm => Shape::of([moe.latent]),
            LatentUp => Shape::of([hidden, moe.latent]),
            SharedGate | SharedUp => Shape::of([moe.shared_width(), hidden]),
            SharedDown => Shape::of([hidden, moe.shared_width()]),
        }
    }

    /// Whether a stored shape will do. Only `A_log` has a choice: its padding is the
    /// writer's affair, the first entries, one per head, are what counts.
    pub fn accepts(self, spec: &ModelSpec, stored: &Shape) -> bool {
        match (self, stored.dims()) {
            (SpineTensor::KdaALog, &[len]) => len >= spec.kda.heads as u64,
            _ => *stored == self.shape(spec),
        }
    }
}

impl ExpertTensor {
    /// The packed and the scale tensor of the gate, down and up matrix.
    pub const PAIRS: [(ExpertTensor, ExpertTensor); 3] = [
        (ExpertTensor::W1Packed, ExpertTensor::W1Scale),
        (ExpertTensor::W2Packed, ExpertTensor::W2Scale),
        (ExpertTensor::W3Packed, ExpertTensor::W3Scale),
    ];

    /// The dtype in the released checkpoint.
    pub fn dtype(self) -> Dtype {
        Dtype::U8
    }

    /// Whether the tensor holds scales rather than nibbles.
    pub fn is_scale(self) -> bool {
        matches!(self, ExpertTensor::W1Scale | ExpertTensor::W2Scale | ExpertTensor::W3Scale)
    }

    /// Whether bytes declared with this dtype can be read as what the tensor means. The
    /// meaning of a byte follows from the format, not from the sign that a writer chose.
    pub fn accepts_dtype(self, stored: Dtype) -> bool {
        match stored {
            Dtype::U8 | Dtype::I8 => true,
            Dtype::F8E8M0 => self.is_scale(),
            _ => false,
        }
    }

    /// The shape in a checkpoint of this model.
    pub fn shape(self, spec: &ModelSpec) -> Shape {
        use ExpertTensor::*;
        let (latent, width) = (spec.moe.latent, spec.moe.width);
        match self {
            W1Packed | W3Packed => Shape::of([width, latent / 2]),
            W1Scale | W3Scale => Shape::of([width, latent / MXFP4_GROUP]),
            W2Packed => Shape::of([latent, width / 2]),
            W2Scale => Shape::of([latent, width / MXFP4_GROUP]),
        }
    }
}

impl GlobalTensor {
    /// The dtype in the released checkpoint.
    pub fn dtype(self) -> Dtype {
        Dtype::Bf16
    }

    /// The shape in a checkpoint of this model.
    pub fn shape(self, spec: &ModelSpec) -> Shape {
        match self {
            GlobalTensor::Embed | GlobalTensor::Head => Shape::of([spec.vocab, spec.hidden]),
            GlobalTensor::Norm | GlobalTensor::OutputResNorm => Shape::of([spec.hidden]),
            GlobalTensor::OutputResProj => Shape::of([1, spec.hidden]),
        }
    }
}
