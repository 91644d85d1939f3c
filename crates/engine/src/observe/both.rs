//! Two observers of one pass.

use deltafin_model::{Observer, Part, PassPlan, Tap};
use deltafin_spec::LayerId;
use std::ops::ControlFlow;

/// Shows everything to both. Either stops the pass.
pub(crate) struct Both<'a>(pub(crate) &'a mut dyn Observer, pub(crate) &'a mut dyn Observer);

impl Observer for Both<'_> {
    fn pass(&mut self, position: usize, pass: PassPlan) {
        self.0.pass(position, pass);
        self.1.pass(position, pass);
    }

    fn part(&mut self, part: Part) {
        self.0.part(part);
        self.1.part(part);
    }

    fn layer(&mut self, layer: LayerId) -> ControlFlow<()> {
        self.0.layer(layer)?;
        self.1.layer(layer)
    }

    fn rows(&mut self, layer: LayerId, tap: Tap, first: usize, values: &[f32]) {
        self.0.rows(layer, tap, first, values);
        self.1.rows(layer, tap, first, values);
    }

    fn route(&mut self, layer: LayerId, row: usize, experts: &[u32], weights: &[f32]) {
        self.0.route(layer, row, experts, weights);
        self.1.route(layer, row, experts, weights);
    }
}
