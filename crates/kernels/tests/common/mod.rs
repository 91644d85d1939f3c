//! Seeded inputs, comparisons, and a pool that runs tasks in a bad order on real threads.
//!
//! Every kernel is compared with a twin in f64, and on every instruction set and several pools with
//! the scalar one, bit for bit; shapes and contents (subnormal, of every exponent, any bits) are swept
//! from fixed seeds and chosen by proptest:
//!
//! | kernels | twin in f64 and equality of bits |
//! |---|---|
//! | `products`: every format, scale and number of positions | `src/products/tests` |
//! | `absorb_keys`, `expand_values` | `src/products/tests/latent.rs` |
//! | `latent_attention` | `attention.rs` |
//! | `short_conv`, `kda_decay`, `kda_recurrence` | `kda.rs` |
//! | `rms_norm`, `l2_normalize`, `gated_head_norm`, `attention_residual` | `norms.rs` |
//! | `add`, `multiply`, `add_scaled`, `multiply_sigmoid`, `situ`, `all_finite` | `elementwise.rs` |
//! | `exp`, `tanh`, `sigmoid`: errors in units of the last place | `math_accuracy.rs` |
//! | the operations of the lanes themselves | `src/lanes/tests.rs` (equality alone) |
#![allow(dead_code, unreachable_pub)] // Each test binary uses a part.

use deltafin_kernels::{Isa, Kernels, Parallel, Serial};
use proptest::prelude::{ProptestConfig, Strategy};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in -1..1.
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub fn vector(&mut self, len: usize, size: f32) -> Vec<f32> {
        (0..len).map(|_| self.unit() * size).collect()
    }

    /// Uniform in 0..1.
    pub fn fractions(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.unit() * 0.5 + 0.5).collect()
    }
}

/// What operands hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Contents {
    /// Uniform in -1..1.
    Ordinary,
    /// Below the smallest normal float, zeros of both signs among them.
    Subnormal,
    /// Of every exponent up to those of ordinary ones.
    EveryExponent,
    /// Any bits: huge numbers, infinities and NaN among them. They have no twin in f64.
    Anything,
}

impl Contents {
    pub fn any() -> impl Strategy<Value = Contents> {
        use Contents::*;
        proptest::sample::select(vec![Ordinary, Subnormal, EveryExponent, Anything])
    }

    /// `len` floats, at most `size` where they are numbers of bounded size.
    pub fn floats(self, random: &mut Random, len: usize, size: f32) -> Vec<f32> {
        let mut float = || {
            let bits = (random.bits() >> 32) as u32;
            match self {
                Contents::Ordinary => random.unit() * size,
                Contents::Subnormal => f32::from_bits(bits & 0x807f_ffff),
                Contents::EveryExponent => {
                    // Biased exponents 0 to 126: below 1.
                    let exponent = (bits >> 23 & 255) % 127;
                    f32::from_bits(bits & 0x807f_ffff | exponent << 23) * size
                }
                Contents::Anything => f32::from_bits(bits),
            }
        };
        (0..len).map(|_| float()).collect()
    }
}

/// So many cases of a property, in proportion more or fewer when `PROPTEST_CASES` is not 256. A failing
/// one is shrunk and printed with its seed.
pub fn cases(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = (cases * default.cases).div_ceil(256);
    ProptestConfig { failure_persistence: None, cases, ..default }
}

/// Sizes around the sixteen lanes and the tiles made of them.
pub const SIZES: [usize; 12] = [1, 2, 7, 15, 16, 17, 31, 33, 64, 96, 100, 257];

/// Threads that take tasks from the last to the first.
pub struct Backwards(pub usize);

impl Parallel for Backwards {
    fn width(&self) -> usize {
        self.0
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let left = AtomicUsize::new(tasks);
        let take = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        std::thread::scope(|scope| {
            for _ in 0..self.0 {
                scope.spawn(|| {
                    while let Ok(n) = take() {
                        task(n - 1);
                    }
                });
            }
        });
    }
}

/// Every instruction set, alone and on threads; the scalar one on one thread comes first.
pub fn all_kernels() -> Vec<Kernels> {
    let pools: [Arc<dyn Parallel>; 3] =
        [Arc::new(Serial), Arc::new(Backwards(3)), Arc::new(Backwards(16))];
    let with = |isa| pools.iter().map(move |pool| Kernels::new(isa, pool.clone()));
    Isa::available().flat_map(with).collect()
}

/// Runs `compute` on every kind of kernels and insists on the bits of the scalar one, which it returns.
#[track_caller]
pub fn same_everywhere(compute: impl Fn(&Kernels) -> Vec<f32>) -> Vec<f32> {
    let wanted = compute(&Kernels::reference());
    for kernels in all_kernels() {
        let name = format!("{} x{}", kernels.isa().kind(), kernels.pool().width());
        assert_same_bits(&compute(&kernels), &wanted, &name);
    }
    wanted
}

/// Runs `compute` on every instruction set and insists on the bits of the scalar one, which it returns.
#[track_caller]
pub fn same_on_each_isa(compute: impl Fn(Isa) -> Vec<f32>) -> Vec<f32> {
    let wanted = compute(Isa::SCALAR);
    for isa in Isa::available() {
        assert_same_bits(&compute(isa), &wanted, isa.kind().name());
    }
    wanted
}

/// Sums of subnormal floats round in absolute steps; no result here takes more of them.
const SUBNORMAL_ROUNDINGS: f64 = 300.0;

/// Bits, but for NaN: that one comes out is promised, which one is not.
#[track_caller]
pub fn assert_same_bits(got: &[f32], wanted: &[f32], what: &str) {
    assert_eq!(got.len(), wanted.len(), "{what}: length");
    for (i, (g, w)) in got.iter().zip(wanted).enumerate() {
        let same = g.to_bits() == w.to_bits() || (g.is_nan() && w.is_nan());
        assert!(same, "{what}: element {i} is {g:e} ({:08x}), wanted {w:e}", g.to_bits());
    }
}

/// Within `tolerance` of the largest wanted value, or within a few of the smallest floats there are.
#[track_caller]
pub fn assert_close(got: &[f32], wanted: &[f64], tolerance: f64) {
    assert_eq!(got.len(), wanted.len(), "length");
    let largest = wanted.iter().fold(0f64, |m, w| m.max(w.abs()));
    let allowed = tolerance * largest + SUBNORMAL_ROUNDINGS * 2f64.powi(-150);
    for (i, (g, w)) in got.iter().zip(wanted).enumerate() {
        let off = (f64::from(*g) - w).abs();
        assert!(
            off <= allowed,
            "element {i} is {g:e}, wanted {w:e}: off by {off:e} of {allowed:e}"
        );
    }
}

pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

pub fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}
