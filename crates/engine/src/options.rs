//! What can be set on an engine. None of it changes a token.

use deltafin_kernels::IsaKind;
use deltafin_store::Checkpoint;
use deltafin_store::drive::IoMode;
use deltafin_stream::Prefetch;
use std::num::NonZeroUsize;

/// Prompt rows of one pass: long enough that an expert read serves many rows.
pub const DEFAULT_CHUNK: usize = 512;

/// The most threads that can be asked for. Beyond some thousands a process cannot have more, and finds
/// out in ways that cannot be caught.
pub const MOST_THREADS: usize = 1024;

/// Positions a session has room for, unless the checkpoint allows fewer.
pub const DEFAULT_CONTEXT: usize = 32 * 1024;

/// A context that nobody asked for takes at most this part of the memory, if it can.
pub(crate) const CONTEXT_SHARE: u64 = 8;

/// Positions that a session has room for even when memory is short, unless it is asked for fewer.
pub(crate) const LEAST_CONTEXT: usize = 4096;

/// Memory for the states of earlier sequences, to go on from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotMemory {
    /// None: one sequence and no more.
    #[default]
    None,
    /// A part of the memory, if it holds one of them.
    Auto,
    /// So many bytes.
    Bytes(u64),
}

/// Memory for what is asked of a server: a part of the budget, within bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestMemory {
    /// The bytes without which it is no use.
    pub least: u64,
    /// The bytes beyond which more are none.
    pub most: u64,
    /// Bytes besides for each position of the context.
    pub position: u64,
}

/// Settings; `None` means "choose for this machine".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// The instruction set; the fastest there is by default.
    pub isa: Option<IsaKind>,
    /// Threads that compute; by default the CPUs this process may use.
    pub threads: Option<NonZeroUsize>,
    /// Prompt rows of one pass; by default [`DEFAULT_CHUNK`], fewer where memory is short.
    pub chunk: Option<NonZeroUsize>,
    /// Positions of a session; by default [`DEFAULT_CONTEXT`], what the checkpoint allows, or what a
    /// part of the memory holds, whichever is least.
    pub context: Option<NonZeroUsize>,
    /// The most bytes that may ever be resident; by default what the machine has to spare.
    pub memory: Option<u64>,
    /// How much of that is for the states of earlier sequences.
    pub snapshots: SnapshotMemory,
    /// How much of it is for requests to a server.
    pub requests: RequestMemory,
    /// How much of it the caller takes for itself besides the engine, which adds what is on its way to the store.
    pub besides: u64,
    /// How drives are read.
    pub io: IoMode,
    /// What is read before it is asked for.
    pub prefetch: Prefetch,
    /// The most experts that memory is set aside for; as many as fit by default.
    pub slabs: Option<NonZeroUsize>,
    /// Whether experts stay in memory after use.
    pub cache: bool,
    /// Bytes of experts that may be kept for good, once it is known which are used most.
    pub pin: u64,
}

impl EngineOptions {
    /// These, with what the store of a checkpoint takes of memory for what is on its way to it.
    pub fn with_coming(self, checkpoint: &Checkpoint) -> EngineOptions {
        let coming = checkpoint.store.distant().map_or(0, |distant| distant.coming_bytes());
        EngineOptions { besides: self.besides.saturating_add(coming), ..self }
    }
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            isa: None,
            threads: None,
            chunk: None,
            context: None,
            memory: None,
            snapshots: SnapshotMemory::None,
            requests: RequestMemory::default(),
            besides: 0,
            io: IoMode::Auto,
            prefetch: Prefetch::Auto,
            slabs: None,
            cache: true,
            pin: 0,
        }
    }
}
