//! Experts that arrive in a different order every time.

use deltafin_model::{Expert, PassPlan, Weights};
use deltafin_spec::{ExpertId, LayerId};
use std::cell::Cell;

/// Weights whose experts arrive in an order drawn from a seed.
pub struct Shuffled<W> {
    inner: W,
    seed: Cell<u64>,
}

impl<W> Shuffled<W> {
    /// `inner`'s weights, shuffled from `seed` on.
    pub fn new(inner: W, seed: u64) -> Shuffled<W> {
        Shuffled { inner, seed: Cell::new(seed) }
    }

    fn below(&self, n: usize) -> usize {
        let next =
            self.seed.get().wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.seed.set(next);
        (next >> 33) as usize % n
    }
}

impl<W: Weights> Weights for Shuffled<W> {
    type Error = W::Error;
    type Attention<'a>
        = W::Attention<'a>
    where
        W: 'a;
    type Ffn<'a>
        = W::Ffn<'a>
    where
        W: 'a;
    type Tail<'a>
        = W::Tail<'a>
    where
        W: 'a;
    type Head<'a>
        = W::Head<'a>
    where
        W: 'a;

    fn begin(&self, pass: PassPlan) {
        self.inner.begin(pass);
    }

    fn embed(&self, id: u32, out: &mut [f32]) -> Result<(), W::Error> {
        self.inner.embed(id, out)
    }

    fn attention(&self, layer: LayerId) -> Result<W::Attention<'_>, W::Error> {
        self.inner.attention(layer)
    }

    fn ffn(&self, layer: LayerId) -> Result<W::Ffn<'_>, W::Error> {
        self.inner.ffn(layer)
    }

    fn peek(&self, layer: LayerId) -> Option<W::Ffn<'_>> {
        self.inner.peek(layer)
    }

    fn tail(&self) -> Result<W::Tail<'_>, W::Error> {
        self.inner.tail()
    }

    fn head(&self) -> Result<W::Head<'_>, W::Error> {
        self.inner.head()
    }

    fn demand(&self, layer: LayerId, ids: &[ExpertId]) {
        self.inner.demand(layer, ids);
    }

    fn expect(&self, layer: LayerId, ids: &[ExpertId]) {
        self.inner.expect(layer, ids);
    }

    fn experts(
        &self,
        layer: LayerId,
        ids: &[ExpertId],
        arrived: &mut dyn FnMut(ExpertId, Expert<'_>),
    ) -> Result<(), W::Error> {
        let mut order = ids.to_vec();
        for i in (1..order.len()).rev() {
            order.swap(i, self.below(i + 1));
        }
        order.iter().try_for_each(|id| self.inner.experts(layer, &[*id], arrived))
    }
}
