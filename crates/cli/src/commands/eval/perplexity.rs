//! How unexpected a text is, from logits.

/// Sums how unexpected each token was, in nats.
pub(super) struct Surprise<'a> {
    ids: &'a [u32],
    vocab: usize,
    nats: f64,
}

impl<'a> Surprise<'a> {
    pub(super) fn new(ids: &'a [u32], vocab: usize) -> Surprise<'a> {
        Surprise { ids, vocab, nats: 0.0 }
    }

    /// Logits of the rows from `first` on; each row predicts the id after it, and the last nothing.
    pub(super) fn take(&mut self, first: usize, rows: &[f32]) {
        for (row, next) in rows.chunks_exact(self.vocab).zip(self.ids.iter().skip(first + 1)) {
            self.nats += surprise(row, *next as usize);
        }
    }

    /// The sum so far.
    pub(super) fn nats(&self) -> f64 {
        self.nats
    }
}

/// The negative log probability of one id, summed in `f64` around the largest logit.
fn surprise(logits: &[f32], id: usize) -> f64 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let above = |logit: f32| f64::from(logit) - f64::from(most);
    let sum: f64 = logits.iter().map(|&logit| above(logit).exp()).sum();
    sum.ln() - above(logits[id])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_logits_are_a_fair_choice() {
        assert!((surprise(&[2.0; 8], 3) - 8f64.ln()).abs() < 1e-12);
        assert!(surprise(&[1e4, 0.0], 0).abs() < 1e-12);
    }

    #[test]
    fn each_row_predicts_the_next_id() {
        let mut sum = Surprise::new(&[0, 1, 0], 2);
        sum.take(0, &[0.0, 0.0, 5.0, 5.0]);
        sum.take(2, &[9.0, 0.0]);
        assert!((sum.nats() - 2.0 * 2f64.ln()).abs() < 1e-12);
    }
}
