//! The released tensors that are no part of the text model, which a reader has to pass over.

use deltafin_checkpoint::write::PlannedTensor;
use deltafin_spec::{Dtype, Shape};

const BLOCKS: usize = 27;

/// The projector's shard and the vision tower's.
pub(crate) fn shards() -> Vec<Vec<PlannedTensor>> {
    let projector = vec![
        bf16("mm_projector.proj.0.weight", &[4096, 4096]),
        bf16("mm_projector.proj.2.weight", &[7168, 4096]),
        bf16("mm_projector.post_norm.weight", &[7168]),
    ];
    let mut tower = vec![
        bf16("vision_tower.patch_embed.proj.weight", &[1024, 3, 14, 14]),
        bf16("vision_tower.patch_embed.pos_emb.weight", &[64, 64, 1024]),
        bf16("vision_tower.encoder.final_layernorm.weight", &[1024]),
    ];
    tower.extend((0..BLOCKS).flat_map(block));
    vec![projector, tower]
}

fn block(number: usize) -> impl Iterator<Item = PlannedTensor> {
    let parts: [(&str, &[usize]); 6] = [
        ("norm0", &[1024]),
        ("norm1", &[1024]),
        ("wqkv", &[4608, 1024]),
        ("wo", &[1024, 1536]),
        ("mlp.fc0", &[4096, 1024]),
        ("mlp.fc1", &[1024, 4096]),
    ];
    let name = move |part| format!("vision_tower.encoder.blocks.{number}.{part}.weight");
    parts.into_iter().map(move |(part, dims)| bf16(&name(part), dims))
}

fn bf16(name: &str, dims: &[usize]) -> PlannedTensor {
    let dims: Vec<u64> = dims.iter().map(|&dim| dim as u64).collect();
    let shape = Shape::new(&dims).expect("no more dimensions than a shape can have");
    PlannedTensor { name: name.to_owned(), dtype: Dtype::Bf16, shape }
}
