//! How likely an id was.

use std::cmp::Ordering;

/// The natural logarithms of probabilities, of the model's own distribution: neither temperature nor any
/// limit of sampling is in them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Score {
    pub(crate) id: u32,
    pub(crate) logprob: f64,
    /// The most likely ids, whether this one is among them or not.
    pub(crate) top: Vec<(u32, f64)>,
}

impl Score {
    pub(super) fn of(id: u32, logits: &[f32], alternatives: usize) -> Score {
        let top = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let sum: f64 = logits.iter().map(|&logit| libm::exp(f64::from(logit) - top)).sum();
        let norm = top + libm::log(sum);
        let logprob = |id: u32| {
            let logit = logits.get(id as usize).copied().unwrap_or(f32::NEG_INFINITY);
            f64::from(logit) - norm
        };
        let best = best(logits, alternatives);
        Score {
            id,
            logprob: logprob(id),
            top: best.into_iter().map(|id| (id, logprob(id))).collect(),
        }
    }
}

/// The ids of the largest logits, largest first, the lowest of equals first.
fn best(logits: &[f32], count: usize) -> Vec<u32> {
    let order = |a: &u32, b: &u32| {
        let (x, y) = (logits[*a as usize], logits[*b as usize]);
        y.partial_cmp(&x).unwrap_or(Ordering::Equal).then(a.cmp(b))
    };
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    if count == 0 {
        return Vec::new();
    }
    if count < ids.len() {
        ids.select_nth_unstable_by(count - 1, order);
        ids.truncate(count);
    }
    ids.sort_unstable_by(order);
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_sum_to_one_and_come_in_order() {
        let logits = [0.5, 3.0, -1.0, 3.0, 2.0];
        let score = Score::of(4, &logits, 5);
        let ids: Vec<u32> = score.top.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [1, 3, 4, 0, 2]);
        let sum: f64 = score.top.iter().map(|(_, logprob)| logprob.exp()).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
        assert_eq!(score.logprob, score.top[2].1);
        assert_eq!(Score::of(1, &logits, 2).top[..], score.top[..2]);
        assert!(Score::of(1, &logits, 0).top.is_empty());
    }
}
