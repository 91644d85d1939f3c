//! The definition: sixteen lanes in an array.

use super::{LANES, Lanes, mxfp4};
use std::array::from_fn;

/// Portable lanes. `f32::mul_add` is a fused multiply-add instruction or a correctly rounded call.
#[derive(Clone, Copy)]
pub(crate) struct Scalar;

type F = [f32; LANES];
type I = [i32; LANES];

// The methods are `unsafe` by the trait's contract only; the loads and stores alone touch memory.
#[allow(unsafe_code)]
impl Lanes for Scalar {
    type F = F;
    type I = I;
    type R = f32;
    const PARTS: usize = LANES;
    const MANY: bool = false;
    const REGISTERS: usize = 8;

    #[inline(always)]
    unsafe fn splat(x: f32) -> F {
        [x; LANES]
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> F {
        // SAFETY: the caller promises sixteen readable floats at `p`.
        unsafe { p.cast::<F>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(v: F, p: *mut f32) {
        // SAFETY: the caller promises sixteen writable floats at `p`.
        unsafe { p.cast::<F>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn load_part(p: *const f32) -> f32 {
        // SAFETY: the caller promises a readable float at `p`.
        unsafe { p.read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store_part(v: f32, p: *mut f32) {
        // SAFETY: the caller promises a writable float at `p`.
        unsafe { p.write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn fma_part(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
    #[inline(always)]
    unsafe fn add(a: F, b: F) -> F {
        from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: F, b: F) -> F {
        from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: F, b: F) -> F {
        from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn div(a: F, b: F) -> F {
        from_fn(|i| a[i] / b[i])
    }
    #[inline(always)]
    unsafe fn fma(a: F, b: F, c: F) -> F {
        from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    unsafe fn max(a: F, b: F) -> F {
        from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn min(a: F, b: F) -> F {
        from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn select_lt(a: F, b: F, x: F, y: F) -> F {
        from_fn(|i| if a[i] < b[i] { x[i] } else { y[i] })
    }
    #[inline(always)]
    unsafe fn bits(a: F) -> I {
        from_fn(|i| a[i].to_bits() as i32)
    }
    #[inline(always)]
    unsafe fn from_bits(a: I) -> F {
        from_fn(|i| f32::from_bits(a[i] as u32))
    }
    #[inline(always)]
    unsafe fn splat_i(x: i32) -> I {
        [x; LANES]
    }
    #[inline(always)]
    unsafe fn add_i(a: I, b: I) -> I {
        from_fn(|i| a[i].wrapping_add(b[i]))
    }
    #[inline(always)]
    unsafe fn and_i(a: I, b: I) -> I {
        from_fn(|i| a[i] & b[i])
    }
    #[inline(always)]
    unsafe fn or_i(a: I, b: I) -> I {
        from_fn(|i| a[i] | b[i])
    }
    #[inline(always)]
    unsafe fn shl_i<const N: i32>(a: I) -> I {
        from_fn(|i| a[i] << N)
    }
    #[inline(always)]
    unsafe fn shr_i<const N: i32>(a: I) -> I {
        from_fn(|i| ((a[i] as u32) >> N) as i32)
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u8) -> F {
        // SAFETY: the caller promises 32 readable bytes at `p`.
        let bytes = unsafe { p.cast::<[[u8; 2]; LANES]>().read_unaligned() };
        from_fn(|i| f32::from_bits(u32::from(u16::from_le_bytes(bytes[i])) << 16))
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const u8) -> F {
        // SAFETY: the caller promises 16 readable bytes at `p`.
        let bytes = unsafe { p.cast::<[i8; LANES]>().read_unaligned() };
        from_fn(|i| f32::from(bytes[i]))
    }
    #[inline(always)]
    unsafe fn load_mxfp4<const STEP: usize>(p: *const u8, scale: u8) -> F {
        // SAFETY: the caller promises 16 readable bytes at `p`.
        let words = unsafe { p.add(8 * STEP).cast::<[[u8; 4]; 2]>().read_unaligned() };
        let table = &mxfp4::FLOATS.0[usize::from(scale)];
        from_fn(|lane| {
            let (word, nibble) = (u32::from_le_bytes(words[lane % 2]), lane / 2);
            table[(word >> (4 * nibble)) as usize & 15]
        })
    }
    #[inline(always)]
    unsafe fn prefetch(_: *const u8) {}
    #[inline(always)]
    unsafe fn fold(a: F) -> f32 {
        let b: [f32; 8] = from_fn(|i| a[i] + a[i + 8]);
        let c: [f32; 4] = from_fn(|i| b[i] + b[i + 4]);
        (c[0] + c[2]) + (c[1] + c[3])
    }
}
