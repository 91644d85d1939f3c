//! Latent mixture of experts.
//!
//! ```text
//! z = W_down x                              the space experts work in
//! r = Σ_e w_e · expert_e(z)                 over the chosen experts, in ascending id
//! y = W_up rms(r) + shared(x)
//! ```
//!
//! Reads of experts begin as soon as the routes are known; the shared experts are computed meanwhile.
//!
//! **Order.** Experts are computed as they arrive, each into slots of its own, and added in
//! ascending id when a window of them is complete. A window is as many experts as the slots hold, so
//! memory is bounded for prompts of any length; where windows end changes no sum.

use crate::forward::{Step, range};
use crate::router::{RouterBuffers, choose};
use crate::weights::Moe;
use crate::workspace::{Workspace, sized};
use crate::{Forward, Observer, Part, Place, StepError, Weights};
use deltafin_kernels::{Product, add, add_scaled, sigmoid};
use deltafin_spec::{ExpertId, LayerId};
use std::ops::Range;

/// Expert rows whose outputs wait to be added. At K3's latent width 2048 rows are 29 MB.
const SLOT_ROWS: usize = 2048;

/// One row's use of one expert.
#[derive(Clone, Copy)]
struct Assignment {
    expert: ExpertId,
    row: u32,
    weight: f32,
}

/// Intermediates of one layer.
#[derive(Default)]
pub(crate) struct MoeBuffers {
    /// `[rows of a block, experts]`: logits, then scores.
    scores: Vec<f32>,
    correction: Vec<f32>,
    router: RouterBuffers,
    /// One row's choice.
    experts: Vec<u32>,
    weights: Vec<f32>,
    /// All rows' choices, by expert, then row.
    assignments: Vec<Assignment>,
    /// Distinct experts of all rows.
    wanted: Vec<ExpertId>,
    /// Distinct experts of one window, and where their assignments lie.
    window: Vec<ExpertId>,
    spans: Vec<Range<usize>>,
    /// `[rows, latent]`: the experts' input.
    latent: Vec<f32>,
    /// `[rows, latent]`: the weighted sum.
    sum: Vec<f32>,
    /// `[rows of an expert, latent]`.
    gathered: Vec<f32>,
    /// `[slots, latent]`: outputs of the window's experts.
    slots: Vec<f32>,
    /// `[rows of a block, latent]`.
    normed: Vec<f32>,
    norm: Vec<f32>,
    /// `[rows, hidden]`: the shared experts' output.
    shared: Vec<f32>,
}

impl<W: Weights> Forward<'_, W> {
    /// `ws.moe.sum = Σ_e w_e · expert_e(W_down x)` for all rows.
    pub(crate) fn routed_experts(
        &self,
        layer: LayerId,
        w: &Moe<'_>,
        rows: usize,
        ws: &mut Workspace,
        observer: &mut dyn Observer,
    ) -> Step<W::Error> {
        ws.moe.assignments.clear();
        for block in crate::forward::row_blocks(rows) {
            self.enter_latent(layer, w, block, rows, ws, observer)?;
        }
        observer.part(Part::Router);
        ws.moe.assignments.sort_unstable_by_key(|a| (a.expert, a.row));
        ws.moe.wanted.clear();
        ws.moe.wanted.extend(ws.moe.assignments.chunk_by(same_expert).map(|a| a[0].expert));
        self.weights.demand(layer, &ws.moe.wanted);
        self.predict(layer, rows, ws);
        observer.part(Part::Shared);
        self.shared_experts(layer, w, rows, ws)?;
        observer.part(Part::Experts);
        sized(&mut ws.moe.sum, rows * self.spec.moe.latent).fill(0.0);
        let mut done = 0;
        while done < ws.moe.assignments.len() {
            done = next_window(&mut ws.moe, done);
            self.window(layer, ws, observer)?;
        }
        Ok(())
    }

    /// `ws.moe.shared = shared(x)` for all rows.
    fn shared_experts(
        &self,
        layer: LayerId,
        w: &Moe<'_>,
        rows: usize,
        ws: &mut Workspace,
    ) -> Step<W::Error> {
        let hidden = self.spec.hidden;
        let shared = sized(&mut ws.moe.shared, rows * hidden);
        for block in crate::forward::row_blocks(rows) {
            let at = range(&block, hidden);
            let (x, out) = (&ws.normed[at.clone()], &mut shared[at]);
            if !self.glu(&w.shared, x, &mut ws.glu, &mut ws.scratch, out) {
                return Err(StepError::NotFinite { layer, place: Place::Ffn });
            }
        }
        Ok(())
    }

    /// Routes a block of rows and projects them into the latent space.
    fn enter_latent(
        &self,
        layer: LayerId,
        w: &Moe<'_>,
        block: Range<usize>,
        rows: usize,
        ws: &mut Workspace,
        observer: &mut dyn Observer,
    ) -> Step<W::Error> {
        let spec = &self.spec.moe;
        observer.part(Part::FfnSpine);
        let x = &ws.normed[range(&block, self.spec.hidden)];
        let b = &mut ws.moe;
        let scores = sized(&mut b.scores, block.len() * spec.experts);
        let latent = &mut sized(&mut b.latent, rows * spec.latent)[range(&block, spec.latent)];
        self.kernels.products(
            &mut ws.scratch,
            &mut [Product { w: w.router, x, y: scores }, Product { w: w.to_latent, x, y: latent }],
        );
        self.finite(scores, layer, Place::Router)?;
        self.finite(latent, layer, Place::Ffn)?;
        observer.part(Part::Router);
        sigmoid(self.kernels.isa(), scores);
        let correction = sized(&mut b.correction, spec.experts);
        w.correction.read(correction);
        self.finite(correction, layer, Place::Router)?;
        b.experts.resize(spec.top_k, 0);
        b.weights.resize(spec.top_k, 0.0);
        for (row, scores) in block.zip(scores.chunks_exact(spec.experts)) {
            choose(spec, scores, correction, &mut b.router, &mut b.experts, &mut b.weights);
            observer.route(layer, row, &b.experts, &b.weights);
            b.assignments.extend(b.experts.iter().zip(&b.weights).map(|(&expert, &weight)| {
                Assignment { expert: ExpertId::new(expert), row: row as u32, weight }
            }));
        }
        Ok(())
    }

    /// Computes the window's experts as they arrive and adds them in order.
    fn window(
        &self,
        layer: LayerId,
        ws: &mut Workspace,
        observer: &mut dyn Observer,
    ) -> Step<W::Error> {
        let width = self.spec.moe.latent;
        let b = &mut ws.moe;
        let Some(first) = b.spans.first().map(|s| s.start) else { return Ok(()) };
        let used = b.spans.last().map_or(first, |s| s.end) - first;
        let slots = sized(&mut b.slots, used * width);
        let mut damaged = None;
        observer.part(Part::ExpertWait);
        let arrived = &mut |id: ExpertId, expert: crate::Expert<'_>| {
            let Ok(i) = b.window.binary_search(&id) else { return };
            observer.part(Part::Experts);
            let span = b.spans[i].clone();
            let gathered = sized(&mut b.gathered, span.len() * width);
            for (a, x) in b.assignments[span.clone()].iter().zip(gathered.chunks_exact_mut(width)) {
                x.copy_from_slice(&b.latent[a.row as usize * width..][..width]);
            }
            let out = &mut slots[(span.start - first) * width..(span.end - first) * width];
            if !self.glu(&expert, gathered, &mut ws.glu, &mut ws.scratch, out) {
                damaged = Some(id);
            }
            observer.part(Part::ExpertWait);
        };
        self.weights.experts(layer, &b.window, arrived).map_err(StepError::Weights)?;
        observer.part(Part::Experts);
        if let Some(id) = damaged {
            return Err(StepError::NotFinite { layer, place: Place::Expert(id) });
        }
        for (a, y) in b.assignments[first..first + used].iter().zip(slots.chunks_exact(width)) {
            let sum = &mut b.sum[a.row as usize * width..][..width];
            add_scaled(self.kernels.isa(), sum, y, a.weight);
        }
        Ok(())
    }

    /// `ws.out = W_up rms(r) + shared(x)` for a block of rows.
    pub(crate) fn leave_latent(&self, w: &Moe<'_>, block: Range<usize>, ws: &mut Workspace) {
        let (spec, n) = (&self.spec.moe, block.len());
        let b = &mut ws.moe;
        let out = sized(&mut ws.out, n * self.spec.hidden);
        let sum = &b.sum[range(&block, spec.latent)];
        let normed = sized(&mut b.normed, n * spec.latent);
        match w.latent_norm {
            Some(norm) => {
                let weight = sized(&mut b.norm, spec.latent);
                norm.read(weight);
                self.kernels.rms_norm_rows(sum, weight, self.spec.rms_eps, normed);
            }
            None => normed.copy_from_slice(sum),
        }
        self.kernels
            .products(&mut ws.scratch, &mut [Product { w: w.from_latent, x: normed, y: out }]);
        add(self.kernels.isa(), out, &b.shared[range(&block, self.spec.hidden)]);
    }
}

fn same_expert(a: &Assignment, b: &Assignment) -> bool {
    a.expert == b.expert
}

/// Fills the window with the experts whose assignments begin at `from`, as many as the slots hold and
/// at least one; returns where the next window begins.
fn next_window(b: &mut MoeBuffers, from: usize) -> usize {
    b.window.clear();
    b.spans.clear();
    let mut start = from;
    while start < b.assignments.len() {
        let expert = b.assignments[start].expert;
        let len = b.assignments[start..].iter().take_while(|a| a.expert == expert).count();
        if start > from && start + len - from > SLOT_ROWS {
            break;
        }
        b.window.push(expert);
        b.spans.push(start..start + len);
        start += len;
    }
    start
}
