//! How much memory there is, for whoever keeps weights and states.

use deltafin_budget::{Bound, Limits};

pub use deltafin_budget::peak_resident_bytes;

/// Memory that could be had now without swapping, in bytes; `None` where the system does not say.
pub(crate) fn available_bytes() -> Option<u64> {
    known(Limits::read().usable())
}

/// The most memory this process may ever have, in bytes: the machine's, its control groups' or its
/// own limits', whichever is least.
pub(crate) fn usable_bytes() -> Option<u64> {
    known(Limits::read().ceiling())
}

fn known(usable: deltafin_budget::Usable) -> Option<u64> {
    (usable.bound != Bound::Assumed).then_some(usable.bytes)
}
