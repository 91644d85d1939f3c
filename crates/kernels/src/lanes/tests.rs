//! Each operation of each instruction set against the scalar one, bit for bit.

use super::{LANES, Lanes, instantiate};
use crate::Isa;

/// Every operation applied to three vectors, one row of results each.
#[inline(always)]
#[allow(unsafe_code)]
unsafe fn all_operations<L: Lanes>(
    a: &[f32; LANES],
    b: &[f32; LANES],
    c: &[f32; LANES],
) -> Vec<u32> {
    // SAFETY: the arrays hold sixteen floats; the caller proves the instruction set.
    unsafe {
        let (x, y, z) = (L::load(a.as_ptr()), L::load(b.as_ptr()), L::load(c.as_ptr()));
        let (i, j) = (L::bits(x), L::bits(y));
        let results = [
            L::add(x, y),
            L::sub(x, y),
            L::mul(x, y),
            L::div(x, y),
            L::fma(x, y, z),
            L::max(x, y),
            L::min(x, y),
            L::select_lt(x, y, z, x),
            L::from_bits(L::add_i(i, j)),
            L::from_bits(L::and_i(i, j)),
            L::from_bits(L::or_i(i, j)),
            L::from_bits(L::shl_i::<23>(i)),
            L::from_bits(L::shr_i::<9>(i)),
            L::from_bits(L::splat_i(0x3f80_0001)),
            L::splat(L::fold(x)),
        ];
        let mut out = vec![0f32; LANES * results.len()];
        for (r, row) in results.iter().zip(out.chunks_exact_mut(LANES)) {
            L::store(*r, row.as_mut_ptr());
        }
        // Which NaN comes out of an operation is not part of the contract, that one comes out is.
        out.iter().map(|v| if v.is_nan() { 0x7fc0_0000 } else { v.to_bits() }).collect()
    }
}

instantiate! {
    fn every_operation(a: &[f32; LANES], b: &[f32; LANES], c: &[f32; LANES]) -> Vec<u32> = all_operations;
}

#[test]
fn every_instruction_set_equals_scalar() {
    let mut seed = 1u64;
    let mut next = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 32) as u32
    };
    let special =
        [0.0, -0.0, 1.0, -1.0, f32::MIN_POSITIVE, 1e-45, f32::MAX, f32::INFINITY, f32::NAN];
    for round in 0..2000 {
        let mut vector = || -> [f32; LANES] {
            std::array::from_fn(|_| match next() % 4 {
                0 => special[next() as usize % special.len()],
                1 => f32::from_bits(next()),
                _ => (next() as f32 / u32::MAX as f32 - 0.5) * 8.0,
            })
        };
        let (a, b, c) = (vector(), vector(), vector());
        let wanted = every_operation(Isa::SCALAR, &a, &b, &c);
        for isa in Isa::available() {
            assert_eq!(every_operation(isa, &a, &b, &c), wanted, "{:?} round {round}", isa.kind());
        }
    }
}
