//! Why a budget is too small, and which flag asks for most of what it lacks.

use crate::{Demand, Size, whole_mib};

/// The largest part of the smallest plan that a flag decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// Its bytes.
    pub bytes: u64,
    /// What it is for.
    pub purpose: Purpose,
}

/// What a part of memory is for that a flag decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// The state of one conversation.
    Context,
    /// States of earlier conversations.
    Snapshots,
    /// Requests to a server.
    Requests,
}

impl Part {
    /// The largest one of a demand; of equals, that of the context.
    pub fn largest(demand: &Demand) -> Part {
        let all = [
            (demand.requests, Purpose::Requests),
            (demand.snapshots, Purpose::Snapshots),
            (demand.state, Purpose::Context),
        ];
        let [first, others @ ..] = all.map(|(bytes, purpose)| Part { bytes, purpose });
        others
            .into_iter()
            .fold(first, |most, part| if part.bytes < most.bytes { most } else { part })
    }
}

impl Purpose {
    /// The flag that decides how much it is.
    pub fn flag(self) -> &'static str {
        match self {
            Purpose::Context => "--context",
            Purpose::Snapshots => "--snapshot-memory",
            Purpose::Requests => "--max-body",
        }
    }

    /// What takes the memory, in words.
    pub fn words(self) -> &'static str {
        match self {
            Purpose::Context => "the state of the context",
            Purpose::Snapshots => "earlier conversations",
            Purpose::Requests => "requests",
        }
    }
}

/// A budget that cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// There is less than the smallest plan takes.
    #[error(
        "a memory budget of {} is too small: the smallest plan takes {}, of it {} for {}; \
         give --memory {}, or lower {}",
        Size(*budget).beside(Size(*smallest)), Size(*smallest), Size(part.bytes),
        part.purpose.words(), typed(*smallest), part.purpose.flag()
    )]
    TooSmall {
        /// The budget.
        budget: u64,
        /// The smallest that is enough.
        smallest: u64,
        /// The part of it that is worth asking less of.
        part: Part,
    },
}

/// Bytes as `--memory` takes them, rounded up.
fn typed(bytes: u64) -> String {
    format!("{}M", whole_mib(bytes) >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Usage;
    use crate::{Rooms, SpineFormat};
    use deltafin_spec::ModelSpec;

    #[test]
    fn a_refusal_names_the_flag_that_asks_for_most() {
        let spec = ModelSpec::k3();
        let usage = Usage { context: 4096, chunk: 1, threads: 1 };
        let demand = Demand::new(&spec, &Rooms::of_spec(&spec, SpineFormat::Int8), usage);
        let refused = |demand: &Demand| crate::Plan::make(demand, 1 << 20).unwrap_err().to_string();
        assert!(refused(&demand).ends_with(", or lower --context"), "{}", refused(&demand));
        let snapshots = Demand { snapshots: 99 << 30, ..demand };
        let said = refused(&snapshots);
        assert!(said.contains("of it 99.00 GiB for earlier conversations"), "{said}");
        assert!(said.ends_with(", or lower --snapshot-memory"), "{said}");
        let requests = refused(&Demand { requests: 100 << 30, ..snapshots });
        assert!(requests.ends_with(", or lower --max-body"), "{requests}");
    }
}
