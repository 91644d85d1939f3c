//! From a memory budget to a division of memory.

use crate::{EngineError, EngineOptions, RequestMemory, SnapshotMemory};
use deltafin_budget::{BudgetError, Demand, Limits, Plan, Rooms};
use deltafin_checkpoint::Catalog;
use deltafin_snapshot::{Shape, Snapshots};
use deltafin_spec::ModelSpec;
use deltafin_stream::{Layout, expert_room, unit_rooms};

/// The part of the memory that is for snapshots unless somebody says more or less: they save the minutes
/// to hours of a prompt, and a sixteenth of the spine costs each token little.
const SNAPSHOT_SHARE: u64 = 16;
/// More than so many short conversations, or this many bytes, are kept only when asked for.
const MOST_SNAPSHOTS: u64 = 16;
const MOST_SNAPSHOT_BYTES: u64 = 256 << 20;
/// The part of the memory that is for requests, if it is within their bounds.
const REQUEST_SHARE: u64 = 16;

/// The bytes that may be resident: what was asked for, or what the machine has to spare.
///
/// # Errors
/// When more was asked for than there is; where `divide` finds that all there is would not be enough, its
/// refusal, for no budget helps then.
pub(crate) fn budget<T>(
    limits: &Limits,
    options: &EngineOptions,
    divide: impl Fn(u64) -> Result<T, EngineError>,
) -> Result<u64, EngineError> {
    match options.memory {
        Some(asked) => match limits.admit(asked) {
            Ok(()) => Ok(asked),
            Err(too_large) => match divide(too_large.bytes) {
                Err(lacking @ EngineError::Budget(BudgetError::Lacking { .. })) => Err(lacking),
                _ => Err(BudgetError::from(too_large).into()),
            },
        },
        None => Ok(limits.auto()),
    }
}

/// The rooms of a checkpoint's weights. Looks at every record.
pub fn rooms(catalog: &Catalog) -> Rooms {
    let spine = unit_rooms(catalog).map(|room| room as u64).collect();
    Rooms { spine, expert: expert_room(catalog) as u64 }
}

/// The bytes of a budget that are for snapshots, where `demand` asks for all else.
///
/// # Errors
/// When so few were asked for that they hold none.
pub(crate) fn snapshots(
    spec: &ModelSpec,
    asked: SnapshotMemory,
    demand: &Demand,
    budget: u64,
) -> Result<u64, EngineError> {
    let shape = Shape::of(spec);
    let least = Snapshots::least(shape);
    match asked {
        SnapshotMemory::None | SnapshotMemory::Bytes(0) => Ok(0),
        SnapshotMemory::Bytes(asked) if asked < least => {
            Err(EngineError::SnapshotMemory { asked, least })
        }
        SnapshotMemory::Bytes(asked) => Ok(asked),
        SnapshotMemory::Auto => {
            let most = (MOST_SNAPSHOTS * least).max(MOST_SNAPSHOT_BYTES);
            let share = (budget / SNAPSHOT_SHARE).min(most);
            // One at all is worth twice the share: without it every other conversation starts over.
            let wanted = if least <= 2 * share { share.max(least) } else { 0 };
            let spare = budget.saturating_sub(Plan::smallest(demand));
            Ok(if least <= spare { wanted.min(spare) } else { 0 })
        }
    }
}

/// The bytes without which requests have no room.
pub(crate) fn least_requests(asked: &RequestMemory, context: usize) -> u64 {
    asked.least.saturating_add(asked.position.saturating_mul(context as u64))
}

/// The bytes of a budget that are for requests, where `demand` asks for the least of them and for all else.
pub(crate) fn requests(asked: &RequestMemory, demand: &Demand, budget: u64) -> u64 {
    let wanted = (budget / REQUEST_SHARE).min(asked.most).saturating_sub(asked.least);
    let spare = budget.saturating_sub(Plan::smallest(demand));
    demand.requests + wanted.min(spare)
}

/// A refusal in the light of what this machine has.
pub(crate) fn explain(limits: &Limits, error: EngineError) -> EngineError {
    match error {
        EngineError::Budget(BudgetError::Plan(refused)) => limits.explain(refused).into(),
        other => other,
    }
}

/// The plan as the stream takes it.
pub(crate) fn layout(plan: &Plan, options: &EngineOptions) -> Layout {
    Layout {
        resident: plan.spine_resident.clone(),
        stream_bytes: plan.spine_stream_bytes as usize,
        expert_slots: plan.expert_slabs.max(1),
        slot_bytes: Some(plan.expert_room as usize),
        cache: options.cache,
        prefetch: options.prefetch,
    }
}
