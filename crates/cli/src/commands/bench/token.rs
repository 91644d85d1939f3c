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
//! and the medians over all rounds are reported. Rounds for which anything was read from a drive do not count.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use deltafin_budget::{
    Bound, BudgetError, Limits, Plan, PlanError, Size, SpineFormat, Touched, Usable, whole_mib,
};
use deltafin_checkpoint::Recipe;
use deltafin_engine::{Division, Engine, EngineError, Session};
use deltafin_kernels::Isa;
use deltafin_measure::{Format, Memory, Moment, Moments};
use deltafin_pool::Pool;
use deltafin_store::Checkpoint;
use serde::Serialize;

use super::prompt::prompt;
use super::report::Spread;
use crate::args::{BenchToken, EngineArgs, Given};
use crate::failure::Failure;
use crate::load::{self, Loaded};
use crate::model_choice;
use crate::terminal::{self, ProgressLine, Terminal};

/// Ids that bring the experts into memory first.
const WARM_UP: usize = 512;
/// Rounds that may be spoilt by reads, for each that counts.
const PATIENCE: usize = 4;

/// What is printed.
#[derive(Debug, Serialize)]
struct Report {
    recipe: String,
    isa: &'static str,
    threads: usize,
    tokens: usize,
    bytes_touched_per_token: u64,
    seconds_per_token: Spread,
    read_gbps: Spread,
    spine_kernel_gbps: Spread,
    expert_kernel_gbps: Spread,
    ratio_to_memory: Spread,
    ratio_to_kernels: Spread,
}

/// A round that counts.
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
    admit(&checkpoint, &asked.engine)?;
    let loaded = Loaded::of_prepared(model, checkpoint, &asked.engine)?;
    let engine = &loaded.engine;
    let mut line = ProgressLine::new(Terminal::detect());
    line.update(|| "bringing all weights into memory".to_owned());
    let mut session = engine.session();
    let rows = WARM_UP.min(engine.context() / 2);
    let ids = prompt(engine, 1, 0, rows)?;
    session.prefill(&ids, &mut |_| ControlFlow::Continue(()))?;
    let rounds = rounds(asked, engine, &mut session, &mut line)?;
    drop(line);
    let report = Report::new(asked, engine, rows, &rounds);
    if asked.engine.json {
        return terminal::print_line(&serde_json::to_string(&report)?);
    }
    terminal::print_line(&report.words())
}

/// Refuses a budget with which not everything stays in memory, and names one with which it does.
fn admit(checkpoint: &Checkpoint, engine: &EngineArgs) -> Result<(), Failure> {
    let limits = Limits::read();
    let (rooms, options) = (deltafin_engine::rooms(&checkpoint.catalog), load::options(engine));
    let divided = |budget| Division::of(checkpoint.spec(), &rooms, &options, budget);
    let budget = engine.memory().unwrap_or_else(|| limits.auto());
    let mut enough = budget;
    loop {
        match divided(enough) {
            // A longer context may be affordable then, which wants more.
            Ok(division) if whole_mib(Plan::largest(&division.demand)) > enough => {
                enough = whole_mib(Plan::largest(&division.demand));
            }
            Ok(division) if division.plan.is_resident() => break,
            Ok(_) => {
                return Err(Failure::new(
                    "not all weights stay in memory with these --slabs and --expert-cache, which \
                     this is about: leave them out, or see `bench decode`",
                ));
            }
            Err(EngineError::Budget(BudgetError::Plan(PlanError::TooSmall {
                smallest, ..
            }))) => {
                enough = smallest;
            }
            Err(other) => return Err(other.into()),
        }
    }
    if enough <= budget {
        return Ok(());
    }
    let (Usable { bytes, bound }, all) = (limits.ceiling(), Size(enough));
    let remedy = match bound == Bound::Assumed || enough <= bytes {
        true => format!("give --memory {}M, or see `bench decode`", enough >> 20),
        false => {
            format!("that takes {all}, and there is {}, {bound}; see `bench decode`", Size(bytes))
        }
    };
    let budget = Size(budget).beside(all);
    Err(Failure::new(format!("not all weights fit in {budget}, which this is about: {remedy}")))
}

fn rounds(
    asked: &BenchToken,
    engine: &Engine,
    session: &mut Session<'_>,
    line: &mut ProgressLine,
) -> Result<Vec<Round>, Failure> {
    let (memory, every_core) = (Memory::new()?, Arc::new(Pool::new(Pool::default_threads())));
    let isa = Isa::new(engine.isa()).map_err(EngineError::from)?;
    let mut moments =
        Moments::new(&memory, &every_core, (isa, engine.threads()), spine_rows(engine.recipe()));
    let mut before = moments.take();
    let mut rounds = Vec::new();
    for _ in 0..asked.rounds.saturating_mul(PATIENCE) {
        line.update(|| format!("round {} of {}", rounds.len() + 1, asked.rounds));
        let read = read_bytes(engine);
        let began = Instant::now();
        for _ in 0..asked.tokens {
            let id = session.greedy().unwrap_or_default();
            session.advance(id)?;
        }
        let seconds = began.elapsed().as_secs_f64() / asked.tokens as f64;
        let after = moments.take();
        if read_bytes(engine) == read {
            rounds.push(Round { seconds, around: before.better(after) });
        }
        if rounds.len() == asked.rounds {
            return Ok(rounds);
        }
        before = after;
    }
    Err(Failure::new("weights were read again and again: raise --memory".to_owned()))
}

/// Bytes of weights that tokens had to be given from drives so far.
fn read_bytes(engine: &Engine) -> u64 {
    let decode = engine.weights().stream().counters().decode;
    decode.spine_bytes + decode.missed_bytes + decode.guessed_bytes
}

fn spine_rows(recipe: Recipe) -> Format {
    match recipe {
        Recipe::Bf16 => Format::Bf16,
        Recipe::Int8 => Format::Int8,
    }
}

fn spine_format(recipe: Recipe) -> SpineFormat {
    match recipe {
        Recipe::Bf16 => SpineFormat::Bf16,
        Recipe::Int8 => SpineFormat::Int8,
    }
}

impl Report {
    fn new(asked: &BenchToken, engine: &Engine, position: usize, rounds: &[Round]) -> Report {
        let touched = Touched::of(engine.spec(), spine_format(engine.recipe()), position);
        let [spine, experts, state] =
            [touched.spine_bytes(), touched.token_experts(), touched.state].map(|b| b as f64 / 1e9);
        let spread = |number: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(number));
        Report {
            recipe: engine.recipe().name().to_owned(),
            isa: engine.isa().name(),
            threads: engine.threads(),
            tokens: asked.rounds.saturating_mul(asked.tokens),
            bytes_touched_per_token: ((spine + experts + state) * 1e9) as u64,
            seconds_per_token: spread(&|round| round.seconds),
            read_gbps: spread(&|round| round.around.read_gbps),
            spine_kernel_gbps: spread(&|round| round.around.spine_gbps),
            expert_kernel_gbps: spread(&|round| round.around.expert_gbps),
            ratio_to_memory: spread(&|round| {
                (spine + experts + state) / round.around.read_gbps / round.seconds
            }),
            ratio_to_kernels: spread(&|round| {
                let Moment { read_gbps, spine_gbps, expert_gbps } = round.around;
                (spine / spine_gbps + experts / expert_gbps + state / read_gbps) / round.seconds
            }),
        }
    }

    fn words(&self) -> String {
        let Report { recipe, isa, threads, tokens, .. } = self;
        let bytes = self.bytes_touched_per_token as f64 / 1e9;
        let lines = [
            ("seconds a token", self.seconds_per_token, 1.0),
            ("memory, GB/s", self.read_gbps, 1.0),
            ("spine's kernel, GB/s", self.spine_kernel_gbps, 1.0),
            ("experts' kernels, GB/s", self.expert_kernel_gbps, 1.0),
            ("of what memory gives, %", self.ratio_to_memory, 100.0),
            ("of what the kernels give, %", self.ratio_to_kernels, 100.0),
        ];
        let mut text = format!(
            "{tokens} tokens, spine {recipe}, {isa}, threads {threads}, {bytes:.2} GB touched a token\n\n\
             {:<28}  median    lowest   highest",
            ""
        );
        for (what, Spread { median, min, max }, times) in lines {
            let [median, min, max] = [median, min, max].map(|value| value * times);
            text += &format!("\n{what:<28}{median:>8.3}  {min:>8.3}  {max:>8.3}");
        }
        text
    }
}
