//! Normally distributed numbers from a table, without a logarithm.
//!
//! Mathematics libraries disagree in last bits, and a checkpoint must not depend on the machine that
//! made it. So the table holds the quantiles of a sum of six bytes, counted exactly in integers: close
//! to normal up to 3.4 standard deviations, which is as far as 4096 quantiles go.

/// Bits that choose an entry.
pub(crate) const BITS: u32 = 12;
/// Entries of a table.
pub(crate) const ENTRIES: usize = 1 << BITS;

const BYTES: usize = 6;

/// The quantiles of mean 0 and standard deviation 1, ascending.
pub(crate) fn quantiles() -> Vec<f32> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantiles_are_those_of_a_normal_distribution() {
        let table = quantiles();
        assert!(table.is_sorted());
        let mean = table.iter().sum::<f32>() / ENTRIES as f32;
        let square = table.iter().map(|z| z * z).sum::<f32>() / ENTRIES as f32;
        assert!(mean.abs() < 1e-3 && (square - 1.0).abs() < 2e-2, "{mean} {square}");
        let within = |z: f32| table.iter().filter(|x| x.abs() < z).count() as f32 / ENTRIES as f32;
        assert!((within(1.0) - 0.683).abs() < 0.01, "{}", within(1.0));
        assert!((within(2.0) - 0.954).abs() < 0.005, "{}", within(2.0));
        assert!(table[0] < -3.2 && table[ENTRIES - 1] > 3.2);
    }
}
