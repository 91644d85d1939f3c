//! Causal attention over the latent cache of an MLA layer, in blocks of positions.
//!
//! For every (head, row) pair the softmax is computed on the fly: a running maximum, a running sum of
//! exponentials and the weighted sum of cache rows so far, rescaled when the maximum grows. Blocks
//! begin at absolute positions and are taken in ascending order, so a result depends on the row's
//! position and never on how many rows, heads or threads worked beside it.
//!
//! ```text
//! block b:  s_i = ((q_latent · c_i) + (q_pe · k_pe_i)) · scale      i in 64 b .. 64 b + 64, i <= row
//!           m'  = max(m, max s_i),  f = exp(m - m')
//!           p_i = exp(s_i - m')
//!           sum = fma(sum, f, fold(p_0.. + p_16.. + p_32.. + p_48..))
//!           acc = acc · f, then fma(p_i, c_i, acc) in ascending i
//! out = acc · (1 / sum)
//! ```
#![allow(unsafe_code)]

mod block;

use crate::disjoint::{run_chunks, units_per_task};
use crate::lanes::{Lanes, instantiate};
use crate::norm::row_count;
use crate::{Kernels, LatentDims};
use block::{Running, attend_block};

/// How many positions are rescaled together. Part of the definition: another length gives other bits.
pub const POSITIONS_PER_BLOCK: usize = 64;

/// Pairs that walk the cache together: their queries, sums and a block of the cache (128 KB + 16 KB
/// for 512 latent values) stay in the second-level cache.
const MOST_PAIRS_PER_TASK: usize = 64;

impl Kernels {
    /// Attention of `T` rows that sit at positions `first..first + T` over cache rows `0..=` their own
    /// (Kimi K3 technical report, section 2.1.2, with the key and value projections absorbed).
    ///
    /// - `q` is `[T, heads, nope + rope]`; the last `rope` values of a head meet `k_pe`.
    /// - `q_latent` is `[heads, T, latent]`: the `nope` part, taken through the key projection.
    /// - `c` is `[S, latent]` and `k_pe` is `[S, rope]`, with `S >= first + T`.
    /// - `out` is `[heads, T, latent]`: the softmax-weighted sum of `c`.
    ///
    /// A score is one dot product over `latent` and then `rope`, in the same sixteen lanes (each part
    /// starts at lane 0), folded once, times `scale`.
    #[track_caller]
    #[allow(clippy::too_many_arguments)]
    pub fn latent_attention(
        &self,
        dims: &LatentDims,
        q: &[f32],
        q_latent: &[f32],
        c: &[f32],
        k_pe: &[f32],
        first: usize,
        scale: f32,
        out: &mut [f32],
    ) {
        let LatentDims { heads, nope, rope, latent, .. } = *dims;
        let rows = row_count(out.len(), heads * latent);
        assert_eq!(q.len(), rows * heads * (nope + rope), "q is [T, heads, nope + rope]");
        assert_eq!(q_latent.len(), out.len(), "q_latent is [heads, T, latent]");
        let positions = row_count(c.len(), latent);
        assert_eq!(k_pe.len(), positions * rope, "k_pe is [S, rope]");
        assert!(positions >= first + rows, "the cache ends before the last row");

        let cost = (first + rows) * (2 * latent + rope) / 16;
        let pairs = units_per_task(self.pool(), rows * heads, cost);
        let pairs = pairs.next_multiple_of(4).min(MOST_PAIRS_PER_TASK);
        let attention = Attention { dims, q, q_latent, c, k_pe, rows, first, scale };
        run_chunks(self.pool(), out, pairs * latent, &|i, out| {
            attend_on(self.isa(), &attention, i * pairs, out);
        });
    }
}

/// The operands of one call. A pair is `head * rows + row`, its place in `q_latent` and `out`.
struct Attention<'a> {
    dims: &'a LatentDims,
    q: &'a [f32],
    q_latent: &'a [f32],
    c: &'a [f32],
    k_pe: &'a [f32],
    rows: usize,
    first: usize,
    scale: f32,
}

impl<'a> Attention<'a> {
    /// How many cache rows the pair sees.
    fn visible(&self, pair: usize) -> usize {
        self.first + pair % self.rows + 1
    }

    fn latent_query(&self, pair: usize) -> &'a [f32] {
        &self.q_latent[pair * self.dims.latent..][..self.dims.latent]
    }

    fn rope_query(&self, pair: usize) -> &'a [f32] {
        let (head, row) = (pair / self.rows, pair % self.rows);
        let width = self.dims.nope + self.dims.rope;
        &self.q[(row * self.dims.heads + head) * width..][self.dims.nope..width]
    }

    fn latent_key(&self, position: usize) -> &'a [f32] {
        &self.c[position * self.dims.latent..][..self.dims.latent]
    }

    fn rope_key(&self, position: usize) -> &'a [f32] {
        &self.k_pe[position * self.dims.rope..][..self.dims.rope]
    }
}

instantiate! {
    fn attend_on(attention: &Attention<'_>, from: usize, out: &mut [f32]) = attend_lanes;
}

/// The pairs from `from` on whose results `out` has room for, block by block.
#[inline(always)]
unsafe fn attend_lanes<L: Lanes>(attention: &Attention<'_>, from: usize, out: &mut [f32]) {
    let latent = attention.dims.latent;
    let pairs = out.len() / latent;
    let longest = (from..from + pairs).map(|pair| attention.visible(pair)).max().unwrap_or(0);
    let mut running = [Running::START; MOST_PAIRS_PER_TASK];
    let running = &mut running[..pairs];
    out.fill(0.0);
    for base in (0..longest).step_by(POSITIONS_PER_BLOCK) {
        // SAFETY: the caller proves the instruction set.
        unsafe { all_pairs::<L>(attention, base, from, running, out) };
    }
    for (state, out) in running.iter().zip(out.chunks_exact_mut(latent)) {
        // SAFETY: the caller proves the instruction set.
        unsafe { block::rescale::<L>(out, 1.0 / state.sum) };
    }
}

/// One block for all pairs of a task, as many together as the registers hold.
#[inline(always)]
unsafe fn all_pairs<L: Lanes>(
    attention: &Attention<'_>,
    base: usize,
    from: usize,
    running: &mut [Running],
    out: &mut [f32],
) {
    let together = if L::REGISTERS >= 32 { 4 } else { 2 };
    let groups = running.chunks_mut(together).zip(out.chunks_mut(together * attention.dims.latent));
    for (group, (running, out)) in groups.enumerate() {
        let pair = from + group * together;
        // SAFETY: the caller proves the instruction set.
        unsafe {
            match running.len() {
                4 => attend_block::<L, 4, 4>(attention, base, pair, running, out),
                2 => attend_block::<L, 2, 2>(attention, base, pair, running, out),
                _ => {
                    let each = running.chunks_mut(1).zip(out.chunks_mut(attention.dims.latent));
                    for (i, (running, out)) in each.enumerate() {
                        attend_block::<L, 1, 4>(attention, base, pair + i, running, out);
                    }
                }
            }
        }
    }
}
