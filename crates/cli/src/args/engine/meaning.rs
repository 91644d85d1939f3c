//! What the engine's flags mean.

use std::num::NonZeroUsize;

use deltafin_engine::{IoMode, Prefetch, RequestMemory, SnapshotMemory};
use deltafin_kernels::IsaKind;
use deltafin_store::SpineChoice;

use super::EngineArgs;
use super::typed::{IoArg, IsaArg, PrefetchArg, Switch};
use crate::args::network::Network;
use crate::args::size::{Auto, Positive};

impl EngineArgs {
    /// The same, with memory for earlier conversations.
    pub(in crate::args) fn with_snapshots(self, snapshots: SnapshotMemory) -> EngineArgs {
        EngineArgs { snapshots, ..self }
    }

    /// The same, with memory for requests to a server.
    pub(in crate::args) fn with_requests(self, requests: RequestMemory) -> EngineArgs {
        EngineArgs { requests, ..self }
    }

    /// The same, with so many bytes for the command itself.
    pub(in crate::args) fn with_besides(self, besides: u64) -> EngineArgs {
        EngineArgs { besides, ..self }
    }

    /// Bytes that the command takes for itself.
    pub(crate) fn besides(&self) -> u64 {
        self.besides
    }

    /// The memory for requests to a server.
    pub(crate) fn requests(&self) -> RequestMemory {
        self.requests
    }

    /// The memory for earlier conversations.
    pub(crate) fn snapshots(&self) -> SnapshotMemory {
        self.snapshots
    }

    /// How to ask for experts that are not here.
    pub(crate) fn network(&self) -> Network {
        self.network.meaning()
    }

    /// The most bytes to have resident; nothing means what the machine can spare.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.memory.0.map(|bytes| bytes.0.get() as u64)
    }

    /// The same with so much memory.
    pub(crate) fn with_memory(&self, bytes: u64) -> EngineArgs {
        let bytes = usize::try_from(bytes).ok().and_then(NonZeroUsize::new);
        EngineArgs { memory: Auto(bytes.map(Positive)), ..self.clone() }
    }

    /// How drives are to be read.
    pub(crate) fn io(&self) -> IoMode {
        match self.io {
            IoArg::Auto => IoMode::Auto,
            IoArg::Uring => IoMode::Uring,
            IoArg::Direct => IoMode::Direct,
            IoArg::Buffered => IoMode::Buffered,
        }
    }

    /// What to read on a guess.
    pub(crate) fn prefetch(&self) -> Prefetch {
        match self.prefetch {
            PrefetchArg::Auto => Prefetch::Auto,
            PrefetchArg::Off => Prefetch::Off,
            PrefetchArg::Prev => Prefetch::Prev,
            PrefetchArg::Lookahead => Prefetch::Lookahead,
        }
    }

    /// The most experts to set memory aside for, where given.
    pub(crate) fn slabs(&self) -> Option<NonZeroUsize> {
        self.slabs.map(|slabs| slabs.0)
    }

    /// Bytes of experts to keep for good.
    pub(crate) fn pin(&self) -> u64 {
        self.pin.map_or(0, |bytes| bytes.0.get() as u64)
    }

    /// Whether experts stay in memory after use.
    pub(crate) fn expert_cache(&self) -> bool {
        self.expert_cache == Switch::On
    }

    /// The instruction set asked for; nothing means the best there is.
    pub(crate) fn isa(&self) -> Option<IsaKind> {
        match self.isa {
            IsaArg::Auto => None,
            IsaArg::Scalar => Some(IsaKind::Scalar),
            IsaArg::Avx2 => Some(IsaKind::Avx2),
            IsaArg::Avx512 => Some(IsaKind::Avx512),
            IsaArg::Neon => Some(IsaKind::Neon),
        }
    }

    /// The number of threads asked for.
    pub(crate) fn threads(&self) -> Option<NonZeroUsize> {
        self.threads.map(|threads| threads.0)
    }

    /// The flags given that act on a model, for a command that loads none.
    pub(crate) fn idle_without_model(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            ("--model", self.model.is_some()),
            ("--spine", self.spine.is_some()),
            ("--chunk", self.chunk.is_some()),
            ("--context", self.context.is_some()),
            ("--memory", self.memory.0.is_some()),
            ("--slabs", self.slabs.is_some()),
            ("--pin", self.pin.is_some()),
            ("--stats", self.stats),
        ];
        given.into_iter().filter_map(|(flag, given)| given.then_some(flag))
    }

    /// The spine asked for.
    pub(crate) fn spine(&self) -> SpineChoice {
        self.spine.clone().unwrap_or_default().0
    }

    /// Prompt rows per pass, where given.
    pub(crate) fn chunk(&self) -> Option<NonZeroUsize> {
        self.chunk.map(|rows| rows.0)
    }

    /// Positions to hold, where given.
    pub(crate) fn context(&self) -> Option<NonZeroUsize> {
        self.context.map(|positions| positions.0)
    }
}
