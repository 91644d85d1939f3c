//! Which experts a row goes to, and how much each counts.
//!
//! Chosen by `sigmoid(logit) + correction`, weighed by `sigmoid(logit)` alone. Equal choices go to
//! the lower id. With several groups, only the `top_groups` whose two best choices sum highest may
//! be chosen from.

use deltafin_spec::MoeSpec;

/// Reused by every row.
#[derive(Default)]
pub(crate) struct RouterBuffers {
    choice: Vec<f32>,
    groups: Vec<(f32, usize)>,
}

/// Chooses `experts.len()` experts, best first, and their weights. `scores` are the sigmoids.
pub(crate) fn choose(
    spec: &MoeSpec,
    scores: &[f32],
    correction: &[f32],
    buffers: &mut RouterBuffers,
    experts: &mut [u32],
    weights: &mut [f32],
) {
    let RouterBuffers { choice, groups } = buffers;
    choice.clear();
    choice.extend(scores.iter().zip(correction).map(|(s, c)| s + c));
    if spec.groups > 1 && spec.groups > spec.top_groups {
        mask_groups(spec, choice, groups);
    }
    for (slot, expert) in experts.iter_mut().enumerate() {
        let best = best_of(choice);
        choice[best] = f32::NEG_INFINITY;
        *expert = best as u32;
        weights[slot] = scores[best];
    }
    normalize(spec, experts, weights);
}

/// The index of the largest value, the first of equals.
fn best_of(values: &[f32]) -> usize {
    let mut best = 0;
    for (i, &v) in values.iter().enumerate() {
        if v > values[best] {
            best = i;
        }
    }
    best
}

/// Sets the choices outside the best groups to −∞.
fn mask_groups(spec: &MoeSpec, choice: &mut [f32], groups: &mut Vec<(f32, usize)>) {
    let size = choice.len() / spec.groups;
    groups.clear();
    groups.extend(choice.chunks_exact(size).map(two_best).zip(0..));
    groups.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    for &(_, group) in &groups[spec.top_groups..] {
        choice[group * size..(group + 1) * size].fill(f32::NEG_INFINITY);
    }
}

/// The sum of the two largest values.
fn two_best(values: &[f32]) -> f32 {
    let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    for &v in values {
        if v > first {
            (first, second) = (v, first);
        } else if v > second {
            second = v;
        }
    }
    if second == f32::NEG_INFINITY { first } else { first + second }
}

/// Divides by the sum, taken in ascending expert id, and scales.
fn normalize(spec: &MoeSpec, experts: &[u32], weights: &mut [f32]) {
    let mut sum = 0.0;
    if spec.renormalize {
        let mut last = None;
        for _ in 0..experts.len() {
            let next = (0..experts.len())
                .filter(|&i| last.is_none_or(|l| experts[i] > l))
                .min_by_key(|&i| experts[i]);
            if let Some(i) = next {
                sum += weights[i];
                last = Some(experts[i]);
            }
        }
        sum += 1e-20;
    } else {
        sum = 1.0;
    }
    for w in weights {
        *w = *w / sum * spec.routed_scaling;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltafin_spec::ModelSpec;

    fn spec(groups: usize, top_groups: usize) -> MoeSpec {
        MoeSpec { experts: 8, top_k: 3, groups, top_groups, ..ModelSpec::k3().moe }
    }

    fn route(spec: &MoeSpec, scores: &[f32], correction: &[f32]) -> (Vec<u32>, Vec<f32>) {
        let (mut experts, mut weights) = (vec![0; spec.top_k], vec![0.0; spec.top_k]);
        choose(spec, scores, correction, &mut RouterBuffers::default(), &mut experts, &mut weights);
        (experts, weights)
    }

    #[test]
    fn equal_choices_go_to_the_lower_id() {
        let (experts, weights) = route(&spec(1, 1), &[0.5; 8], &[0.0; 8]);
        assert_eq!(experts, [0, 1, 2]);
        assert_eq!(weights, [1.0 / 3.0; 3]);
    }

    #[test]
    fn the_correction_selects_and_never_weighs() {
        let scores = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8];
        let correction = [5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let (experts, weights) = route(&spec(1, 1), &scores, &correction);
        assert_eq!(experts, [0, 7, 6]);
        let sum = 0.1f32 + 0.7 + 0.8;
        assert_eq!(weights, [0.1 / sum, 0.8 / sum, 0.7 / sum]);
    }

    #[test]
    fn only_the_best_groups_are_chosen_from() {
        // Groups of two: sums 0.9, 1.0, 0.6, 0.2; expert 0 is best alone but its group is third best
        // when its partner is bad.
        let scores = [0.85, 0.05, 0.5, 0.5, 0.45, 0.5, 0.1, 0.1];
        let (experts, _) = route(&spec(4, 2), &scores, &[0.0; 8]);
        assert_eq!(experts, [2, 3, 5]);
    }

    #[test]
    fn without_renormalisation_the_scores_are_the_weights() {
        let spec = MoeSpec { renormalize: false, routed_scaling: 2.0, ..spec(1, 1) };
        let (_, weights) = route(&spec, &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], &[0.0; 8]);
        assert_eq!(weights, [1.6, 1.4, 1.2]);
    }
}
