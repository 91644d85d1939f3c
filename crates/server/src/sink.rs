//! The engine's side of a generation: what it tells, and who stops listening.
//!
//! Replies are read here, on the engine's thread, so that a reply that is complete ends the
//! generation before another pass is begun. A listener that is gone is noticed at the next event.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use deltafin_text::Delta;
use deltafin_text::reply::{Answer, Cut};
use tokio::sync::mpsc;

use crate::backend::{End, Flow};
use crate::metrics::Metrics;
use crate::queue::Slot;
use crate::reader::Reader;

/// Messages that may wait between the engine and a connection. A listener that falls this far
/// behind makes the engine wait; one that takes nothing for long is given up on its own side.
pub(crate) const EVENTS_MAX: usize = 256;

/// What the engine tells a connection.
#[derive(Debug)]
pub(crate) enum Told {
    /// Pieces of the reply, never empty.
    Deltas(Vec<Delta>),
    /// The reply is complete.
    Ended(Summary),
    /// Something went wrong, in words.
    Failed(String),
}

/// A reply that is over.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) answer: Answer,
    pub(crate) tokens: usize,
    pub(crate) reasoning_tokens: usize,
    pub(crate) cached: usize,
}

/// How far the prompt has come, for keep-alive comments.
#[derive(Debug, Default)]
pub(crate) struct Prefill {
    pub(crate) done: AtomicUsize,
    pub(crate) total: AtomicUsize,
}

/// Takes the events of one generation. Dropping it ends the generation for everybody.
#[derive(Debug)]
pub struct Sink {
    reader: Reader,
    cached: usize,
    began: Instant,
    last: Option<Instant>,
    prefill: Arc<Prefill>,
    metrics: Arc<Metrics>,
    // Dropped before the channel: whoever sees the channel closed finds the slot free.
    slot: Slot,
    events: mpsc::Sender<Told>,
}

impl Sink {
    pub(crate) fn new(
        reader: Reader,
        slot: Slot,
        metrics: Arc<Metrics>,
    ) -> (Sink, mpsc::Receiver<Told>, Arc<Prefill>) {
        let (events, told) = mpsc::channel(EVENTS_MAX);
        let prefill = Arc::new(Prefill::default());
        let began = Instant::now();
        let (cached, last, shared) = (0, None, prefill.clone());
        let sink = Sink { reader, cached, began, last, prefill: shared, metrics, slot, events };
        (sink, told, prefill)
    }

    /// So many ids of the prompt are taken in already.
    pub fn begin(&mut self, cached: usize) {
        self.cached = cached;
        self.metrics.cached_tokens.add(cached);
    }

    /// The prompt has come so far. To be asked before each step that takes long.
    pub fn prefill(&mut self, done: usize, total: usize) -> Flow {
        self.prefill.done.store(done, Ordering::Relaxed);
        self.prefill.total.store(total, Ordering::Relaxed);
        self.flow()
    }

    /// A new id, not a stop id.
    pub fn id(&mut self, id: u32) -> Flow {
        self.measure();
        match self.reader.push(id) {
            Ok(deltas) => self.publish(deltas),
            // Ids past the tokenizer's table: nothing to show, and nothing to go on with.
            Err(error) => {
                self.tell(Told::Failed(error.to_string()));
                return ControlFlow::Break(());
            }
        }
        if self.reader.is_done() { ControlFlow::Break(()) } else { self.flow() }
    }

    /// The generation is over.
    pub fn end(mut self, end: End) {
        let cut = match end {
            End::Stop(id) => {
                self.measure();
                let deltas = self.reader.push(id).unwrap_or_default();
                self.publish(deltas);
                Cut::StopToken
            }
            End::Length => Cut::Limit,
            End::Cancelled => Cut::Cancelled,
        };
        let rest = self.reader.finish(cut);
        self.publish(rest);
        let summary = Summary {
            answer: self.reader.answer(),
            tokens: self.reader.tokens(),
            reasoning_tokens: self.reader.reasoning_tokens(),
            cached: self.cached,
        };
        self.tell(Told::Ended(summary));
    }

    /// The generation cannot go on, for this reason.
    pub fn fail(mut self, reason: String) {
        self.tell(Told::Failed(reason));
    }

    /// Whether nobody listens any more.
    pub fn is_abandoned(&self) -> bool {
        self.events.is_closed()
    }

    fn flow(&self) -> Flow {
        if self.is_abandoned() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn publish(&mut self, deltas: Vec<Delta>) {
        if !deltas.is_empty() {
            self.tell(Told::Deltas(deltas));
        }
    }

    fn tell(&mut self, told: Told) {
        // A listener that is gone is noticed by `flow`.
        let _ = self.events.blocking_send(told);
    }

    fn measure(&mut self) {
        let now = Instant::now();
        self.metrics.generated_tokens.add(1);
        match self.last {
            None => self.metrics.first_token_seconds.record(now - self.began),
            Some(last) => self.metrics.token_seconds.record(now - last),
        }
        self.last = Some(now);
        self.slot.progress();
    }
}
