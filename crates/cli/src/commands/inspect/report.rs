//! A checkpoint in numbers.

mod words;

use deltafin_spec::{FfnKind, LayerKind, ModelSpec};
use deltafin_store::Checkpoint;
use deltafin_text::Tokenizer;
use serde::Serialize;

use super::packs::{Pack, packs};
use crate::gathered::Gathered;

/// What is said about a checkpoint that is whole.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// A name for these weights; nothing when they cannot be read.
    identity: Option<String>,
    dimensions: Dimensions,
    stop_ids: Vec<u32>,
    tokenizer: Option<Vocabulary>,
    shards: usize,
    bytes: Sizes,
    experts: Experts,
    /// Of the experts, those that are here, where they come over the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    gathered: Option<Gathered>,
    layers: Vec<Layer>,
    /// Beside it.
    packs: Vec<Pack>,
    notices: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Dimensions {
    layers: usize,
    kda_layers: usize,
    mla_layers: usize,
    dense_layers: usize,
    moe_layers: usize,
    hidden: usize,
    vocab: usize,
    max_positions: usize,
}

#[derive(Debug, Serialize)]
struct Vocabulary {
    ranks: u32,
    special: u32,
}

/// Bytes by what they are for.
#[derive(Debug, Serialize)]
struct Sizes {
    files: u64,
    spine: u64,
    experts: u64,
    embedding: u64,
    head: u64,
    norms: u64,
    ignored: u64,
    headers: u64,
}

#[derive(Debug, Serialize)]
struct Experts {
    per_layer: usize,
    chosen: usize,
    shared: usize,
    record_bytes: u64,
    token_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Layer {
    layer: usize,
    attention: &'static str,
    ffn: &'static str,
    spine_bytes: u64,
    experts: usize,
    /// Those of them that are here, where they come over the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    experts_here: Option<u64>,
    expert_bytes: u64,
}

impl Report {
    pub(super) fn new(checkpoint: &Checkpoint, tokenizer: Option<&Tokenizer>) -> Report {
        let spec = checkpoint.spec();
        let gathered = Gathered::of(checkpoint);
        let layers: Vec<Layer> = layers(checkpoint, gathered.as_ref()).collect();
        Report {
            identity: checkpoint.identity().ok().map(|identity| identity.to_string()),
            dimensions: Dimensions::new(spec),
            stop_ids: checkpoint.stop_ids(),
            tokenizer: tokenizer.map(|tokenizer| Vocabulary {
                ranks: tokenizer.base(),
                special: deltafin_text::tokenizer::SPECIAL_TOKENS,
            }),
            shards: checkpoint.catalog.shards().len(),
            bytes: Sizes::new(checkpoint, &layers),
            experts: Experts {
                per_layer: spec.moe.experts,
                chosen: spec.moe.top_k,
                shared: spec.moe.shared,
                record_bytes: spec.expert_bytes(),
                token_bytes: spec.token_expert_bytes(),
            },
            gathered,
            layers,
            packs: packs(checkpoint),
            notices: checkpoint.notices.clone(),
        }
    }

    /// What is wrong beside the checkpoint itself.
    pub(super) fn problems(&self) -> impl Iterator<Item = &String> {
        self.packs.iter().filter_map(|pack| pack.problem.as_ref())
    }
}

impl Dimensions {
    fn new(spec: &ModelSpec) -> Dimensions {
        Dimensions {
            layers: spec.layers.len(),
            kda_layers: spec.count_attention(LayerKind::Kda),
            mla_layers: spec.count_attention(LayerKind::Mla),
            dense_layers: spec.count_ffn(FfnKind::Dense),
            moe_layers: spec.count_ffn(FfnKind::Moe),
            hidden: spec.hidden,
            vocab: spec.vocab,
            max_positions: spec.max_positions,
        }
    }
}

impl Sizes {
    fn new(checkpoint: &Checkpoint, layers: &[Layer]) -> Sizes {
        let catalog = &checkpoint.catalog;
        let globals = catalog.globals();
        let spine = layers.iter().map(|layer| layer.spine_bytes).sum();
        let experts = layers.iter().map(|layer| layer.expert_bytes).sum();
        let embedding = globals.embed.tensor().span.len();
        let head = globals.head.tensor().span.len();
        let norms = [globals.norm, globals.output_res_norm, globals.output_res_proj];
        let norms = norms.iter().map(|tensor| tensor.span.len()).sum();
        let (files, ignored) = (catalog.file_bytes(), catalog.ignored().bytes);
        let known: u64 = [spine, experts, embedding, head, norms, ignored].iter().sum();
        let headers = files.saturating_sub(known);
        Sizes { files, spine, experts, embedding, head, norms, ignored, headers }
    }
}

fn layers<'c>(
    checkpoint: &'c Checkpoint,
    gathered: Option<&'c Gathered>,
) -> impl Iterator<Item = Layer> + 'c {
    let spec = checkpoint.spec();
    spec.layer_ids().map(move |id| {
        let kind = spec.layer(id);
        let experts = if kind.ffn == FfnKind::Moe { spec.moe.experts } else { 0 };
        let ids = spec.moe.expert_ids().take(experts);
        Layer {
            layer: id.index(),
            attention: match kind.attention {
                LayerKind::Kda => "kda",
                LayerKind::Mla => "mla",
            },
            ffn: match kind.ffn {
                FfnKind::Dense => "dense",
                FfnKind::Moe => "moe",
            },
            spine_bytes: checkpoint.catalog.spine(id).record().len(),
            experts,
            experts_here: gathered.map(|gathered| gathered.in_layer(id.index())),
            expert_bytes: ids.map(|e| checkpoint.catalog.expert(id, e).record.len()).sum(),
        }
    })
}
