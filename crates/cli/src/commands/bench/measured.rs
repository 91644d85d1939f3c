//! What one run tells the process that compares them.

use serde::{Deserialize, Serialize};

use super::counters::BytesRead;
use crate::args::Phase;

/// A stretch of work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Stretch {
    /// How long it took.
    pub(super) seconds: f64,
    /// What was read meanwhile, where the system counts.
    pub(super) read: Option<BytesRead>,
}

/// A prompt and what was generated after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Generation {
    /// Up to the first new id.
    pub(super) prefill: Stretch,
    /// From the first new id to the last.
    pub(super) decode: Stretch,
    /// The new ids.
    pub(super) ids: Vec<u32>,
}

impl Generation {
    /// One of its halves.
    pub(super) fn half(&self, phase: Phase) -> Stretch {
        match phase {
            Phase::Prefill => self.prefill,
            Phase::Decode => self.decode,
        }
    }
}

/// One run of an engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Measured {
    /// From nothing to an engine.
    pub(super) load: Stretch,
    /// The first generation.
    pub(super) cold: Generation,
    /// Another one.
    pub(super) warm: Generation,
    /// Why the page cache was not emptied before, if so.
    pub(super) cached: Option<String>,
    /// How the spine is represented.
    pub(super) recipe: String,
    /// Where weights are between two uses.
    pub(super) weights: String,
    /// The most memory the process ever had resident.
    pub(super) peak_memory_bytes: Option<u64>,
}
