//! Byte sizes of the parts of a model.

use crate::{ExpertTensor, FfnKind, GlobalTensor, LayerId, LayerKind, ModelSpec, SpineTensor};

/// Bytes of the scale that an int8 row carries.
const ROW_SCALE_BYTES: u64 = 2;

impl ModelSpec {
    /// Bytes of one spine tensor as released.
    pub fn spine_tensor_bytes(&self, role: SpineTensor) -> u64 {
        let bytes = role.shape(self).bytes(role.dtype());
        bytes.expect("a checked spec has no size that overflows")
    }

    /// Bytes of a layer's spine as released.
    pub fn spine_bytes(&self, layer: LayerId) -> u64 {
        self.spine(layer).map(|role| self.spine_tensor_bytes(role)).sum()
    }

    /// Bytes of a layer's spine with every matrix of two or more rows as int8 with one f16
    /// scale per row, the rest as released.
    pub fn spine_int8_bytes(&self, layer: LayerId) -> u64 {
        self.spine(layer).map(|role| self.int8_tensor_bytes(role)).sum()
    }

    fn int8_tensor_bytes(&self, role: SpineTensor) -> u64 {
        let shape = role.shape(self);
        match shape.dims() {
            &[rows, columns] if rows >= 2 => rows * (columns + ROW_SCALE_BYTES),
            _ => self.spine_tensor_bytes(role),
        }
    }

    /// Bytes of all layers' spines as released.
    pub fn all_spines_bytes(&self) -> u64 {
        self.layer_ids().map(|layer| self.spine_bytes(layer)).sum()
    }

    /// Bytes of one routed expert.
    pub fn expert_bytes(&self) -> u64 {
        ExpertTensor::ALL.iter().map(|role| self.expert_tensor_bytes(*role)).sum()
    }

    /// Bytes of one tensor of a routed expert.
    pub fn expert_tensor_bytes(&self, role: ExpertTensor) -> u64 {
        let bytes = role.shape(self).bytes(role.dtype());
        bytes.expect("a checked spec has no size that overflows")
    }

    /// Routed experts of the whole model.
    pub fn expert_count(&self) -> u64 {
        self.count_ffn(FfnKind::Moe) as u64 * self.moe.experts as u64
    }

    /// Bytes of the experts that one token touches.
    pub fn token_expert_bytes(&self) -> u64 {
        self.count_ffn(FfnKind::Moe) as u64 * self.moe.top_k as u64 * self.expert_bytes()
    }

    /// Bytes of all routed experts.
    pub fn all_experts_bytes(&self) -> u64 {
        self.expert_count() * self.expert_bytes()
    }

    /// Bytes of a tensor outside the layers.
    pub fn global_bytes(&self, role: GlobalTensor) -> u64 {
        let bytes = role.shape(self).bytes(role.dtype());
        bytes.expect("a checked spec has no size that overflows")
    }

    /// Bytes of the head as int8 with one f16 scale per row.
    pub fn head_int8_bytes(&self) -> u64 {
        self.vocab as u64 * (self.hidden as u64 + ROW_SCALE_BYTES)
    }

    /// Bytes of one row of the embedding table.
    pub fn embed_row_bytes(&self) -> u64 {
        self.hidden as u64 * GlobalTensor::Embed.dtype().size_bytes()
    }

    /// Bytes of the whole text model.
    pub fn total_bytes(&self) -> u64 {
        let globals: u64 = GlobalTensor::ALL.iter().map(|role| self.global_bytes(*role)).sum();
        self.all_spines_bytes() + self.all_experts_bytes() + globals
    }

    /// Bytes of the KDA states of one sequence, in fp32.
    pub fn kda_state_bytes(&self) -> u64 {
        let head = self.kda.head_dim as u64 * self.kda.head_dim as u64 * 4;
        self.count_attention(LayerKind::Kda) as u64 * self.kda.heads as u64 * head
    }

    /// Bytes of the KDA convolution history of one sequence, in fp32: for each of q, k and
    /// v the inputs of all taps but the newest.
    pub fn kda_conv_bytes(&self) -> u64 {
        let taps = self.kda.conv_kernel as u64 - 1;
        self.count_attention(LayerKind::Kda) as u64 * 3 * taps * self.kda.channels() as u64 * 4
    }

    /// Values in the MLA cache per token, all layers together.
    pub fn mla_cache_values(&self) -> u64 {
        self.count_attention(LayerKind::Mla) as u64 * self.mla.cache_width() as u64
    }
}
