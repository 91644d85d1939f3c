//! `config.json`: the dimensions, and the refusal of everything the engine does not run.
//!
//! A switch that the forward pass does not implement is refused by name and value. A field
//! that changes nothing for the text model is not looked at.

mod fields;
mod layers;
mod quantization;

use deltafin_spec::{KdaSpec, MlaSpec, ModelSpec, MoeSpec, SituSpec, SpecError};
use serde_json::Value;
use thiserror::Error;

use crate::json::{NoDuplicateKeys, has_byte_order_mark};
pub(crate) use fields::Fields;

/// What is wrong with `config.json` or `generation_config.json`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages say what the fields are
pub enum ConfigError {
    #[error("not the JSON it should be: {what}")]
    Json { what: String },
    #[error("it begins with a byte order mark (the bytes EF BB BF), which JSON does not have")]
    ByteOrderMark,
    #[error("{field} is missing")]
    Missing { field: String },
    #[error("{field} is {found}, wanted {wanted}")]
    WrongType { field: String, found: String, wanted: &'static str },
    #[error("{field} is {found}, and this engine runs only {supported}")]
    Unsupported { field: String, found: String, supported: String },
    #[error(transparent)]
    Dimension(#[from] SpecError),
    #[error("layer {layer} (counted from 1) is {what}")]
    LayerLists { layer: u64, what: &'static str },
    #[error("{field} is {found}, outside the vocabulary of {vocab}")]
    TokenId { field: String, found: u64, vocab: usize },
}

/// What `config.json` says about the text model.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The dimensions, checked.
    pub spec: ModelSpec,
    /// The ids that end a reply, those of the text model included; may be empty.
    pub eos: Vec<u32>,
    /// The id that begins a document.
    pub bos: Option<u32>,
    /// The id that fills a batch.
    pub pad: Option<u32>,
    /// Layers for multi-token prediction, stored after the decoder's; they are not used.
    pub nextn_layers: u64,
}

/// Parses bytes to a JSON value and refuses keys that appear twice.
pub(crate) fn parse_json(bytes: &[u8]) -> Result<Value, ConfigError> {
    if has_byte_order_mark(bytes) {
        return Err(ConfigError::ByteOrderMark);
    }
    let json = |error: serde_json::Error| ConfigError::Json { what: error.to_string() };
    serde_json::from_slice::<NoDuplicateKeys>(bytes).map_err(json)?;
    serde_json::from_slice(bytes).map_err(json)
}

impl Config {
    /// Parses the bytes of `config.json`.
    pub fn parse(bytes: &[u8]) -> Result<Config, ConfigError> {
        let value = parse_json(bytes)?;
        let top = Fields::root(&value)?;
        top.expect("model_type", "kimi_k3")?;
        expect_architecture(&top, "KimiK3ForConditionalGeneration")?;
        top.expect_if_present("tie_word_embeddings", false)?;
        let text = top.object("text_config")?;
        text.expect("model_type", "kimi_linear")?;
        refuse_unknown_switches(&text)?;
        quantization::check(&text.object("quantization_config")?)?;
        let spec = read_spec(&text)?;
        spec.check()?;
        Ok(Config {
            eos: both(&top, &text, |fields| fields.ids("eos_token_id", spec.vocab))?,
            bos: first(&top, &text, "bos_token_id", spec.vocab)?,
            pad: first(&top, &text, "pad_token_id", spec.vocab)?,
            nextn_layers: text.optional("num_nextn_predict_layers", Fields::count)?.unwrap_or(0),
            spec,
        })
    }
}

/// The ids of the top level and of the text model, each once.
fn both<'v>(
    top: &Fields<'v>,
    text: &Fields<'v>,
    ids: impl Fn(&Fields<'v>) -> Result<Vec<u32>, ConfigError>,
) -> Result<Vec<u32>, ConfigError> {
    let mut found = ids(top)?;
    for id in ids(text)? {
        if !found.contains(&id) {
            found.push(id);
        }
    }
    Ok(found)
}

/// The ids of the top level, else those of the text model.
fn either<'v>(
    top: &Fields<'v>,
    text: &Fields<'v>,
    ids: impl Fn(&Fields<'v>) -> Result<Vec<u32>, ConfigError>,
) -> Result<Vec<u32>, ConfigError> {
    let found = ids(top)?;
    if found.is_empty() { ids(text) } else { Ok(found) }
}

fn first(
    top: &Fields<'_>,
    text: &Fields<'_>,
    field: &str,
    vocab: usize,
) -> Result<Option<u32>, ConfigError> {
    Ok(either(top, text, |fields| fields.ids(field, vocab))?.first().copied())
}

fn expect_architecture(top: &Fields<'_>, wanted: &str) -> Result<(), ConfigError> {
    let found = top.get("architectures")?;
    let runs = found.as_array().is_some_and(|list| list.iter().any(|a| a == wanted));
    if runs { Ok(()) } else { Err(top.unsupported("architectures", found, wanted)) }
}

/// Switches with one value that the forward pass implements.
fn refuse_unknown_switches(text: &Fields<'_>) -> Result<(), ConfigError> {
    text.expect("hidden_act", "situ")?;
    text.expect("mla_use_nope", true)?;
    text.expect("mla_use_output_gate", true)?;
    text.expect("moe_router_activation_func", "sigmoid")?;
    text.expect("topk_method", "noaux_tc")?;
    text.object("linear_attn_config")?.expect("use_full_rank_gate", true)?;
    text.expect_if_present("tie_word_embeddings", false)?;
    let grouped = text.optional("use_grouped_topk", Fields::switch)?.unwrap_or(true);
    if !grouped && text.dim("num_expert_group")? > 1 {
        text.expect("use_grouped_topk", true)?;
    }
    Ok(())
}

fn read_spec(text: &Fields<'_>) -> Result<ModelSpec, ConfigError> {
    let linear = text.object("linear_attn_config")?;
    let heads = text.dim("num_attention_heads")?;
    if text.dim("num_key_value_heads")? != heads {
        let found = text.get("num_key_value_heads")?;
        let wanted = format!("as many as num_attention_heads, {heads}");
        return Err(text.unsupported("num_key_value_heads", found, &wanted));
    }
    Ok(ModelSpec {
        hidden: text.dim("hidden_size")?,
        vocab: text.dim("vocab_size")?,
        rms_eps: text.float("rms_norm_eps")?,
        attn_res_block: text.dim("attn_res_block_size")?,
        max_positions: text.dim("max_position_embeddings")?,
        layers: layers::read(text, &linear)?,
        kda: KdaSpec {
            heads: linear.dim("num_heads")?,
            head_dim: linear.dim("head_dim")?,
            conv_kernel: linear.dim("short_conv_kernel_size")?,
            gate_lower_bound: linear.float("gate_lower_bound")?,
        },
        mla: MlaSpec {
            heads,
            qk_nope: text.dim("qk_nope_head_dim")?,
            qk_rope: text.dim("qk_rope_head_dim")?,
            v_head: text.dim("v_head_dim")?,
            q_lora: text.dim("q_lora_rank")?,
            kv_lora: text.dim("kv_lora_rank")?,
        },
        dense_width: text.dim("intermediate_size")?,
        moe: read_moe(text)?,
        situ: SituSpec {
            beta: text.float("activation_situ_beta")?,
            linear_beta: text.float("activation_situ_linear_beta")?,
        },
    })
}

fn read_moe(text: &Fields<'_>) -> Result<MoeSpec, ConfigError> {
    Ok(MoeSpec {
        experts: text.dim("num_experts")?,
        top_k: text.dim("num_experts_per_token")?,
        latent: text.dim("routed_expert_hidden_size")?,
        width: text.dim("moe_intermediate_size")?,
        shared: text.dim("num_shared_experts")?,
        renormalize: text.switch("moe_renormalize")?,
        routed_scaling: text.float("routed_scaling_factor")?,
        groups: text.dim("num_expert_group")?,
        top_groups: text.dim("topk_group")?,
        latent_norm: text.switch("latent_moe_use_norm")?,
    })
}
