//! The buffers of a pass. They grow to the largest pass seen and are then reused: a decode loop
//! allocates nothing.

use crate::moe::MoeBuffers;
use crate::predict::PredictBuffers;
use crate::{kda::KdaBuffers, mla::MlaBuffers};
use deltafin_kernels::Scratch;

/// Rows of one attention or dense feed-forward step. More rows than this are done block by block, so
/// that the wide intermediates stay small however long the prompt is; results do not depend on it.
pub(crate) const ROW_BLOCK: usize = 128;

/// The buffers of a pass; make one and keep it.
#[derive(Default)]
pub struct Workspace {
    /// The running sum `p`, `[rows, hidden]`.
    pub(crate) sum: Vec<f32>,
    /// The stored block sums of the attention residuals, `[block][rows, hidden]`.
    pub(crate) blocks: Vec<f32>,
    /// How many of them are in use.
    pub(crate) block_count: usize,
    /// The mix that enters a sublayer, `[rows of a block, hidden]`.
    pub(crate) mixed: Vec<f32>,
    /// The normed input of a sublayer, `[rows, hidden]`.
    pub(crate) normed: Vec<f32>,
    /// The output of a sublayer, `[rows of a block, hidden]`.
    pub(crate) out: Vec<f32>,
    /// A norm's weights, `[hidden]` at most.
    pub(crate) norm: Vec<f32>,
    /// A mix's folded score weights, `[hidden]`.
    pub(crate) score: Vec<f32>,
    /// The final hidden rows, `[rows, hidden]`.
    pub(crate) last: Vec<f32>,
    /// Gate and up halves of a gated MLP, `[rows of a block, width]`.
    pub(crate) glu: [Vec<f32>; 2],
    pub(crate) kda: KdaBuffers,
    pub(crate) mla: MlaBuffers,
    pub(crate) moe: MoeBuffers,
    pub(crate) predict: PredictBuffers,
    pub(crate) scratch: Scratch,
}

impl Workspace {
    /// Empty buffers.
    pub fn new() -> Workspace {
        Workspace::default()
    }

    /// The final hidden rows of the last pass, after the final mix and norm, `[rows, hidden]`.
    pub fn last_hidden(&self) -> &[f32] {
        &self.last
    }
}

/// `buffer` as `len` values whose contents are whatever was there; grows at most once per size.
pub(crate) fn sized(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    &mut buffer[..len]
}
