//! What a model and its use ask of memory, before anybody knows how much there is.

use crate::Workspace;
use deltafin_spec::{FfnKind, GlobalTensor, Half, LayerId, ModelSpec, SpineTensor};

/// Direct reads start and end at multiples of this.
pub const READ_ALIGN: u64 = 4096;

/// Slabs lie on pages of this size; each of the plan's three areas is rounded up to it.
pub const HUGE_PAGE: u64 = 2 << 20;

/// The areas that a plan maps: expert slabs, resident spine, streamed spine.
const AREAS: u64 = 3;

/// How a spine's matrices are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SpineFormat {
    /// As released.
    Bf16,
    /// Large matrices as signed bytes with one scale per row.
    Int8,
}

impl SpineFormat {
    /// The word for flags and reports.
    pub fn name(self) -> &'static str {
        match self {
            SpineFormat::Bf16 => "bf16",
            SpineFormat::Int8 => "int8",
        }
    }
}

/// How a model is going to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Positions of the sequence.
    pub context: usize,
    /// Prompt rows of one pass, at most.
    pub chunk: usize,
    /// Threads that compute.
    pub threads: usize,
}

/// What is asked of memory. All sizes in bytes; a *room* is what a buffer takes that holds a record
/// read directly, alignment at both ends included.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Program, threads, catalog, tokenizer, and what the allocator keeps back.
    pub fixed: u64,
    /// The state of one sequence, every position in use.
    pub state: u64,
    /// States of earlier sequences, to go on from; none unless somebody asks for them.
    pub snapshots: u64,
    /// Requests on their way to a server, and what they are while they are read; none of a program that serves nobody.
    pub requests: u64,
    /// What a command takes for itself besides the engine, such as memory to measure with, or what is on its way takes.
    pub besides: u64,
    /// The buffers of a pass, by its rows.
    pub workspace: Workspace,
    /// Prompt rows asked for; at least one.
    pub chunk: usize,
    /// Rooms of the spine's units in the order of use: the layers, each in two halves, then the output head.
    pub spine: Vec<u64>,
    /// Room of one expert record; of the largest where they differ.
    pub expert: u64,
    /// Experts of all layers together.
    pub experts: usize,
    /// Experts that a token needs of one layer.
    pub top_k: usize,
    /// Layers with experts.
    pub moe_layers: usize,
    /// Most expert slabs to have, whatever else would fit.
    pub slabs: usize,
    /// Whether experts may outlast their use.
    pub cache: bool,
    /// Bytes of experts that never make room once they are there.
    pub pin: u64,
}

/// The rooms of a model's weights, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rooms {
    /// Of the spine's units in the order of use: the layers, then the output head.
    pub spine: Vec<u64>,
    /// Of one expert record; of the largest where they differ.
    pub expert: u64,
}

impl Rooms {
    /// Those of a model of which only the dimensions are known, in the released layout.
    pub fn of_spec(spec: &ModelSpec, format: SpineFormat) -> Rooms {
        let half = |layer, half| half_room(half_bytes(spec, layer, half, format));
        let layers = spec.layer_ids();
        let layers = layers.map(|layer| Half::ALL.iter().map(|h| half(layer, *h)).sum());
        let spine = layers.chain([head_room(spec, format)]).collect();
        let expert = if spec.count_ffn(FfnKind::Moe) > 0 { room(spec.expert_bytes()) } else { 0 };
        Rooms { spine, expert }
    }
}

impl Demand {
    /// The demand of a model of which only the dimensions are known, in the released layout.
    pub fn of_spec(spec: &ModelSpec, format: SpineFormat, usage: Usage) -> Demand {
        Demand::new(spec, &Rooms::of_spec(spec, format), usage)
    }

    /// The demand of a model whose weights take these rooms.
    pub fn new(spec: &ModelSpec, rooms: &Rooms, usage: Usage) -> Demand {
        let Rooms { spine, expert } = rooms.clone();
        Demand {
            fixed: fixed(spec, usage.threads),
            state: state(spec, usage.context),
            snapshots: 0,
            requests: 0,
            besides: 0,
            workspace: Workspace::of(spec),
            chunk: usage.chunk.clamp(1, usage.context.max(1)),
            spine,
            expert,
            experts: spec.expert_count() as usize,
            top_k: spec.moe.top_k,
            moe_layers: spec.count_ffn(FfnKind::Moe),
            slabs: usize::MAX,
            cache: true,
            pin: 0,
        }
    }

    /// Most expert slabs that are of use.
    pub(crate) fn most_slabs(&self) -> usize {
        self.experts.min(self.slabs)
    }

    /// Records that one token needs, of all layers together.
    pub fn working_set(&self) -> usize {
        self.top_k * self.moe_layers
    }
}

/// The room of a record of so many bytes that lies anywhere in its file: what a direct read takes
/// that begins before it and ends after it.
pub fn room(bytes: u64) -> u64 {
    (bytes + 2 * READ_ALIGN).next_multiple_of(READ_ALIGN)
}

/// Runs of a shard that hold one half of a layer's spine: its vectors of full precision, its matrices, and
/// norms between those of the other half.
const HALF_RUNS: u64 = 3;

/// The room of a half of a layer's spine.
fn half_room(bytes: u64) -> u64 {
    room(bytes) + (HALF_RUNS - 1) * 2 * READ_ALIGN
}

fn half_bytes(spec: &ModelSpec, layer: LayerId, half: Half, format: SpineFormat) -> u64 {
    let roles = spec.spine(layer).filter(|role| role.half() == half);
    roles.map(|role| tensor_bytes(spec, role, format)).sum()
}

/// Bytes of a layer's spine in this format.
pub(crate) fn spine_layer_bytes(spec: &ModelSpec, layer: LayerId, format: SpineFormat) -> u64 {
    Half::ALL.into_iter().map(|half| half_bytes(spec, layer, half, format)).sum()
}

/// The router and the write strength decide discretely or are small: they stay as released.
fn tensor_bytes(spec: &ModelSpec, role: SpineTensor, format: SpineFormat) -> u64 {
    let released = spec.spine_tensor_bytes(role);
    if format == SpineFormat::Bf16 || matches!(role, SpineTensor::Router | SpineTensor::KdaBeta) {
        return released;
    }
    match role.shape(spec).dims() {
        &[rows, columns] if rows >= 2 => rows * (columns + 2),
        _ => released,
    }
}

/// Bytes of the output end in this format: two norms, the mix and the head.
pub(crate) fn head_bytes(spec: &ModelSpec, format: SpineFormat) -> u64 {
    let small: u64 = SMALL_TAIL.iter().map(|role| spec.global_bytes(*role)).sum();
    small + head_matrix_bytes(spec, format)
}

const SMALL_TAIL: [GlobalTensor; 3] =
    [GlobalTensor::OutputResNorm, GlobalTensor::OutputResProj, GlobalTensor::Norm];

fn head_matrix_bytes(spec: &ModelSpec, format: SpineFormat) -> u64 {
    match format {
        SpineFormat::Bf16 => spec.global_bytes(GlobalTensor::Head),
        SpineFormat::Int8 => spec.head_int8_bytes(),
    }
}

fn head_room(spec: &ModelSpec, format: SpineFormat) -> u64 {
    let small: u64 = SMALL_TAIL.iter().map(|role| room(spec.global_bytes(*role))).sum();
    small + room(head_matrix_bytes(spec, format))
}

/// Bytes of a sequence's state: associations and histories of fixed size, and the latent cache.
fn state(spec: &ModelSpec, context: usize) -> u64 {
    let cache = spec.mla_cache_values().saturating_mul(context as u64).saturating_mul(4);
    cache.saturating_add(spec.kda_state_bytes() + spec.kda_conv_bytes())
}

/// Program text and data that are touched, and small buffers everywhere.
const PROGRAM: u64 = 32 << 20;
/// The touched part of a thread's stack, with what the allocator keeps for the thread.
const PER_THREAD: u64 = 256 << 10;
/// What is kept of one expert: its place, a digest and where that lies, a sum, its slot and how often it was used.
const PER_EXPERT: u64 = 256;
/// What the tokenizer keeps of one rank: its bytes, two tables, and room to grow in; and the sum of its row.
const PER_RANK: u64 = 256;

fn fixed(spec: &ModelSpec, threads: usize) -> u64 {
    let tables = spec.expert_count() * PER_EXPERT + spec.vocab as u64 * PER_RANK;
    PROGRAM + threads as u64 * PER_THREAD + tables + AREAS * HUGE_PAGE
}
