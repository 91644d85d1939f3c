//! How many of a model's experts are here, where they come over the network.

use deltafin_fetch::Kept;
use deltafin_store::Checkpoint;
use serde::Serialize;

use crate::args::{CacheLimit, default_cache_limit};
use crate::stats::bytes;

/// What has come so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Gathered {
    /// All there are.
    experts: u64,
    /// Those that are here, with those that setup brought.
    here: u64,
    /// Their bytes.
    bytes: u64,
    /// The most that they may have, where the environment says so, or setup was told.
    limit_bytes: Option<u64>,
    /// By layer: how many are here.
    #[serde(skip)]
    layers: Vec<u64>,
}

impl Gathered {
    /// What is here of a checkpoint's experts; nothing where they all are.
    pub(crate) fn of(checkpoint: &Checkpoint) -> Option<Gathered> {
        let (distant, spec) = (checkpoint.store.distant()?, checkpoint.spec());
        let kept = || Kept::read(checkpoint.folder()?).ok()?.cache_limit;
        let limit_bytes = default_cache_limit().map_or_else(kept, |CacheLimit(limit)| limit);
        let layers = vec![0; spec.layers.len()];
        let mut gathered = Gathered { experts: 0, here: 0, bytes: 0, limit_bytes, layers };
        for layer in spec.moe_layers() {
            for expert in spec.moe.expert_ids() {
                let record = checkpoint.catalog.expert(layer, expert).record;
                gathered.experts += 1;
                if distant.is_here(record.pieces()) {
                    gathered.here += 1;
                    gathered.bytes += record.len();
                    gathered.layers[layer.index()] += 1;
                }
            }
        }
        Some(gathered)
    }

    /// Whether none is still to come.
    pub(crate) fn has_all(&self) -> bool {
        self.here == self.experts
    }

    /// Bytes of those that are here.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many are here of a layer.
    pub(crate) fn in_layer(&self, layer: usize) -> u64 {
        self.layers.get(layer).copied().unwrap_or(0)
    }

    /// One line.
    pub(crate) fn words(&self) -> String {
        let Gathered { experts, here, bytes: size, limit_bytes, .. } = self;
        let limit = limit_bytes.map_or_else(String::new, |limit| format!(" of {}", bytes(limit)));
        format!("{here} of {experts} experts are here, {}{limit}", bytes(*size))
    }
}
