//! From a recipe to bytes, a piece of a tensor at a time.
//!
//! The bytes of a tensor depend on its stream and recipe, not on how it is cut in pieces, as long as
//! all pieces but the last are whole multiples of [`PIECE_UNIT`].

use deltafin_spec::Dtype;

use crate::normal;
use crate::random::Words;
use crate::recipe::{NIBBLE_DEVIATION, Recipe};

/// What one random word is enough for, in bytes, divides this.
pub(crate) const PIECE_UNIT: usize = 8;

/// The tables that all tensors share.
pub(crate) struct Tables {
    quantiles: Vec<f32>,
    /// Two nibbles for twelve bits.
    nibbles: Vec<u8>,
}

impl Tables {
    pub(crate) fn new() -> Tables {
        let quantiles = normal::quantiles();
        let nibble = |six: usize| {
            // The middle of 64 quantiles each.
            let z = quantiles[six * 64 + 32] * NIBBLE_DEVIATION;
            nearest_nibble(z)
        };
        let sixes: Vec<u8> = (0..64).map(nibble).collect();
        let nibbles = (0..normal::ENTRIES).map(|x| sixes[x & 63] | sixes[x >> 6] << 4).collect();
        Tables { quantiles, nibbles }
    }
}

/// The code of the E2M1 number nearest to `z`.
fn nearest_nibble(z: f32) -> u8 {
    const BETWEEN: [f32; 7] = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0];
    let size = BETWEEN.iter().filter(|&&bound| z.abs() > bound).count() as u8;
    if z < 0.0 { size | 8 } else { size }
}

/// A tensor being made.
pub(crate) struct Filler<'a> {
    words: Words,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Bf16(Vec<[u8; 2]>),
    F32(Vec<[u8; 4]>),
    Uniform { low: f32, high: f32, left: usize },
    Nibbles(&'a [u8]),
    Scales(u8),
}

impl<'a> Filler<'a> {
    /// Begins a tensor.
    pub(crate) fn new(tables: &'a Tables, recipe: &Recipe, dtype: Dtype, words: Words) -> Self {
        let kind = match *recipe {
            Recipe::Normal { mean, deviation } => {
                let values = tables.quantiles.iter().map(|z| mean + z * deviation);
                match dtype {
                    Dtype::F32 => Kind::F32(values.map(f32::to_le_bytes).collect()),
                    _ => Kind::Bf16(values.map(bf16).collect()),
                }
            }
            Recipe::Uniform { low, high, count } => Kind::Uniform { low, high, left: count },
            Recipe::Nibbles => Kind::Nibbles(&tables.nibbles),
            Recipe::Scales { code } => Kind::Scales(code),
        };
        Filler { words, kind }
    }

    /// The next bytes of the tensor.
    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        let words = &mut self.words;
        match &mut self.kind {
            Kind::Bf16(table) => lookups(words, out, |index| table[index]),
            Kind::F32(table) => lookups(words, out, |index| table[index]),
            Kind::Nibbles(table) => lookups(words, out, |index| [table[index]]),
            Kind::Scales(code) => lookups(words, out, |index| [near(*code, index)]),
            Kind::Uniform { low, high, left } => {
                for value in out.chunks_mut(4) {
                    let drawn = *low + (*high - *low) * words.unit();
                    let kept = if *left > 0 { drawn } else { 0.0 };
                    *left = left.saturating_sub(1);
                    value.copy_from_slice(&kept.to_le_bytes()[..value.len()]);
                }
            }
        }
    }
}

/// Four values of `N` bytes from each word.
fn lookups<const N: usize>(words: &mut Words, out: &mut [u8], value: impl Fn(usize) -> [u8; N]) {
    const MASK: u64 = normal::ENTRIES as u64 - 1;
    let mut fill = |four: &mut [u8]| {
        let word = words.next();
        for (place, part) in four.chunks_mut(N).zip(0..4) {
            let index = (word >> (16 * part)) & MASK;
            place.copy_from_slice(&value(index as usize)[..place.len()]);
        }
    };
    let mut whole = out.chunks_exact_mut(4 * N);
    whole.by_ref().for_each(&mut fill);
    let rest = whole.into_remainder();
    if !rest.is_empty() {
        fill(rest);
    }
}

fn near(code: u8, index: usize) -> u8 {
    [code - 1, code, code, code + 1][index % 4]
}

/// To the nearest, ties to even.
fn bf16(value: f32) -> [u8; 2] {
    let bits = value.to_bits();
    let rounded = bits + 0x7FFF + ((bits >> 16) & 1);
    ((rounded >> 16) as u16).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(bytes: &[u8]) -> Vec<f32> {
        let bits = |pair: &[u8]| u32::from(u16::from_le_bytes([pair[0], pair[1]])) << 16;
        bytes.chunks_exact(2).map(|pair| f32::from_bits(bits(pair))).collect()
    }

    fn made(recipe: &Recipe, dtype: Dtype, bytes: usize, piece: usize) -> Vec<u8> {
        let tables = Tables::new();
        let mut filler = Filler::new(&tables, recipe, dtype, Words::new(5, "a tensor"));
        let mut out = vec![0; bytes];
        out.chunks_mut(piece).for_each(|piece| filler.fill(piece));
        out
    }

    #[test]
    fn pieces_do_not_show() {
        let normal = Recipe::Normal { mean: 0.0, deviation: 1.0 };
        let uniform = Recipe::Uniform { low: 1.0, high: 2.0, count: 250 };
        let recipes = [
            (normal.clone(), Dtype::Bf16),
            (normal, Dtype::F32),
            (uniform, Dtype::F32),
            (Recipe::Nibbles, Dtype::U8),
            (Recipe::Scales { code: 120 }, Dtype::U8),
        ];
        for (recipe, dtype) in recipes {
            let whole = made(&recipe, dtype, 1004, 1004);
            assert_eq!(whole, made(&recipe, dtype, 1004, 2 * PIECE_UNIT), "{recipe:?}");
        }
    }

    #[test]
    fn numbers_have_the_mean_and_spread_asked_for() {
        let recipe = Recipe::Normal { mean: 1.0, deviation: 0.25 };
        let values = floats(&made(&recipe, Dtype::Bf16, 200_000, 4096));
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let spread = values.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / values.len() as f32;
        assert!((mean - 1.0).abs() < 0.01 && (spread.sqrt() - 0.25).abs() < 0.01);
    }

    #[test]
    fn most_groups_of_nibbles_reach_four_or_six() {
        let bytes = made(&Recipe::Nibbles, Dtype::U8, 16_000, 16_000);
        let large = |byte: &u8| byte & 7 >= 6 || (byte >> 4) & 7 >= 6;
        let groups = bytes.chunks_exact(16).filter(|group| group.iter().any(large)).count();
        assert!(groups > 800, "{groups} of 1000");
        let negative = bytes.iter().filter(|byte| **byte & 8 != 0).count();
        assert!((7_000..9_000).contains(&negative), "{negative} of 16000");
    }

    #[test]
    fn rounding_is_to_the_nearest_even() {
        assert_eq!(floats(&bf16(1.0)), [1.0]);
        assert_eq!(floats(&bf16(f32::from_bits(0x3F80_8000))), [1.0]);
        assert_eq!(floats(&bf16(f32::from_bits(0x3F81_8000))), [f32::from_bits(0x3F82_0000)]);
    }
}
