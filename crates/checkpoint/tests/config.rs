//! The configuration: what is read, and what is refused by name.
#![allow(clippy::unwrap_used)]

use deltafin_checkpoint::{Config, Generation, write};
use deltafin_spec::{FfnKind, LayerKind, ModelSpec};
use serde_json::{Value, json};

fn k3() -> Value {
    serde_json::from_str(&write::config_json(&ModelSpec::k3(), &[163_586])).unwrap()
}

/// The configuration with one value replaced; `pointer` as in RFC 6901.
fn with(pointer: &str, value: Value) -> String {
    let mut config = k3();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    config.pointer_mut(parent).unwrap()[field] = value;
    config.to_string()
}

fn without(pointer: &str) -> String {
    let mut config = k3();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    config.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(field).unwrap();
    config.to_string()
}

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text.as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn the_written_configuration_reads_back() {
    let config = parse(&k3().to_string()).unwrap();
    assert_eq!(config.spec, ModelSpec::k3());
    assert_eq!(config.eos, [163_586]);
    assert_eq!((config.bos, config.pad, config.nextn_layers), (None, None, 0));
    let mut spec = ModelSpec::k3();
    (spec.moe.latent_norm, spec.moe.renormalize, spec.rms_eps) = (false, false, 3.7e-6);
    (spec.moe.groups, spec.moe.top_groups, spec.kda.gate_lower_bound) = (8, 4, -0.1);
    assert_eq!(parse(&write::config_json(&spec, &[])).unwrap().spec, spec);
}

#[test]
fn values_that_the_engine_does_not_run_are_refused_by_name() {
    let text = |field: &str| format!("/text_config/{field}");
    let cases = [
        (
            "use_full_rank_gate",
            with("/text_config/linear_attn_config/use_full_rank_gate", json!(false)),
        ),
        ("mla_use_nope", with(&text("mla_use_nope"), json!(false))),
        ("mla_use_output_gate", with(&text("mla_use_output_gate"), json!(false))),
        ("hidden_act", with(&text("hidden_act"), json!("silu"))),
        ("moe_router_activation_func", with(&text("moe_router_activation_func"), json!("softmax"))),
        ("topk_method", with(&text("topk_method"), json!("greedy"))),
        ("tie_word_embeddings", with(&text("tie_word_embeddings"), json!(true))),
        ("tie_word_embeddings", with("/tie_word_embeddings", json!(true))),
        ("num_key_value_heads", with(&text("num_key_value_heads"), json!(8))),
        ("model_type", with("/model_type", json!("kimi_k4"))),
        ("architectures", with("/architectures", json!(["Other"]))),
        ("format", with(&text("quantization_config/format"), json!("nvfp4-pack-quantized"))),
        ("quant_method", with(&text("quantization_config/quant_method"), json!("gptq"))),
        (
            "group_size",
            with(&text("quantization_config/config_groups/group_0/weights/group_size"), json!(16)),
        ),
        (
            "num_bits",
            with(&text("quantization_config/config_groups/group_0/weights/num_bits"), json!(8)),
        ),
        (
            "type",
            with(&text("quantization_config/config_groups/group_0/weights/type"), json!("int")),
        ),
        (
            "symmetric",
            with(
                &text("quantization_config/config_groups/group_0/weights/symmetric"),
                json!(false),
            ),
        ),
        (
            "input_activations",
            with(
                &text("quantization_config/config_groups/group_0/input_activations"),
                json!({"num_bits": 8}),
            ),
        ),
    ];
    for (field, config) in cases {
        let error = parse(&config).unwrap_err();
        assert!(error.contains(field) && error.contains("runs only"), "{field}: {error}");
    }
    for (list, shown) in [(json!(["A"]), "[\"A\"],"), (json!(["A", "B"]), "[\"A\", …],")] {
        let error = parse(&with("/architectures", list)).unwrap_err();
        assert!(error.contains(shown), "{error}");
    }
}

#[test]
fn zero_negative_and_odd_numbers_are_refused_by_name() {
    let fields = [
        "hidden_size",
        "vocab_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "attn_res_block_size",
        "q_lora_rank",
        "kv_lora_rank",
        "qk_nope_head_dim",
        "qk_rope_head_dim",
        "v_head_dim",
        "num_experts",
        "num_experts_per_token",
        "num_shared_experts",
        "moe_intermediate_size",
        "routed_expert_hidden_size",
        "moe_layer_freq",
        "num_expert_group",
        "topk_group",
        "max_position_embeddings",
        "rms_norm_eps",
        "activation_situ_beta",
        "activation_situ_linear_beta",
        "routed_scaling_factor",
        "linear_attn_config/num_heads",
        "linear_attn_config/head_dim",
        "linear_attn_config/short_conv_kernel_size",
        "quantization_config/config_groups/group_0/weights/group_size",
        "quantization_config/config_groups/group_0/weights/num_bits",
    ];
    for field in fields {
        for value in [json!(0), json!(-1), json!(null), json!("7"), json!([7]), json!({})] {
            let error = parse(&with(&format!("/text_config/{field}"), value.clone())).unwrap_err();
            let name = field.rsplit('/').next().unwrap();
            assert!(error.contains(name), "{field} = {value}: {error}");
        }
        let error = parse(&without(&format!("/text_config/{field}"))).unwrap_err();
        assert!(error.contains("is missing"), "{field}: {error}");
    }
    for value in ["1e400", "-1e400", "123456789012345678901234567890", "1.5", "7e3"] {
        let config = with("/text_config/hidden_size", json!("@")).replace("\"@\"", value);
        assert!(parse(&config).unwrap_err().contains("hidden_size"), "{value}");
    }
    let config = with("/text_config/rms_norm_eps", json!("@")).replace("\"@\"", "1e400");
    assert!(parse(&config).unwrap_err().contains("rms_norm_eps"));
}

#[test]
fn dimensions_that_overflow_or_do_not_fit_are_refused() {
    let huge = json!(u64::MAX);
    for field in ["hidden_size", "vocab_size", "num_experts", "num_hidden_layers"] {
        let error = parse(&with(&format!("/text_config/{field}"), huge.clone())).unwrap_err();
        assert!(error.contains(field), "{error}");
    }
    let error = parse(&with("/text_config/moe_intermediate_size", json!(3000))).unwrap_err();
    assert!(error.contains("3000") && error.contains("multiple"), "{error}");
}

#[test]
fn layer_lists_must_name_each_layer_once() {
    let lists = "/text_config/linear_attn_config";
    let mla = |list: Value| parse(&with(&format!("{lists}/full_attn_layers"), list)).unwrap_err();
    let mut list = k3().pointer(&format!("{lists}/full_attn_layers")).unwrap().clone();
    list.as_array_mut().unwrap().pop();
    assert!(mla(list.clone()).contains("layer 93 (counted from 1) is in neither"));
    list.as_array_mut().unwrap().push(json!(94));
    assert!(mla(list.clone()).contains("layer 94"));
    list.as_array_mut().unwrap().pop();
    list.as_array_mut().unwrap().push(json!(1));
    assert!(mla(list.clone()).contains("layer 1 (counted from 1) is twice"));
    list.as_array_mut().unwrap().push(json!(0));
    assert!(mla(json!([0])).contains("layer 0"));
    assert!(mla(json!([-4])).contains("full_attn_layers"));
}

#[test]
fn experts_begin_where_the_configuration_says() {
    let mut config = k3();
    config["text_config"]["first_k_dense_replace"] = json!(3);
    config["text_config"]["moe_layer_freq"] = json!(2);
    let spec = parse(&config.to_string()).unwrap().spec;
    let moe: Vec<usize> = (0..8).filter(|&i| spec.layers[i].ffn == FfnKind::Moe).collect();
    assert_eq!(moe, [4, 6]);
    assert_eq!(spec.layers[3].attention, LayerKind::Mla);
}

#[test]
fn stop_ids_are_one_or_many_and_inside_the_vocabulary() {
    let eos = |value: Value| parse(&with("/eos_token_id", value)).map(|config| config.eos);
    assert_eq!(eos(json!(5)), Ok(vec![5, 163_586]), "the text model's own counts, too");
    assert_eq!(eos(json!([5, 163_586])), Ok(vec![5, 163_586]));
    assert_eq!(eos(json!(null)), Ok(vec![163_586]), "the text model's own");
    assert!(eos(json!(163_840)).unwrap_err().contains("163840"));
    assert!(eos(json!(-1)).unwrap_err().contains("eos_token_id"));
    assert!(eos(json!("5")).is_err());
    for wrong in [json!(-1), json!("x"), json!({}), json!(163_840), json!([1, "x"])] {
        let refused = parse(&with("/text_config/eos_token_id", wrong.clone())).unwrap_err();
        assert!(refused.contains("text_config.eos_token_id"), "{wrong}: {refused}");
    }
    let generation = |text: &str| Generation::parse(text.as_bytes(), 100);
    let both = generation(r#"{"max_length": 64, "eos_token_id": [7, 8]}"#).unwrap();
    assert_eq!((both.eos, both.max_length), (vec![7, 8], Some(64)));
    assert_eq!(generation("{}").unwrap(), Generation::default());
    assert_eq!(generation(r#"{"eos_token_id": 7}"#).unwrap().eos, [7]);
    for wrong in [r#"{"eos_token_id": 100}"#, r#"{"max_length": 0}"#, r#"{"max_length": -1}"#, "[]"]
    {
        assert!(generation(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_changes_nothing_for_text_is_not_looked_at() {
    let mut config = k3();
    config["vision_config"] = json!({"patch_size": -1});
    config["text_config"]["num_nextn_predict_layers"] = json!(2);
    config["text_config"]["use_grouped_topk"] = json!(false);
    config["text_config"]["rope_theta"] = json!("?");
    assert_eq!(parse(&config.to_string()).unwrap().nextn_layers, 2);
    config["text_config"]["num_expert_group"] = json!(2);
    assert!(parse(&config.to_string()).unwrap_err().contains("use_grouped_topk"));
}
