//! `plan`: measures the machine, plans within a budget, and says what that costs.

mod machine;
mod words;

use deltafin_budget::{Bound, Demand, Form, Limits, Outlook, SpineFormat, Touched, Usable, Usage};
use deltafin_engine::{DEFAULT_CHUNK, DEFAULT_CONTEXT, ModelSpec};
use deltafin_store::Checkpoint;
use serde::Serialize;

use self::machine::Machine;
use crate::args::{Given, Plan, Subject};
use crate::failure::Failure;
use crate::terminal;
use crate::{load, model_choice};

/// The position at which a token is reckoned: the state it reads grows with it.
const POSITION: usize = 1024;

/// Everything that is printed.
#[derive(Debug, Serialize)]
struct Report {
    /// What is planned for.
    model: String,
    /// Whether its weights are here.
    installed: bool,
    /// How its spine is stored.
    spine: &'static str,
    /// Positions of the sequence.
    context: usize,
    memory: Memory,
    machine: Machine,
    outlook: Outlook,
}

/// How the budget came about.
#[derive(Debug, Serialize)]
struct Memory {
    /// Whether it was chosen for this machine.
    auto: bool,
    /// What this process could have resident, and why not more.
    usable: u64,
    bound: String,
    /// Of that, what `auto` leaves to others.
    reserve: u64,
    /// What this machine could ever give, and whether the budget is more.
    ceiling: u64,
    beyond: bool,
}

/// Does it.
pub(crate) fn plan(asked: &Plan, given: Given) -> Result<(), Failure> {
    let target = Target::choose(asked, given)?;
    let limits = Limits::read();
    let (budget, memory) = budget(&limits, asked.engine.memory());
    let usage = usage(target.spec(), asked)?;
    let demand = target.demand(usage);
    // Before anything is measured: a budget that is too small is no reason to wait.
    deltafin_budget::Plan::make(&demand, budget)?;
    let machine = Machine::measure(&target, asked, usage.threads)?;
    let rates = machine.rates(target.spec());
    let form = Form {
        demand,
        touched: Touched::of(target.spec(), SpineFormat::Bf16, POSITION.min(usage.context)),
        spine_gbps: machine.bf16_gbps,
    };
    let int8 = Form {
        demand: Demand::of_spec(target.spec(), SpineFormat::Int8, usage),
        touched: Touched::of(target.spec(), SpineFormat::Int8, POSITION.min(usage.context)),
        spine_gbps: machine.int8_gbps,
    };
    let outlook = Outlook::of(&form, Some(&int8), budget, &rates)?;
    let report = Report {
        model: target.name(),
        installed: matches!(target, Target::Opened { .. }),
        spine: SpineFormat::Bf16.name(),
        context: usage.context,
        memory,
        machine,
        outlook,
    };
    if asked.engine.json {
        return terminal::print_line(&serde_json::to_string(&report)?);
    }
    terminal::print_line(&words::words(&report))
}

/// What is planned for.
enum Target {
    /// The released model, of which the dimensions are enough.
    Released(Box<ModelSpec>),
    /// A checkpoint that is here.
    Opened { name: String, checkpoint: Box<Checkpoint> },
}

impl Target {
    fn choose(asked: &Plan, given: Given) -> Result<Target, Failure> {
        if asked.subject == Subject::Released {
            return Ok(Target::Released(Box::new(ModelSpec::k3())));
        }
        let model = model_choice::choose(asked.engine.model.clone(), given)?;
        let checkpoint = Box::new(load::checkpoint(&model)?);
        checkpoint.notices.iter().for_each(|notice| terminal::say(notice));
        Ok(Target::Opened { name: model.to_string(), checkpoint })
    }

    fn name(&self) -> String {
        match self {
            Target::Released(_) => "Kimi K3 as released".to_owned(),
            Target::Opened { name, .. } => name.clone(),
        }
    }

    fn spec(&self) -> &ModelSpec {
        match self {
            Target::Released(spec) => spec,
            Target::Opened { checkpoint, .. } => checkpoint.spec(),
        }
    }

    fn demand(&self, usage: Usage) -> Demand {
        match self {
            Target::Released(spec) => Demand::of_spec(spec, SpineFormat::Bf16, usage),
            Target::Opened { checkpoint, .. } => {
                deltafin_engine::demand(&checkpoint.catalog, usage)
            }
        }
    }
}

/// A plan for another machine may be larger than this one: that is said, not refused.
fn budget(limits: &Limits, asked: Option<u64>) -> (u64, Memory) {
    let Usable { bytes: usable, bound } = limits.usable();
    let ceiling = limits.ceiling();
    let budget = asked.unwrap_or_else(|| limits.auto());
    let memory = Memory {
        auto: asked.is_none(),
        usable,
        bound: bound.to_string(),
        reserve: deltafin_budget::reserve(usable),
        ceiling: ceiling.bytes,
        beyond: ceiling.bound != Bound::Assumed && budget > ceiling.bytes,
    };
    (budget, memory)
}

fn usage(spec: &ModelSpec, asked: &Plan) -> Result<Usage, Failure> {
    let limit = spec.max_positions;
    let context = asked.engine.context().map_or(limit.min(DEFAULT_CONTEXT), usize::from);
    if context > limit {
        return Err(Failure::new(format!("--context {context}: the model's limit is {limit}")));
    }
    let chunk = asked.engine.chunk().map_or(DEFAULT_CHUNK, usize::from);
    let threads = asked.engine.threads().map(usize::from);
    let threads = threads.unwrap_or_else(deltafin_measure::default_threads);
    Ok(Usage { context, chunk, threads })
}
