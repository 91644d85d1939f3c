//! The dimensions of a model.

use crate::{ExpertId, LayerId};

/// The epsilon of `q_a_layernorm` and `kv_a_layernorm`. The official code builds these two
/// norms without passing the configured epsilon, so the class default applies.
pub const MLA_NORM_EPS: f32 = 1e-6;

/// The epsilon added to the *sum of squares* when KDA normalises q and k.
pub const L2_NORM_EPS: f32 = 1e-6;

/// Weights that share one scale in the MXFP4 format.
pub const MXFP4_GROUP: usize = 32;

/// How a layer mixes positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerKind {
    /// Kimi Delta Attention: linear, with a state of fixed size.
    Kda,
    /// Gated multi-head latent attention over all earlier positions.
    Mla,
}

/// What follows the attention of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FfnKind {
    /// One gated MLP.
    Dense,
    /// Routed experts in the latent space, plus the shared experts at full width.
    Moe,
}

/// The two halves of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LayerSpec {
    /// The attention half.
    pub attention: LayerKind,
    /// The feed-forward half.
    pub ffn: FfnKind,
}

/// Kimi Delta Attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KdaSpec {
    /// Heads.
    pub heads: usize,
    /// Width of a head, for keys and values alike; also the rank of the decay projection.
    pub head_dim: usize,
    /// Taps of the short convolution.
    pub conv_kernel: usize,
    /// Where the log decay ends; negative.
    pub gate_lower_bound: f32,
}

impl KdaSpec {
    /// Channels: heads times head width.
    pub fn channels(&self) -> usize {
        self.heads * self.head_dim
    }
}

/// Multi-head latent attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MlaSpec {
    /// Heads.
    pub heads: usize,
    /// Query and key dimensions per head that come from the latent.
    pub qk_nope: usize,
    /// Query and key dimensions that all heads share. They carry no rotation.
    pub qk_rope: usize,
    /// Value dimensions per head.
    pub v_head: usize,
    /// Rank of the query projection.
    pub q_lora: usize,
    /// Width of the latent that is cached.
    pub kv_lora: usize,
}

impl MlaSpec {
    /// Query dimensions per head.
    pub fn qk_head(&self) -> usize {
        self.qk_nope + self.qk_rope
    }

    /// Values cached per token and layer: the latent and the shared key part.
    pub fn cache_width(&self) -> usize {
        self.kv_lora + self.qk_rope
    }

    /// Width of the concatenated heads, which is what the output projection reads.
    pub fn out_width(&self) -> usize {
        self.heads * self.v_head
    }
}

/// The latent mixture of experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoeSpec {
    /// Routed experts of a layer.
    pub experts: usize,
    /// Experts chosen per token.
    pub top_k: usize,
    /// Width of the space that experts read and write.
    pub latent: usize,
    /// Inner width of one expert.
    pub width: usize,
    /// Shared experts, stored fused as one MLP of `shared * width`.
    pub shared: usize,
    /// Whether the chosen scores are divided by their sum.
    pub renormalize: bool,
    /// Factor on the routing weights.
    pub routed_scaling: f32,
    /// Groups the experts are divided into; 1 means no grouping.
    pub groups: usize,
    /// Groups that may be chosen from.
    pub top_groups: usize,
    /// Whether the weighted sum is normalised before it leaves the latent space.
    pub latent_norm: bool,
}

impl MoeSpec {
    /// Inner width of the fused shared experts.
    pub fn shared_width(&self) -> usize {
        self.shared * self.width
    }

    /// The experts of a layer.
    pub fn expert_ids(&self) -> impl Iterator<Item = ExpertId> + use<> {
        (0..self.experts as u32).map(ExpertId::new)
    }
}

/// The SiTU activation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SituSpec {
    /// Bound of the gate.
    pub beta: f32,
    /// Bound of the linear side.
    pub linear_beta: f32,
}

/// Every dimension the forward pass needs.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Rows of the embedding table and of the head.
    pub vocab: usize,
    /// The configured epsilon; see [`MLA_NORM_EPS`] for the two norms that do not use it.
    pub rms_eps: f32,
    /// Layers between two pushes of the block attention residuals.
    pub attn_res_block: usize,
    /// The context limit in tokens.
    pub max_positions: usize,
    /// The layers, first to last.
    pub layers: Vec<LayerSpec>,
    /// Dimensions of the KDA layers.
    pub kda: KdaSpec,
    /// Dimensions of the MLA layers.
    pub mla: MlaSpec,
    /// Inner width of the dense feed-forward layers.
    pub dense_width: usize,
    /// Dimensions of the expert layers.
    pub moe: MoeSpec,
    /// The activation of every gated MLP.
    pub situ: SituSpec,
}

impl ModelSpec {
    /// The released Kimi K3.
    pub fn k3() -> ModelSpec {
        ModelSpec {
            hidden: 7168,
            vocab: 163_840,
            rms_eps: 1e-5,
            attn_res_block: 12,
            max_positions: 1_048_576,
            layers: (0..93).map(k3_layer).collect(),
            kda: KdaSpec { heads: 96, head_dim: 128, conv_kernel: 4, gate_lower_bound: -5.0 },
            mla: MlaSpec {
                heads: 96,
                qk_nope: 128,
                qk_rope: 64,
                v_head: 128,
                q_lora: 1536,
                kv_lora: 512,
            },
            dense_width: 33_792,
            moe: MoeSpec {
                experts: 896,
                top_k: 16,
                latent: 3584,
                width: 3072,
                shared: 2,
                renormalize: true,
                routed_scaling: 1.0,
                groups: 1,
                top_groups: 1,
                latent_norm: true,
            },
            situ: SituSpec { beta: 4.0, linear_beta: 25.0 },
        }
    }

    /// The layer with this number.
    ///
    /// # Panics
    /// If the model has no such layer.
    pub fn layer(&self, layer: LayerId) -> LayerSpec {
        self.layers[layer.index()]
    }

    /// The layers' ids, first to last.
    pub fn layer_ids(&self) -> impl Iterator<Item = LayerId> + use<> {
        (0..self.layers.len() as u32).map(LayerId::new)
    }

    /// The layers whose feed-forward half is made of experts.
    pub fn moe_layers(&self) -> impl Iterator<Item = LayerId> + '_ {
        self.layer_ids().filter(|&layer| self.layer(layer).ffn == FfnKind::Moe)
    }

    /// How many layers attend in this way.
    pub fn count_attention(&self, kind: LayerKind) -> usize {
        self.layers.iter().filter(|layer| layer.attention == kind).count()
    }

    /// How many layers have this feed-forward half.
    pub fn count_ffn(&self, kind: FfnKind) -> usize {
        self.layers.iter().filter(|layer| layer.ffn == kind).count()
    }
}

/// Every fourth layer attends to everything, and so does the last.
fn k3_layer(index: usize) -> LayerSpec {
    let full = index % 4 == 3 || index == 92;
    LayerSpec {
        attention: if full { LayerKind::Mla } else { LayerKind::Kda },
        ffn: if index == 0 { FfnKind::Dense } else { FfnKind::Moe },
    }
}
