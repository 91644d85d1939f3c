//! Watching a pass from outside: progress, cancelling, and the values that references record.

use crate::PassPlan;
use deltafin_spec::LayerId;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

/// Which rows of a layer are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tap {
    /// The normed input of the attention.
    AttentionIn,
    /// The attention's output, after its output projection.
    AttentionOut,
    /// The normed input of the feed-forward.
    FfnIn,
    /// The feed-forward's output.
    FfnOut,
    /// The running sum after the layer.
    Hidden,
}

/// What the time of a pass goes to. A layer's first half ends where its first `Ffn…` part begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Nothing of a pass: it is over, or has not begun.
    Outside,
    /// Rows of the embedding.
    Embedding,
    /// Getting half of a layer's spine, or the output head.
    SpineWait,
    /// Mix, norm and projections of the attention.
    AttentionSpine,
    /// What lies between its projections: convolution and recurrence, or scores and values.
    Attention,
    /// Mix and norm of the feed-forward, and all of a dense one; the router's scores and the
    /// projections into the latent space and out of it.
    FfnSpine,
    /// From scores to routes, and the guess at the next layer's.
    Router,
    /// The shared experts.
    Shared,
    /// Getting routed experts.
    ExpertWait,
    /// Computing and adding them.
    Experts,
    /// The final mix and norm, and the output head.
    Head,
}

impl Part {
    /// Every part, in the order of their numbers (`part as usize`).
    pub const ALL: [Part; 11] = [
        Part::Outside,
        Part::Embedding,
        Part::SpineWait,
        Part::AttentionSpine,
        Part::Attention,
        Part::FfnSpine,
        Part::Router,
        Part::Shared,
        Part::ExpertWait,
        Part::Experts,
        Part::Head,
    ];

    /// What it is called where people read it.
    pub fn name(self) -> &'static str {
        match self {
            Part::Outside => "outside",
            Part::Embedding => "embedding",
            Part::SpineWait => "spine wait",
            Part::AttentionSpine => "attention spine",
            Part::Attention => "attention",
            Part::FfnSpine => "feed-forward spine",
            Part::Router => "router",
            Part::Shared => "shared experts",
            Part::ExpertWait => "expert wait",
            Part::Experts => "experts",
            Part::Head => "head",
        }
    }
}

/// Watches a pass. All methods do nothing by default.
pub trait Observer {
    /// A pass begins, the first row of which stands at `position` of the sequence.
    fn pass(&mut self, _position: usize, _pass: PassPlan) {}

    /// What follows, up to the next call, is `part`. Parts come back: once per block of rows, window of
    /// experts or expert.
    fn part(&mut self, _part: Part) {}

    /// Called before each layer; `Break` stops the pass and spoils its state.
    fn layer(&mut self, _layer: LayerId) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Rows of width `hidden`, the first of which is row `first` of the pass.
    fn rows(&mut self, _layer: LayerId, _tap: Tap, _first: usize, _values: &[f32]) {}

    /// The experts chosen for row `row` of the pass, best first, and their weights.
    fn route(&mut self, _layer: LayerId, _row: usize, _experts: &[u32], _weights: &[f32]) {}
}

/// One that its owner keeps hold of, to ask it afterwards.
impl<O: Observer> Observer for Rc<RefCell<O>> {
    fn pass(&mut self, position: usize, pass: PassPlan) {
        self.borrow_mut().pass(position, pass);
    }

    fn part(&mut self, part: Part) {
        self.borrow_mut().part(part);
    }

    fn layer(&mut self, layer: LayerId) -> ControlFlow<()> {
        self.borrow_mut().layer(layer)
    }

    fn rows(&mut self, layer: LayerId, tap: Tap, first: usize, values: &[f32]) {
        self.borrow_mut().rows(layer, tap, first, values);
    }

    fn route(&mut self, layer: LayerId, row: usize, experts: &[u32], weights: &[f32]) {
        self.borrow_mut().route(layer, row, experts, weights);
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}
