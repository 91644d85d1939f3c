//! What passes could not have been faster than, from what was measured of them.
//!
//! Where the spine is read again for every pass, reads of it can begin at any time, and what limits
//! is the larger of two: all bytes that had to be read, at the rate the drives gave while they were
//! busy; or the arithmetic.
//!
//! Where the spine is in memory, an expert that no guess had begun to read can only be read when the
//! route is known. Then a layer takes its arithmetic and that read, less what of the arithmetic can be
//! done meanwhile: the shared experts and the routed ones that are there.

use deltafin_stream::Use;
use std::time::Duration;

/// What one layer, or one of the ends, cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Computing before the route is known, or after all experts are.
    pub(super) fixed: Duration,
    /// Computing while experts may be on their way.
    pub(super) hideable: Duration,
    /// Standing still.
    pub(super) waited: Duration,
    /// Bytes of experts whose reads began when the route was known.
    pub(super) missed_bytes: u64,
}

/// The critical path of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Critical {
    /// Whether any of the spine had to be read.
    pub spine_streamed: bool,
    /// The drives' part: all reads, or those that could not begin before the route was known.
    pub drive: Duration,
    /// The arithmetic's part: all of it, or what no read could hide.
    pub compute: Duration,
    /// Both together: the larger one where the spine is streamed, else their sum.
    pub path: Duration,
    /// All bytes that had to be read, guesses that came true among them. A drive that has no idle time for
    /// guesses is held up by them too, and then this can be more than `path`.
    pub reads: Duration,
}

impl Critical {
    /// `wall` and `computing` are the time of all passes and the part of it that was arithmetic; `rate`
    /// is in bytes per second, of all drives together, and 0 where nothing was read.
    pub(super) fn of(
        steps: &[Step],
        wall: Duration,
        computing: Duration,
        used: &Use,
        rate: f64,
    ) -> Critical {
        let reading = |bytes: u64| match rate > 0.0 {
            true => Duration::from_secs_f64(bytes as f64 / rate),
            false => Duration::ZERO,
        };
        let reads = reading(used.spine_bytes + used.missed_bytes + used.guessed_bytes);
        if used.spine_bytes > 0 {
            let path = reads.max(computing);
            return Critical {
                spine_streamed: true,
                drive: reads,
                compute: computing,
                path,
                reads,
            };
        }
        let (mut drive, mut compute, mut measured) = <(Duration, Duration, Duration)>::default();
        for step in steps {
            let read = reading(step.missed_bytes);
            drive += read;
            compute += step.fixed + step.hideable.saturating_sub(read);
            measured += step.fixed + step.hideable + step.waited;
        }
        // Where more passes ran than steps are kept, the first ones stand for all.
        let share = match measured.is_zero() {
            true => 1.0,
            false => wall.as_secs_f64() / measured.as_secs_f64(),
        };
        let (drive, compute) = (drive.mul_f64(share), compute.mul_f64(share));
        Critical { spine_streamed: false, drive, compute, path: drive + compute, reads }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A megabyte takes a second.
    fn of(steps: &[Step], wall: u64, used: &Use) -> Critical {
        Critical::of(steps, ms(wall), ms(wall / 2), used, 1e6)
    }

    #[test]
    fn what_fits_behind_a_read_is_hidden_by_it() {
        let quiet = Step { fixed: ms(3), hideable: ms(2), ..Step::default() };
        let short = Step { missed_bytes: 1000, waited: ms(1), ..quiet };
        let long = Step { missed_bytes: 9000, waited: ms(20), ..quiet };
        let resident = Use::default();
        assert_eq!(of(&[quiet], 5, &resident).path, ms(5));
        assert_eq!(of(&[short], 6, &resident).path, ms(3 + 2));
        assert_eq!(of(&[long], 25, &resident).path, ms(3 + 9));
        let all = of(&[quiet, short, long], 36, &resident);
        assert_eq!((all.drive, all.compute, all.path), (ms(10), ms(12), ms(22)));
        // Steps of half the time stand for the other half.
        assert_eq!(of(&[quiet, short, long], 72, &resident).path, ms(44));
    }

    #[test]
    fn of_a_streamed_spine_the_larger_term_counts() {
        let used =
            Use { spine_bytes: 5000, missed_bytes: 2000, guessed_bytes: 1000, ..Use::default() };
        let slow_drive = of(&[], 10, &used);
        assert_eq!((slow_drive.drive, slow_drive.compute, slow_drive.path), (ms(8), ms(5), ms(8)));
        assert_eq!(of(&[], 40, &used).path, ms(20));
        assert!(slow_drive.spine_streamed);
        let resident = Use { missed_bytes: 2000, guessed_bytes: 1000, ..Use::default() };
        assert_eq!(of(&[], 10, &resident).reads, ms(3));
    }

    #[test]
    fn where_nothing_was_read_only_arithmetic_counts() {
        let quiet = Step { fixed: ms(3), hideable: ms(2), ..Step::default() };
        let path = Critical::of(&[quiet], ms(5), ms(5), &Use::default(), 0.0);
        assert_eq!((path.drive, path.path), (ms(0), ms(5)));
        assert_eq!(Critical::of(&[], ms(0), ms(0), &Use::default(), 0.0).path, ms(0));
    }
}
