//! Refusing dimensions that no model has, before anything is computed from them.

use std::fmt;

use crate::{FfnKind, GlobalTensor, MXFP4_GROUP, ModelSpec, TensorId};

/// No dimension of a model comes near this; below it, products of three fit 72 bits and
/// are summed in 128.
const DIM_LIMIT: usize = 1 << 24;
const LAYER_LIMIT: usize = 1 << 12;
const EXPERT_LIMIT: usize = 1 << 16;
const POSITION_LIMIT: usize = 1 << 40;
/// What the convolution kernel keeps in registers.
const CONV_KERNEL_LIMIT: usize = 8;
/// What the attention-residual kernel mixes at once, besides the running sum.
const STORED_SUM_LIMIT: usize = 62;

/// A dimension that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The dimension, by the name that `config.json` uses.
    pub field: &'static str,
    /// What it is.
    pub found: String,
    /// What it must be.
    pub wanted: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, wanted {}", self.field, self.found, self.wanted)
    }
}

impl std::error::Error for SpecError {}

fn refuse(field: &'static str, found: impl fmt::Display, wanted: impl fmt::Display) -> SpecError {
    SpecError { field, found: found.to_string(), wanted: wanted.to_string() }
}

fn within(field: &'static str, value: usize, limit: usize) -> Result<(), SpecError> {
    if (1..=limit).contains(&value) {
        return Ok(());
    }
    Err(refuse(field, value, format_args!("a number from 1 to {limit}")))
}

fn positive(field: &'static str, value: f32) -> Result<(), SpecError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(refuse(field, value, "a finite number above 0"))
}

/// Refuses more layers than any model has. For whoever makes a list of them: [`ModelSpec::check`]
/// comes when there is one.
///
/// # Errors
/// When `count` is none or too many.
pub fn check_layer_count(count: usize) -> Result<(), SpecError> {
    within("num_hidden_layers", count, LAYER_LIMIT)
}

impl ModelSpec {
    /// Checks that every dimension is possible, that they fit each other and that no byte
    /// size overflows.
    pub fn check(&self) -> Result<(), SpecError> {
        self.check_range()?;
        self.check_numbers()?;
        self.check_router()?;
        self.check_groups_of_weights()?;
        self.check_bytes()
    }

    fn check_range(&self) -> Result<(), SpecError> {
        let dims = [
            ("hidden_size", self.hidden),
            ("vocab_size", self.vocab),
            ("attn_res_block_size", self.attn_res_block),
            ("intermediate_size", self.dense_width),
            ("linear_attn_config.num_heads", self.kda.heads),
            ("linear_attn_config.head_dim", self.kda.head_dim),
            ("num_attention_heads", self.mla.heads),
            ("qk_nope_head_dim", self.mla.qk_nope),
            ("qk_rope_head_dim", self.mla.qk_rope),
            ("v_head_dim", self.mla.v_head),
            ("q_lora_rank", self.mla.q_lora),
            ("kv_lora_rank", self.mla.kv_lora),
            ("routed_expert_hidden_size", self.moe.latent),
            ("moe_intermediate_size", self.moe.width),
            ("num_shared_experts", self.moe.shared),
        ];
        check_layer_count(self.layers.len())?;
        within("num_experts", self.moe.experts, EXPERT_LIMIT)?;
        within("max_position_embeddings", self.max_positions, POSITION_LIMIT)?;
        within(
            "linear_attn_config.short_conv_kernel_size",
            self.kda.conv_kernel,
            CONV_KERNEL_LIMIT,
        )?;
        dims.into_iter().try_for_each(|(field, value)| within(field, value, DIM_LIMIT))?;
        let least = self.layers.len().div_ceil(STORED_SUM_LIMIT);
        if self.attn_res_block < least {
            let wanted = format_args!(
                "at least {least}: {} layers would store more than {STORED_SUM_LIMIT} sums",
                self.layers.len()
            );
            return Err(refuse("attn_res_block_size", self.attn_res_block, wanted));
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), SpecError> {
        positive("rms_norm_eps", self.rms_eps)?;
        positive("activation_situ_beta", self.situ.beta)?;
        positive("activation_situ_linear_beta", self.situ.linear_beta)?;
        positive("routed_scaling_factor", self.moe.routed_scaling)?;
        let bound = self.kda.gate_lower_bound;
        if bound.is_finite() && bound < 0.0 {
            return Ok(());
        }
        Err(refuse("linear_attn_config.gate_lower_bound", bound, "a finite number below 0"))
    }

    fn check_router(&self) -> Result<(), SpecError> {
        let moe = &self.moe;
        within("num_experts_per_token", moe.top_k, moe.experts)?;
        within("num_expert_group", moe.groups, moe.experts)?;
        within("topk_group", moe.top_groups, moe.groups)?;
        if !moe.experts.is_multiple_of(moe.groups) {
            let wanted = format_args!("a divisor of num_experts {}", moe.experts);
            return Err(refuse("num_expert_group", moe.groups, wanted));
        }
        let open = moe.experts / moe.groups * moe.top_groups;
        if moe.top_k > open {
            let wanted = format_args!("at most the {open} experts of topk_group groups");
            return Err(refuse("num_experts_per_token", moe.top_k, wanted));
        }
        Ok(())
    }

    /// The scales of a row must cover it exactly.
    fn check_groups_of_weights(&self) -> Result<(), SpecError> {
        let columns = [
            ("routed_expert_hidden_size", self.moe.latent),
            ("moe_intermediate_size", self.moe.width),
        ];
        for (field, value) in columns {
            if !value.is_multiple_of(MXFP4_GROUP) {
                let wanted = format_args!("a multiple of the MXFP4 group of {MXFP4_GROUP}");
                return Err(refuse(field, value, wanted));
            }
        }
        Ok(())
    }

    fn check_bytes(&self) -> Result<(), SpecError> {
        let layers = self.layer_ids().flat_map(|layer| {
            self.spine(layer).map(move |role| (TensorId::Spine(layer, role), 1u128))
        });
        let globals = GlobalTensor::ALL.iter().map(|role| (TensorId::Global(*role), 1));
        let experts = self.count_ffn(FfnKind::Moe) as u128 * self.moe.experts as u128;
        let expert_tensors = crate::ExpertTensor::ALL
            .iter()
            .map(|role| TensorId::Expert(crate::LayerId::new(0), crate::ExpertId::new(0), *role));
        let mut total = 0u128;
        for (tensor, count) in layers.chain(globals).chain(expert_tensors.map(|t| (t, experts))) {
            total += wide_bytes(&tensor, self) * count;
        }
        if total <= i64::MAX as u128 {
            return Ok(());
        }
        Err(refuse("the size of all tensors", total, "less than 2^63 bytes"))
    }
}

fn wide_bytes(tensor: &TensorId, spec: &ModelSpec) -> u128 {
    let shape = tensor.shape(spec);
    let elements: u128 = shape.dims().iter().map(|&dim| u128::from(dim)).product();
    elements * u128::from(tensor.dtype().size_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut ModelSpec)) -> String {
        let mut spec = ModelSpec::k3();
        change(&mut spec);
        spec.check().unwrap_err().to_string()
    }

    #[test]
    fn what_the_kernels_cannot_hold_is_refused_by_name() {
        assert!(ModelSpec::k3().check().is_ok());
        let message = refused(|spec| spec.attn_res_block = 1);
        assert!(message.starts_with("attn_res_block_size is 1, wanted at least 2"), "{message}");
        let message = refused(|spec| spec.kda.conv_kernel = 9);
        assert!(message.contains("short_conv_kernel_size is 9"), "{message}");
    }
}
