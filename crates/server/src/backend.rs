//! The line between HTTP and inference: ids go in, events come out.
//!
//! A [`Backend`] takes one [`Job`] at a time and tells its [`Sink`] what happens. The sink
//! chooses each id, and its answer to
//! each event says whether anybody still wants the next one. The real backend is an engine
//! on a thread of its own; tests script one.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::sink::Sink;

/// What the server must know about a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Positions of a sequence, prompt and reply together.
    pub context: usize,
    /// Changes whenever the program, the weights or their arithmetic change.
    pub fingerprint: String,
    /// Bytes of memory that are set aside for requests, where memory is counted.
    pub request_bytes: Option<u64>,
}

/// What a backend has read, used and waited for since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Where weights are read from.
    pub drives: Vec<DriveUse>,
    /// What came over the network first, where weights do.
    pub network: Option<NetworkUse>,
    /// Experts that were in memory when they were asked for.
    pub expert_hits: u64,
    /// Experts that a guess was reading when they were asked for.
    pub expert_late: u64,
    /// Experts that had to be read.
    pub expert_misses: u64,
    /// Time that the model stood still for weights that every token uses.
    pub spine_wait: Duration,
    /// Time that the model stood still for experts.
    pub expert_wait: Duration,
}

/// What came over the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkUse {
    /// Experts.
    pub experts: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that were sent for them.
    pub requests: u64,
    /// How often nothing came of one, so that the source was left alone for a while.
    pub waits: u64,
}

/// What was read from one drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriveUse {
    /// A folder on it, or `memory` where there is none.
    pub name: String,
    /// Bytes that came from it.
    pub read_bytes: u64,
    /// Time with at least one read in flight.
    pub busy: Duration,
}

/// Something that generates.
pub trait Backend: Send + Sync + 'static {
    /// What the server must know about it.
    fn facts(&self) -> &Facts;

    /// What it has moved so far, if it counts that. Answers at once, also while it generates.
    fn moved(&self) -> Option<Moved> {
        None
    }

    /// Begins a generation and returns at once. The server gives the next job only after it
    /// has seen the last one's sink dropped.
    fn submit(&self, job: Job);
}

/// One generation.
#[derive(Debug)]
pub struct Job {
    /// The prompt, never empty, shorter than the context.
    pub prompt: Vec<u32>,
    /// The most ids to generate, at least one; prompt and reply fit into the context.
    pub max_new: usize,
    /// Who is told.
    pub sink: Sink,
}

/// How a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The model produced this stop id.
    Stop(u32),
    /// `max_new` was reached.
    Length,
    /// The sink said `Break`.
    Cancelled,
}

/// Whether anybody wants more.
pub type Flow = ControlFlow<()>;
