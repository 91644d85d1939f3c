//! Room for what is allocated when everything else stands.
//!
//! **Promise.** Threads and the areas for reads do not take the addresses that a sequence and a pass will want:
//! those are held until the former are there, or refused while that can still be said. A process may be allowed fewer
//! addresses (`ulimit -v`) than it has memory for. Each thread takes some for its stack, and the allocator sixty times as
//! many for each thread, nearly all never touched. Whoever comes last finds none, and an allocation that fails ends
//! the process.

use crate::EngineError;
use deltafin_budget::{Limits, Plan};
use deltafin_stream::StreamError;

/// For everything small. More than what the allocator would keep for itself once it is given back.
const SPARE_BYTES: u64 = 33 << 20;

/// Addresses that nobody else gets. None is ever touched, so they cost no memory.
#[derive(Debug)]
pub(crate) struct Room(#[allow(dead_code)] Vec<u8>); // held, not read

impl Room {
    /// Holds what the plan has for one sequence, for snapshots, requests, the command itself and for the buffers of
    /// a pass.
    ///
    /// # Errors
    /// When there are not as many addresses.
    pub(crate) fn hold(plan: &Plan, threads: usize) -> Result<Room, EngineError> {
        let wanted = plan.state.saturating_add(plan.snapshots).saturating_add(plan.workspace);
        let wanted = wanted.saturating_add(plan.requests).saturating_add(plan.besides);
        let wanted = wanted.saturating_add(SPARE_BYTES);
        // The state of the context is the same in every budget.
        let shrinks = plan.chunk_rows > 1 || plan.snapshots > 0 || plan.requests > 0;
        let left = || Limits::read().address;
        let refused = || EngineError::Room { wanted, left: left(), threads, shrinks };
        let mut held = Vec::new();
        held.try_reserve_exact(usize::try_from(wanted).map_err(|_| refused())?)
            .map_err(|_| refused())?;
        Ok(Room(held))
    }
}

/// A refusal of weights in the light of what else could be asked for; `shrinks` says whether a smaller budget could.
pub(crate) fn explain(error: StreamError, threads: usize, shrinks: bool) -> EngineError {
    match error {
        StreamError::Arena(refused) => {
            EngineError::Areas { refused, left: Limits::read().address, threads, shrinks }
        }
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltafin_store::arena::ArenaError;

    #[test]
    fn only_what_can_be_smaller_is_told_to_be() {
        let said = |threads, shrinks| {
            let refused = ArenaError::Map { wanted: (5 << 20) + 1, reason: "why not".to_owned() };
            explain(refused.into(), threads, shrinks).to_string()
        };
        let least = said(1, false);
        assert!(least.starts_with("the system refuses 6 MiB of addresses"), "{least}");
        assert!(
            least.contains("why not") && least.contains("give a smaller --context, or "),
            "{least}"
        );
        let more = said(3, true);
        assert!(
            more.contains("smaller --memory or --context or --threads (here 3), or "),
            "{more}"
        );
    }
}
