//! From a recipe to bytes, a piece of a tensor at a time.
//!
//! The bytes of a tensor depend on its stream and recipe, not on how it is cut in pieces, as long as
//! all pieces but the last are whole multiples of [`PIECE_UNIT`].

use deltafin_spec::Dtype;

use crate::draw::{ENTRIES, Quantiles};
use crate::random::Words;
use crate::recipe::{Group, NIBBLE_DEVIATION, Piece, Recipe};

/// What one random word is enough for, in bytes, divides this.
pub(crate) const PIECE_UNIT: usize = 16;

/// Numbers that one random word gives.
const PER_WORD: usize = 4;

/// The tables that all tensors share.
pub(crate) struct Tables {
    quantiles: Quantiles,
    /// Two nibbles for twelve bits.
    nibbles: Vec<u8>,
}

impl Tables {
    pub(crate) fn new() -> Tables {
        let quantiles = Quantiles::new();
        // The middle of 64 quantiles each.
        let nibble =
            |six: usize| nearest_nibble(quantiles.normal[six * 64 + 32] * NIBBLE_DEVIATION);
        let sixes: Vec<u8> = (0..64).map(nibble).collect();
        let nibbles = (0..ENTRIES).map(|x| sixes[x & 63] | sixes[x >> 6] << 4).collect();
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
    Bf16(Rows<2>),
    F32(Rows<4>),
    Nibbles(&'a [u8]),
    Scales(u8),
}

impl<'a> Filler<'a> {
    /// Begins a tensor.
    pub(crate) fn new(tables: &'a Tables, recipe: &Recipe, dtype: Dtype, words: Words) -> Self {
        let quantiles = &tables.quantiles;
        let kind = match recipe {
            Recipe::Floats(groups) if dtype == Dtype::F32 => {
                Kind::F32(Rows::new(groups, quantiles, f32::to_le_bytes))
            }
            Recipe::Floats(groups) => Kind::Bf16(Rows::new(groups, quantiles, bf16)),
            Recipe::Nibbles => Kind::Nibbles(&tables.nibbles),
            Recipe::Scales { code } => Kind::Scales(*code),
        };
        Filler { words, kind }
    }

    /// The next bytes of the tensor.
    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        let words = &mut self.words;
        match &mut self.kind {
            Kind::Bf16(rows) => rows.fill(words, out),
            Kind::F32(rows) => rows.fill(words, out),
            Kind::Nibbles(table) => lookups(words, out, |index| [table[index]]),
            Kind::Scales(code) => lookups(words, out, |index| [near(*code, index)]),
        }
    }
}

/// Floats of `N` bytes, row after row.
struct Rows<const N: usize> {
    groups: Vec<RowGroup<N>>,
    group: usize,
    row: usize,
    piece: usize,
    /// Elements of the piece that are made.
    made: usize,
}

struct RowGroup<const N: usize> {
    rows: usize,
    pieces: Vec<RowPiece<N>>,
}

struct RowPiece<const N: usize> {
    elements: usize,
    table: Vec<[u8; N]>,
}

impl<const N: usize> Rows<N> {
    fn new(groups: &[Group], quantiles: &Quantiles, bytes: fn(f32) -> [u8; N]) -> Rows<N> {
        let piece = |piece: &Piece| RowPiece {
            elements: piece.len,
            table: piece.draw.table(quantiles).into_iter().map(bytes).collect(),
        };
        let group = |group: &Group| RowGroup {
            rows: group.rows,
            pieces: group.pieces.iter().map(piece).collect(),
        };
        let groups = groups.iter().filter(|group| group.rows > 0).map(group).collect();
        Rows { groups, group: 0, row: 0, piece: 0, made: 0 }
    }

    fn fill(&mut self, words: &mut Words, mut out: &mut [u8]) {
        while !out.is_empty() {
            let piece = &self.groups[self.group].pieces[self.piece];
            let taken = out.len().min((piece.elements - self.made) * N);
            let (now, later) = out.split_at_mut(taken);
            lookups(words, now, |index| piece.table[index]);
            self.advance(taken / N);
            out = later;
        }
    }

    fn advance(&mut self, elements: usize) {
        self.made += elements;
        let RowGroup { rows, pieces } = &self.groups[self.group];
        if self.made < pieces[self.piece].elements {
            return;
        }
        (self.made, self.piece) = (0, self.piece + 1);
        if self.piece == pieces.len() {
            (self.piece, self.row) = (0, self.row + 1);
        }
        if self.row == *rows {
            (self.row, self.group) = (0, self.group + 1);
        }
    }
}

/// Four values of `N` bytes from each word.
fn lookups<const N: usize>(words: &mut Words, out: &mut [u8], value: impl Fn(usize) -> [u8; N]) {
    const MASK: u64 = ENTRIES as u64 - 1;
    let mut fill = |four: &mut [u8]| {
        let word = words.next();
        for (place, part) in four.chunks_mut(N).zip(0..PER_WORD) {
            let index = (word >> (16 * part)) & MASK;
            place.copy_from_slice(&value(index as usize)[..place.len()]);
        }
    };
    let mut whole = out.chunks_exact_mut(PER_WORD * N);
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
    use crate::draw::Draw;

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
        let normal = Recipe::even(2000, Draw::around_zero(1.0));
        let halves = [(8, Draw::around_zero(1.0)), (12, Draw::Uniform { low: 1.0, high: 2.0 })];
        let rows = Recipe::Floats(vec![
            Group::new(10, &halves),
            Group::new(100, &[(20, Draw::Exponential { deviation: 1.0 })]),
        ]);
        let recipes = [
            (normal.clone(), Dtype::Bf16),
            (normal, Dtype::F32),
            (rows.clone(), Dtype::Bf16),
            (rows, Dtype::F32),
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
        let recipe = Recipe::even(100_000, Draw::Normal { mean: 1.0, deviation: 0.25 });
        let values = floats(&made(&recipe, Dtype::Bf16, 200_000, 4096));
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let spread = values.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / values.len() as f32;
        assert!((mean - 1.0).abs() < 0.01 && (spread.sqrt() - 0.25).abs() < 0.01);
    }

    #[test]
    fn pieces_of_rows_are_where_they_belong() {
        let constant = |mean| Draw::Normal { mean, deviation: 0.0 };
        let recipe = Recipe::Floats(vec![
            Group::new(2, &[(4, constant(1.0)), (0, constant(9.0)), (4, constant(2.0))]),
            Group::new(0, &[(8, constant(9.0))]),
            Group::new(1, &[(8, constant(3.0))]),
        ]);
        let row = [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0];
        let wanted = [row, row, [3.0; 8]].concat();
        assert_eq!(floats(&made(&recipe, Dtype::Bf16, 48, 16)), wanted);
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
