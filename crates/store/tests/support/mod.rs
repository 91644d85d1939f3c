//! A tiny checkpoint with every kind of layer, as files by name, to be damaged at will.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use deltafin_checkpoint::write::{self, PlannedShard, PlannedTensor};
use deltafin_spec::{
    Dtype, FfnKind, KdaSpec, LayerKind, LayerSpec, MlaSpec, ModelSpec, MoeSpec, Shape, SituSpec,
};

pub(crate) const INDEX: &str = "model.safetensors.index.json";
pub(crate) const CONFIG: &str = "config.json";

/// File names to contents.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

pub(crate) fn spec() -> ModelSpec {
    let layer = |attention, ffn| LayerSpec { attention, ffn };
    ModelSpec {
        hidden: 24,
        vocab: 40,
        rms_eps: 1e-5,
        attn_res_block: 2,
        max_positions: 4096,
        layers: vec![
            layer(LayerKind::Kda, FfnKind::Dense),
            layer(LayerKind::Kda, FfnKind::Moe),
            layer(LayerKind::Mla, FfnKind::Moe),
        ],
        kda: KdaSpec { heads: 3, head_dim: 5, conv_kernel: 4, gate_lower_bound: -5.0 },
        mla: MlaSpec { heads: 2, qk_nope: 6, qk_rope: 4, v_head: 7, q_lora: 9, kv_lora: 11 },
        dense_width: 31,
        moe: MoeSpec {
            experts: 12,
            top_k: 3,
            latent: 32,
            width: 64,
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

/// The bytes of a tensor: they follow from its name, so that any misplaced read shows.
pub(crate) fn tensor_bytes(tensor: &PlannedTensor) -> Vec<u8> {
    let mut state = tensor.name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let next = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..tensor.bytes()).map(next).collect()
}

pub(crate) fn shard_bytes(shard: &PlannedShard) -> Vec<u8> {
    let mut bytes = shard.header();
    shard.tensors.iter().for_each(|tensor| bytes.extend(tensor_bytes(tensor)));
    bytes
}

/// The released layout, with a shard of vision tensors.
pub(crate) fn plan() -> Vec<PlannedShard> {
    let shape = Shape::new(&[3, 5]).unwrap();
    let vision = ["mm_projector.proj.0.weight", "vision_tower.encoder.final_layernorm.weight"]
        .map(|name| PlannedTensor { name: name.to_owned(), dtype: Dtype::Bf16, shape });
    write::layout(&spec(), &[vision.to_vec()])
}

/// All files of a checkpoint with these shards.
pub(crate) fn files_of(shards: &[PlannedShard]) -> Files {
    let mut files: Files =
        shards.iter().map(|shard| (shard.name.clone(), shard_bytes(shard))).collect();
    files.insert(INDEX.to_owned(), write::index_json(shards).into_bytes());
    files.insert(CONFIG.to_owned(), write::config_json(&spec(), &[7]).into_bytes());
    let generation = br#"{"max_length": 64, "eos_token_id": [9, 7]}"#;
    files.insert("generation_config.json".to_owned(), generation.to_vec());
    files.insert("tiktoken.model".to_owned(), b"IQ== 0\n".to_vec());
    files
}

pub(crate) fn files() -> Files {
    files_of(&plan())
}

pub(crate) fn write_to(dir: &Path, files: &Files) {
    for (name, bytes) in files {
        fs::write(dir.join(name), bytes).unwrap();
    }
}

/// The files for the rest of the program, as the built-in demonstration has them.
pub(crate) fn leak(files: &Files) -> Vec<(&str, &'static [u8])> {
    files.iter().map(|(name, bytes)| (name.as_str(), &*bytes.clone().leak())).collect()
}

/// A small generator for shuffles; the seed is in the test.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}
