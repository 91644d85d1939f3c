//! How often a token finds an expert in memory.
//!
//! What earlier runs learned about a model counts for as much as they saw of it; the rest is what is
//! published for the released one.

use crate::Demand;

/// What earlier runs showed of how unevenly a model's experts are used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learned {
    /// Choices that the hottest one, two, three … experts had together.
    choices: Vec<f64>,
}

impl Learned {
    /// From how often each expert was chosen, in any order; decayed counts will do.
    pub fn of(counts: &[f32]) -> Learned {
        let mut counts: Vec<f64> = counts.iter().map(|count| f64::from(*count)).collect();
        counts.sort_unstable_by(|a, b| b.total_cmp(a));
        let together = |sum: &mut f64, count: f64| {
            *sum += count;
            Some(*sum)
        };
        Learned { choices: counts.into_iter().scan(0.0, together).collect() }
    }

    /// Whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.seen() == 0.0
    }

    fn seen(&self) -> f64 {
        self.choices.last().copied().unwrap_or(0.0)
    }

    /// The share of choices that the `kept` hottest experts had.
    fn share(&self, kept: usize) -> f64 {
        let theirs = kept.min(self.choices.len()).checked_sub(1).map_or(0.0, |at| self.choices[at]);
        if self.is_empty() { 0.0 } else { theirs / self.seen() }
    }
}

/// The share of a token's experts that are expected to be in memory where `kept` of all experts stay.
pub fn expected_hits(demand: &Demand, kept: usize, learned: &Learned) -> f64 {
    if kept >= demand.experts {
        return 1.0;
    }
    // As many choices as there are experts are half of what it takes to be sure.
    let trust = learned.seen() / (learned.seen() + demand.experts as f64);
    trust * learned.share(kept) + (1.0 - trust) * hit_rate(demand, kept)
}

/// The share of a token's experts that a cache of `cache` of all `experts` is expected to have.
///
/// Straight lines through what is published for the released model: about 31 % of a token's experts
/// are those of the token before; the most frequent 2.8 % have 41 % of the routes of unseen text; the
/// hottest 30 % take 86 % within a workload. For other models the first two stand at as many tokens'
/// worth of experts. Chance alone finds the share of all experts that is kept.
pub(crate) fn hit_rate(demand: &Demand, cache: usize) -> f64 {
    if demand.experts == 0 || cache >= demand.experts {
        return 1.0;
    }
    let part = cache as f64 / demand.experts as f64;
    let token = demand.working_set() as f64 / demand.experts as f64;
    let points = [
        (0.0, 0.0),
        (token.min(0.9), 0.31),
        ((1.55 * token).min(0.93), 0.41),
        ((3.0 * token).clamp(0.30, 0.96), 0.86),
        (1.0, 1.0),
    ];
    let above = points.windows(2).find(|pair| part <= pair[1].0);
    let published = above.map_or(1.0, |pair| {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        y0 + (y1 - y0) * (part - x0) / (x1 - x0).max(f64::MIN_POSITIVE)
    });
    published.max(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SpineFormat, Usage};
    use deltafin_spec::ModelSpec;

    fn k3() -> Demand {
        let usage = Usage { context: 8192, chunk: 512, threads: 8 };
        Demand::of_spec(&ModelSpec::k3(), SpineFormat::Int8, usage)
    }

    #[test]
    fn the_cache_is_worth_what_is_published() {
        let demand = k3();
        assert_eq!(hit_rate(&demand, 0), 0.0);
        assert!((hit_rate(&demand, demand.working_set()) - 0.31).abs() < 1e-9);
        // A pin of 40 GB hit 41 % of unseen text.
        assert!((hit_rate(&demand, 2280) - 0.41).abs() < 0.01);
        assert!((hit_rate(&demand, demand.experts * 3 / 10) - 0.86).abs() < 0.01);
        assert_eq!(hit_rate(&demand, demand.experts), 1.0);
        // A gigabyte saves a quarter to a third of one.
        let saved = hit_rate(&demand, 57) * demand.working_set() as f64 / 57.0;
        assert!((0.24..0.36).contains(&saved), "{saved}");
    }

    #[test]
    fn what_was_seen_counts_for_as_much_as_was_seen() {
        let demand = k3();
        let (nothing, kept) = (Learned::default(), 2280);
        let published = hit_rate(&demand, kept);
        assert_eq!(expected_hits(&demand, kept, &nothing), published);
        assert!(nothing.is_empty() && Learned::of(&[0.0; 4]).is_empty());
        // All choices went to as many experts as are kept.
        let seen = |each: f32| {
            let mut counts = vec![0.0; demand.experts];
            counts[..kept].fill(each * demand.experts as f32 / kept as f32);
            expected_hits(&demand, kept, &Learned::of(&counts))
        };
        assert!(seen(0.01) < published + 0.01);
        assert!((seen(1.0) - (1.0 + published) / 2.0).abs() < 1e-3);
        assert!(seen(1000.0) > 0.99);
        assert_eq!(expected_hits(&demand, demand.experts, &nothing), 1.0);
    }

    #[test]
    fn more_that_is_kept_never_has_less() {
        let demand = k3();
        let learned = Learned::of(
            &(0..demand.experts).map(|e| 1.0 / (1 + e % 977) as f32).collect::<Vec<_>>(),
        );
        let rates: Vec<f64> = (0..demand.experts)
            .step_by(501)
            .map(|kept| expected_hits(&demand, kept, &learned))
            .collect();
        assert!(rates.is_sorted(), "{rates:?}");
    }
}
