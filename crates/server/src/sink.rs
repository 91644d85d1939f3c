//! The engine's side of a generation: what it tells, and who stops listening.
//!
//! Replies are read here, on the engine's thread, so that a reply that is complete ends the
//! generation before another pass is begun. A listener that is gone is noticed at the next event.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use deltafin_text::Delta;
use deltafin_text::reply::{Answer, Channel, Cut};

use crate::backend::{End, Flow};
use crate::choice::Score;
use crate::metrics::Metrics;
use crate::queue::Slot;
use crate::reader::Reader;
use crate::relay::Teller;
use crate::steering::Steering;

/// What the engine tells all who listen.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// Pieces of the reply, never empty.
    Pieces(Arc<[Piece]>),
    /// The reply is complete.
    Ended(Arc<Summary>),
    /// Something went wrong, in words.
    Failed(String),
}

/// A piece of a reply.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) delta: Delta,
    /// The tokens it consists of, if that is wanted.
    pub(crate) tokens: Vec<Arc<Likely>>,
}

/// A token and how likely it was.
#[derive(Clone, Debug)]
pub(crate) struct Likely {
    pub(crate) bytes: Vec<u8>,
    /// Characters of its channel that begin before it.
    pub(crate) offset: usize,
    /// The natural logarithm of its probability.
    pub(crate) logprob: f64,
    /// The most likely tokens at this place, and their logarithms.
    pub(crate) top: Vec<(Vec<u8>, f64)>,
}

/// A reply that is over.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) answer: Answer,
    /// The stop sequence that ended the answer, if one did.
    pub(crate) stop_sequence: Option<String>,
    pub(crate) tokens: usize,
    pub(crate) reasoning_tokens: usize,
    pub(crate) cached: usize,
    /// The tokens of reasoning and answer, if that is wanted.
    pub(crate) likely: (Vec<Arc<Likely>>, Vec<Arc<Likely>>),
}

/// Takes the events of one generation. Dropping it ends the generation for everybody.
#[derive(Debug)]
pub struct Sink {
    reader: Reader,
    steering: Steering,
    /// Tokens whose text was not published yet.
    held: Vec<(Channel, Likely)>,
    likely: (Vec<Arc<Likely>>, Vec<Arc<Likely>>),
    /// Characters that were begun in the reasoning, and in the answer.
    begun: (usize, usize),
    cached: usize,
    began: Instant,
    last: Option<Instant>,
    metrics: Arc<Metrics>,
    // Dropped before the teller: whoever hears that it is over finds the slot free.
    slot: Slot,
    teller: Teller,
}

impl Sink {
    pub(crate) fn new(
        reader: Reader,
        steering: Steering,
        slot: Slot,
        teller: Teller,
        metrics: Arc<Metrics>,
    ) -> Sink {
        let began = Instant::now();
        metrics.prefill.set(0, 0);
        Sink {
            reader,
            steering,
            held: Vec::new(),
            likely: Default::default(),
            begun: (0, 0),
            cached: 0,
            began,
            last: None,
            metrics,
            slot,
            teller,
        }
    }

    /// Has this raised when nobody wants the reply any more, and lowered until then: for a backend that may
    /// wait long for something before its next event.
    pub fn raise_when_left(&self, unwanted: &Arc<AtomicBool>) {
        self.teller.raise_when_left(unwanted);
    }

    /// So many ids of the prompt are taken in already.
    pub fn begin(&mut self, cached: usize) {
        self.cached = cached;
        self.metrics.cached_tokens.add(cached);
    }

    /// The prompt has come so far. To be asked before each step that takes long.
    pub fn prefill(&mut self, done: usize, total: usize) -> Flow {
        self.metrics.prefill.set(done, total);
        self.flow()
    }

    /// The next id, from the logits after the last one, `[vocab]`. To be asked once for each id,
    /// stop ids included.
    pub fn choose(&mut self, logits: &[f32]) -> u32 {
        self.steering.choose(logits, &self.reader)
    }

    /// Ids that come next whatever the logits will be. May be asked for after an id, and then has to be told one by
    /// one, as if they had been chosen.
    pub fn forced(&mut self) -> Vec<u32> {
        self.steering.forced(&self.reader)
    }

    /// A new id, not a stop id.
    pub fn id(&mut self, id: u32) -> Flow {
        if let Some(fault) = self.steering.fault() {
            self.tell(Told::Failed(fault));
            return ControlFlow::Break(());
        }
        self.measure();
        self.hold(id);
        match self.reader.push(id) {
            Ok(deltas) => self.publish(deltas),
            // Ids past the tokenizer's table: nothing to show, and nothing to go on with.
            Err(error) => {
                self.tell(Told::Failed(error.to_string()));
                return ControlFlow::Break(());
            }
        }
        self.steering.note(&self.reader);
        if self.reader.is_done() { ControlFlow::Break(()) } else { self.flow() }
    }

    /// The generation is over.
    pub fn end(mut self, end: End) {
        if let Some(fault) = self.steering.fault() {
            return self.tell(Told::Failed(fault));
        }
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
            stop_sequence: self.reader.stop_sequence().map(str::to_owned),
            tokens: self.reader.tokens(),
            reasoning_tokens: self.reader.reasoning_tokens(),
            cached: self.cached,
            likely: std::mem::take(&mut self.likely),
        };
        self.tell(Told::Ended(Arc::new(summary)));
    }

    /// The generation cannot go on, for this reason.
    pub fn fail(mut self, reason: String) {
        self.tell(Told::Failed(reason));
    }

    /// Whether nobody listens any more.
    pub fn is_abandoned(&self) -> bool {
        self.teller.is_abandoned()
    }

    fn flow(&self) -> Flow {
        if self.is_abandoned() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn publish(&mut self, deltas: Vec<Delta>) {
        let pieces: Arc<[Piece]> = deltas.into_iter().map(|delta| self.piece(delta)).collect();
        if !pieces.is_empty() {
            self.tell(Told::Pieces(pieces));
        }
    }

    /// A piece takes the tokens held for its channel. What a stop sequence cuts off is never told.
    fn piece(&mut self, delta: Delta) -> Piece {
        let (channel, all) = match &delta {
            Delta::Reasoning(_) => (Channel::Think, &mut self.likely.0),
            Delta::Content(_) => (Channel::Response, &mut self.likely.1),
            _ => return Piece { delta, tokens: Vec::new() },
        };
        let taken = self.held.extract_if(.., |(of, _)| *of == channel);
        let tokens: Vec<_> = taken.map(|(_, likely)| Arc::new(likely)).collect();
        all.extend_from_slice(&tokens);
        Piece { delta, tokens }
    }

    /// Keeps how likely an id was until its text is published.
    fn hold(&mut self, id: u32) {
        let Some(Score { id: chosen, logprob, top }) = self.steering.take_score() else {
            return;
        };
        if let (true, Some(channel)) = (chosen == id, self.reader.channel_of(id)) {
            let bytes = |id| self.reader.bytes(id).to_vec();
            let top = top.into_iter().map(|(id, logprob)| (bytes(id), logprob)).collect();
            let bytes = bytes(id);
            let begun = match channel {
                Channel::Think => &mut self.begun.0,
                Channel::Response => &mut self.begun.1,
            };
            let offset = *begun;
            *begun += bytes.iter().filter(|byte| (**byte & 0xc0) != 0x80).count();
            self.held.push((channel, Likely { bytes, offset, logprob, top }));
        }
    }

    fn tell(&mut self, told: Told) {
        // Listeners that are gone are noticed by `flow`.
        self.teller.tell(told);
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
