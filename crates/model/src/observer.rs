//! Watching a pass from outside: progress, cancelling, and the values that references record.

use deltafin_spec::LayerId;
use std::ops::ControlFlow;

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

/// Watches a pass. All methods do nothing by default.
pub trait Observer {
    /// Called before each layer; `Break` stops the pass and spoils its state.
    fn layer(&mut self, _layer: LayerId) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Rows of width `hidden`, the first of which is row `first` of the pass.
    fn rows(&mut self, _layer: LayerId, _tap: Tap, _first: usize, _values: &[f32]) {}

    /// The experts chosen for row `row` of the pass, best first, and their weights.
    fn route(&mut self, _layer: LayerId, _row: usize, _experts: &[u32], _weights: &[f32]) {}
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}
