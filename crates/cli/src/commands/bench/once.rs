//! One run of one arm, in a process of its own, so that its memory and its first reads are its own.

use std::ops::ControlFlow;
use std::time::Instant;

use deltafin_engine::{Limits, Listener, Progress, Session, generate};

use super::counters::BytesRead;
use super::measured::{Generation, Measured, Stretch};
use super::page_cache;
use super::prompt::prompt;
use crate::args::{BenchOnce, Given};
use crate::failure::Failure;
use crate::load::{self, Loaded};
use crate::{model_choice, stats, terminal};

/// Does it.
pub(crate) fn once(asked: &BenchOnce, given: Given) -> Result<(), Failure> {
    let model = model_choice::choose(asked.engine.model.clone(), given)?;
    let cached = page_cache::forget(&model, &asked.engine.spine()).err();
    let watch = Watch::start();
    let checkpoint = load::checkpoint(&model, &asked.engine.network())?;
    // What earlier runs learned about experts would be a gift to whichever comes later.
    let loaded = Loaded::unlearned(model, checkpoint, &asked.engine)?;
    let load = watch.stop();
    let mut session = loaded.engine.session();
    let mut run = |stream| {
        session.reset();
        let prompt = prompt(&loaded.engine, asked.seed, stream, asked.prompt)?;
        generation(&mut session, &prompt, asked.tokens)
    };
    let (cold, warm) = (run(0)?, run(1)?);
    let measured = Measured {
        load,
        cold,
        warm,
        cached,
        recipe: loaded.engine.recipe().name().to_owned(),
        weights: loaded.engine.weights_in().to_owned(),
        peak_memory_bytes: stats::peak_memory_bytes(),
    };
    terminal::print_line(&serde_json::to_string(&measured)?)
}

fn generation(
    session: &mut Session<'_>,
    prompt: &[u32],
    tokens: usize,
) -> Result<Generation, Failure> {
    let limits = Limits { max_new: Some(tokens), stop: &[], ignore_stop: true };
    let mut halves = Halves { watch: Watch::start(), prefill: None, ids: Vec::new() };
    generate(session, prompt, limits, &mut halves)?;
    let Halves { watch, prefill, ids } = halves;
    match prefill {
        Some(prefill) if ids.len() == tokens => {
            Ok(Generation { prefill, decode: watch.stop(), ids })
        }
        _ => {
            let wanted = prompt.len() + tokens;
            Err(Failure::new(format!("the context has no room for {wanted} positions: --context")))
        }
    }
}

/// Notes when the prompt is over, and the ids.
struct Halves {
    watch: Watch,
    prefill: Option<Stretch>,
    ids: Vec<u32>,
}

impl Listener for Halves {
    fn prefill(&mut self, _at: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn id(&mut self, id: u32) -> ControlFlow<()> {
        if self.prefill.is_none() {
            self.prefill = Some(self.watch.stop());
            self.watch = Watch::start();
        }
        self.ids.push(id);
        ControlFlow::Continue(())
    }
}

/// A clock, and the kernel's counters when it was started.
struct Watch {
    began: Instant,
    read: Option<BytesRead>,
}

impl Watch {
    fn start() -> Watch {
        let read = BytesRead::until_here();
        Watch { began: Instant::now(), read }
    }

    fn stop(&self) -> Stretch {
        let seconds = self.began.elapsed().as_secs_f64();
        let read = BytesRead::until_here().zip(self.read).map(|(now, then)| now.since(then));
        Stretch { seconds, read }
    }
}
