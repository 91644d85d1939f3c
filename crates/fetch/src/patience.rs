//! How long a source is asked that gives nothing, and how often.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::{Duration, Instant};

/// When to ask again, and when no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// A connection that brings no byte for so long is given up for a new one.
    pub stall: Duration,
    /// The pause after the first failure; it doubles with each further one.
    pub first: Duration,
    /// The longest pause.
    pub most: Duration,
    /// So long without a byte, and the source is given up …
    pub give_up: Duration,
    /// … after so many failures in a row at the least.
    pub attempts: u32,
    /// So many failures in a row end it at once that are not likely to pass.
    pub hopeless: u32,
}

/// The longest that a connection may stand still.
const STALL_MOST: Duration = Duration::from_secs(30);
/// The shortest: an answer from far away takes that long.
const STALL_LEAST: Duration = Duration::from_secs(1);

impl Patience {
    /// To wait so long for a source that gives nothing. It is asked twice within that, also where it takes
    /// connections and never answers.
    pub fn of(give_up: Duration) -> Patience {
        Patience {
            stall: (give_up / 2).clamp(STALL_LEAST, STALL_MOST),
            first: Duration::from_millis(500),
            most: Duration::from_secs(30),
            give_up,
            attempts: 2,
            hopeless: 6,
        }
    }

    /// For somebody who waits for an answer and has nothing to lose.
    pub fn short() -> Patience {
        Patience { hopeless: 2, ..Patience::of(Duration::from_secs(4)) }
    }
}

impl Default for Patience {
    fn default() -> Patience {
        Patience::of(Duration::from_secs(600))
    }
}

/// Failures since the last byte.
#[derive(Debug)]
pub(crate) struct Silence {
    failures: u32,
    /// Those at the end that are not likely to pass.
    hopeless: u32,
    since: Instant,
}

impl Silence {
    /// None so far.
    pub(crate) fn new() -> Silence {
        Silence { failures: 0, hopeless: 0, since: Instant::now() }
    }

    /// Something came.
    pub(crate) fn broken(&mut self) {
        *self = Silence::new();
    }

    /// One more failure: how long to wait before the next try, unless there is to be none. A server
    /// that says how long is believed, within reason; no wait is longer than what is left of the patience.
    pub(crate) fn wait(
        &mut self,
        patience: &Patience,
        asked: Option<Duration>,
        is_hopeless: bool,
    ) -> Option<Duration> {
        const BELIEVED: Duration = Duration::from_secs(900);
        self.failures += 1;
        self.hopeless = if is_hopeless { self.hopeless + 1 } else { 0 };
        let left = patience.give_up.saturating_sub(self.since.elapsed());
        let is_over = self.failures >= patience.attempts && left.is_zero();
        if is_over || self.hopeless >= patience.hopeless {
            return None;
        }
        let doublings = (self.failures - 1).min(16);
        let pause = patience.first.saturating_mul(1 << doublings).min(patience.most);
        let jittered = pause.mul_f64(0.5 + 0.5 * chance());
        let told = asked.map(|asked| asked.min(BELIEVED) + patience.first.mul_f64(chance()));
        Some(told.unwrap_or(jittered).min(left.max(patience.first)))
    }
}

/// A number in 0..1 that differs from process to process and call to call.
fn chance() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    (random >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_end() {
        let patience = Patience::default();
        let mut silence = Silence::new();
        let pauses = || silence.wait(&patience, None, false);
        let pauses: Vec<_> = std::iter::from_fn(pauses).take(11).collect();
        assert_eq!(pauses.len(), 11);
        for (failure, pause) in pauses.iter().enumerate() {
            let whole = patience.first.saturating_mul(1 << failure).min(patience.most);
            assert!(*pause >= whole / 2 && *pause <= whole, "{failure}: {pause:?}");
        }
    }

    #[test]
    fn a_server_that_says_how_long_is_believed() {
        let patience = Patience::default();
        let wait = Silence::new().wait(&patience, Some(Duration::from_secs(7)), false).unwrap();
        assert!(wait >= Duration::from_secs(7) && wait < Duration::from_secs(8), "{wait:?}");
        let wait = Silence::new().wait(&patience, Some(Duration::MAX), false).unwrap();
        assert!(wait < Duration::from_secs(1000), "{wait:?}");
    }

    #[test]
    fn whoever_waits_for_a_source_waits_no_longer_than_was_said() {
        for seconds in [0, 1, 3, 60, 3600] {
            let patience = Patience::of(Duration::from_secs(seconds));
            assert!(patience.stall <= patience.give_up.max(STALL_LEAST), "{patience:?}");
            assert!(patience.stall <= STALL_MOST, "{patience:?}");
        }
        let patience = Patience::of(Duration::from_secs(3));
        for asked in [None, Some(Duration::from_secs(900))] {
            let wait = Silence::new().wait(&patience, asked, false).unwrap();
            assert!(wait <= patience.give_up, "{wait:?}");
        }
        // Long since silent: one more try, then none.
        let since = Instant::now().checked_sub(patience.give_up).unwrap();
        let mut silence = Silence { since, ..Silence::new() };
        assert!(silence.wait(&patience, None, false).is_some());
        assert!(silence.wait(&patience, None, false).is_none());
    }

    #[test]
    fn a_byte_begins_the_count_anew() {
        let patience = Patience { attempts: 2, give_up: Duration::ZERO, ..Patience::default() };
        let mut silence = Silence::new();
        assert!(silence.wait(&patience, None, false).is_some());
        silence.broken();
        assert!(silence.wait(&patience, None, false).is_some());
        assert!(silence.wait(&patience, None, false).is_none());
    }

    #[test]
    fn what_is_not_likely_to_pass_is_believed_after_a_few_in_a_row() {
        let patience = Patience::default();
        let mut silence = Silence::new();
        let tries = |silence: &mut Silence| {
            std::iter::from_fn(|| silence.wait(&patience, None, true)).count() as u32
        };
        assert_eq!(tries(&mut silence), patience.hopeless - 1);
        let mut silence = Silence::new();
        assert!(silence.wait(&patience, None, true).is_some());
        assert!(silence.wait(&patience, None, false).is_some());
        assert_eq!(tries(&mut silence), patience.hopeless - 1, "others between them begin it anew");
    }
}
