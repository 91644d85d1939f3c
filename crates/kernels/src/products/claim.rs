//! Shares tasks out over a pool.

use crate::Parallel;
use std::array::from_fn;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The next task of a range, in a cache line of its own.
#[repr(align(64))]
struct Next(AtomicUsize);

/// Most threads that get a range of their own.
const RANGES: usize = 128;

/// Runs `task(i)` once for every `i` in `0..tasks`.
///
/// Each thread has a range of neighbouring tasks and claims them in order, so that what it asked for
/// in advance at the end of one task is the start of its next. A thread that is done helps with the
/// other ranges. The claim is ours, not the pool's: whatever a pool does no task runs twice, and
/// unsafe code may rely on that.
pub(super) fn claim_all(pool: &dyn Parallel, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
    let ranges = pool.width().min(tasks).min(RANGES);
    if ranges <= 1 {
        return (0..tasks).for_each(task);
    }
    let start_of = |range: usize| range * tasks / ranges;
    let next: [Next; RANGES] = from_fn(|range| Next(AtomicUsize::new(start_of(range))));
    pool.run(ranges, &|own| {
        for range in (own..own + ranges).map(|range| range % ranges) {
            loop {
                let i = next[range].0.fetch_add(1, Ordering::Relaxed);
                if i >= start_of(range + 1) {
                    break;
                }
                task(i);
            }
        }
    });
}
