//! Products against a twin in f64, over shapes and contents that proptest chooses.

use super::{KINDS, Kind, Random, Stored, assert_same_bits, every_way, product};
use crate::Kernels;
use proptest::prelude::*;

/// A sum of products in f64 and how far a sum of floats may be from it.
pub(super) struct Exact {
    value: f64,
    /// Nothing when a partial sum may leave the range of floats.
    bound: Option<f64>,
}

impl Exact {
    /// `scale · Σ a·b`, where each result takes at most `roundings` roundings after the decoding.
    pub(super) fn sum(
        terms: impl Iterator<Item = (f64, f64)>,
        scale: f64,
        roundings: usize,
    ) -> Exact {
        let (sum, size) =
            terms.map(|(a, b)| a * b).fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()));
        let largest = size * scale.abs().max(1.0);
        // Half a unit in the last place of what is summed, or of the smallest floats there are.
        let relative = size * scale.abs() * 2f64.powi(-24);
        let absolute = (1.0 + scale.abs()) * 2f64.powi(-150);
        // What is not a number is not below the largest float either.
        let in_range = largest < f64::from(f32::MAX) / 2.0 && scale.is_finite();
        let bound = in_range.then_some(roundings as f64 * (relative + absolute));
        Exact { value: sum * scale, bound }
    }

    /// The same with `more` added to what the sum may be off by.
    pub(super) fn wider_by(self, more: f64) -> Exact {
        Exact { bound: self.bound.map(|bound| bound + more), ..self }
    }

    /// Without a bound unless what enters the sum is in range.
    pub(super) fn only_if(self, in_range: bool) -> Exact {
        Exact { bound: self.bound.filter(|_| in_range), ..self }
    }

    /// Whether a bound could be given.
    pub(super) fn is_bounded(&self) -> bool {
        self.bound.is_some()
    }

    #[track_caller]
    pub(super) fn assert_near(&self, got: f32, what: &dyn std::fmt::Debug) {
        let Some(bound) = self.bound else { return };
        let error = (f64::from(got) - self.value).abs();
        assert!(error <= bound, "{what:?}: {got:e} for {:e}, off by {error:e}", self.value);
    }
}

/// Row `r` times `x`. Sixteen chains of multiply-adds, four folds, one row scale.
pub(super) fn exact(stored: &Stored, r: usize, x: &[f32]) -> Exact {
    let terms = x.iter().enumerate().map(|(c, x)| (stored.weight(r, c).0, f64::from(*x)));
    Exact::sum(terms, stored.weight(r, 0).1, stored.cols / 16 + 8)
}

/// The product of all positions is near the twin and the same, bit for bit, in every way; returns how
/// many of its results had a bound.
#[track_caller]
pub(super) fn check(stored: &Stored, x: &[f32], positions: usize) -> usize {
    let wanted = product(&Kernels::reference(), stored.matrix(), x, positions);
    let mut bounded = 0;
    for (i, got) in wanted.iter().enumerate() {
        let (t, r) = (i / stored.rows, i % stored.rows);
        let exact = exact(stored, r, &x[t * stored.cols..][..stored.cols]);
        exact.assert_near(*got, &(stored.kind, "position", t, "row", r));
        bounded += usize::from(exact.is_bounded());
    }
    for (name, kernels) in every_way() {
        let got = product(&kernels, stored.matrix(), x, positions);
        assert_same_bits(&got, &wanted, &(stored.kind, name, positions));
    }
    bounded
}

#[test]
fn odd_sizes_are_close_to_the_twin() {
    let mut random = Random(1);
    for kind in KINDS {
        for (rows, cols) in [(1, 1), (3, 15), (5, 16), (7, 33), (13, 64), (4, 95), (2, 515)] {
            let stored = Stored::random(kind, rows, cols, &mut random);
            for positions in [1, 2, 9] {
                let x = random.floats(positions * stored.cols);
                assert_eq!(check(&stored, &x, positions), positions * rows, "all have a bound");
            }
        }
    }
}

/// So many cases of a property, in proportion more or fewer when `PROPTEST_CASES` is not 256.
pub(super) fn cases(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = (cases * default.cases).div_ceil(256);
    ProptestConfig { failure_persistence: None, cases, ..default }
}

/// What weights and activations hold.
#[derive(Clone, Copy, Debug)]
pub(super) enum Contents {
    /// Between -1 and 1.
    Ordinary,
    /// Activations below the smallest normal float.
    Subnormal,
    /// Floats of every exponent on both sides.
    EveryExponent,
    /// Any bits, infinities and NaN among them.
    Anything,
}

impl Contents {
    pub(super) fn any() -> impl Strategy<Value = Contents> {
        use Contents::*;
        proptest::sample::select(vec![Ordinary, Subnormal, EveryExponent, Anything])
    }

    pub(super) fn floats(self, n: usize, random: &mut Random) -> Vec<f32> {
        let mut float = || match self {
            Contents::Ordinary => random.unit(),
            Contents::Subnormal => f32::from_bits(random.next() & 0x807f_ffff),
            Contents::EveryExponent => {
                let bits = random.next();
                f32::from_bits(if bits >> 23 & 255 == 255 { bits & 0xbfff_ffff } else { bits })
            }
            Contents::Anything => f32::from_bits(random.next()),
        };
        (0..n).map(|_| float()).collect()
    }

    pub(super) fn weights(self, shape: (Kind, usize, usize), random: &mut Random) -> Stored {
        let mut stored = Stored::random(shape.0, shape.1, shape.2, random);
        match (self, stored.kind) {
            (Contents::Ordinary | Contents::Subnormal, _) => {}
            (_, Kind::F32) => {
                let floats = self.floats(stored.rows * stored.cols, random);
                let bytes = floats.iter().flat_map(|x| x.to_le_bytes());
                stored.main.splice(1.., bytes);
            }
            (_, Kind::Bf16) => {
                let floats = self.floats(stored.rows * stored.cols, random);
                let bytes = floats.iter().flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes());
                stored.main.splice(1.., bytes);
            }
            (_, Kind::Int8 | Kind::Mxfp4) => stored.scales = random.bytes(stored.scales.len()),
        }
        stored
    }
}

proptest! {
    #![proptest_config(cases(192))]

    #[test]
    fn any_product_is_close_to_the_twin_and_the_same_in_every_way(
        kind in proptest::sample::select(KINDS.to_vec()),
        rows in 0usize..30,
        cols in 0usize..600,
        positions in 0usize..14,
        contents in Contents::any(),
        seed in any::<u64>(),
    ) {
        let mut random = Random(seed);
        let stored = contents.weights((kind, rows, cols), &mut random);
        let x = contents.floats(positions * stored.cols, &mut random);
        check(&stored, &x, if stored.cols == 0 { 0 } else { positions });
    }
}
