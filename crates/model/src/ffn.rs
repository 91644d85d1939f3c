//! Gated MLPs: `down · situ(gate·x, up·x)`, dense and shared.

use crate::forward::{Step, range};
use crate::weights::Glu;
use crate::workspace::{Workspace, sized};
use crate::{Forward, Place, StepError, Weights};
use deltafin_kernels::{Product, Scratch, all_finite};
use deltafin_spec::LayerId;
use std::ops::Range;

impl<W: Weights> Forward<'_, W> {
    /// `ws.out = mlp(ws.normed[rows])`.
    pub(crate) fn dense(
        &self,
        layer: LayerId,
        w: &Glu<'_>,
        rows: Range<usize>,
        ws: &mut Workspace,
    ) -> Step<W::Error> {
        let x = &ws.normed[range(&rows, self.spec.hidden)];
        let out = sized(&mut ws.out, rows.len() * self.spec.hidden);
        let finite = self.glu(w, x, &mut ws.glu, &mut ws.scratch, out);
        if finite { Ok(()) } else { Err(StepError::NotFinite { layer, place: Place::Ffn }) }
    }

    /// `out = mlp(x)`; false when a value before the activation is not finite. The activation is
    /// bounded and would turn an infinity into an ordinary number.
    #[must_use]
    pub(crate) fn glu(
        &self,
        w: &Glu<'_>,
        x: &[f32],
        [gate, up]: &mut [Vec<f32>; 2],
        scratch: &mut Scratch,
        out: &mut [f32],
    ) -> bool {
        let width = x.len() / w.gate.cols() * w.gate.rows();
        let (gate, up) = (sized(gate, width), sized(up, width));
        self.kernels.products(
            scratch,
            &mut [Product { w: w.gate, x, y: gate }, Product { w: w.up, x, y: up }],
        );
        let isa = self.kernels.isa();
        if !(all_finite(isa, gate) && all_finite(isa, up)) {
            return false;
        }
        let situ = &self.spec.situ;
        self.kernels.situ_all(gate, up, situ.beta, situ.linear_beta);
        self.kernels.products(scratch, &mut [Product { w: w.down, x: gate, y: out }]);
        all_finite(isa, out)
    }
}
