//! `plan`: measures the machine, plans within a budget, and says what that costs.

mod machine;
mod words;

use deltafin_budget::{
    Bound, Demand, Form, Learned, Limits, Outlook, PlanError, Rates, SpineFormat, Touched, Usable,
    Usage,
};
use deltafin_engine::{DEFAULT_CHUNK, DEFAULT_CONTEXT, ModelSpec, Recipe};
use deltafin_store::{Checkpoint, SpineChoice};
use serde::Serialize;

use self::machine::Machine;
use crate::args::{Given, Plan, Subject};
use crate::failure::Failure;
use crate::terminal;
use crate::{learned, load, model_choice, spine};

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
    spine: SpineFormat,
    /// Positions of the sequence.
    context: usize,
    memory: Memory,
    machine: Machine,
    outlook: Outlook,
    /// Whether earlier runs have shown which experts are used.
    routes_learned: bool,
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
    // Before anything is measured: a budget that is too small is no reason to wait.
    deltafin_budget::Plan::make(&target.demand(usage), budget)?;
    let machine = Machine::measure(&target, asked, usage.threads)?;
    let learned = target.learned()?;
    let outlook = outlook(&target, &machine, usage, &learned, budget)?;
    let report = Report {
        model: target.name(),
        installed: matches!(target, Target::Opened { .. }),
        spine: target.format(),
        context: usage.context,
        memory,
        machine,
        outlook,
        routes_learned: !learned.is_empty(),
    };
    if asked.engine.json {
        return terminal::print_line(&serde_json::to_string(&report)?);
    }
    terminal::print_line(&words::words(&report))
}

/// What the budget buys, and what would be better.
fn outlook(
    target: &Target,
    machine: &Machine,
    usage: Usage,
    learned: &Learned,
    budget: u64,
) -> Result<Outlook, PlanError> {
    let (spec, format) = (target.spec(), target.format());
    let form = |format, demand| {
        let Rates { spine_gbps, prompt_gmacs, .. } = machine.rates(spec, format);
        let touched = Touched::of(spec, format, POSITION.min(usage.context));
        Form { demand, touched, spine_gbps, prompt_gmacs, learned: learned.clone() }
    };
    let int8 = || form(SpineFormat::Int8, Demand::of_spec(spec, SpineFormat::Int8, usage));
    let int8 = (format != SpineFormat::Int8).then(int8);
    let form = form(format, target.demand(usage));
    Outlook::of(&form, int8.as_ref(), budget, &machine.rates(spec, format))
}

/// What is planned for.
enum Target {
    /// The released model, of which the dimensions are enough, with its spine in a format.
    Released(Box<ModelSpec>, SpineFormat),
    /// A checkpoint that is here.
    Opened { name: String, checkpoint: Box<Checkpoint> },
}

impl Target {
    fn choose(asked: &Plan, given: Given) -> Result<Target, Failure> {
        if asked.subject == Subject::Released {
            let format = released_format(&asked.engine.spine())?;
            return Ok(Target::Released(Box::new(ModelSpec::k3()), format));
        }
        let model = model_choice::choose(asked.engine.model.clone(), given)?;
        let checkpoint = load::checkpoint(&model)?;
        checkpoint.notices.iter().for_each(|notice| terminal::say(notice));
        let checkpoint = Box::new(spine::apply(checkpoint, &asked.engine.spine())?);
        Ok(Target::Opened { name: model.to_string(), checkpoint })
    }

    fn name(&self) -> String {
        match self {
            Target::Released(..) => "Kimi K3 as released".to_owned(),
            Target::Opened { name, .. } => name.clone(),
        }
    }

    fn spec(&self) -> &ModelSpec {
        match self {
            Target::Released(spec, _) => spec,
            Target::Opened { checkpoint, .. } => checkpoint.spec(),
        }
    }

    /// What earlier runs showed of its experts.
    fn learned(&self) -> Result<Learned, Failure> {
        match self {
            Target::Released(..) => Ok(Learned::default()),
            Target::Opened { checkpoint, .. } => Ok(Learned::of(&learned::counts(checkpoint)?)),
        }
    }

    /// How its spine is stored.
    fn format(&self) -> SpineFormat {
        match self {
            Target::Released(_, format) => *format,
            Target::Opened { checkpoint, .. } => format_of(checkpoint.recipe()),
        }
    }

    fn demand(&self, usage: Usage) -> Demand {
        match self {
            Target::Released(spec, format) => Demand::of_spec(spec, *format, usage),
            Target::Opened { checkpoint, .. } => {
                deltafin_engine::demand(&checkpoint.catalog, usage)
            }
        }
    }
}

fn format_of(recipe: Recipe) -> SpineFormat {
    match recipe {
        Recipe::Bf16 => SpineFormat::Bf16,
        Recipe::Int8 => SpineFormat::Int8,
    }
}

/// The format that a spine would have which is not here yet.
fn released_format(choice: &SpineChoice) -> Result<SpineFormat, Failure> {
    match choice {
        SpineChoice::Auto => Ok(SpineFormat::Bf16),
        SpineChoice::Recipe(recipe) => Ok(format_of(*recipe)),
        SpineChoice::Pack(dir) => Err(Failure::new(format!(
            "--spine {}: --k3 plans without files; give bf16 or int8",
            dir.display()
        ))),
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
