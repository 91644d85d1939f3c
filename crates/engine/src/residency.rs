//! From a memory budget to a division of memory.

use crate::{EngineError, EngineOptions};
use deltafin_budget::{BudgetError, Demand, Limits, Plan, Usage};
use deltafin_checkpoint::Catalog;
use deltafin_spec::ModelSpec;
use deltafin_stream::{Layout, expert_room, unit_rooms};

/// The bytes that may be resident: what was asked for, or what the machine has to spare.
///
/// # Errors
/// When more was asked for than there is.
pub(crate) fn budget(options: &EngineOptions) -> Result<u64, EngineError> {
    let limits = Limits::read();
    match options.memory {
        Some(asked) => {
            limits.admit(asked).map_err(BudgetError::from)?;
            Ok(asked)
        }
        None => Ok(limits.auto()),
    }
}

/// What a checkpoint asks of memory.
pub fn demand(catalog: &Catalog, usage: Usage) -> Demand {
    let units = unit_rooms(catalog).map(|room| room as u64).collect();
    Demand::new(catalog.spec(), units, expert_room(catalog) as u64, usage)
}

/// How `budget` is spent on a checkpoint.
///
/// # Errors
/// When the smallest plan takes more.
pub(crate) fn plan(catalog: &Catalog, usage: Usage, budget: u64) -> Result<Plan, EngineError> {
    Ok(Plan::make(&demand(catalog, usage), budget).map_err(BudgetError::from)?)
}

/// The plan as the stream takes it.
pub(crate) fn layout(spec: &ModelSpec, plan: &Plan, options: &EngineOptions) -> Layout {
    let everything = Layout::everything(spec).expert_slots;
    let slots = options.slabs.map_or(usize::MAX, |slabs| slabs.get());
    Layout {
        resident: plan.spine_resident.clone(),
        stream_bytes: plan.spine_stream_bytes as usize,
        expert_slots: plan.expert_slabs.min(slots).clamp(1, everything),
        cache: options.cache,
        prefetch: options.prefetch,
    }
}
