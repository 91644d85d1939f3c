//! How many files this process may have open.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are left for the rest of the program: sockets, logs, the terminal.
const RESERVE: u64 = 64;

/// The current soft limit.
pub(super) fn soft_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// How many shards may stay open out of `shards`. Raises the soft limit as far as needed
/// and allowed; where that is not enough, half of a small limit is left to others.
pub(super) fn descriptors_for(shards: usize) -> usize {
    let wanted = shards as u64 + RESERVE;
    let mut soft = soft_limit();
    if soft < wanted {
        soft = raise(wanted).unwrap_or(soft);
    }
    let ours = soft.saturating_sub(RESERVE.min(soft / 2)).min(shards as u64);
    ours as usize
}

fn raise(wanted: u64) -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let reachable = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let raised = Rlimit { current: Some(reachable), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).ok().map(|()| reachable)
}

/// Whether an open failed because of the limit, the process's or the system's.
pub(super) fn is_exhausted(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    let limits = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    limits.iter().any(|limit| code == Some(limit.raw_os_error()))
}
