//! `eval`: the numbers behind the tokens.

mod compare;
mod divergence;
mod perplexity;
mod recording;
mod share;
mod timing;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use deltafin_engine::{LayerId, Observer};
use serde_json::{Value, json};

use self::perplexity::Surprise;
use self::recording::Recording;
use self::timing::Timing;
use crate::args::{EngineArgs, Eval, Given, Logits, Ppl};
use crate::failure::Failure;
use crate::input::Source;
use crate::interrupt::{self, Interrupts};
use crate::load::Loaded;
use crate::new_file::{self, Unfinished};
use crate::prompt;
use crate::target::foreign_target;
use crate::terminal::{self, ProgressLine, Terminal, one_line};

/// Does it.
pub(crate) fn eval(eval: Eval, given: Given) -> Result<(), Failure> {
    match eval {
        Eval::Logits(asked) => logits(&asked, given),
        Eval::Ppl(asked) => perplexity(&asked, given),
        Eval::Compare(asked) => compare::compare(&asked),
    }
}

/// Writes the logits of every position, and what else was asked for.
fn logits(asked: &Logits, given: Given) -> Result<(), Failure> {
    let ids = asked.ids.open()?;
    // A name that cannot be had should not cost a wait.
    new_file::target(&asked.out)?;
    let unfinished = Unfinished::default();
    let at_the_end = unfinished.clone();
    let interrupts = Interrupts::install_tidying(move || at_the_end.remove_for_good())?;
    let loaded = Loaded::open(&asked.engine, given)?;
    foreign_target(&asked.out, loaded.folders())?;
    let ids = prompt::ids(ids, &loaded.engine)?;
    let spec = loaded.engine.spec();
    let began = Instant::now();
    let recording = Recording::create(&asked.out, spec, ids.len(), asked.hidden, &unfinished)?;
    let mut progress = Rows::new(ids.len());
    let interrupted = interrupts.begin();
    let recorded = interrupt::answering(interrupted, || {
        recording.fill(&loaded.engine, &ids, interrupted, &mut |row| progress.at(row))
    });
    drop(progress);
    if interrupts.end() {
        return Err(Failure::Interrupted);
    }
    recorded?;
    let timing = Timing::new(&loaded, ids.len(), began);
    let out = asked.out.display().to_string();
    let report = json!({
        "tokens": ids.len(),
        "vocab": spec.vocab,
        "layers": spec.layers.len(),
        "out": out,
        "stats": timing,
    });
    say(&asked.engine, &report, &timing, || {
        format!("logits of {} positions in {}", ids.len(), one_line(&out))
    })
}

/// Prints how well the model expects a text.
fn perplexity(asked: &Ppl, given: Given) -> Result<(), Failure> {
    let source = Source::file_or_stdin(&asked.text)?;
    let name = source.name().to_owned();
    let interrupts = Interrupts::install()?;
    let loaded = Loaded::open(&asked.engine, given)?;
    let (ids, bytes) = prompt::text(source, &loaded)?;
    let predicted = ids.len().saturating_sub(1);
    if predicted == 0 {
        return Err(Failure::new(format!(
            "perplexity needs a text of at least two tokens: {name} has {}",
            ids.len()
        )));
    }
    let began = Instant::now();
    let mut surprise = Surprise::new(&ids, loaded.engine.spec().vocab);
    let mut progress = Rows::new(ids.len());
    let interrupted = interrupts.begin();
    let evaluated = interrupt::answering(interrupted, || {
        loaded.engine.session().evaluate(
            &ids,
            &mut Watch(interrupted),
            &mut |row| progress.at(row),
            &mut |first, rows| surprise.take(first, rows),
        )
    });
    drop(progress);
    if interrupts.end() {
        return Err(Failure::Interrupted);
    }
    evaluated?;
    let timing = Timing::new(&loaded, ids.len(), began);
    let nats = surprise.nats() / predicted as f64;
    let report = json!({
        "perplexity": nats.exp(),
        "nats_per_token": nats,
        "tokens": ids.len(),
        "predicted": predicted,
        "bytes": bytes,
        "stats": timing,
    });
    say(&asked.engine, &report, &timing, || {
        let perplexity = nats.exp();
        format!(
            "perplexity {perplexity:.4}: {nats:.4} nats per token over {predicted} predicted tokens"
        )
    })
}

/// Prints the report as JSON, or its words; and the timing where it was asked for.
fn say(
    engine: &EngineArgs,
    report: &Value,
    timing: &Timing,
    words: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if engine.json {
        return terminal::print_line(&report.to_string());
    }
    terminal::print_line(&words())?;
    if engine.stats {
        terminal::note(&timing.words());
    }
    Ok(())
}

/// Stops a pass before its next layer when interrupted.
struct Watch<'a>(&'a AtomicBool);

impl Observer for Watch<'_> {
    fn layer(&mut self, _layer: LayerId) -> ControlFlow<()> {
        match self.0.load(Ordering::SeqCst) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Rows on the progress line.
struct Rows {
    line: ProgressLine,
    total: usize,
}

impl Rows {
    fn new(total: usize) -> Rows {
        Rows { line: ProgressLine::new(Terminal::detect()), total }
    }

    fn at(&mut self, row: usize) {
        let total = self.total;
        self.line.update(|| format!("position {row} of {total}"));
    }
}
