//! An opened checkpoint.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deltafin_checkpoint::{Catalog, Config, Generation, Identity, IdentityHasher, Recipe, Span};
use deltafin_spec::{
    ExpertId, ExpertTensor, FfnKind, GlobalTensor, LayerId, ModelSpec, SpineTensor, TensorId,
};

use crate::{SpinePack, Store, StoreError};

/// The tokenizer's files as they are; what they mean is for others to say.
#[derive(Clone, Debug)]
pub struct TokenizerFiles {
    /// `tiktoken.model`.
    pub ranks: Cow<'static, [u8]>,
    /// `tokenizer_config.json`.
    pub config: Option<Cow<'static, [u8]>>,
}

/// A checkpoint whose parts fit each other.
#[derive(Clone)]
pub struct Checkpoint {
    /// `config.json`.
    pub config: Config,
    /// `generation_config.json`, empty if there is none.
    pub generation: Generation,
    /// Where everything is.
    pub catalog: Arc<Catalog>,
    /// Who has the bytes.
    pub store: Arc<dyn Store>,
    /// The tokenizer, if it is there.
    pub tokenizer: Option<TokenizerFiles>,
    /// Where the checkpoint is, in words.
    pub source: String,
    /// Things worth a line to the user that are no reason to refuse.
    pub notices: Vec<String>,
    /// The folder it is in; nothing for one in memory.
    pub(crate) folder: Option<PathBuf>,
    /// How its spine is represented.
    pub(crate) recipe: Recipe,
    /// The recipe that setup was told to look after, if it was told.
    pub(crate) chosen: Option<Recipe>,
    /// The recipe whose pack holds what the shards have holes for.
    pub(crate) freed: Option<Recipe>,
    /// Where its spine is, and what the checkpoint is called, if that is not the released one.
    pub(crate) packed: Option<(PathBuf, Identity)>,
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoint").field("source", &self.source).finish_non_exhaustive()
    }
}

/// The ids of both configurations, ascending.
pub(crate) fn stop_ids(config: &Config, generation: &Generation) -> Vec<u32> {
    let mut ids = [generation.eos.as_slice(), &config.eos].concat();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Bytes of each sample that goes into a checkpoint's identity.
const SAMPLE_BYTES: u64 = 4096;

impl Checkpoint {
    /// The model's dimensions.
    pub fn spec(&self) -> &ModelSpec {
        &self.config.spec
    }

    /// Every id that the checkpoint declares to end a reply, ascending.
    pub fn stop_ids(&self) -> Vec<u32> {
        stop_ids(&self.config, &self.generation)
    }

    /// The folder it is in; nothing for one in memory.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// How the spine is represented.
    pub fn recipe(&self) -> Recipe {
        self.recipe
    }

    /// Where the spine's pack is; nothing where the released shards have the spine.
    pub fn pack(&self) -> Option<&Path> {
        self.packed.as_ref().map(|(path, _)| path.as_path())
    }

    /// A name for exactly these weights, to keep saved state of others away: the catalog's
    /// identity and the first bytes of some tensors of every layer. A sample, not a digest:
    /// it tells trainings apart, and does not find damage. How the tensors are spread over
    /// shards does not matter, nor does a pack: it is that of the released weights. It reads some
    /// 16 KB per layer.
    ///
    /// # Errors
    /// Also where the shards do not have the released spine and the checkpoint is without its pack.
    pub fn identity(&self) -> Result<Identity, StoreError> {
        if let Some((_, identity)) = self.packed {
            return Ok(identity);
        }
        if self.freed.is_some() {
            return Err(StoreError::Freed { file: self.source.clone() });
        }
        self.identity_from(|_, front, buf| self.store.read_exact(front, buf))
    }

    /// As [`Checkpoint::identity`], of weights that may be in their pack alone: what it holds as released
    /// is read from there.
    pub fn identity_with(&self, pack: &SpinePack) -> Result<Identity, StoreError> {
        self.identity_from(|id, front, buf| match pack.released(id, SAMPLE_BYTES) {
            Some(packed) if packed.len() == front.len() => pack.store().read_exact(packed, buf),
            _ => self.store.read_exact(front, buf),
        })
    }

    /// Bytes of the released shards that an identity is made of, and no pack has as they are.
    pub fn never_packed(&self, recipe: Recipe) -> impl Iterator<Item = Span> + '_ {
        let in_pack = move |id: TensorId| match id {
            TensorId::Spine(..) => !recipe.quantizes(id),
            TensorId::Global(role) => role != GlobalTensor::Embed && !recipe.quantizes(id),
            TensorId::Expert(..) => false,
        };
        self.samples().filter(move |(id, _)| !in_pack(*id)).map(|(_, front)| front)
    }

    fn identity_from(
        &self,
        read: impl Fn(TensorId, Span, &mut [u8]) -> Result<(), StoreError>,
    ) -> Result<Identity, StoreError> {
        let mut hasher = IdentityHasher::new("deltafin weights");
        hasher.field(&self.catalog.identity().to_bytes());
        for (id, front) in self.samples() {
            let mut buf = vec![0; front.len() as usize];
            read(id, front, &mut buf)?;
            hasher.field(&buf);
        }
        Ok(hasher.finish())
    }

    /// The fronts of some tensors.
    fn samples(&self) -> impl Iterator<Item = (TensorId, Span)> + '_ {
        let globals = self.catalog.globals();
        let globals = [globals.embed.tensor(), &globals.norm, globals.head.tensor()];
        let globals = globals.map(|tensor| (TensorId::Global(tensor.role), tensor.span));
        let layers = self.spec().layer_ids().flat_map(|layer| self.layer_samples(layer));
        let front = |span: Span| span.part(0, span.len().min(SAMPLE_BYTES)).unwrap_or(span);
        globals.into_iter().chain(layers).map(move |(id, span)| (id, front(span)))
    }

    fn layer_samples(&self, layer: LayerId) -> impl Iterator<Item = (TensorId, Span)> + use<> {
        use SpineTensor::{InputNorm, KdaALog, KdaDtBias, MlaKvANorm, RouterBias};
        let spine = self.catalog.spine(layer);
        let roles = [InputNorm, KdaALog, KdaDtBias, MlaKvANorm, RouterBias];
        let placed = roles.into_iter().filter_map(|role| {
            let span = spine.record().locate(spine.tensor(role)?.place)?;
            Some((TensorId::Spine(layer, role), span))
        });
        let mut samples: Vec<_> = placed.collect();
        if self.spec().layer(layer).ffn == FfnKind::Moe {
            let (first, w1) = (ExpertId::new(0), ExpertTensor::W1Packed);
            let expert = self.catalog.expert(layer, first);
            let span = expert.record.locate(expert.layout.place(w1));
            samples.extend(span.map(|span| (TensorId::Expert(layer, first, w1), span)));
        }
        samples.into_iter()
    }
}
