//! The short causal convolution in front of a KDA layer's q, k and v.
#![allow(unsafe_code)]

use crate::disjoint::{Disjoint, run_once, units_per_task};
use crate::lanes::slices::{load, store};
use crate::lanes::{LANES, Lanes, instantiate};
use crate::norm::row_count;
use crate::{Kernels, math};

/// The longest convolution; K3's is 4.
const MOST_TAPS: usize = 8;
/// Channels that are convolved together.
const WIDEST: usize = 256;

impl Kernels {
    /// Depthwise convolution over time, then SiLU (FLA `ShortConvolution`):
    ///
    /// ```text
    /// y(t)[c] = sum_{j = 0 .. taps-1} weight[c, j] · x(t - (taps-1) + j)[c]     ascending j, fma
    /// x(t)[c] <- y · sigmoid(y)
    /// ```
    ///
    /// `x` is `[T, C]`, rows before the convolution in, after it out. `weight` is `[C, taps]`; the
    /// last tap multiplies the current row; there are at most 8. `history` is `[taps-1, C]`, the rows before `x` as they
    /// were before the convolution, oldest first, zeros at the start of a text; it is left holding
    /// the last `taps-1` rows, so that T rows at once and one by one give the same.
    #[track_caller]
    pub fn short_conv(&self, weight: &[f32], taps: usize, history: &mut [f32], x: &mut [f32]) {
        assert!((1..=MOST_TAPS).contains(&taps), "{taps} taps");
        let channels = row_count(weight.len(), taps);
        assert_eq!(history.len(), (taps - 1) * channels, "history is [taps-1, channels]");
        let rows = row_count(x.len(), channels);
        let vectors = channels.div_ceil(LANES);
        let width = LANES * units_per_task(self.pool(), vectors, (rows + 3) * 16 * taps);
        let (history, x) = (Disjoint::new(history), Disjoint::new(x));
        run_once(self.pool(), channels.div_ceil(width), &|i| {
            let from = i * width;
            let shape = Strip { rows, channels, from, to: channels.min(from + width) };
            convolve_on(self.isa(), &shape, weight, taps, &history, &x);
        });
    }
}

/// The channels `from..to` of all rows: what one task convolves.
struct Strip {
    rows: usize,
    channels: usize,
    from: usize,
    to: usize,
}

impl Strip {
    fn width(&self) -> usize {
        self.to - self.from
    }

    /// Where the strip lies in row `row`.
    fn of_row(&self, row: usize) -> std::ops::Range<usize> {
        row * self.channels + self.from..row * self.channels + self.to
    }
}

instantiate! {
    fn convolve_on(
        strip: &Strip,
        weight: &[f32],
        taps: usize,
        history: &Disjoint<'_>,
        x: &Disjoint<'_>,
    ) = convolve_lanes;
}

#[inline(always)]
unsafe fn convolve_lanes<L: Lanes>(
    strip: &Strip,
    weight: &[f32],
    taps: usize,
    history: &Disjoint<'_>,
    x: &Disjoint<'_>,
) {
    for from in (strip.from..strip.to).step_by(WIDEST) {
        let part = Strip { from, to: strip.to.min(from + WIDEST), ..*strip };
        // SAFETY: the caller proves the instruction set.
        unsafe { convolve_strip::<L>(&part, weight, taps, history, x) };
    }
}

/// At most [`WIDEST`] channels: their weights fit the nearest cache, and the stack.
#[inline(always)]
unsafe fn convolve_strip<L: Lanes>(
    strip: &Strip,
    weight: &[f32],
    taps: usize,
    history: &Disjoint<'_>,
    x: &Disjoint<'_>,
) {
    let (past, width) = (taps - 1, strip.width());
    // Row `row` of history and x, one after the other.
    let before = |row: usize| {
        // SAFETY: strips of different tasks do not overlap; this task writes a row only while it
        // holds none of its parts.
        unsafe {
            if row < past {
                history.read(strip.of_row(row))
            } else {
                x.read(strip.of_row(row - past))
            }
        }
    };
    let mut by_tap = [0.0; MOST_TAPS * WIDEST];
    transpose(&weight[strip.from * taps..strip.to * taps], taps, &mut by_tap[..taps * width]);
    let mut next_history = [0.0; MOST_TAPS * WIDEST];
    for (i, kept) in next_history[..past * width].chunks_exact_mut(width).enumerate() {
        kept.copy_from_slice(before(strip.rows + i));
    }
    // The last row first: a row is overwritten when no later one needs it any more.
    for row in (0..strip.rows).rev() {
        let mut earlier: [&[f32]; MOST_TAPS] = [&[]; MOST_TAPS];
        for (i, earlier) in earlier[..past].iter_mut().enumerate() {
            *earlier = before(row + i);
        }
        // SAFETY: as in `before`, and `earlier` ends before this row; the instruction set is the
        // caller's.
        unsafe {
            let x = x.part(strip.of_row(row));
            convolve_row::<L>(&by_tap[..taps * width], &earlier[..past], x);
        }
    }
    for (row, kept) in next_history[..past * width].chunks_exact(width).enumerate() {
        // SAFETY: as in `before`.
        unsafe { history.part(strip.of_row(row)) }.copy_from_slice(kept);
    }
}

/// `[channels, taps]` to `[taps, channels]`.
fn transpose(weight: &[f32], taps: usize, by_tap: &mut [f32]) {
    let channels = weight.len() / taps;
    for (channel, weight) in weight.chunks_exact(taps).enumerate() {
        for (tap, weight) in weight.iter().enumerate() {
            by_tap[tap * channels + channel] = *weight;
        }
    }
}

/// One row in place. `by_tap` is `[taps, width]`; `earlier` holds the `taps-1` rows before it.
#[inline(always)]
unsafe fn convolve_row<L: Lanes>(by_tap: &[f32], earlier: &[&[f32]], row: &mut [f32]) {
    let width = row.len();
    let (past_taps, last_tap) = by_tap.split_at(earlier.len() * width);
    for (i, (x, last)) in row.chunks_mut(LANES).zip(last_tap.chunks(LANES)).enumerate() {
        // SAFETY: the caller proves the instruction set.
        unsafe {
            let mut y = L::splat(0.0);
            for (weight, earlier) in past_taps.chunks_exact(width).zip(earlier) {
                let (weight, earlier) = (&weight[i * LANES..], &earlier[i * LANES..]);
                y = L::fma(load::<L>(weight), load::<L>(earlier), y);
            }
            y = L::fma(load::<L>(last), load::<L>(x), y);
            store::<L>(L::mul(y, math::sigmoid::<L>(y)), x);
        }
    }
}
