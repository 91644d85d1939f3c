//! What the machine can do at best, in the instructions the kernels use: the yardsticks of their
//! measurements.
#![allow(unsafe_code)]

use crate::lanes::{LANES, Lanes, instantiate};

/// Bytes of a step of [`read_all`].
const STEP: usize = 256;

instantiate! {
    /// Reads `bytes` (but for a rest shorter than 256) from front to back and returns a digest of
    /// them, so that the reading cannot be left out. Asks for the line `ahead` bytes ahead; 0 leaves
    /// that to the hardware.
    pub fn read_all(bytes: &[u8], ahead: usize) -> f32 = read_all_lanes;
}

instantiate! {
    /// Does `rounds` rounds of [`MACS_PER_ROUND`] independent fused multiply-adds by `factor`, which
    /// the compiler must not know.
    pub fn multiply_add(rounds: usize, factor: f32) -> f32 = multiply_add_lanes;
}

/// Sums kept at a time: enough to hide the latency, few enough for 16 registers of eight lanes.
const SUMS: usize = 6;

/// Multiply-adds of a round of [`multiply_add`].
pub const MACS_PER_ROUND: usize = SUMS * LANES;

#[inline(always)]
unsafe fn read_all_lanes<L: Lanes>(bytes: &[u8], ahead: usize) -> f32 {
    // SAFETY: a step is four times sixteen floats within the slice; a prefetch cannot fault.
    unsafe {
        let mut digest = [L::splat_i(0); STEP / 64];
        for step in bytes.chunks_exact(STEP) {
            for (i, digest) in digest.iter_mut().enumerate() {
                let line = step.as_ptr().add(64 * i);
                if ahead > 0 {
                    L::prefetch(line.wrapping_add(ahead));
                }
                *digest = L::or_i(*digest, L::bits(L::load(line.cast())));
            }
        }
        let [a, b, c, d] = digest;
        L::fold(L::from_bits(L::or_i(L::or_i(a, b), L::or_i(c, d))))
    }
}

#[inline(always)]
unsafe fn multiply_add_lanes<L: Lanes>(rounds: usize, factor: f32) -> f32 {
    // SAFETY: arithmetic alone.
    unsafe {
        let (a, b) = (L::splat(factor), L::splat(0.001));
        let mut sums = [L::splat(1.0); SUMS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = L::fma(*sum, a, b);
            }
        }
        sums.into_iter().fold(0.0, |total, sum| total + L::fold(sum))
    }
}
