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

/// What the caller of [`generate`] wants to know while it runs.
pub trait Listener {
    /// Asked before each layer of the prompt; `Break` stops.
    fn prefill(&mut self, progress: Progress) -> ControlFlow<()>;

    /// Called with each new id as soon as it is known, stop ids excepted; `Break` stops.
    fn id(&mut self, id: u32) -> ControlFlow<()>;
}

/// Takes in `prompt` and generates greedily. The session afterwards holds the prompt and every new id
/// but the last, whose pass nobody needed.
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
        let Some(id) = session.greedy() else { break };
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
        if stats.new_ids < most {
            session.advance(id)?;
        }
    }
    Ok(Finish::Length)
}
