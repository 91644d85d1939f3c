//! All weights in memory: a budget that is enough for them, and the reads that bring them there.

use deltafin_budget::{Bound, BudgetError, Limits, Plan, PlanError, Size, Usable, whole_mib};
use deltafin_engine::{Division, Engine, EngineError, Phase};
use deltafin_spec::ExpertId;
use deltafin_store::Checkpoint;

use crate::args::EngineArgs;
use crate::failure::Failure;
use crate::load;

/// Refuses a budget with which not everything stays in memory, and names one with which it does. Gives the least
/// that is known to be enough, in bytes.
pub(super) fn admit(checkpoint: &Checkpoint, engine: &EngineArgs) -> Result<u64, Failure> {
    let limits = Limits::read();
    let (rooms, options) = (deltafin_engine::rooms(&checkpoint.catalog), load::options(engine));
    let divided = |budget| Division::of(checkpoint.spec(), &rooms, &options, budget);
    let budget = engine.memory().unwrap_or_else(|| limits.auto());
    match enough(budget, divided)? {
        enough if enough <= budget => Ok(enough),
        enough => Err(too_little(&limits, budget, enough)),
    }
}

/// A budget with which everything stays in memory: this one, or the least that is more.
fn enough(
    budget: u64,
    divided: impl Fn(u64) -> Result<Division, EngineError>,
) -> Result<u64, Failure> {
    let mut enough = budget;
    loop {
        match divided(enough) {
            // A longer context may be affordable then, which wants more.
            Ok(division) if whole_mib(Plan::largest(&division.demand)) > enough => {
                enough = whole_mib(Plan::largest(&division.demand));
            }
            Ok(division) if division.plan.is_resident() => return Ok(enough),
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
}

fn too_little(limits: &Limits, budget: u64, enough: u64) -> Failure {
    let (Usable { bytes, bound }, all) = (limits.ceiling(), Size(enough));
    let remedy = match bound == Bound::Assumed || enough <= bytes {
        true => format!("give --memory {}M, or see `bench decode`", enough >> 20),
        false => {
            format!("that takes {all}, and there is {}, {bound}; see `bench decode`", Size(bytes))
        }
    };
    let budget = Size(budget).beside(all);
    Failure::new(format!("not all weights fit in {budget}, which this is about: {remedy}"))
}

/// Reads every expert, of which the tokens of a run choose a few. The spine comes with the first pass. `enough` is
/// a budget that holds all of them.
///
/// # Errors
/// When not all have room, or one cannot be read.
pub(super) fn bring_in(engine: &Engine, enough: u64) -> Result<(), Failure> {
    if !is_resident(engine) {
        return Err(lost(engine, enough));
    }
    let (stream, spec) = (engine.weights().stream(), engine.spec());
    let all: Vec<ExpertId> = spec.moe.expert_ids().collect();
    stream.begin(Phase::Prefill, all.len(), false);
    for layer in spec.moe_layers() {
        stream.take(layer, &all, &mut |_, _| {}).map_err(EngineError::from)?;
    }
    Ok(())
}

/// Bytes of weights that tokens had to be given from drives so far.
pub(super) fn read_bytes(engine: &Engine) -> u64 {
    let decode = engine.weights().stream().counters().decode;
    decode.spine_bytes + decode.missed_bytes + decode.guessed_bytes
}

/// Why weights that were there had to be read again, where the budget is `enough` for them.
pub(super) fn lost(engine: &Engine, enough: u64) -> Failure {
    let stream = engine.weights().stream();
    let gave_way = stream.expert_slots() < stream.layout().expert_slots || !is_resident(engine);
    Failure::new(match gave_way {
        // Only a budget that nobody named gives way to others.
        true => format!(
            "memory is short on this machine, so not all weights stay in it: end other programs, or give \
             --memory {}M, which is kept",
            whole_mib(enough) >> 20
        ),
        false => "weights that are in memory were read again: a fault of this program".to_owned(),
    })
}

/// Whether the plan has room for all; one made later than [`admit`] looked may find less.
fn is_resident(engine: &Engine) -> bool {
    engine.plan().is_some_and(Plan::is_resident)
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltafin_engine::EngineOptions;
    use std::ops::ControlFlow;

    fn engine(memory: u64) -> Engine {
        let options = EngineOptions { memory: Some(memory), ..EngineOptions::default() };
        Engine::open(deltafin_testkit::open("k3-micro"), options).unwrap()
    }

    /// Every expert counts as read once, those that no token has chosen too.
    #[test]
    fn no_token_reads_what_was_brought_in() {
        let engine = engine(256 << 20);
        bring_in(&engine, 0).unwrap();
        let spec = engine.spec();
        let all = spec.moe_layers().count() * spec.moe.experts;
        assert_eq!(engine.weights().stream().counters().prefill.misses, all as u64);
        let mut session = engine.session();
        session.prefill(&[1], &mut |_| ControlFlow::Continue(())).unwrap();
        for id in [7, 90, 400] {
            session.advance(id).unwrap();
        }
        assert_eq!(read_bytes(&engine), 0);
    }

    #[test]
    fn what_gave_way_is_told_from_a_fault() {
        let whole = engine(256 << 20);
        assert!(lost(&whole, 1).line().unwrap().contains("a fault of this program"));
        whole.weights().stream().shrink(1);
        let said = lost(&whole, (70 << 20) + 1).line().unwrap();
        assert!(said.contains("memory is short") && said.contains("--memory 71M"), "{said}");
        let catalog = deltafin_testkit::open("k3-micro").catalog;
        let rooms = deltafin_engine::rooms(&catalog);
        let options = EngineOptions::default();
        let refused = Division::of(catalog.spec(), &rooms, &options, 1).unwrap_err();
        let EngineError::Budget(BudgetError::Plan(PlanError::TooSmall { smallest, .. })) = refused
        else {
            panic!("{refused}")
        };
        let refused = bring_in(&engine(smallest), 71 << 20).unwrap_err().line().unwrap();
        assert_eq!(refused, said);
    }
}
