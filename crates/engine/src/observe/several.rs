//! Any number of observers of the same passes.

use deltafin_model::{Observer, Part, PassPlan, Tap};
use deltafin_spec::LayerId;
use std::ops::ControlFlow;

/// Shows everything to all, in order. Any of them stops the pass, and those behind it are not asked.
#[derive(Default)]
pub struct Several<'e>(Vec<Box<dyn Observer + 'e>>);

impl<'e> Several<'e> {
    /// One more.
    pub fn add(&mut self, observer: Box<dyn Observer + 'e>) {
        self.0.push(observer);
    }
}

impl Observer for Several<'_> {
    fn pass(&mut self, position: usize, pass: PassPlan) {
        self.0.iter_mut().for_each(|observer| observer.pass(position, pass));
    }

    fn part(&mut self, part: Part) {
        self.0.iter_mut().for_each(|observer| observer.part(part));
    }

    fn layer(&mut self, layer: LayerId) -> ControlFlow<()> {
        self.0.iter_mut().try_for_each(|observer| observer.layer(layer))
    }

    fn rows(&mut self, layer: LayerId, tap: Tap, first: usize, values: &[f32]) {
        self.0.iter_mut().for_each(|observer| observer.rows(layer, tap, first, values));
    }

    fn route(&mut self, layer: LayerId, row: usize, experts: &[u32], weights: &[f32]) {
        self.0.iter_mut().for_each(|observer| observer.route(layer, row, experts, weights));
    }
}
