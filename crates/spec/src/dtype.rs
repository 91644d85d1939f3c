//! Element types and shapes as safetensors files declare them.

use std::fmt;

/// An element type that a safetensors header can declare.
///
/// K3 uses three of them; the others are known so that a file which holds them is told
/// apart from a broken one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names are the documentation
pub enum Dtype {
    F4,
    F6E2M3,
    F6E3M2,
    Bool,
    U8,
    I8,
    F8E5M2,
    F8E4M3,
    F8E8M0,
    I16,
    U16,
    F16,
    Bf16,
    I32,
    U32,
    F32,
    I64,
    U64,
    F64,
    C64,
}

const TABLE: [(Dtype, &str, u64); 20] = [
    (Dtype::F4, "F4", 4),
    (Dtype::F6E2M3, "F6_E2M3", 6),
    (Dtype::F6E3M2, "F6_E3M2", 6),
    (Dtype::Bool, "BOOL", 8),
    (Dtype::U8, "U8", 8),
    (Dtype::I8, "I8", 8),
    (Dtype::F8E5M2, "F8_E5M2", 8),
    (Dtype::F8E4M3, "F8_E4M3", 8),
    (Dtype::F8E8M0, "F8_E8M0", 8),
    (Dtype::I16, "I16", 16),
    (Dtype::U16, "U16", 16),
    (Dtype::F16, "F16", 16),
    (Dtype::Bf16, "BF16", 16),
    (Dtype::I32, "I32", 32),
    (Dtype::U32, "U32", 32),
    (Dtype::F32, "F32", 32),
    (Dtype::I64, "I64", 64),
    (Dtype::U64, "U64", 64),
    (Dtype::F64, "F64", 64),
    (Dtype::C64, "C64", 64),
];

impl Dtype {
    /// Every known type.
    pub fn all() -> impl Iterator<Item = Dtype> {
        TABLE.iter().map(|row| row.0)
    }

    /// The type that a header calls `name`.
    pub fn parse(name: &str) -> Option<Dtype> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// The name in a header, such as `BF16`.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Bits of one element.
    pub fn bits(self) -> u64 {
        TABLE[self as usize].2
    }

    /// Bytes of one element, rounded up for the types smaller than a byte; also the
    /// alignment that its tensors get in a buffer.
    pub fn size_bytes(self) -> u64 {
        self.bits().div_ceil(8)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The most dimensions a tensor may have.
pub const MAX_RANK: usize = 6;

/// The dimensions of a tensor, outermost first, held in place.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: [u64; MAX_RANK],
    rank: u8,
}

impl Shape {
    /// The shape with these dimensions, or nothing if there are more than [`MAX_RANK`].
    pub fn new(dims: &[u64]) -> Option<Shape> {
        let mut shape = Shape { dims: [0; MAX_RANK], rank: dims.len() as u8 };
        shape.dims.get_mut(..dims.len())?.copy_from_slice(dims);
        Some(shape)
    }

    pub(crate) fn of<const N: usize>(dims: [usize; N]) -> Shape {
        const { assert!(N <= MAX_RANK) };
        let mut shape = Shape { dims: [0; MAX_RANK], rank: N as u8 };
        for (to, from) in shape.dims.iter_mut().zip(dims) {
            *to = from as u64;
        }
        shape
    }

    /// The dimensions, outermost first.
    pub fn dims(&self) -> &[u64] {
        &self.dims[..self.rank as usize]
    }

    /// How many elements, or nothing if that overflows.
    pub fn elements(&self) -> Option<u64> {
        self.dims().iter().try_fold(1u64, |product, &dim| product.checked_mul(dim))
    }

    /// How many bytes the elements take, or nothing if that overflows or is no whole number.
    pub fn bytes(&self, dtype: Dtype) -> Option<u64> {
        let bits = u128::from(self.elements()?) * u128::from(dtype.bits());
        if bits.is_multiple_of(8) { u64::try_from(bits / 8).ok() } else { None }
    }

    /// Rows of the matrix: the outermost dimension, 1 for a scalar.
    pub fn rows(&self) -> u64 {
        self.dims().first().copied().unwrap_or(1)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (position, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, position);
            assert_eq!(Dtype::parse(row.1), Some(row.0));
        }
        assert_eq!(Dtype::parse("bf16"), None);
    }

    #[test]
    fn shapes_never_wrap() {
        let shape = Shape::new(&[1 << 32, 1 << 32]).unwrap();
        assert_eq!(shape.elements(), None);
        let half = Shape::new(&[1 << 31, 1 << 32]).unwrap();
        assert_eq!(half.bytes(Dtype::F32), None);
        assert_eq!(half.bytes(Dtype::U8), Some(1 << 63));
        assert_eq!(Shape::new(&[3]).unwrap().bytes(Dtype::F4), None);
        assert_eq!(Shape::new(&[]).unwrap().bytes(Dtype::F32), Some(4));
        assert_eq!(Shape::new(&[1; 7]), None);
        assert_eq!(Shape::of([2, 3]).to_string(), "[2, 3]");
    }
}
