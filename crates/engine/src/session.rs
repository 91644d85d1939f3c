//! One sequence on an engine.

use crate::generate::most_likely;
use crate::observe::Both;
use crate::{Engine, EngineError, StreamedWeights};
use deltafin_model::{Ids, Lease, Observer, Part, Silent, State, StepError, Weights, Workspace};
use deltafin_snapshot::Mark;
use deltafin_spec::LayerId;
use std::ops::ControlFlow;

/// How far a prompt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Prompt rows whose pass is complete.
    pub rows_done: usize,
    /// Rows of the pass that is running.
    pub rows_running: usize,
    /// Prompt rows in all.
    pub rows_total: usize,
    /// The layer that is about to run.
    pub layer: usize,
    /// Layers in all.
    pub layers: usize,
}

/// Whether a prompt was taken in whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It was.
    Done,
    /// It was stopped on request between two layers. The session is empty again.
    Interrupted,
}

/// One sequence: its ids, its state, and the logits after its last id.
pub struct Session<'e, W: Weights = StreamedWeights> {
    pub(crate) engine: &'e Engine<W>,
    pub(crate) state: State,
    workspace: Workspace,
    pub(crate) ids: Vec<u32>,
    pub(crate) logits: Vec<f32>,
    watcher: Box<dyn Observer + 'e>,
    /// Positions to keep snapshots of: those asked for, while a prompt is taken in those chosen.
    pub(crate) marks: Vec<Mark>,
}

/// Logits of this many rows are computed at once when all rows are wanted.
const LOGIT_ROWS: usize = 16;

type StepResult<W> = Result<(), StepError<<W as Weights>::Error>>;

impl<'e, W: Weights> Session<'e, W> {
    /// The engine it is a sequence on.
    pub fn engine(&self) -> &'e Engine<W> {
        self.engine
    }

    /// The ids the state has taken in.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The logits after the last id, `[vocab]`; empty for an empty session.
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// The final hidden rows of the last pass, after the final mix and norm, `[rows, hidden]`.
    pub fn last_hidden(&self) -> &[f32] {
        self.workspace.last_hidden()
    }

    /// The state after the last id.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Room left, in positions.
    pub fn room(&self) -> usize {
        self.state.capacity() - self.state.len()
    }

    /// Lets `watcher` see every pass from now on, beside the observer that a call names.
    pub fn watch(&mut self, watcher: Box<dyn Observer + 'e>) {
        self.watcher = watcher;
    }

    /// Forgets everything; the memory is kept.
    pub fn reset(&mut self) {
        self.state.clear();
        self.ids.clear();
        self.logits.clear();
    }

    /// Takes in `ids`, in passes of at most the engine's chunk. `progress` is asked before each
    /// layer of each pass; `Break` stops there and empties the session, for a pass cannot be undone.
    pub fn prefill(
        &mut self,
        ids: &[u32],
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Flow, EngineError> {
        self.take_in(Ids::Prompt, ids, progress)
    }

    /// As [`Session::prefill`], for `ids` that were generated together. What is counted of them counts as
    /// decoding.
    pub fn advance_together(
        &mut self,
        ids: &[u32],
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Flow, EngineError> {
        self.take_in(Ids::Reply, ids, progress)
    }

    fn take_in(
        &mut self,
        kind: Ids,
        ids: &[u32],
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Flow, EngineError> {
        self.check_room(ids.len())?;
        self.begin_marks(ids);
        let flow = self.passes(kind, ids, progress);
        self.end_marks();
        flow
    }

    fn passes(
        &mut self,
        kind: Ids,
        ids: &[u32],
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Flow, EngineError> {
        let layers = self.engine.spec().layers.len();
        let (mut rows_done, rows_total) = (0, ids.len());
        for piece in ids.chunks(self.engine.chunk()) {
            let rows_running = piece.len();
            let last = rows_done + rows_running == rows_total;
            let mut watch = Watch(|layer: LayerId| {
                let layer = layer.index();
                progress(Progress { rows_done, rows_running, rows_total, layer, layers })
            });
            let run = self.pass(kind, piece, last, &mut watch);
            if let Some(Flow::Interrupted) = self.settle(run)? {
                return Ok(Flow::Interrupted);
            }
            rows_done += rows_running;
            self.keep_marked();
        }
        let last = self.last_logits();
        self.settle(last)?;
        Ok(Flow::Done)
    }

    /// Takes in one id that was generated. What is counted of it counts as decoding.
    pub fn advance(&mut self, id: u32) -> Result<(), EngineError> {
        self.advance_telling(id, &mut |_, _| {})
    }

    /// As [`Session::advance`]; tells before each layer which it is and how many there are.
    pub fn advance_telling(
        &mut self,
        id: u32,
        told: &mut dyn FnMut(usize, usize),
    ) -> Result<(), EngineError> {
        self.check_room(1)?;
        let layers = self.engine.spec().layers.len();
        let mut watch = Watch(|layer: LayerId| {
            told(layer.index(), layers);
            ControlFlow::Continue(())
        });
        let run = self.pass(Ids::Reply, &[id], true, &mut watch);
        let run = run.and_then(|()| self.last_logits());
        self.settle(run)?;
        self.keep_stride();
        Ok(())
    }

    /// The most likely next id, the lowest of equals; `None` for an empty session.
    pub fn greedy(&self) -> Option<u32> {
        most_likely(&self.logits)
    }

    /// Takes in `ids` and shows everything on the way: layers to `observer`, and the logits of all
    /// rows, a few at a time, to `logits(first row, values [rows, vocab])`. Row numbers that the
    /// observer sees count from the start of a pass; `pass(first row)` announces each. An observer that
    /// breaks ends the evaluation there and empties the session.
    pub fn evaluate(
        &mut self,
        ids: &[u32],
        observer: &mut dyn Observer,
        pass: &mut dyn FnMut(usize),
        logits: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<Flow, EngineError> {
        self.check_room(ids.len())?;
        let vocab = self.engine.spec().vocab;
        let mut buffer = vec![0.0; LOGIT_ROWS.min(ids.len()) * vocab];
        let mut first = 0;
        for piece in ids.chunks(self.engine.chunk()) {
            pass(first);
            let run = self.pass(Ids::Prompt, piece, true, observer).and_then(|()| {
                let (forward, rows) = (self.engine.forward(), 0..piece.len());
                self.watcher.part(Part::SpineWait);
                let head = forward.head()?;
                for start in rows.clone().step_by(LOGIT_ROWS) {
                    let rows = start..rows.end.min(start + LOGIT_ROWS);
                    let out = &mut buffer[..rows.len() * vocab];
                    self.watcher.part(Part::Head);
                    forward.logits(head.view(), rows, &mut self.workspace, out)?;
                    self.watcher.part(Part::Outside);
                    logits(first + start, out);
                }
                Ok(())
            });
            if let Some(Flow::Interrupted) = self.settle(run)? {
                return Ok(Flow::Interrupted);
            }
            first += piece.len();
        }
        Ok(Flow::Done)
    }

    pub(crate) fn new(engine: &'e Engine<W>) -> Session<'e, W> {
        Session {
            engine,
            state: State::new(engine.spec(), engine.context()),
            workspace: Workspace::new(),
            // Growing later would be an allocation in the decode loop.
            ids: Vec::with_capacity(engine.context()),
            logits: Vec::with_capacity(engine.spec().vocab),
            watcher: Box::new(Silent),
            marks: Vec::new(),
        }
    }

    fn check_room(&self, rows: usize) -> Result<(), EngineError> {
        let (prompt, context) = (self.ids.len() + rows, self.state.capacity());
        if rows == 0 {
            return Err(EngineError::EmptyPrompt);
        }
        if prompt > context {
            return Err(EngineError::PromptTooLong {
                prompt,
                context,
                short_of: self.engine.context_short_of(),
                remedy: self.engine.context_remedy(),
            });
        }
        Ok(())
    }

    fn pass(
        &mut self,
        kind: Ids,
        ids: &[u32],
        head: bool,
        observer: &mut dyn Observer,
    ) -> StepResult<W> {
        let _turn = self.engine.turn();
        let (state, workspace) = (&mut self.state, &mut self.workspace);
        let mut both = Both(observer, &mut *self.watcher);
        self.engine.forward().run(kind, ids, head, state, workspace, &mut both)?;
        self.ids.extend_from_slice(ids);
        Ok(())
    }

    /// The logits of the last row of the last pass.
    fn last_logits(&mut self) -> StepResult<W> {
        let rows = self.workspace.last_hidden().len() / self.engine.spec().hidden;
        self.logits.resize(self.engine.spec().vocab, 0.0);
        let forward = self.engine.forward();
        self.watcher.part(Part::SpineWait);
        let head = forward.head()?;
        self.watcher.part(Part::Head);
        forward.logits(head.view(), rows - 1..rows, &mut self.workspace, &mut self.logits)
    }

    /// Empties the session when a pass did not complete, so that the next one starts clean.
    fn settle(&mut self, run: StepResult<W>) -> Result<Option<Flow>, EngineError> {
        self.watcher.part(Part::Outside);
        match run {
            Ok(()) => Ok(None),
            Err(StepError::Interrupted) => {
                self.reset();
                Ok(Some(Flow::Interrupted))
            }
            Err(error) => {
                self.reset();
                Err(error.into())
            }
        }
    }
}

/// Asks a closure before each layer.
struct Watch<F>(F);

impl<F: FnMut(LayerId) -> ControlFlow<()>> Observer for Watch<F> {
    fn layer(&mut self, layer: LayerId) -> ControlFlow<()> {
        (self.0)(layer)
    }
}
