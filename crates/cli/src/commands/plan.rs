//! `plan`: measures the machine, plans within a budget, and says what that costs.

mod machine;
mod words;

use deltafin_budget::{
    Bound, BudgetError, Demand, Form, GUESSED, Learned, Limits, Outlook, PlanError, Rates, Rooms,
    SpineFormat, Touched, Usable,
};
use deltafin_engine::{Division, EngineError, EngineOptions, ModelSpec, Prefetch, Recipe};
use deltafin_store::{Checkpoint, SpineChoice};
use serde::Serialize;

pub(super) use self::machine::speed_of;

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
    /// Positions of the sequence, and how many there would be if memory were not short.
    context: usize,
    context_short_of: Option<usize>,
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
    // Before anything is measured: a budget that is too small is no reason to wait.
    let options = target.options(load::options(&asked.engine));
    let division = Division::of(target.spec(), &target.rooms(), &options, budget);
    let division = division.map_err(|error| match error {
        // What this machine has is no question where somebody says how much there is.
        EngineError::Budget(BudgetError::Plan(refused)) if memory.auto => {
            limits.explain(refused).into()
        }
        other => other,
    })?;
    let machine = Machine::measure(&target, asked, division.usage.threads)?;
    let learned = target.learned()?;
    let outlook = outlook(&target, &machine, &division, &learned, options.prefetch)?;
    let report = Report {
        model: target.name(),
        installed: matches!(target, Target::Opened { .. }),
        spine: target.format(),
        context: division.usage.context,
        context_short_of: division.short_of,
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
    division: &Division,
    learned: &Learned,
    prefetch: Prefetch,
) -> Result<Outlook, PlanError> {
    let (spec, format) = (target.spec(), target.format());
    let Division { usage, demand, plan, .. } = division;
    let form = |format, demand| {
        let Rates { spine_gbps, prompt_gmacs, .. } = machine.rates(spec, format);
        let touched = Touched::of(spec, format, POSITION.min(usage.context));
        // Measured of the usual guesses; others stand in for no better.
        let guessed = if prefetch == Prefetch::Off { 0.0 } else { GUESSED };
        Form { demand, touched, spine_gbps, prompt_gmacs, learned: learned.clone(), guessed }
    };
    let int8 = || {
        let spine = Rooms::of_spec(spec, SpineFormat::Int8).spine;
        form(SpineFormat::Int8, Demand { spine, ..demand.clone() })
    };
    let int8 = (format != SpineFormat::Int8).then(int8);
    let form = form(format, demand.clone());
    Outlook::of(&form, int8.as_ref(), plan.budget, &machine.rates(spec, format))
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
        let checkpoint = load::checkpoint(&model, &asked.engine.network())?;
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

    /// These, with what is on its way to it.
    fn options(&self, options: EngineOptions) -> EngineOptions {
        match self {
            Target::Released(..) => options,
            Target::Opened { checkpoint, .. } => options.with_coming(checkpoint),
        }
    }

    fn rooms(&self) -> Rooms {
        match self {
            Target::Released(spec, format) => Rooms::of_spec(spec, *format),
            Target::Opened { checkpoint, .. } => deltafin_engine::rooms(&checkpoint.catalog),
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
