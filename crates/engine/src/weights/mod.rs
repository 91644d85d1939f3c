//! A checkpoint's weights for the forward pass: the bytes a [`Stream`] hands out, seen as matrices.

mod blame;
mod heat;
mod views;

use deltafin_budget::{Level, Pressure};
use deltafin_checkpoint::pack::Digest;
use deltafin_checkpoint::{Identity, PlacedTensors, SpanTensor};
use deltafin_kernels::Matrix;
use deltafin_model::{
    AttentionHalf, AttentionView, Expert, FfnHalf, FfnView, Head, Ids, Lease, PassPlan, Tail,
    TailView, Weights,
};
use deltafin_spec::{ExpertId, Half, LayerId, ModelSpec};
use deltafin_store::drive::IoMode;
use deltafin_store::{Checkpoint, Store, StoreError, damaged, prove, read_record};
use deltafin_stream::{Layout, Phase, SpineLease, Stream, StreamError};
use heat::HeatFile;
pub use heat::{Learned, learned_in};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The weights of an opened checkpoint.
pub struct StreamedWeights {
    spec: ModelSpec,
    checkpoint: Checkpoint,
    stream: Stream,
    /// The final mix's norm and projection, and the final norm: small, always in memory.
    tail: [Box<[u8]>; 3],
    embed_row: Mutex<Vec<u8>>,
    heat: OnceLock<HeatFile>,
    /// Watched where the memory was chosen and not promised.
    pressure: OnceLock<Mutex<Pressure>>,
}

impl StreamedWeights {
    /// Sets the memory of `layout` aside. Weights are read when they are first needed.
    pub fn open(
        checkpoint: Checkpoint,
        layout: Layout,
        mode: IoMode,
    ) -> Result<StreamedWeights, StreamError> {
        let (catalog, store) = (Arc::clone(&checkpoint.catalog), Arc::clone(&checkpoint.store));
        let tail = tail_tensors(&checkpoint).map(|(part, tensor)| {
            read_whole(&*store, tensor).map_err(|source| StreamError::Global { part, source })
        });
        let [a, b, c] = tail;
        Ok(StreamedWeights {
            spec: checkpoint.spec().clone(),
            tail: [a?, b?, c?],
            stream: Stream::open(catalog, store, layout, mode)?,
            checkpoint,
            embed_row: Mutex::default(),
            heat: OnceLock::new(),
            pressure: OnceLock::new(),
        })
    }

    /// Goes on from what earlier runs learned about this checkpoint's experts, and leaves in `folder`
    /// what this one learns when it ends. Tells what there was to go on from.
    ///
    /// # Errors
    /// When the checkpoint cannot be read.
    pub fn remember_in(&self, folder: &Path) -> Result<Learned, StoreError> {
        let identity = self.checkpoint.identity()?;
        let file = self.heat.get_or_init(|| HeatFile::new(folder, identity));
        Ok(file.adopt(&self.stream))
    }

    /// From now on the expert cache shrinks, for good, whenever the system that `pressure` watches runs
    /// short of memory. The first one that is named is watched.
    pub fn give_way_to(&self, pressure: Pressure) {
        self.pressure.get_or_init(|| Mutex::new(pressure));
    }

    /// Looks at the system's memory, once a second at most.
    fn look_at_memory(&self) {
        let Some(pressure) = self.pressure.get() else { return };
        let level = pressure.lock().unwrap_or_else(PoisonError::into_inner).poll();
        if level != Level::Calm {
            self.stream.shrink(level.give_way(self.stream.expert_slots()));
        }
    }

    /// Keeps the experts that earlier runs used most in memory for good, up to so many. Returns how many.
    pub fn pin(&self, most: usize) -> usize {
        self.stream.pin(most)
    }

    /// The name that tells these weights from others.
    ///
    /// # Errors
    /// When the checkpoint cannot be read.
    pub fn identity(&self) -> Result<Identity, StoreError> {
        self.checkpoint.identity()
    }

    /// Whether some of them come from elsewhere when they are needed.
    pub fn is_distant(&self) -> bool {
        self.checkpoint.store.distant().is_some()
    }

    /// What moves the bytes.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}

impl Drop for StreamedWeights {
    fn drop(&mut self) {
        if let Some(file) = self.heat.get() {
            // Best effort: without the file the next run learns anew.
            let _ = file.save(&self.stream);
        }
    }
}

/// What a pass counts as.
pub(crate) fn phase_of(pass: PassPlan) -> Phase {
    match pass.ids {
        Ids::Prompt => Phase::Prefill,
        Ids::Reply => Phase::Decode,
    }
}

fn read_whole(store: &dyn Store, tensor: &SpanTensor) -> Result<Box<[u8]>, StoreError> {
    let read = || {
        let mut bytes = vec![0; tensor.span.len() as usize].into_boxed_slice();
        read_record(store, tensor.record(), &mut bytes)?;
        if tensor.digest.is_some_and(|digest| digest != Digest::of(&bytes)) {
            return Err(damaged(store, tensor.span));
        }
        prove(store, &[(tensor.span, &bytes)], &Digest::of).map(|()| bytes)
    };
    match read() {
        Err(StoreError::Damaged { .. }) => read(),
        read => read,
    }
}

/// Mix norm, mix projection and norm.
fn tail_tensors(checkpoint: &Checkpoint) -> [(&'static str, &SpanTensor); 3] {
    let globals = checkpoint.catalog.globals();
    [
        ("the final mix", &globals.output_res_norm),
        ("the final mix", &globals.output_res_proj),
        ("the final norm", &globals.norm),
    ]
}

impl Weights for StreamedWeights {
    type Error = StreamError;
    type Attention<'a> = HalfLease<'a>;
    type Ffn<'a> = HalfLease<'a>;
    type Tail<'a> = TailLease<'a>;
    type Head<'a> = HeadLease<'a>;

    fn begin(&self, pass: PassPlan) {
        self.look_at_memory();
        self.stream.begin(phase_of(pass), pass.rows, pass.head);
    }

    fn embed(&self, id: u32, out: &mut [f32]) -> Result<(), StreamError> {
        let table = &self.checkpoint.catalog.globals().embed;
        let mut row = self.embed_row.lock().unwrap_or_else(PoisonError::into_inner);
        row.resize(table.row_bytes() as usize, 0);
        self.stream.embedding(u64::from(id), &mut row)?;
        views::vector(table.tensor().dtype, &row).read(out);
        Ok(())
    }

    fn attention(&self, layer: LayerId) -> Result<HalfLease<'_>, StreamError> {
        self.half(layer, Half::Attention)
    }

    fn ffn(&self, layer: LayerId) -> Result<HalfLease<'_>, StreamError> {
        self.half(layer, Half::Ffn)
    }

    fn peek(&self, layer: LayerId) -> Option<HalfLease<'_>> {
        self.stream.peek(layer).map(|bytes| self.half_lease(layer, Half::Ffn, bytes))
    }

    fn tail(&self) -> Result<TailLease<'_>, StreamError> {
        Ok(TailLease { weights: self })
    }

    fn head(&self) -> Result<HeadLease<'_>, StreamError> {
        let tensor = self.checkpoint.catalog.globals().head.tensor();
        Ok(HeadLease { tensor, bytes: self.stream.head()? })
    }

    fn demand(&self, layer: LayerId, ids: &[ExpertId]) {
        self.stream.demand(layer, ids);
    }

    fn expect(&self, layer: LayerId, ids: &[ExpertId]) {
        self.stream.expect(layer, ids);
    }

    fn experts(
        &self,
        layer: LayerId,
        ids: &[ExpertId],
        arrived: &mut dyn FnMut(ExpertId, Expert<'_>),
    ) -> Result<(), StreamError> {
        self.stream.take(layer, ids, &mut |id, bytes| {
            let layout = self.checkpoint.catalog.expert(layer, id).layout;
            arrived(id, views::expert(&self.spec.moe, layout, bytes));
        })
    }
}

/// Half of a layer's spine while it is in use.
pub struct HalfLease<'a> {
    spec: &'a ModelSpec,
    layer: LayerId,
    half: &'a PlacedTensors,
    bytes: SpineLease<'a>,
}

impl StreamedWeights {
    fn half_lease<'a>(
        &'a self,
        layer: LayerId,
        half: Half,
        bytes: SpineLease<'a>,
    ) -> HalfLease<'a> {
        let half = self.checkpoint.catalog.spine(layer).half(half);
        HalfLease { spec: &self.spec, layer, half, bytes }
    }

    fn half(&self, layer: LayerId, half: Half) -> Result<HalfLease<'_>, StreamError> {
        self.stream.spine(layer, half).map(|bytes| self.half_lease(layer, half, bytes))
    }
}

impl Lease<AttentionHalf> for HalfLease<'_> {
    fn view(&self) -> AttentionView<'_> {
        views::attention(self.spec.layer(self.layer).attention, self.half, &self.bytes)
    }
}

impl Lease<FfnHalf> for HalfLease<'_> {
    fn view(&self) -> FfnView<'_> {
        views::ffn(&self.spec.moe, self.spec.layer(self.layer).ffn, self.half, &self.bytes)
    }
}

/// The final mix and norm.
pub struct TailLease<'a> {
    weights: &'a StreamedWeights,
}

impl Lease<Tail> for TailLease<'_> {
    fn view(&self) -> TailView<'_> {
        let tensors = tail_tensors(&self.weights.checkpoint).map(|(_, tensor)| tensor);
        views::tail(tensors, self.weights.tail.each_ref().map(|bytes| &**bytes))
    }
}

/// The output head while it is in use.
pub struct HeadLease<'a> {
    tensor: &'a SpanTensor,
    bytes: SpineLease<'a>,
}

impl Lease<Head> for HeadLease<'_> {
    fn view(&self) -> Matrix<'_> {
        views::head(self.tensor, &self.bytes)
    }
}
