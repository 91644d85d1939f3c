//! How far apart two rows of logits are.

/// Sums over the rows of two models.
#[derive(Default)]
pub(super) struct Divergence {
    rows: usize,
    same_top: usize,
    /// Nats.
    sum: f64,
    most: f64,
    difference: f32,
}

impl Divergence {
    /// Takes in the logits of one position.
    pub(super) fn take(&mut self, a: &[f32], b: &[f32]) {
        let nats = kl(a, b);
        self.rows += 1;
        self.same_top += usize::from(top(a) == top(b));
        self.sum += nats;
        self.most = self.most.max(nats);
        let apart = a.iter().zip(b).map(|(a, b)| (a - b).abs());
        self.difference = apart.fold(self.difference, f32::max);
    }

    /// Mean Kullback–Leibler divergence of the second from the first, in nats.
    pub(super) fn mean(&self) -> f64 {
        self.sum / self.rows.max(1) as f64
    }

    /// The largest divergence of a row, in nats.
    pub(super) fn most(&self) -> f64 {
        self.most
    }

    /// The share of rows whose most likely id is the same.
    pub(super) fn agreement(&self) -> f64 {
        self.same_top as f64 / self.rows.max(1) as f64
    }

    /// The largest difference of two logits.
    pub(super) fn difference(&self) -> f32 {
        self.difference
    }
}

/// `Σ p ln(p / q)` of the two rows' distributions, in `f64`. Rounding may leave it a hair below
/// zero where they agree; it is none then.
fn kl(a: &[f32], b: &[f32]) -> f64 {
    let (a_norm, b_norm) = (log_sum(a), log_sum(b));
    let term = |(&a, &b): (&f32, &f32)| {
        let (a, b) = (f64::from(a) - a_norm, f64::from(b) - b_norm);
        a.exp() * (a - b)
    };
    a.iter().zip(b).map(term).sum::<f64>().max(0.0)
}

/// `ln Σ exp`, around the largest logit.
fn log_sum(logits: &[f32]) -> f64 {
    let most = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    most + logits.iter().map(|&logit| (f64::from(logit) - most).exp()).sum::<f64>().ln()
}

/// The most likely id, the lowest of equals.
fn top(logits: &[f32]) -> Option<usize> {
    let better = |best: Option<(usize, f32)>, (id, &logit): (usize, &f32)| match best {
        Some((_, most)) if most >= logit => best,
        _ => Some((id, logit)),
    };
    logits.iter().enumerate().fold(None, better).map(|(id, _)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rows_do_not_diverge_and_a_shift_is_none() {
        let mut sums = Divergence::default();
        sums.take(&[1.0, 2.0, -1e4], &[1.0, 2.0, -1e4]);
        sums.take(&[1.0, 2.0, 3.0], &[11.0, 12.0, 13.0]);
        assert!(sums.mean() < 1e-12 && sums.agreement() == 1.0);
        assert_eq!(sums.difference(), 10.0);
    }

    #[test]
    fn a_known_divergence_comes_out() {
        // p = (3/4, 1/4) against q = (1/2, 1/2).
        let p = [3f32.ln(), 0.0];
        let wanted = 0.75 * 1.5f64.ln() + 0.25 * 0.5f64.ln();
        let mut sums = Divergence::default();
        sums.take(&p, &[7.0, 7.0]);
        assert!((sums.mean() - wanted).abs() < 1e-7 && sums.most() == sums.mean());
        sums.take(&p, &[0.0, 1.0]);
        assert_eq!(sums.agreement(), 0.5);
    }

    #[test]
    fn the_lowest_of_equals_is_the_top() {
        assert_eq!(top(&[1.0, 3.0, 3.0]), Some(1));
        assert_eq!(top(&[]), None);
    }
}
