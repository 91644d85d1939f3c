//! The buffers of a pass, by its rows.
//!
//! A sum over the buffers that the `model` crate keeps in its workspace, with the products' packed
//! activations. Each line names the buffer it stands for. Where a size depends on the routes, it is
//! the largest there can be: every row may go to the same expert.

use deltafin_spec::{FfnKind, LayerKind, ModelSpec};

/// Rows of one attention or dense feed-forward step; wide intermediates are this long at most.
const ROW_BLOCK: u64 = 128;
/// Expert rows whose outputs wait to be added.
const SLOT_ROWS: u64 = 2048;
/// Rows whose logits are computed at once where all rows' are wanted.
const LOGIT_ROWS: u64 = 16;
/// Bytes of one row's use of one expert.
const ASSIGNMENT: u64 = 12;
/// Bytes of an `f32`.
const F32: u64 = 4;
/// Buffers whose sizes follow the routes grow in steps, to twice what is needed at most; measured, that
/// is up to a fifteenth of the whole. An eighth is kept for it.
const GROWTH: u64 = 8;
/// Lists of jobs, windows and ids.
const LISTS: u64 = 64 << 10;

/// Bytes of a pass's buffers as a function of its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Workspace {
    /// Bytes that every pass needs.
    base: u64,
    /// Bytes per row of the pass.
    per_row: u64,
    /// Bytes per row of a block.
    per_block_row: u64,
    /// Bytes per row whose logits are wanted.
    per_logits: u64,
    /// Bytes per expert row that waits.
    per_slot: u64,
    /// Experts of a row.
    top_k: u64,
    /// Bytes per row of the two halves of a gated MLP: of a block, and of an expert.
    glu: [u64; 2],
    /// Bytes per row of packed activations: of a block, and of an expert.
    packed: [u64; 2],
}

impl Workspace {
    /// The buffers that a model of these dimensions needs.
    pub fn of(spec: &ModelSpec) -> Workspace {
        let moe = if spec.count_ffn(FfnKind::Moe) > 0 { spec.moe.latent as u64 } else { 0 };
        Workspace {
            base: base(spec) * F32 + LISTS,
            per_row: per_row(spec, moe) * F32 + spec.moe.top_k as u64 * ASSIGNMENT,
            per_block_row: per_block_row(spec, moe) * F32,
            per_logits: spec.vocab as u64 * F32,
            per_slot: moe * F32,
            top_k: spec.moe.top_k as u64,
            glu: [2 * F32 * block_width(spec), 2 * F32 * spec.moe.width as u64],
            packed: [F32 * packed_block(spec), F32 * padded(moe.max(spec.moe.width as u64))],
        }
    }

    /// A workspace that takes these bytes, whatever its dimensions would say; for tests.
    pub fn linear(base: u64, per_row: u64) -> Workspace {
        Workspace {
            base,
            per_row,
            per_block_row: 0,
            per_logits: 0,
            per_slot: 0,
            top_k: 0,
            glu: [0, 0],
            packed: [0, 0],
        }
    }

    /// Bytes of a pass of `rows` rows. Never less for more rows.
    pub fn bytes(&self, rows: usize) -> u64 {
        let rows = rows as u64;
        let block = rows.min(ROW_BLOCK);
        let slots = rows.saturating_mul(self.top_k).min(rows.max(SLOT_ROWS));
        let widest = |[block_row, expert_row]: [u64; 2]| {
            block.saturating_mul(block_row).max(rows.saturating_mul(expert_row))
        };
        // The last row's, and those of a few rows where all are wanted.
        let logits = 1 + rows.min(LOGIT_ROWS);
        let bytes = [
            self.base,
            rows.saturating_mul(self.per_row),
            block * self.per_block_row,
            logits * self.per_logits,
            slots.saturating_mul(self.per_slot),
            widest(self.glu),
            widest(self.packed),
        ]
        .into_iter()
        .fold(0, u64::saturating_add);
        bytes.saturating_add(bytes / GROWTH)
    }
}

/// Vectors that have one row whatever the pass: norms, scores, convolution weights, biases.
fn base(spec: &ModelSpec) -> u64 {
    let (kda, mla) = (&spec.kda, &spec.mla);
    let norm = spec.hidden.max(mla.q_lora).max(mla.kv_lora) + 3 * spec.hidden;
    let kda = kda.channels() * (kda.conv_kernel + 1) + kda.heads + kda.head_dim;
    let moe = 6 * spec.moe.experts + spec.moe.latent;
    (norm + kda + moe) as u64
}

/// Values that every row of a pass keeps: the sum, the stored block sums, the normed input and the
/// final row; the experts' input, sum and gathered rows, and the shared experts' output.
fn per_row(spec: &ModelSpec, latent: u64) -> u64 {
    let blocks = spec.layers.len().div_ceil(spec.attn_res_block.max(1));
    let shared = usize::from(latent > 0);
    // The block sums grow by doubling.
    let hidden_rows = 3 + shared + blocks.next_power_of_two();
    hidden_rows as u64 * spec.hidden as u64 + 3 * latent
}

/// Values of one row of a block: the mix and the output of a sublayer, the attention's intermediates,
/// the router's scores and the latent norm, and for the guess at the next layer's routes a mix, its
/// norm and scores. The kinds of layers have buffers of their own, so they add up.
fn per_block_row(spec: &ModelSpec, latent: u64) -> u64 {
    let (kda, mla) = (&spec.kda, &spec.mla);
    let kda_row = 6 * kda.channels() + kda.head_dim + kda.heads;
    let q = 2 * mla.q_lora + mla.heads * mla.qk_head();
    let mla_row = q + mla.cache_width() + 2 * mla.heads * mla.kv_lora + 2 * mla.out_width();
    let has = |kind| spec.count_attention(kind) > 0;
    let attention =
        [(LayerKind::Kda, kda_row), (LayerKind::Mla, mla_row)].into_iter().filter(|(k, _)| has(*k));
    let attention: usize = attention.map(|(_, values)| values).sum();
    let moe = if latent > 0 { 2 * (spec.hidden + spec.moe.experts) } else { 0 };
    (2 * spec.hidden + attention + moe) as u64 + latent
}

/// The widest inner layer that works block by block.
fn block_width(spec: &ModelSpec) -> u64 {
    let dense = if spec.count_ffn(FfnKind::Dense) > 0 { spec.dense_width } else { 0 };
    dense.max(spec.moe.shared_width()) as u64
}

/// Values of one row of a block in the order of the kernels: of the call that has most of them.
fn packed_block(spec: &ModelSpec) -> u64 {
    let (kda, mla) = (&spec.kda, &spec.mla);
    // Each head of the expansion of latents has activations of its own.
    let expansion = mla.heads as u64 * padded(mla.kv_lora as u64);
    let single = [spec.hidden, kda.channels(), mla.q_lora, mla.out_width(), spec.moe.latent];
    let single = single.into_iter().map(|width| padded(width as u64));
    let widest = single.chain([padded(block_width(spec)), expansion]).max();
    widest.unwrap_or(0)
}

/// Columns are packed in blocks of 32.
fn padded(columns: u64) -> u64 {
    columns.next_multiple_of(32)
}
