//! The decode loop.

use crate::{EngineError, Flow, Progress, Session};
use deltafin_model::Weights;
use std::ops::ControlFlow;
use std::time::Instant;

/// What ends a generation, besides the context.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits<'a> {
    /// The most new ids; up to the end of the context when `None`.
    pub max_new: Option<usize>,
    /// Ids that end the generation and are not part of it.
    pub stop: &'a [u32],
    /// Treat stop ids as any other.
    pub ignore_stop: bool,
}

/// How a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model produced this stop id.
    Stop(u32),
    /// `max_new` or the context was reached.
    Length,
    /// The caller broke off.
    Cancelled,
}

/// What was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Ids the prompt added to the session.
    pub prompt_ids: usize,
    /// Ids generated, a stop id included.
    pub new_ids: usize,
    /// From the start to the end of the prompt.
    pub prefill_seconds: f64,
    /// From the start to the first new id; zero when there was none.
    pub first_id_seconds: f64,
    /// From the first new id to the last one.
    pub decode_seconds: f64,
}

/// The end of a generation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub finish: Finish,
    /// How long it took.
    pub stats: Stats,
}

/// What the caller of [`generate`] wants to know, and to decide, while it runs.
pub trait Listener {
    /// Asked before each layer of the prompt; `Break` stops.
    fn prefill(&mut self, progress: Progress) -> ControlFlow<()>;

    /// Called with each new id as soon as it is known, stop ids excepted; `Break` stops.
    fn id(&mut self, id: u32) -> ControlFlow<()>;

    /// Told before each layer of a pass that takes in a new id: which one, and how many there are. There is no
    /// stopping here, for the state of a pass that is broken off is lost, and with it what was said.
    fn advance(&mut self, _layer: usize, _layers: usize) {}

    /// The next id, from the logits after the last one, `[vocab]`, never empty. Asked once for each
    /// id, in order, stop ids included. The most likely one, unless the caller samples or steers.
    fn choose(&mut self, logits: &[f32]) -> u32 {
        most_likely(logits).unwrap_or_default()
    }

    /// Ids that come next whatever the logits will be, if that is known after the last one: they are told
    /// one by one, but take one pass together. No stop id is among them.
    fn forced(&mut self) -> Vec<u32> {
        Vec::new()
    }
}

/// The index of the largest of `logits`, the lowest of equals; `None` if there are none.
pub fn most_likely(logits: &[f32]) -> Option<u32> {
    let mut best = None;
    for (id, &logit) in (0u32..).zip(logits) {
        if best.is_none_or(|(_, top)| logit > top) {
            best = Some((id, logit));
        }
    }
    best.map(|(id, _)| id)
}

/// Takes in `prompt` and generates, greedily unless the listener chooses. The session afterwards holds the prompt and every new id
/// but the last ones, whose pass nobody needed.
pub fn generate<W: Weights>(
    session: &mut Session<'_, W>,
    prompt: &[u32],
    limits: Limits<'_>,
    listener: &mut dyn Listener,
) -> Result<Outcome, EngineError> {
    let start = Instant::now();
    let mut stats = Stats { prompt_ids: prompt.len(), ..Stats::default() };
    let flow = session.prefill(prompt, &mut |p| listener.prefill(p))?;
    stats.prefill_seconds = start.elapsed().as_secs_f64();
    if flow == Flow::Interrupted {
        return Ok(Outcome { finish: Finish::Cancelled, stats });
    }
    // The last id needs no position: nothing follows it.
    let most = limits.max_new.unwrap_or(usize::MAX).min(session.room() + 1);
    let finish = decode(session, most, &limits, listener, &mut stats, start)?;
    if stats.new_ids > 0 {
        stats.decode_seconds = start.elapsed().as_secs_f64() - stats.first_id_seconds;
    }
    Ok(Outcome { finish, stats })
}

fn decode<W: Weights>(
    session: &mut Session<'_, W>,
    most: usize,
    limits: &Limits<'_>,
    listener: &mut dyn Listener,
    stats: &mut Stats,
    start: Instant,
) -> Result<Finish, EngineError> {
    while stats.new_ids < most {
        if session.logits().is_empty() {
            break;
        }
        let id = listener.choose(session.logits());
        stats.new_ids += 1;
        if stats.new_ids == 1 {
            stats.first_id_seconds = start.elapsed().as_secs_f64();
        }
        if !limits.ignore_stop && limits.stop.contains(&id) {
            return Ok(Finish::Stop(id));
        }
        if listener.id(id).is_break() {
            return Ok(Finish::Cancelled);
        }
        if stats.new_ids == most {
            break;
        }
        let forced = listener.forced();
        for &id in &forced {
            stats.new_ids += 1;
            if listener.id(id).is_break() {
                return Ok(Finish::Cancelled);
            }
            if stats.new_ids == most {
                return Ok(Finish::Length);
            }
        }
        if forced.is_empty() {
            session.advance_telling(id, &mut |layer, layers| listener.advance(layer, layers))?;
        } else {
            session.advance_together(&[&[id], &forced[..]].concat(), &mut |progress| {
                listener.advance(progress.layer, progress.layers);
                ControlFlow::Continue(())
            })?;
        }
    }
    Ok(Finish::Length)
}
