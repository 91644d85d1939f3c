//! `bench token`: a token's time beside what memory and the kernels alone would take.
//!
//! **Method.** Samples and rounds take turns, `sample round sample round sample ...`, because memory has more
//! than one speed on shared machines. A round of some tokens is compared with the better of the samples
//! beside it:
//!
//! ```text
//! of memory   bytes touched ÷ read bandwidth,                            ÷ time of a token
//! of kernels  spine bytes ÷ its kernel's rate + expert bytes ÷ theirs    ÷ time of a token
//!             + state bytes ÷ read bandwidth
//! ```
//!
//! and the medians over all rounds are reported. All weights are in memory before the first round, whichever of
//! them its tokens choose; where a round reads any nevertheless, nothing is reported.

mod held;
mod report;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use deltafin_checkpoint::Recipe;
use deltafin_engine::{Engine, EngineError, Session};
use deltafin_kernels::Isa;
use deltafin_measure::{Format, Memory, Moment, Moments};
use deltafin_pool::Pool;

use self::report::Report;
use super::prompt::prompt;
use crate::args::{BenchToken, Given};
use crate::failure::Failure;
use crate::load::{self, Loaded};
use crate::model_choice;
use crate::terminal::{self, ProgressLine, Terminal};

/// Ids behind which the tokens of the rounds come.
const BEFORE: usize = 512;

/// A round that read nothing.
struct Round {
    /// Seconds of a token.
    seconds: f64,
    /// The better of the samples beside it.
    around: Moment,
}

/// Does it.
pub(crate) fn token(asked: &BenchToken, given: Given) -> Result<(), Failure> {
    let model = model_choice::choose(asked.engine.model.clone(), given)?;
    let checkpoint = load::checkpoint(&model, &asked.engine.network())?;
    let checkpoint = load::prepared(checkpoint, &asked.engine)?;
    let enough = held::admit(&checkpoint, &asked.engine)?;
    let loaded = Loaded::of_prepared(model, checkpoint, &asked.engine)?;
    let engine = &loaded.engine;
    let before = before(asked, engine)?;
    let mut line = ProgressLine::new(Terminal::detect());
    line.update(|| "bringing all weights into memory".to_owned());
    held::bring_in(engine, enough)?;
    let mut session = engine.session();
    session.prefill(&prompt(engine, 1, 0, before)?, &mut |_| ControlFlow::Continue(()))?;
    let rounds = rounds(asked, &mut session, enough, &mut line)?;
    drop(line);
    let report = Report::new(asked, engine, before, &rounds);
    if asked.engine.json {
        return terminal::print_line(&serde_json::to_string(&report)?);
    }
    terminal::print_line(&report.words())
}

/// How many ids come before the rounds, whose tokens must have room behind them.
fn before(asked: &BenchToken, engine: &Engine) -> Result<usize, Failure> {
    let (context, tokens) = (engine.context(), asked.rounds.saturating_mul(asked.tokens));
    let before = BEFORE.min(context / 2).max(1);
    match tokens <= context - before {
        true => Ok(before),
        false => Err(Failure::new(format!(
            "{tokens} tokens behind a prompt of {before} do not fit into a context of {context}: lower --rounds or \
             --tokens, or raise --context"
        ))),
    }
}

/// Takes them; `enough` is a budget that holds all weights.
fn rounds(
    asked: &BenchToken,
    session: &mut Session<'_>,
    enough: u64,
    line: &mut ProgressLine,
) -> Result<Vec<Round>, Failure> {
    let engine = session.engine();
    let (memory, every_core) = (Memory::new()?, Arc::new(Pool::new(Pool::default_threads())));
    let isa = Isa::new(engine.isa()).map_err(EngineError::from)?;
    let mut moments =
        Moments::new(&memory, &every_core, (isa, engine.threads()), spine_rows(engine.recipe()));
    let mut before = moments.take();
    let mut rounds = Vec::new();
    while rounds.len() < asked.rounds {
        line.update(|| format!("round {} of {}", rounds.len() + 1, asked.rounds));
        let read = held::read_bytes(engine);
        let began = Instant::now();
        for _ in 0..asked.tokens {
            let id = session.greedy().unwrap_or_default();
            session.advance(id)?;
        }
        let seconds = began.elapsed().as_secs_f64() / asked.tokens as f64;
        if held::read_bytes(engine) > read {
            return Err(held::lost(engine, enough));
        }
        let after = moments.take();
        rounds.push(Round { seconds, around: before.better(after) });
        before = after;
    }
    Ok(rounds)
}

fn spine_rows(recipe: Recipe) -> Format {
    match recipe {
        Recipe::Bf16 => Format::Bf16,
        Recipe::Int8 => Format::Int8,
    }
}
