//! What can go wrong between ids and ids.

use crate::options::MOST_THREADS;
use deltafin_budget::{BudgetError, Size};
use deltafin_kernels::UnsupportedIsa;
use deltafin_model::StepError;
use deltafin_store::StoreError;
use deltafin_store::arena::ArenaError;
use deltafin_stream::StreamError;
use std::error::Error;
use std::fmt;
use std::io;

/// Why the engine refused or stopped. The session it happened in is empty afterwards.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The instruction set asked for is not there.
    #[error("{0}; use --isa auto")]
    Isa(#[from] UnsupportedIsa),
    /// More threads than any machine has use for.
    #[error("--threads {asked} is too many: at most {MOST_THREADS}")]
    Threads {
        /// Threads asked for.
        asked: usize,
    },
    /// The system does not let this process have as many threads as were asked for.
    #[error(
        "--threads {asked}: the system allows {got}, by a limit of threads or of address space \
         (ulimit -u, ulimit -v, a control group's); give --threads {got}, or raise that limit"
    )]
    ThreadsRefused {
        /// Threads asked for.
        asked: usize,
        /// Threads that could be had.
        got: usize,
    },
    /// A sequence would not find room once everything else stands.
    #[error(
        "no room for the {} that a sequence and a pass take: {}; give a smaller {}, or {}",
        Size(*wanted), room_left(*left), flags(*shrinks, *threads), at_large(*left)
    )]
    Room {
        /// Bytes they take.
        wanted: u64,
        /// Bytes that the limit of address space leaves, if there is one.
        left: Option<u64>,
        /// Threads that compute.
        threads: usize,
        /// Whether they would take less of a smaller budget.
        shrinks: bool,
    },
    /// Weights would have nowhere to be read into.
    #[error(
        "{refused}: {}; give a smaller {}, or {}",
        room_left(*left), flags(*shrinks, *threads), at_large(*left)
    )]
    Areas {
        /// What was asked of the system, and its words.
        refused: ArenaError,
        /// Bytes that the limit of address space leaves, if there is one.
        left: Option<u64>,
        /// Threads that compute.
        threads: usize,
        /// Whether a smaller budget would be accepted.
        shrinks: bool,
    },
    /// The context asked for is longer than the model was made for.
    #[error("--context {asked} is more than this checkpoint's limit of {limit} positions")]
    Context {
        /// Positions asked for.
        asked: usize,
        /// The checkpoint's limit.
        limit: usize,
    },
    /// There is no division of memory that works.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// The memory for snapshots holds not one.
    #[error(
        "--snapshot-memory {asked} holds no snapshot of this model: give {least} or more, or 0"
    )]
    SnapshotMemory {
        /// Bytes asked for.
        asked: u64,
        /// The least that holds one.
        least: u64,
    },
    /// Snapshots cannot be kept on a drive.
    #[error("cannot start the thread that writes snapshots")]
    SnapshotThread(#[source] io::Error),
    /// The checkpoint cannot be told from others.
    #[error(transparent)]
    Identity(#[from] StoreError),
    /// Nothing to start from.
    #[error("the prompt is empty: give at least one token")]
    EmptyPrompt,
    /// The prompt leaves no room for an answer.
    #[error(
        "the prompt of {prompt} tokens does not fit into a context of {context}{}: {remedy}",
        made_of(*short_of)
    )]
    PromptTooLong {
        /// Tokens of the prompt and of what the session already holds.
        prompt: usize,
        /// Positions of the session.
        context: usize,
        /// As [`Engine::context_short_of`](crate::Engine::context_short_of).
        short_of: Option<usize>,
        /// As [`Engine::context_remedy`](crate::Engine::context_remedy).
        remedy: &'static str,
    },
    /// The weights could not be loaded.
    #[error(transparent)]
    Load(#[from] StreamError),
    /// A pass stopped.
    #[error(transparent)]
    Step(StepError<WeightsError>),
}

fn room_left(left: Option<u64>) -> String {
    match left {
        Some(left) => format!("the limit of address space (ulimit -v) leaves {}", Size(left)),
        None => "the system refuses it".to_owned(),
    }
}

/// What takes fewer addresses when it is smaller.
fn flags(memory: bool, threads: usize) -> String {
    let memory = if memory { "--memory" } else { "" };
    let threads = if threads > 1 { format!("--threads (here {threads})") } else { String::new() };
    let flags = [memory, "--context", &threads].into_iter().filter(|flag| !flag.is_empty());
    flags.collect::<Vec<_>>().join(" or ")
}

/// What helps outside this program.
fn at_large(left: Option<u64>) -> &'static str {
    if left.is_some() { "raise the limit" } else { "end other programs" }
}

fn made_of(short_of: Option<usize>) -> String {
    short_of.map_or_else(String::new, |usual| format!(", which memory made of the usual {usual}"))
}

/// Weights could not be had in the middle of a pass, from wherever they come.
#[derive(Debug)]
pub struct WeightsError(Box<dyn Error + Send + Sync>);

impl fmt::Display for WeightsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for WeightsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl<E: Error + Send + Sync + 'static> From<StepError<E>> for EngineError {
    fn from(error: StepError<E>) -> EngineError {
        EngineError::Step(error.map_weights(|e| WeightsError(Box::new(e))))
    }
}
