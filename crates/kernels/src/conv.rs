//! The short causal convolution in front of a KDA layer's q, k and v.
#![allow(unsafe_code)]

use crate::disjoint::{Disjoint, run_once, units_per_task};
use crate::lanes::slices::{load, store};
use crate::lanes::{LANES, Lanes, instantiate};
use crate::norm::row_count;
use crate::{Kernels, math};

impl Kernels {
    /// Depthwise convolution over time, then SiLU (FLA `ShortConvolution`):
    ///
    /// ```text
    /// y(t)[c] = sum_{j = 0 .. taps-1} weight[c, j] · x(t - (taps-1) + j)[c]     ascending j, fma
    /// x(t)[c] <- y · sigmoid(y)
    /// ```
    ///
    /// `x` is `[T, C]`, rows before the convolution in, after it out. `weight` is `[C, taps]`; the
    /// last tap multiplies the current row. `history` is `[taps-1, C]`, the rows before `x` as they
    /// were before the convolution, oldest first, zeros at the start of a text; it is left holding
    /// the last `taps-1` rows, so that T rows at once and one by one give the same.
    #[track_caller]
    pub fn short_conv(&self, weight: &[f32], taps: usize, history: &mut [f32], x: &mut [f32]) {
        let channels = row_count(weight.len(), taps);
        assert_eq!(history.len(), (taps - 1) * channels, "history is [taps-1, channels]");
        let rows = row_count(x.len(), channels);
        let vectors = channels.div_ceil(LANES);
        let width = LANES * units_per_task(self.pool(), vectors, (rows + 4) * (taps + 8));
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
    let past = taps - 1;
    let by_tap = transposed(&weight[strip.from * taps..strip.to * taps], taps);
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
    let mut next_history = Vec::with_capacity(past * strip.width());
    for row in strip.rows..strip.rows + past {
        next_history.extend_from_slice(before(row));
    }
    // The last row first: a row is overwritten when no later one needs it any more.
    let mut sums = vec![0.0; strip.width()];
    for row in (0..strip.rows).rev() {
        sums.fill(0.0);
        for (tap, weight) in by_tap.chunks_exact(strip.width()).enumerate() {
            // SAFETY: the caller proves the instruction set.
            unsafe { multiply_add::<L>(&mut sums, before(row + tap), weight) };
        }
        // SAFETY: as in `before`; the caller proves the instruction set.
        unsafe { silu::<L>(&sums, x.part(strip.of_row(row))) };
    }
    for (row, kept) in next_history.chunks_exact(strip.width()).enumerate() {
        // SAFETY: as in `before`.
        unsafe { history.part(strip.of_row(row)) }.copy_from_slice(kept);
    }
}

/// `[channels, taps]` as `[taps, channels]`.
fn transposed(weight: &[f32], taps: usize) -> Vec<f32> {
    let channels = weight.len() / taps;
    let mut by_tap = vec![0.0; weight.len()];
    for (channel, weight) in weight.chunks_exact(taps).enumerate() {
        for (tap, weight) in weight.iter().enumerate() {
            by_tap[tap * channels + channel] = *weight;
        }
    }
    by_tap
}

/// `sums = fma(weight, x, sums)`.
#[inline(always)]
unsafe fn multiply_add<L: Lanes>(sums: &mut [f32], x: &[f32], weight: &[f32]) {
    for ((sum, x), w) in sums.chunks_mut(LANES).zip(x.chunks(LANES)).zip(weight.chunks(LANES)) {
        // SAFETY: the caller proves the instruction set.
        unsafe { store::<L>(L::fma(load::<L>(w), load::<L>(x), load::<L>(sum)), sum) }
    }
}

/// `out = y · sigmoid(y)`.
#[inline(always)]
unsafe fn silu<L: Lanes>(y: &[f32], out: &mut [f32]) {
    for (y, out) in y.chunks(LANES).zip(out.chunks_mut(LANES)) {
        // SAFETY: the caller proves the instruction set.
        unsafe {
            let y = load::<L>(y);
            store::<L>(L::mul(y, math::sigmoid::<L>(y)), out);
        }
    }
}
