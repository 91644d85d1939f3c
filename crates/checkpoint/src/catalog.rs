//! The catalog: every tensor of the text model to its bytes, checked once.

mod build;
mod globals;
mod packed;

use deltafin_spec::{ExpertId, FfnKind, LayerId, ModelSpec};

use crate::identity::{Identity, IdentityHasher};
use crate::pack::Seal;
use crate::record::{ExpertRecord, ExpertTable};
use crate::spine::Spine;
use crate::{ShardId, Span};

pub use build::CatalogBuilder;
pub use globals::{Globals, RowTable, SpanTensor};

/// One file of the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The file name.
    pub name: String,
    /// The file's bytes.
    pub len: u64,
}

/// Tensors that the text model does not use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    /// How many there are.
    pub tensors: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Where everything is. All spans lie inside their shards.
#[derive(Clone, Debug)]
pub struct Catalog {
    spec: ModelSpec,
    shards: Vec<Shard>,
    spines: Vec<Spine>,
    experts: ExpertTable,
    /// For each layer, the number of the first of its experts.
    first_expert: Vec<usize>,
    globals: Globals,
    ignored: Ignored,
    /// Of the pack's files, in the order of its parts; none of the released tensors.
    seals: Vec<Seal>,
}

impl Catalog {
    /// The model's dimensions.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// The shards, in the order of their ids.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// A shard.
    ///
    /// # Panics
    /// If the id is from another checkpoint.
    pub fn shard(&self, shard: ShardId) -> &Shard {
        &self.shards[shard.index()]
    }

    /// The tensors of a layer that every token uses.
    ///
    /// # Panics
    /// If the model has no such layer.
    pub fn spine(&self, layer: LayerId) -> &Spine {
        &self.spines[layer.index()]
    }

    /// A routed expert.
    ///
    /// # Panics
    /// If the layer has no such expert.
    pub fn expert(&self, layer: LayerId, expert: ExpertId) -> ExpertRecord<'_> {
        assert_eq!(self.spec.layer(layer).ffn, FfnKind::Moe, "layer {layer} has no experts");
        assert!(expert.index() < self.spec.moe.experts, "no expert {expert} in layer {layer}");
        self.experts.get(self.first_expert[layer.index()] + expert.index())
    }

    /// The tensors outside the layers.
    pub fn globals(&self) -> &Globals {
        &self.globals
    }

    /// What else the shards hold.
    pub fn ignored(&self) -> Ignored {
        self.ignored
    }

    /// What the layers' spines, in their order, and then the head are held against once they are
    /// read. Nothing without a pack: what is noted of released weights is for whoever has their bytes to say.
    pub fn seals(&self) -> &[Seal] {
        &self.seals
    }

    /// Bytes of all shards, headers included.
    pub fn file_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.len).sum()
    }

    /// Every span of the text model: spines, experts, then the tensors outside the layers.
    pub fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        let spines = self.spines.iter().flat_map(|spine| spine.record().pieces());
        let experts = (0..self.experts.len()).flat_map(|e| self.experts.get(e).record.pieces());
        spines.chain(experts).copied().chain(self.globals.spans())
    }

    /// A name for the model as described: its dimensions and the dtypes and shapes of its
    /// tensors. It does not depend on how the tensors are spread over shards, and two
    /// trainings of one architecture share it.
    pub fn identity(&self) -> Identity {
        let mut hasher = IdentityHasher::new("deltafin checkpoint");
        hash_spec(&mut hasher, &self.spec);
        for tensor in self.spines.iter().flat_map(Spine::tensors) {
            hasher.field(tensor.role.suffix().as_bytes());
            hasher.field(tensor.dtype.name().as_bytes());
            hasher.field(tensor.shape.to_string().as_bytes());
        }
        hasher.finish()
    }
}

/// Everything the forward pass depends on. The context limit is not part of it.
fn hash_spec(hasher: &mut IdentityHasher, spec: &ModelSpec) {
    let ModelSpec { hidden, vocab, attn_res_block, dense_width, kda, mla, moe, .. } = spec;
    let dims = [hidden, vocab, attn_res_block, dense_width];
    let kda_dims = [kda.heads, kda.head_dim, kda.conv_kernel];
    let mla_dims = [mla.heads, mla.qk_nope, mla.qk_rope, mla.v_head, mla.q_lora, mla.kv_lora];
    let moe_dims =
        [moe.experts, moe.top_k, moe.latent, moe.width, moe.shared, moe.groups, moe.top_groups];
    let dims = dims.into_iter().copied().chain(kda_dims).chain(mla_dims).chain(moe_dims);
    dims.for_each(|dim| hasher.number(dim as u64));
    hasher.number(u64::from(moe.renormalize) | u64::from(moe.latent_norm) << 1);
    let numbers = [
        spec.rms_eps,
        kda.gate_lower_bound,
        moe.routed_scaling,
        spec.situ.beta,
        spec.situ.linear_beta,
    ];
    numbers.into_iter().for_each(|number| hasher.number(u64::from(number.to_bits())));
    for layer in &spec.layers {
        hasher.number(layer.attention as u64 | (layer.ffn as u64) << 1);
    }
}
