//! A loaded model.

use crate::memory::usable_bytes;
use crate::options::{DEFAULT_CHUNK, DEFAULT_CONTEXT, EngineOptions, MOST_THREADS};
use crate::weights::StreamedWeights;
use crate::{EngineError, Session};
use deltafin_kernels::{Isa, IsaKind, Kernels};
use deltafin_model::{Forward, State, Weights};
use deltafin_pool::Pool;
use deltafin_spec::ModelSpec;
use deltafin_store::Checkpoint;
use deltafin_store::drive::IoMode;
use deltafin_stream::Layout;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A model with its arithmetic and weights, ready for sessions. `W` is where weights come from;
/// only tests use another source than [`StreamedWeights`].
pub struct Engine<W = StreamedWeights> {
    spec: ModelSpec,
    kernels: Kernels,
    weights: W,
    stop_ids: Vec<u32>,
    chunk: usize,
    context: usize,
    turn: Mutex<()>,
}

impl Engine {
    /// Loads `checkpoint`.
    pub fn open(checkpoint: Checkpoint, options: EngineOptions) -> Result<Engine, EngineError> {
        let stop_ids = checkpoint.stop_ids();
        let spec = checkpoint.spec().clone();
        settle(&spec, &options)?;
        let weights = StreamedWeights::open(checkpoint, Layout::everything(&spec), IoMode::Auto)?;
        Engine::with_weights(spec, weights, stop_ids, options)
    }
}

impl<W: Weights> Engine<W> {
    /// An engine on other weights.
    pub fn with_weights(
        spec: ModelSpec,
        weights: W,
        stop_ids: Vec<u32>,
        options: EngineOptions,
    ) -> Result<Engine<W>, EngineError> {
        let Settled { isa, threads, context, chunk } = settle(&spec, &options)?;
        let kernels = Kernels::new(isa, Arc::new(Pool::new(threads)));
        Ok(Engine { spec, kernels, weights, stop_ids, chunk, context, turn: Mutex::default() })
    }

    /// The model's dimensions.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// The instruction set in use.
    pub fn isa(&self) -> IsaKind {
        self.kernels.isa().kind()
    }

    /// The threads in use.
    pub fn threads(&self) -> usize {
        self.kernels.pool().width()
    }

    /// Positions a session has room for.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Prompt rows of one pass.
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// The ids that end a generation, as the checkpoint's two configuration files declare them.
    pub fn stop_ids(&self) -> &[u32] {
        &self.stop_ids
    }

    /// How the spine is represented: the one choice here that would change bits.
    pub fn recipe(&self) -> &'static str {
        "bf16"
    }

    /// The weights.
    pub fn weights(&self) -> &W {
        &self.weights
    }

    /// A new, empty sequence.
    pub fn session(&self) -> Session<'_, W> {
        Session::new(self)
    }

    /// Weights serve one pass at a time. A pass that panicked has left nothing that the next minds.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn forward(&self) -> Forward<'_, W> {
        Forward { spec: &self.spec, kernels: &self.kernels, weights: &self.weights }
    }
}

/// What the options mean for a model on this machine.
struct Settled {
    isa: Isa,
    threads: usize,
    context: usize,
    chunk: usize,
}

fn settle(spec: &ModelSpec, options: &EngineOptions) -> Result<Settled, EngineError> {
    let isa = options.isa.map_or(Ok(Isa::best()), Isa::new)?;
    let threads = match options.threads.map(NonZeroUsize::get) {
        Some(asked) if asked > MOST_THREADS => return Err(EngineError::Threads { asked }),
        Some(asked) => asked,
        None => Pool::default_threads().min(MOST_THREADS),
    };
    let context = context_of(spec, options.context)?;
    let chunk = options.chunk.map_or(DEFAULT_CHUNK, NonZeroUsize::get).min(context);
    Ok(Settled { isa, threads, context, chunk })
}

fn context_of(spec: &ModelSpec, asked: Option<NonZeroUsize>) -> Result<usize, EngineError> {
    let limit = spec.max_positions;
    let context = match asked.map(NonZeroUsize::get) {
        Some(asked) if asked > limit => return Err(EngineError::Context { asked, limit }),
        Some(asked) => asked,
        None => limit.min(DEFAULT_CONTEXT),
    };
    let needed = State::bytes(spec, context);
    match usable_bytes() {
        Some(memory) if needed > memory => {
            Err(EngineError::ContextMemory { context, needed, memory })
        }
        _ => Ok(context),
    }
}
