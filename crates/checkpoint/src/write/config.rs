//! The configuration of a model, with every field the engine reads.

use deltafin_spec::{FfnKind, LayerKind, MXFP4_GROUP, ModelSpec};
use serde_json::{Value, json};

/// `config.json` for a model whose replies end with one of the `eos` ids.
///
/// The two fields that place the experts can only say "dense first, then experts"; a spec
/// that mixes them otherwise is written wrong, and parsing shows it.
pub fn config_json(spec: &ModelSpec, eos: &[u32]) -> String {
    let eos = match eos {
        [] => Value::Null,
        [one] => json!(one),
        many => json!(many),
    };
    let value = json!({
        "architectures": ["KimiK3ForConditionalGeneration"],
        "model_type": "kimi_k3",
        "dtype": "bfloat16",
        "eos_token_id": eos,
        "tie_word_embeddings": false,
        "text_config": text_config(spec, &eos),
    });
    format!("{value:#}\n")
}

fn text_config(spec: &ModelSpec, eos: &Value) -> Value {
    let ModelSpec { kda, mla, moe, situ, .. } = spec;
    json!({
        "architectures": ["KimiLinearForCausalLM"],
        "model_type": "kimi_linear",
        "dtype": "bfloat16",
        "eos_token_id": eos,
        "vocab_size": spec.vocab,
        "hidden_size": spec.hidden,
        "num_hidden_layers": spec.layers.len(),
        "num_attention_heads": mla.heads,
        "num_key_value_heads": mla.heads,
        "intermediate_size": spec.dense_width,
        "hidden_act": "situ",
        "activation_situ_beta": float(situ.beta),
        "activation_situ_linear_beta": float(situ.linear_beta),
        "rms_norm_eps": float(spec.rms_eps),
        "attn_res_block_size": spec.attn_res_block,
        "q_lora_rank": mla.q_lora,
        "kv_lora_rank": mla.kv_lora,
        "qk_nope_head_dim": mla.qk_nope,
        "qk_rope_head_dim": mla.qk_rope,
        "v_head_dim": mla.v_head,
        "mla_use_nope": true,
        "mla_use_output_gate": true,
        "num_experts": moe.experts,
        "num_experts_per_token": moe.top_k,
        "num_shared_experts": moe.shared,
        "moe_intermediate_size": moe.width,
        "routed_expert_hidden_size": moe.latent,
        "latent_moe_use_norm": moe.latent_norm,
        "first_k_dense_replace": leading_dense(spec),
        "moe_layer_freq": 1,
        "moe_router_activation_func": "sigmoid",
        "moe_renormalize": moe.renormalize,
        "routed_scaling_factor": float(moe.routed_scaling),
        "use_grouped_topk": true,
        "num_expert_group": moe.groups,
        "topk_group": moe.top_groups,
        "topk_method": "noaux_tc",
        "num_nextn_predict_layers": 0,
        "max_position_embeddings": spec.max_positions,
        "tie_word_embeddings": false,
        "linear_attn_config": {
            "kda_layers": numbers(spec, LayerKind::Kda),
            "full_attn_layers": numbers(spec, LayerKind::Mla),
            "num_heads": kda.heads,
            "head_dim": kda.head_dim,
            "short_conv_kernel_size": kda.conv_kernel,
            "use_full_rank_gate": true,
            "gate_lower_bound": float(kda.gate_lower_bound),
        },
        "quantization_config": quantization(),
    })
}

/// The shortest decimal that reads back as the same number.
fn float(number: f32) -> Value {
    number.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// Layers of a kind, counted from 1.
fn numbers(spec: &ModelSpec, kind: LayerKind) -> Vec<u32> {
    let layers = spec.layer_ids().filter(|&layer| spec.layer(layer).attention == kind);
    layers.map(|layer| layer.number() + 1).collect()
}

fn leading_dense(spec: &ModelSpec) -> usize {
    spec.layers.iter().take_while(|layer| layer.ffn == FfnKind::Dense).count()
}

fn quantization() -> Value {
    json!({
        "quant_method": "compressed-tensors",
        "format": "mxfp4-pack-quantized",
        "quantization_status": "compressed",
        "config_groups": {"group_0": {
            "format": "mxfp4-pack-quantized",
            "input_activations": null,
            "output_activations": null,
            "targets": ["Linear"],
            "weights": {
                "dynamic": false,
                "group_size": MXFP4_GROUP,
                "num_bits": 4,
                "scale_dtype": "torch.uint8",
                "strategy": "group",
                "symmetric": true,
                "type": "float",
            },
        }},
    })
}
