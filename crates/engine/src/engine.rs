//! A loaded model.

use crate::division::{self, Division};
use crate::options::EngineOptions;
use crate::residency;
use crate::room::{self, Room};
use crate::weights::StreamedWeights;
use crate::{EngineError, Session};
use deltafin_budget::{Limits, Plan, Pressure};
use deltafin_checkpoint::Recipe;
use deltafin_kernels::{Isa, IsaKind, Kernels};
use deltafin_model::{Forward, Weights};
use deltafin_pool::Pool;
use deltafin_snapshot::{FolderOptions, Origin, Shape, Snapshots, Writes};
use deltafin_spec::ModelSpec;
use deltafin_store::Checkpoint;
use deltafin_stream::Layout;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A model with its arithmetic and weights, ready for sessions. `W` is where weights come from;
/// only tests use another source than [`StreamedWeights`].
pub struct Engine<W = StreamedWeights> {
    spec: ModelSpec,
    kernels: Kernels,
    weights: W,
    recipe: Recipe,
    stop_ids: Vec<u32>,
    chunk: usize,
    context: usize,
    short_of: Option<usize>,
    plan: Option<Plan>,
    turn: Mutex<()>,
    snapshots: Mutex<Snapshots>,
}

impl Engine {
    /// Divides memory for `checkpoint`. Its weights are read when they are first needed.
    pub fn open(checkpoint: Checkpoint, options: EngineOptions) -> Result<Engine, EngineError> {
        let spec = checkpoint.spec().clone();
        let isa = options.isa.map_or(Ok(Isa::best()), Isa::new)?;
        let limits = Limits::read();
        let rooms = residency::rooms(&checkpoint.catalog);
        let options = options.with_coming(&checkpoint);
        let divide = |budget| {
            let division = Division::of(&spec, &rooms, &options, budget);
            division.map_err(|error| residency::explain(&limits, error))
        };
        let division = divide(residency::budget(&limits, &options, divide)?)?;
        let Division { usage, short_of, plan, .. } = division;
        let layout = residency::layout(&plan, &options);
        let (stop_ids, recipe) = (checkpoint.stop_ids(), checkpoint.recipe());
        let room = Room::hold(&plan, usage.threads)?;
        let weights = StreamedWeights::open(checkpoint, layout, options.io)
            .map_err(|error| room::explain(error, usage.threads, divide(less(&plan)).is_ok()))?;
        if options.memory.is_none() {
            weights.give_way_to(Pressure::watch());
        }
        let settled = Settled {
            isa,
            threads: usage.threads,
            context: usage.context,
            short_of,
            chunk: plan.chunk_rows,
            snapshots: plan.snapshots,
        };
        let mut engine = Engine::settled(spec, weights, stop_ids, settled);
        drop(room);
        let kernels = engine.kernels.clone();
        let share = move |tasks, task: &(dyn Fn(usize) + Sync)| kernels.pool().run(tasks, task);
        engine.weights.stream().share_with(Box::new(share));
        if let Some(asked) = options.threads
            && engine.threads() < asked.get()
        {
            return Err(EngineError::ThreadsRefused { asked: asked.get(), got: engine.threads() });
        }
        engine.plan = Some(plan);
        Ok(engine.with_recipe(recipe))
    }

    /// Keeps snapshots in a folder, too, and goes on from those that earlier runs left there. Of other weights or
    /// another recipe none is gone on from. `note` hears of damaged ones, which are dropped, and of
    /// failures. Nothing is written where there is no memory for snapshots.
    ///
    /// # Errors
    /// When the checkpoint cannot be read, or the system has no thread left.
    pub fn keep_snapshots_in(
        &self,
        folder: FolderOptions,
        note: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<(), EngineError> {
        let origin = Origin { identity: self.weights.identity()?, recipe: self.recipe };
        let kept = self.snapshots().keep_in(folder, origin, Box::new(note));
        kept.map_err(EngineError::SnapshotThread)
    }

    /// Where the weights are once all have been used: the word for statistics.
    pub fn weights_in(&self) -> &'static str {
        let all = Layout::everything(&self.spec);
        let layout = self.weights.stream().layout();
        let stay = layout.resident == all.resident && layout.expert_slots == all.expert_slots;
        if stay && layout.cache { "memory" } else { "drive" }
    }
}

/// The next smaller budget that is worth asking for.
fn less(plan: &Plan) -> u64 {
    plan.budget.saturating_sub(1 << 20)
}

impl<W: Weights> Engine<W> {
    /// An engine on other weights, whose spine is as released.
    pub fn with_weights(
        spec: ModelSpec,
        weights: W,
        stop_ids: Vec<u32>,
        options: EngineOptions,
    ) -> Result<Engine<W>, EngineError> {
        let settled = Settled::unbounded(&spec, &options)?;
        Ok(Engine::settled(spec, weights, stop_ids, settled))
    }

    fn settled(spec: ModelSpec, weights: W, stop_ids: Vec<u32>, settled: Settled) -> Engine<W> {
        let Settled { isa, threads, context, short_of, chunk, snapshots } = settled;
        let kernels = Kernels::new(isa, Arc::new(Pool::new(threads)));
        let snapshots = Mutex::new(Snapshots::new(Shape::of(&spec), snapshots));
        let (recipe, plan, turn) = (Recipe::Bf16, None, Mutex::default());
        Engine {
            spec,
            kernels,
            weights,
            recipe,
            stop_ids,
            chunk,
            context,
            short_of,
            plan,
            turn,
            snapshots,
        }
    }

    /// The same engine, told that its weights' spine has this recipe.
    pub fn with_recipe(mut self, recipe: Recipe) -> Engine<W> {
        self.recipe = recipe;
        self
    }

    /// How memory is spent; nothing for weights that came from elsewhere.
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
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

    /// The positions that a session would have by default and does not, because memory is short. It
    /// is where a text may end that would else go on, so it wants to be said.
    pub fn context_short_of(&self) -> Option<usize> {
        self.short_of
    }

    /// What to do about a text that the context has no room for, in words.
    pub fn context_remedy(&self) -> &'static str {
        match self.short_of {
            Some(_) => "shorten it, or raise --context or --memory",
            None if self.context < self.spec.max_positions => "shorten it or raise --context",
            None => "shorten it, for the model takes no longer one",
        }
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
    pub fn recipe(&self) -> Recipe {
        self.recipe
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

    /// What earlier sequences left behind, for all sessions. A holder that panicked has left it whole: each
    /// snapshot is added in one step.
    pub(crate) fn snapshots(&self) -> MutexGuard<'_, Snapshots> {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Snapshots that are still to be written; nothing where none are.
    pub fn snapshot_writes(&self) -> Option<Writes> {
        self.snapshots().writes()
    }

    /// The most bytes that snapshots take in memory.
    pub fn snapshot_memory(&self) -> u64 {
        self.snapshots().budget()
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
    short_of: Option<usize>,
    chunk: usize,
    snapshots: u64,
}

impl Settled {
    /// Where nobody counts memory.
    fn unbounded(spec: &ModelSpec, options: &EngineOptions) -> Result<Settled, EngineError> {
        let context = division::context(spec, options.context, |_| true)?;
        Ok(Settled {
            isa: options.isa.map_or(Ok(Isa::best()), Isa::new)?,
            threads: division::threads(options)?,
            context,
            short_of: None,
            chunk: division::chunk(options, context),
            snapshots: division::asked_snapshots(options),
        })
    }
}
