//! What options come to within a memory budget.
//!
//! **Promise.** The same options, rooms and budget give the same division, whether an engine is about to
//! run with it or somebody wants to know beforehand. The budget that a refusal names is one of whole MiB, as it
//! would be typed; it is accepted with the same options, and one byte less is not.

use crate::options::{CONTEXT_SHARE, DEFAULT_CHUNK, DEFAULT_CONTEXT, LEAST_CONTEXT, MOST_THREADS};
use crate::residency;
use crate::{EngineError, EngineOptions, SnapshotMemory};
use deltafin_budget::{BudgetError, Demand, Part, Plan, PlanError, Rooms, Usage, whole_mib};
use deltafin_pool::Pool;
use deltafin_spec::ModelSpec;
use std::iter;
use std::num::NonZeroUsize;

/// How a budget is divided, and what for.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// Positions of a session, prompt rows of a pass at most, and threads.
    pub usage: Usage,
    /// The positions that a session would have by default and does not, because memory is short.
    pub short_of: Option<usize>,
    /// What is asked of memory.
    pub demand: Demand,
    /// How it is spent.
    pub plan: Plan,
}

impl Division {
    /// Divides `budget` bytes for a model of these dimensions whose weights take these rooms. What
    /// `options` say of `memory` is not looked at: the budget is what it came to.
    ///
    /// # Errors
    /// When an option is beyond the model's limit or ours, or the budget is too small.
    pub fn of(
        spec: &ModelSpec,
        rooms: &Rooms,
        options: &EngineOptions,
        budget: u64,
    ) -> Result<Division, EngineError> {
        let threads = threads(options)?;
        let usage = |context| Usage { context, chunk: chunk(options, context), threads };
        let demand = |context| Demand {
            snapshots: asked_snapshots(options),
            requests: residency::least_requests(&options.requests, context),
            slabs: options.slabs.map_or(usize::MAX, NonZeroUsize::get),
            besides: options.besides,
            cache: options.cache,
            pin: options.pin,
            ..Demand::new(spec, rooms, usage(context))
        };
        // The eighth is a wish; that the smallest plan fits is not.
        let affordable = |context| {
            let demand = demand(context);
            demand.state <= budget / CONTEXT_SHARE && smallest(&demand) <= budget
        };
        let context = context(spec, options.context, affordable)?;
        let mut demand = demand(context);
        // Of what is left, requests and snapshots take their parts.
        let smallest = smallest(&demand);
        demand.requests = residency::requests(&options.requests, &demand, budget);
        demand.snapshots = residency::snapshots(spec, options.snapshots, &demand, budget)?;
        if budget < smallest {
            let part = Part::largest(&demand);
            let refused = PlanError::TooSmall { budget, smallest, part };
            return Err(BudgetError::from(refused).into());
        }
        Ok(Division {
            usage: usage(context),
            short_of: short_of(spec, options, context),
            plan: Plan::make(&demand, budget).map_err(BudgetError::from)?,
            demand,
        })
    }
}

/// The smallest budget that is enough, in whole MiB.
fn smallest(demand: &Demand) -> u64 {
    whole_mib(Plan::smallest(demand))
}

/// Threads that compute.
///
/// # Errors
/// When more were asked for than any machine has use for.
pub(crate) fn threads(options: &EngineOptions) -> Result<usize, EngineError> {
    match options.threads.map(NonZeroUsize::get) {
        Some(asked) if asked > MOST_THREADS => Err(EngineError::Threads { asked }),
        Some(asked) => Ok(asked),
        None => Ok(Pool::default_threads().min(MOST_THREADS)),
    }
}

/// Prompt rows of a pass at most.
pub(crate) fn chunk(options: &EngineOptions, context: usize) -> usize {
    options.chunk.map_or(DEFAULT_CHUNK, NonZeroUsize::get).min(context)
}

/// Positions of a session: those asked for, or the default, halved until it is `affordable`. The least
/// is taken whether or not it is.
///
/// # Errors
/// When more were asked for than the model allows.
pub(crate) fn context(
    spec: &ModelSpec,
    asked: Option<NonZeroUsize>,
    affordable: impl Fn(usize) -> bool,
) -> Result<usize, EngineError> {
    let limit = spec.max_positions;
    match asked.map(NonZeroUsize::get) {
        Some(asked) if asked > limit => Err(EngineError::Context { asked, limit }),
        Some(asked) => Ok(asked),
        None => {
            let half = |context: &usize| (*context > LEAST_CONTEXT).then_some(*context / 2);
            let choices = iter::successors(Some(DEFAULT_CONTEXT), half);
            let mut choices = choices.map(|context| context.min(limit));
            let choice = choices.find(|context| affordable(*context));
            Ok(choice.unwrap_or(LEAST_CONTEXT.min(limit)))
        }
    }
}

/// The positions that would be the default, where `context` is fewer and nobody asked for that.
fn short_of(spec: &ModelSpec, options: &EngineOptions, context: usize) -> Option<usize> {
    let usual = spec.max_positions.min(DEFAULT_CONTEXT);
    (options.context.is_none() && context < usual).then_some(usual)
}

/// Bytes for snapshots that are wanted whatever else there is.
pub(crate) fn asked_snapshots(options: &EngineOptions) -> u64 {
    match options.snapshots {
        SnapshotMemory::Bytes(bytes) => bytes,
        SnapshotMemory::None | SnapshotMemory::Auto => 0,
    }
}

#[cfg(test)]
mod tests;
