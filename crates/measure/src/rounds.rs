//! Kernel and yardsticks in turns, compared pair by pair.

use crate::machine::{Adder, Reader};
use std::time::{Duration, Instant};

/// Fewest rounds, an odd number.
const FEWEST: usize = 3;

/// Both yardsticks at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Read bandwidth of all threads, in 10^9 bytes per second.
    pub(crate) read_gbps: f64,
    /// Multiply-adds of one core, in 10^9 per second.
    pub(crate) gmacs: f64,
}

impl Sample {
    pub(crate) fn take(reader: &Reader<'_>, adder: &Adder) -> Sample {
        Sample { read_gbps: reader.gbps(), gmacs: adder.gmacs() }
    }

    /// The better of each yardstick.
    pub(crate) fn better(self, other: Sample) -> Sample {
        Sample {
            read_gbps: self.read_gbps.max(other.read_gbps),
            gmacs: self.gmacs.max(other.gmacs),
        }
    }
}

/// What the rounds of one kernel came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    /// Of the weights, in the median round, in 10^9 bytes per second.
    pub(crate) gbps: f64,
    /// Of the read bandwidth, in the median pair.
    pub(crate) ratio_to_read: f64,
    /// Weight bytes per multiply-add that one core could have done, in the median pair. Times the
    /// multiply-adds of a byte this is the share of one core's peak.
    pub(crate) bytes_per_mac: f64,
    /// The best yardsticks seen.
    pub(crate) best: Sample,
}

/// Samples and passes in turns until `budget` is spent: `sample pass sample pass sample ...`. A pass is
/// given its number and returns how fast it was, in 10^9 bytes per second.
pub(crate) fn in_turns(
    budget: Duration,
    sample: &mut dyn FnMut() -> Sample,
    pass: &mut dyn FnMut(usize) -> f64,
) -> Rounds {
    let start = Instant::now();
    let mut before = sample();
    let mut best = before;
    let (mut gbps, mut of_read, mut of_adds) = (vec![], vec![], vec![]);
    while gbps.len() < FEWEST || start.elapsed() < budget {
        let rate = pass(gbps.len());
        let after = sample();
        let around = before.better(after);
        // A kernel reads its weights too: memory gives at least what the kernel got.
        let around = Sample { read_gbps: around.read_gbps.max(rate), ..around };
        gbps.push(rate);
        of_read.push(rate / around.read_gbps);
        of_adds.push(rate / around.gmacs);
        (before, best) = (after, best.better(around));
    }
    Rounds {
        gbps: median(gbps),
        ratio_to_read: median(of_read),
        bytes_per_mac: median(of_adds),
        best,
    }
}

/// The middle one, the lower of two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples and passes of these speeds, over and over.
    fn rounds(read_gbps: &[f64], passes: &[f64]) -> Rounds {
        let mut next = read_gbps.iter().cycle();
        let mut sample = || Sample { read_gbps: *next.next().unwrap(), gmacs: 10.0 };
        in_turns(Duration::ZERO, &mut sample, &mut |pass| passes[pass % passes.len()])
    }

    #[test]
    fn the_middle_one_is_found() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.0);
        assert_eq!(median(vec![7.0]), 7.0);
    }

    #[test]
    fn each_pass_is_compared_with_the_better_sample_beside_it() {
        let rounds = rounds(&[30.0, 60.0], &[15.0]);
        assert_eq!((rounds.gbps, rounds.ratio_to_read, rounds.best.read_gbps), (15.0, 0.25, 60.0));
        assert_eq!(rounds.bytes_per_mac, 1.5);
    }

    #[test]
    fn a_change_of_speed_in_between_leaves_the_ratio() {
        let rounds = rounds(&[60.0, 60.0, 30.0, 30.0], &[54.0, 27.0, 27.0]);
        assert_eq!((rounds.gbps, rounds.ratio_to_read), (27.0, 0.9));
    }

    #[test]
    fn a_kernel_that_outruns_the_samples_beside_it_is_a_sample_itself() {
        let rounds = rounds(&[30.0], &[40.0]);
        assert_eq!((rounds.ratio_to_read, rounds.best.read_gbps), (1.0, 40.0));
    }
}
