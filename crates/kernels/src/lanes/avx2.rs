//! Lanes 0..7 in one register, 8..15 in another.
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)] // SAFETY, once for all: see the trait's contract.

use super::{Lanes, mxfp4};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(crate) struct Avx2;

type F = [__m256; 2];
type I = [__m256i; 2];

/// Folds eight lanes 4+4, 2+2, 1+1.
#[inline(always)]
pub(super) unsafe fn fold8(a: __m256) -> f32 {
    unsafe {
        let b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
        let c = _mm_add_ps(b, _mm_movehl_ps(b, b));
        _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps::<1>(c, c)))
    }
}

impl Lanes for Avx2 {
    type F = F;
    type I = I;
    type R = __m256;
    const PARTS: usize = 2;
    const MANY: bool = false;
    const REGISTERS: usize = 8;

    #[inline(always)]
    unsafe fn splat(x: f32) -> F {
        unsafe { [_mm256_set1_ps(x); 2] }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> F {
        unsafe { [_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))] }
    }
    #[inline(always)]
    unsafe fn store(v: F, p: *mut f32) {
        unsafe {
            _mm256_storeu_ps(p, v[0]);
            _mm256_storeu_ps(p.add(8), v[1]);
        }
    }
    #[inline(always)]
    unsafe fn load_part(p: *const f32) -> __m256 {
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store_part(v: __m256, p: *mut f32) {
        unsafe { _mm256_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn fma_part(a: __m256, b: __m256, c: __m256) -> __m256 {
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn add(a: F, b: F) -> F {
        unsafe { [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn sub(a: F, b: F) -> F {
        unsafe { [_mm256_sub_ps(a[0], b[0]), _mm256_sub_ps(a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn mul(a: F, b: F) -> F {
        unsafe { [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn div(a: F, b: F) -> F {
        unsafe { [_mm256_div_ps(a[0], b[0]), _mm256_div_ps(a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn fma(a: F, b: F, c: F) -> F {
        unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
    }
    #[inline(always)]
    unsafe fn max(a: F, b: F) -> F {
        unsafe { [_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn min(a: F, b: F) -> F {
        unsafe { [_mm256_min_ps(a[0], b[0]), _mm256_min_ps(a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn select_lt(a: F, b: F, x: F, y: F) -> F {
        unsafe {
            [
                _mm256_blendv_ps(y[0], x[0], _mm256_cmp_ps::<_CMP_LT_OQ>(a[0], b[0])),
                _mm256_blendv_ps(y[1], x[1], _mm256_cmp_ps::<_CMP_LT_OQ>(a[1], b[1])),
            ]
        }
    }
    #[inline(always)]
    unsafe fn bits(a: F) -> I {
        unsafe { [_mm256_castps_si256(a[0]), _mm256_castps_si256(a[1])] }
    }
    #[inline(always)]
    unsafe fn from_bits(a: I) -> F {
        unsafe { [_mm256_castsi256_ps(a[0]), _mm256_castsi256_ps(a[1])] }
    }
    #[inline(always)]
    unsafe fn splat_i(x: i32) -> I {
        unsafe { [_mm256_set1_epi32(x); 2] }
    }
    #[inline(always)]
    unsafe fn add_i(a: I, b: I) -> I {
        unsafe { [_mm256_add_epi32(a[0], b[0]), _mm256_add_epi32(a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn and_i(a: I, b: I) -> I {
        unsafe { [_mm256_and_si256(a[0], b[0]), _mm256_and_si256(a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn or_i(a: I, b: I) -> I {
        unsafe { [_mm256_or_si256(a[0], b[0]), _mm256_or_si256(a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn shl_i<const N: i32>(a: I) -> I {
        unsafe { [_mm256_slli_epi32::<N>(a[0]), _mm256_slli_epi32::<N>(a[1])] }
    }
    #[inline(always)]
    unsafe fn shr_i<const N: i32>(a: I) -> I {
        unsafe { [_mm256_srli_epi32::<N>(a[0]), _mm256_srli_epi32::<N>(a[1])] }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u8) -> F {
        unsafe {
            let half = |p: *const u8| {
                let words = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words))
            };
            [half(p), half(p.add(16))]
        }
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const u8) -> F {
        unsafe {
            let half =
                |p: *const u8| _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast())));
            [half(p), half(p.add(8))]
        }
    }
    // Byte shuffles look up all 32 codes at once, the lower and the upper bytes of their bf16. They
    // are arranged beforehand so that unpacking makes 32-bit pairs of a lane in 0..8 and that lane
    // plus 8, which a shift and a mask take apart. Both steps share all but the unpacking.
    #[inline(always)]
    unsafe fn load_mxfp4<const STEP: usize>(p: *const u8, scale: u8) -> F {
        unsafe {
            let even = 0x0604_0200;
            let (odd, second) = (even + 0x0101_0101, 0x0808_0808);
            let order = _mm256_setr_epi32(
                even,
                even,
                even + second,
                even + second,
                odd,
                odd,
                odd + second,
                odd + second,
            );
            let bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128(p.cast()));
            let bytes = _mm256_shuffle_epi8(bytes, order);
            let shifted = _mm256_srlv_epi32(bytes, _mm256_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4));
            let codes = _mm256_and_si256(shifted, _mm256_set1_epi8(15));
            let table: *const __m128i = mxfp4::BYTES.0.as_ptr().add(usize::from(scale)).cast();
            let look_up = |table: *const __m128i| {
                _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_load_si128(table)), codes)
            };
            let (lower, upper) = (look_up(table), look_up(table.add(1)));
            let halves = match STEP {
                0 => _mm256_unpacklo_epi8(lower, upper),
                _ => _mm256_unpackhi_epi8(lower, upper),
            };
            [
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(halves)),
                _mm256_castsi256_ps(_mm256_and_si256(halves, _mm256_set1_epi32(-0x10000))),
            ]
        }
    }
    #[inline(always)]
    unsafe fn prefetch(p: *const u8) {
        unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) }
    }
    #[inline(always)]
    unsafe fn fold(a: F) -> f32 {
        unsafe { fold8(_mm256_add_ps(a[0], a[1])) }
    }
}
