//! Distributions, as tables of equally likely values.
//!
//! Mathematics libraries disagree in last bits, and a checkpoint must not depend on the machine that
//! made it. So nothing here takes a logarithm: the normal quantiles are those of a sum of six bytes,
//! counted exactly in integers, which is close to normal up to 3.4 standard deviations, as far as 4096
//! quantiles go; the exponential ones are the mean order statistics, which are sums of reciprocals.

/// Bits that choose an entry.
pub(crate) const BITS: u32 = 12;
/// Entries of a table.
pub(crate) const ENTRIES: usize = 1 << BITS;

/// How a number is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Draw {
    /// Normal.
    Normal {
        /// The mean.
        mean: f32,
        /// The standard deviation.
        deviation: f32,
    },
    /// Evenly between two numbers.
    Uniform {
        /// Where they begin.
        low: f32,
        /// Where they end.
        high: f32,
    },
    /// Exponential, shifted so that its mean is zero.
    Exponential {
        /// The standard deviation.
        deviation: f32,
    },
}

impl Draw {
    /// Normal around zero.
    pub(crate) fn around_zero(deviation: f32) -> Draw {
        Draw::Normal { mean: 0.0, deviation }
    }

    /// [`ENTRIES`] equally likely values, ascending unless the spread is negative.
    pub(crate) fn table(self, quantiles: &Quantiles) -> Vec<f32> {
        match self {
            Draw::Normal { mean, deviation } => {
                quantiles.normal.iter().map(|z| mean + z * deviation).collect()
            }
            Draw::Uniform { low, high } => {
                let step = (high - low) / ENTRIES as f32;
                (0..ENTRIES).map(|index| low + (index as f32 + 0.5) * step).collect()
            }
            Draw::Exponential { deviation } => {
                quantiles.exponential.iter().map(|x| (x - 1.0) * deviation).collect()
            }
        }
    }
}

/// What all tables are made from.
pub(crate) struct Quantiles {
    /// Of mean 0 and standard deviation 1.
    pub(crate) normal: Vec<f32>,
    exponential: Vec<f32>,
}

impl Quantiles {
    pub(crate) fn new() -> Quantiles {
        Quantiles { normal: normal(), exponential: exponential() }
    }
}

const BYTES: usize = 6;

fn normal() -> Vec<f32> {
    let ways = ways_to_sum();
    let all: u64 = 1 << (8 * BYTES);
    let centre = (BYTES * 255) as f64 / 2.0;
    let deviation = (BYTES as f64 * (256.0 * 256.0 - 1.0) / 12.0).sqrt();
    let (mut sum, mut below) = (0, ways[0]);
    let quantile = |index: u64| {
        let rank = (2 * index + 1) * (all / (2 * ENTRIES as u64));
        while below <= rank {
            sum += 1;
            below += ways[sum];
        }
        ((sum as f64 - centre) / deviation) as f32
    };
    (0..ENTRIES as u64).map(quantile).collect()
}

/// In how many ways six bytes add up to each sum.
fn ways_to_sum() -> Vec<u64> {
    let mut ways = vec![1u64];
    for _ in 0..BYTES {
        let mut wider = vec![0; ways.len() + 255];
        for (sum, count) in ways.iter().enumerate() {
            wider[sum..=sum + 255].iter_mut().for_each(|way| *way += count);
        }
        ways = wider;
    }
    ways
}

fn exponential() -> Vec<f32> {
    let mut sum = 0.0;
    let quantile = |index: usize| {
        sum += 1.0 / (ENTRIES - index) as f64;
        sum as f32
    };
    (0..ENTRIES).map(quantile).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(table: &[f32]) -> (f32, f32) {
        let mean = table.iter().sum::<f32>() / ENTRIES as f32;
        let square = table.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / ENTRIES as f32;
        (mean, square.sqrt())
    }

    #[test]
    fn the_normal_table_is_that_of_a_normal_distribution() {
        let table = Draw::Normal { mean: 1.0, deviation: 2.0 }.table(&Quantiles::new());
        assert!(table.is_sorted());
        let (mean, deviation) = moments(&table);
        assert!((mean - 1.0).abs() < 2e-3 && (deviation - 2.0).abs() < 2e-2, "{mean} {deviation}");
        let within = |z: f32| {
            let count = table.iter().filter(|x| (*x - 1.0).abs() < 2.0 * z).count();
            count as f32 / ENTRIES as f32
        };
        assert!((within(1.0) - 0.683).abs() < 0.01, "{}", within(1.0));
        assert!((within(2.0) - 0.954).abs() < 0.005, "{}", within(2.0));
    }

    #[test]
    fn the_others_have_the_mean_and_spread_asked_for() {
        let quantiles = Quantiles::new();
        let (mean, deviation) = moments(&Draw::Exponential { deviation: 0.5 }.table(&quantiles));
        assert!(mean.abs() < 1e-3 && (deviation - 0.5).abs() < 5e-3, "{mean} {deviation}");
        let table = Draw::Uniform { low: -1.0, high: 3.0 }.table(&quantiles);
        assert!(table[0] > -1.0 && table[ENTRIES - 1] < 3.0);
        assert!((moments(&table).0 - 1.0).abs() < 1e-3);
    }
}
