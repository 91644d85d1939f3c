//! Drawing an id by chance, alike on every machine.

use std::cmp::Ordering;

/// How an id is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampling {
    /// Divides the logits; above 0.
    pub(crate) temperature: f64,
    /// The most likely ids that are drawn from; all when 0.
    pub(crate) top_k: usize,
    /// The most likely ids whose probabilities reach this sum are drawn from; all at 1.
    pub(crate) top_p: f64,
    /// Ids less likely than this part of the most likely one are not drawn; 0 for none.
    pub(crate) min_p: f64,
    pub(crate) seed: u64,
}

/// Ids less likely than the first one by this factor's exponent, e^-50, are never drawn: together they
/// are less than one in 10^16 for any vocabulary, and sorting is for the others alone.
const NEGLIGIBLE: f64 = 50.0;

#[derive(Debug)]
pub(super) struct Sampler {
    sampling: Sampling,
    /// Ids with their weights, most likely first. Kept for its memory.
    candidates: Vec<(u32, f64)>,
}

impl Sampler {
    pub(super) fn new(sampling: Sampling) -> Sampler {
        Sampler { sampling, candidates: Vec::new() }
    }

    /// The id at this position of the reply.
    pub(super) fn draw(&mut self, logits: &[f32], position: u64) -> u32 {
        self.weigh(logits);
        self.narrow();
        let total: f64 = self.candidates.iter().map(|(_, weight)| weight).sum();
        let mut left = chance(self.sampling.seed, position) * total;
        for &(id, weight) in &self.candidates {
            if left < weight {
                return id;
            }
            left -= weight;
        }
        // Rounding can leave a little after the last one.
        self.candidates.last().map_or(0, |&(id, _)| id)
    }

    fn weigh(&mut self, logits: &[f32]) {
        let top = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let weighed = (0u32..).zip(logits).filter_map(|(id, &logit)| {
            let below = (f64::from(logit) - top) / self.sampling.temperature;
            (below > -NEGLIGIBLE).then(|| (id, libm::exp(below)))
        });
        self.candidates.clear();
        self.candidates.extend(weighed);
        self.candidates
            .sort_by(|(a, x), (b, y)| y.partial_cmp(x).unwrap_or(Ordering::Equal).then(a.cmp(b)));
    }

    fn narrow(&mut self) {
        let Sampling { top_k, top_p, min_p, .. } = self.sampling;
        if top_k > 0 {
            self.candidates.truncate(top_k);
        }
        let total: f64 = self.candidates.iter().map(|(_, weight)| weight).sum();
        let mut sum = 0.0;
        let reached = self.candidates.iter().position(|(_, weight)| {
            sum += weight;
            sum >= top_p * total
        });
        self.candidates.truncate(reached.map_or(usize::MAX, |at| at + 1));
        // The most likely one has the weight 1.
        let likely = self.candidates.partition_point(|(_, weight)| *weight >= min_p);
        self.candidates.truncate(likely.max(1));
    }
}

/// A number in [0, 1) that is a function of seed and position alone: SplitMix64's output for a
/// counter, with a key that the same mixer makes from the seed.
fn chance(seed: u64, position: u64) -> f64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let key = mixed(seed.wrapping_add(GOLDEN));
    let bits = mixed(key.wrapping_add(position.wrapping_add(1).wrapping_mul(GOLDEN)));
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use std::f32::consts::LN_2;

    use super::*;

    const ALL: Sampling = Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 7 };

    fn draws(sampling: Sampling, logits: &[f32], count: u64) -> Vec<u32> {
        let mut sampler = Sampler::new(sampling);
        (0..count).map(|position| sampler.draw(logits, position)).collect()
    }

    fn kinds(sampling: Sampling, logits: &[f32]) -> Vec<u32> {
        let mut ids = draws(sampling, logits, 2000);
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Recorded once; any machine must repeat it.
    #[test]
    fn a_seed_means_the_same_everywhere() {
        let logits: Vec<f32> = (0..50).map(|at| ((at * 37 % 50) as f32).sqrt()).collect();
        let hot = Sampling { temperature: 1.7, ..ALL };
        assert_eq!(draws(hot, &logits, 12), RECORDED);
        assert_ne!(draws(Sampling { seed: 8, ..hot }, &logits, 12), RECORDED);
        assert_eq!(chance(0, 0).to_bits(), CHANCE_BITS);
    }

    const RECORDED: [u32; 12] = [40, 9, 28, 32, 16, 8, 41, 14, 33, 31, 41, 20];
    const CHANCE_BITS: u64 = 0x3fe4_e0db_a5e9_a32f;

    #[test]
    fn frequencies_follow_the_probabilities() {
        // ln 1, ln 2, ln 5: an eighth, a quarter, five eighths.
        let ids = draws(ALL, &[0.0, LN_2, 1.609_438], 40_000);
        for (id, part) in [(0, 0.125), (1, 0.25), (2, 0.625)] {
            let got = ids.iter().filter(|drawn| **drawn == id).count() as f64 / 40_000.0;
            assert!((got - part).abs() < 0.01, "{id}: {got}");
        }
    }

    #[test]
    fn each_limit_narrows_to_the_likely_ones() {
        let logits = [0.0, LN_2, 1.609_438];
        assert_eq!(kinds(ALL, &logits), [0, 1, 2]);
        assert_eq!(kinds(Sampling { top_k: 2, ..ALL }, &logits), [1, 2]);
        assert_eq!(kinds(Sampling { top_p: 0.6, ..ALL }, &logits), [2]);
        assert_eq!(kinds(Sampling { top_p: 0.7, ..ALL }, &logits), [1, 2]);
        assert_eq!(kinds(Sampling { top_p: 0.0, ..ALL }, &logits), [2]);
        assert_eq!(kinds(Sampling { min_p: 0.3, ..ALL }, &logits), [1, 2]);
        assert_eq!(kinds(Sampling { min_p: 1.0, ..ALL }, &logits), [2]);
        assert_eq!(kinds(Sampling { temperature: 1e-6, ..ALL }, &logits), [2]);
    }

    #[test]
    fn of_equals_the_lowest_comes_first() {
        assert_eq!(kinds(Sampling { top_k: 1, ..ALL }, &[1.0, 2.0, 2.0]), [1]);
    }
}
