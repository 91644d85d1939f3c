//! A checkpoint's weights for the forward pass: held in memory when there is plenty of it, otherwise
//! read again whenever they are asked for.
//!
//! Both ways hand out the same bytes, so the choice, which looks at the memory at hand, changes time
//! and nothing else.

mod bytes;
mod views;

use crate::memory::available_bytes;
use bytes::{Bytes, Recycler};
use deltafin_checkpoint::{Catalog, Record, SpanTensor, Spine};
use deltafin_model::{Expert, Lease, Tail, TailView, Weights};
use deltafin_spec::{ExpertId, FfnKind, LayerId, ModelSpec};
use deltafin_store::{Checkpoint, Store, StoreError, read_record, read_row};
use std::sync::{Arc, Mutex};

/// Where weights are between two uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residency {
    /// All of them in memory.
    Memory,
    /// On the drive; read when needed and then forgotten.
    Drive,
}

impl Residency {
    /// The word for statistics.
    pub fn name(self) -> &'static str {
        match self {
            Residency::Memory => "memory",
            Residency::Drive => "drive",
        }
    }
}

/// Weights could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A read failed.
    #[error("layer {layer}: {source}")]
    Layer {
        /// The layer it was for.
        layer: LayerId,
        /// What failed.
        source: StoreError,
    },
    /// A read failed.
    #[error("layer {layer}, expert {expert}: {source}")]
    Expert {
        /// The layer it was for.
        layer: LayerId,
        /// The expert it was for.
        expert: ExpertId,
        /// What failed.
        source: StoreError,
    },
    /// A read outside the layers failed.
    #[error("{part}: {source}")]
    Global {
        /// What it was for.
        part: &'static str,
        /// What failed.
        source: StoreError,
    },
}

/// The weights of an opened checkpoint.
pub struct LoadedWeights {
    spec: ModelSpec,
    catalog: Arc<Catalog>,
    store: Arc<dyn Store>,
    resident: Option<Resident>,
    recycler: Recycler,
    embed_row: Mutex<Vec<u8>>,
}

/// Everything the layers and the head need, in memory.
struct Resident {
    spines: Vec<Box<[u8]>>,
    /// By layer, then by expert; empty for layers without experts.
    experts: Vec<Vec<Box<[u8]>>>,
    tail: [Box<[u8]>; 4],
}

/// Without a word from the system about its memory, this much is taken to be there.
const ASSUMED_AVAILABLE: u64 = 4 << 30;

impl LoadedWeights {
    /// Prepares the weights: loads them all when they take at most half of the memory that is free.
    pub fn load(checkpoint: Checkpoint) -> Result<LoadedWeights, LoadError> {
        let needed: u64 = checkpoint.catalog.spans().map(|span| span.len()).sum();
        let fits = needed <= available_bytes().unwrap_or(ASSUMED_AVAILABLE) / 2;
        LoadedWeights::load_as(checkpoint, if fits { Residency::Memory } else { Residency::Drive })
    }

    /// Prepares the weights in a given way.
    pub fn load_as(
        checkpoint: Checkpoint,
        residency: Residency,
    ) -> Result<LoadedWeights, LoadError> {
        let mut weights = LoadedWeights {
            spec: checkpoint.spec().clone(),
            catalog: checkpoint.catalog,
            store: checkpoint.store,
            resident: None,
            recycler: Recycler::default(),
            embed_row: Mutex::default(),
        };
        if residency == Residency::Memory {
            weights.resident = Some(weights.read_all()?);
        }
        Ok(weights)
    }

    /// Where the weights are.
    pub fn residency(&self) -> Residency {
        if self.resident.is_some() { Residency::Memory } else { Residency::Drive }
    }

    fn read_all(&self) -> Result<Resident, LoadError> {
        let own = |record: Record<'_>| -> Result<Box<[u8]>, StoreError> {
            let mut bytes = vec![0; record.len() as usize].into_boxed_slice();
            read_record(&*self.store, record, &mut bytes)?;
            Ok(bytes)
        };
        let spine = |layer| {
            own(self.catalog.spine(layer).record())
                .map_err(|source| LoadError::Layer { layer, source })
        };
        let experts = |layer| -> Result<Vec<_>, LoadError> {
            if self.spec.layer(layer).ffn != FfnKind::Moe {
                return Ok(Vec::new());
            }
            let read = |expert| {
                let record = self.catalog.expert(layer, expert).record;
                own(record).map_err(|source| LoadError::Expert { layer, expert, source })
            };
            self.spec.moe.expert_ids().map(read).collect()
        };
        let [a, b, c, d] = self.tail_tensors();
        let global = |(part, tensor): (&'static str, &SpanTensor)| {
            own(tensor.record()).map_err(|source| LoadError::Global { part, source })
        };
        Ok(Resident {
            spines: self.spec.layer_ids().map(spine).collect::<Result<_, _>>()?,
            experts: self.spec.layer_ids().map(experts).collect::<Result<_, _>>()?,
            tail: [global(a)?, global(b)?, global(c)?, global(d)?],
        })
    }

    /// Mix norm, mix projection, norm and head.
    fn tail_tensors(&self) -> [(&'static str, &SpanTensor); 4] {
        let globals = self.catalog.globals();
        [
            ("the final mix", &globals.output_res_norm),
            ("the final mix", &globals.output_res_proj),
            ("the final norm", &globals.norm),
            ("the output head", globals.head.tensor()),
        ]
    }

    fn read(&self, record: Record<'_>) -> Result<Bytes<'_>, StoreError> {
        let mut buffer = self.recycler.take(record.len() as usize);
        read_record(&*self.store, record, buffer.as_mut())?;
        Ok(Bytes::Read(buffer))
    }
}

impl Weights for LoadedWeights {
    type Error = LoadError;
    type Spine<'a> = SpineLease<'a>;
    type Tail<'a> = TailLease<'a>;

    fn embed(&self, id: u32, out: &mut [f32]) -> Result<(), LoadError> {
        let table = &self.catalog.globals().embed;
        let mut row = self.embed_row.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        row.resize(table.row_bytes() as usize, 0);
        read_row(&*self.store, table, u64::from(id), &mut row)
            .map_err(|source| LoadError::Global { part: "the embedding", source })?;
        views::vector(table.tensor().dtype, &row).read(out);
        Ok(())
    }

    fn spine(&self, layer: LayerId) -> Result<SpineLease<'_>, LoadError> {
        let spine = self.catalog.spine(layer);
        let bytes = match &self.resident {
            Some(resident) => Bytes::Held(&resident.spines[layer.index()]),
            None => {
                self.read(spine.record()).map_err(|source| LoadError::Layer { layer, source })?
            }
        };
        Ok(SpineLease { spec: &self.spec, spine, bytes })
    }

    fn tail(&self) -> Result<TailLease<'_>, LoadError> {
        let tensors = self.tail_tensors();
        let bytes = match &self.resident {
            Some(resident) => resident.tail.each_ref().map(|bytes| Bytes::Held(bytes)),
            None => {
                let [a, b, c, d] = tensors.map(|(part, tensor)| {
                    self.read(tensor.record()).map_err(|source| LoadError::Global { part, source })
                });
                [a?, b?, c?, d?]
            }
        };
        Ok(TailLease { tensors: tensors.map(|(_, tensor)| tensor), bytes })
    }

    fn experts(
        &self,
        layer: LayerId,
        ids: &[ExpertId],
        arrived: &mut dyn FnMut(ExpertId, Expert<'_>),
    ) -> Result<(), LoadError> {
        for &expert in ids {
            let place = self.catalog.expert(layer, expert);
            let bytes = match &self.resident {
                Some(resident) => Bytes::Held(&resident.experts[layer.index()][expert.index()]),
                None => self.read(place.record).map_err(|source| LoadError::Expert {
                    layer,
                    expert,
                    source,
                })?,
            };
            arrived(expert, views::expert(&self.spec.moe, place.layout, &bytes));
        }
        Ok(())
    }
}

/// One layer's spine while it is in use.
pub struct SpineLease<'a> {
    spec: &'a ModelSpec,
    spine: &'a Spine,
    bytes: Bytes<'a>,
}

impl Lease<deltafin_model::Layer> for SpineLease<'_> {
    fn view(&self) -> deltafin_model::LayerView<'_> {
        views::layer(self.spec, self.spine, &self.bytes)
    }
}

/// The output end while it is in use.
pub struct TailLease<'a> {
    tensors: [&'a SpanTensor; 4],
    bytes: [Bytes<'a>; 4],
}

impl Lease<Tail> for TailLease<'_> {
    fn view(&self) -> TailView<'_> {
        views::tail(self.tensors, self.bytes.each_ref())
    }
}
