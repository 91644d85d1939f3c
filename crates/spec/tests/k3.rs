//! The built-in dimensions against the published totals of the released checkpoint.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;

use deltafin_spec::{
    Dtype, ExpertTensor, FfnKind, GlobalTensor, LayerId, LayerKind, ModelSpec, Shape, SpineTensor,
    TensorId,
};

/// Vision tower and projector: 168 tensors that the text path ignores.
const VISION_TENSORS: u64 = 168;
const VISION_BYTES: u64 = 92_289_024 + 802_428_928;

#[test]
fn the_roster_has_the_released_number_of_tensors() {
    let spec = ModelSpec::k3();
    assert_eq!(spec.check(), Ok(()));
    assert_eq!(spec.roster_len(), 497_220 - VISION_TENSORS);
    assert_eq!(spec.roster().count() as u64, spec.roster_len());
    assert_eq!(spec.spine(LayerId::new(0)).count(), 23);
    assert_eq!(spec.spine(LayerId::new(1)).count(), 28);
    assert_eq!(spec.spine(LayerId::new(3)).count(), 22);
}

#[test]
fn the_roster_adds_up_to_the_released_index() {
    let spec = ModelSpec::k3();
    let bytes: u64 = spec.roster().map(|tensor| tensor.bytes(&spec)).sum();
    assert_eq!(bytes, spec.total_bytes());
    assert_eq!(bytes + VISION_BYTES, 1_560_860_324_864);
}

#[test]
fn names_and_tensors_map_one_to_one_and_in_order() {
    let spec = ModelSpec::k3();
    let mut seen = HashSet::new();
    let mut before = None;
    for tensor in spec.roster() {
        let name = tensor.name();
        assert_eq!(TensorId::parse(&name, &spec), Some(tensor), "{name}");
        assert!(seen.insert(name));
        assert!(before < Some(tensor));
        before = Some(tensor);
    }
}

#[test]
fn near_misses_of_names_are_not_tensors() {
    let spec = ModelSpec::k3();
    for name in [
        "model.norm.weight",
        "language_model.model.layers.00.input_layernorm.weight",
        "language_model.model.layers.93.input_layernorm.weight",
        "language_model.model.layers.+1.input_layernorm.weight",
        "language_model.model.layers.99999999999999999999.input_layernorm.weight",
        "language_model.model.layers.0.self_attn.q_a_proj.weight",
        "language_model.model.layers.0.block_sparse_moe.experts.0.w1.weight_packed",
        "language_model.model.layers.1.block_sparse_moe.experts.896.w1.weight_packed",
        "language_model.model.layers.1.block_sparse_moe.experts.01.w1.weight_packed",
        "language_model.model.layers.1.block_sparse_moe.experts.1.w4.weight_packed",
        "language_model.model.layers.1.mlp.gate_proj.weight",
        "language_model.model.layers.",
        "",
    ] {
        assert_eq!(TensorId::parse(name, &spec), None, "{name}");
    }
}

#[test]
fn one_name_has_two_roles_by_layer_kind() {
    let spec = ModelSpec::k3();
    let gate = |layer| {
        let name = format!("language_model.model.layers.{layer}.self_attn.g_proj.weight");
        TensorId::parse(&name, &spec).unwrap()
    };
    assert_eq!(gate(2), TensorId::Spine(LayerId::new(2), SpineTensor::KdaGate));
    assert_eq!(gate(3), TensorId::Spine(LayerId::new(3), SpineTensor::MlaGate));
}

#[test]
fn sizes_are_the_published_ones() {
    let spec = ModelSpec::k3();
    assert_eq!(spec.expert_bytes(), 17_547_264);
    assert_eq!(spec.expert_count(), 82_432);
    assert_eq!(spec.token_expert_bytes(), 25_829_572_608);
    assert_eq!(spec.all_experts_bytes(), 1_446_456_066_048);
    assert_eq!(spec.all_spines_bytes(), 108_811_877_376);
    assert_eq!(spec.global_bytes(GlobalTensor::Head), 2_348_810_240);
    let small = [GlobalTensor::Norm, GlobalTensor::OutputResNorm, GlobalTensor::OutputResProj];
    let small: u64 = small.iter().map(|role| spec.global_bytes(*role)).sum();
    let head = spec.global_bytes(GlobalTensor::Head);
    assert_eq!(spec.all_spines_bytes() + head + small, 111_160_730_624);
    assert_eq!(spec.embed_row_bytes(), 14_336);
    assert_eq!(spec.head_int8_bytes(), 1_174_732_800);
    let int8: u64 = spec.layer_ids().map(|layer| spec.spine_int8_bytes(layer)).sum();
    assert_eq!(int8, 54_451_033_280);
    assert_eq!(spec.kda_state_bytes(), 434_110_464);
    assert_eq!(spec.kda_conv_bytes(), 30_523_392);
    assert_eq!(spec.mla_cache_values(), 13_824);
}

#[test]
fn layers_have_the_published_sizes() {
    let spec = ModelSpec::k3();
    assert_eq!(spec.spine_bytes(LayerId::new(0)), 2_341_213_184);
    assert_eq!(spec.spine_bytes(LayerId::new(1)), 1_267_744_256);
    assert_eq!(spec.spine_bytes(LayerId::new(3)), 844_335_616);
    assert_eq!(spec.count_attention(LayerKind::Kda), 69);
    assert_eq!(spec.count_attention(LayerKind::Mla), 24);
    assert_eq!(spec.count_ffn(FfnKind::Dense), 1);
    for layer in [91, 92] {
        assert_eq!(spec.layer(LayerId::new(layer)).attention, LayerKind::Mla);
    }
}

#[test]
fn experts_are_packed_in_the_released_shapes() {
    let spec = ModelSpec::k3();
    let shape = |role: ExpertTensor| role.shape(&spec).dims().to_vec();
    assert_eq!(shape(ExpertTensor::W1Packed), [3072, 1792]);
    assert_eq!(shape(ExpertTensor::W1Scale), [3072, 112]);
    assert_eq!(shape(ExpertTensor::W2Packed), [3584, 1536]);
    assert_eq!(shape(ExpertTensor::W2Scale), [3584, 96]);
    assert!(ExpertTensor::W1Scale.accepts_dtype(Dtype::F8E8M0));
    assert!(!ExpertTensor::W1Packed.accepts_dtype(Dtype::F8E8M0));
}

#[test]
fn a_log_may_be_padded_in_any_way_but_not_cut() {
    let spec = ModelSpec::k3();
    let accepts = |len| SpineTensor::KdaALog.accepts(&spec, &Shape::new(&[len]).unwrap());
    assert!(accepts(96) && accepts(128) && accepts(256));
    assert!(!accepts(95));
}

/// One way to be wrong, and the field that must be named.
fn refused(field: &str, break_it: impl FnOnce(&mut ModelSpec)) {
    let mut spec = ModelSpec::k3();
    break_it(&mut spec);
    let error = spec.check().unwrap_err();
    assert_eq!(error.field, field);
    assert!(!error.to_string().contains('\n'));
}

#[test]
fn impossible_dimensions_are_refused_by_name() {
    refused("hidden_size", |s| s.hidden = 0);
    refused("num_hidden_layers", |s| s.layers.clear());
    refused("num_experts", |s| s.moe.experts = 0);
    refused("num_experts", |s| s.moe.experts = 1 << 20);
    refused("vocab_size", |s| s.vocab = usize::MAX);
    refused("moe_intermediate_size", |s| s.moe.width = 3000);
    refused("routed_expert_hidden_size", |s| s.moe.latent = 16);
    refused("num_experts_per_token", |s| s.moe.top_k = 897);
    refused("num_expert_group", |s| s.moe.groups = 5);
    refused("topk_group", |s| s.moe.top_groups = 2);
    refused("num_experts_per_token", |s| (s.moe.groups, s.moe.top_groups) = (896, 15));
    refused("rms_norm_eps", |s| s.rms_eps = f32::NAN);
    refused("activation_situ_beta", |s| s.situ.beta = 0.0);
    refused("linear_attn_config.gate_lower_bound", |s| s.kda.gate_lower_bound = 0.0);
    refused("the size of all tensors", |s| {
        (s.kda.heads, s.kda.head_dim, s.hidden) = (1 << 24, 1 << 24, 1 << 24);
    });
}
