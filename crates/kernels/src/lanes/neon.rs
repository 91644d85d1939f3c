//! Lanes 0..3, 4..7, 8..11 and 12..15 in four registers.
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)] // SAFETY, once for all: see the trait's contract.

use super::{Lanes, mxfp4};
use std::arch::aarch64::*;

#[derive(Clone, Copy)]
pub(crate) struct Neon;

type F = [float32x4_t; 4];
type I = [int32x4_t; 4];

macro_rules! each {
    ($i:ident => $e:expr) => {{
        let f = |$i: usize| unsafe { $e };
        [f(0), f(1), f(2), f(3)]
    }};
}

/// Four of the eight bf16 in `words`, those of half `HALF`, as floats.
#[inline(always)]
unsafe fn upper_halves<const HALF: usize>(words: uint8x16_t) -> float32x4_t {
    unsafe {
        let words = vreinterpretq_u16_u8(words);
        vreinterpretq_f32_u32(match HALF {
            0 => vshll_n_u16::<16>(vget_low_u16(words)),
            _ => vshll_high_n_u16::<16>(words),
        })
    }
}

impl Lanes for Neon {
    type F = F;
    type I = I;
    type R = float32x4_t;
    const PARTS: usize = 4;
    const MANY: bool = true;
    const REGISTERS: usize = 8;

    #[inline(always)]
    unsafe fn splat(x: f32) -> F {
        unsafe { [vdupq_n_f32(x); 4] }
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> F {
        each!(i => vld1q_f32(p.add(4 * i)))
    }
    #[inline(always)]
    unsafe fn store(v: F, p: *mut f32) {
        for (i, part) in v.into_iter().enumerate() {
            unsafe { vst1q_f32(p.add(4 * i), part) }
        }
    }
    #[inline(always)]
    unsafe fn load_part(p: *const f32) -> float32x4_t {
        unsafe { vld1q_f32(p) }
    }
    #[inline(always)]
    unsafe fn store_part(v: float32x4_t, p: *mut f32) {
        unsafe { vst1q_f32(p, v) }
    }
    #[inline(always)]
    unsafe fn fma_part(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        unsafe { vfmaq_f32(c, a, b) }
    }
    #[inline(always)]
    unsafe fn add(a: F, b: F) -> F {
        each!(i => vaddq_f32(a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn sub(a: F, b: F) -> F {
        each!(i => vsubq_f32(a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn mul(a: F, b: F) -> F {
        each!(i => vmulq_f32(a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn div(a: F, b: F) -> F {
        each!(i => vdivq_f32(a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn fma(a: F, b: F, c: F) -> F {
        each!(i => vfmaq_f32(c[i], a[i], b[i]))
    }
    // Not vmaxq/vminq: those propagate NaN from either side.
    #[inline(always)]
    unsafe fn max(a: F, b: F) -> F {
        each!(i => vbslq_f32(vcgtq_f32(a[i], b[i]), a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn min(a: F, b: F) -> F {
        each!(i => vbslq_f32(vcltq_f32(a[i], b[i]), a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn select_lt(a: F, b: F, x: F, y: F) -> F {
        each!(i => vbslq_f32(vcltq_f32(a[i], b[i]), x[i], y[i]))
    }
    #[inline(always)]
    unsafe fn bits(a: F) -> I {
        each!(i => vreinterpretq_s32_f32(a[i]))
    }
    #[inline(always)]
    unsafe fn from_bits(a: I) -> F {
        each!(i => vreinterpretq_f32_s32(a[i]))
    }
    #[inline(always)]
    unsafe fn splat_i(x: i32) -> I {
        unsafe { [vdupq_n_s32(x); 4] }
    }
    #[inline(always)]
    unsafe fn add_i(a: I, b: I) -> I {
        each!(i => vaddq_s32(a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn and_i(a: I, b: I) -> I {
        each!(i => vandq_s32(a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn or_i(a: I, b: I) -> I {
        each!(i => vorrq_s32(a[i], b[i]))
    }
    #[inline(always)]
    unsafe fn shl_i<const N: i32>(a: I) -> I {
        each!(i => vshlq_s32(a[i], vdupq_n_s32(N)))
    }
    #[inline(always)]
    unsafe fn shr_i<const N: i32>(a: I) -> I {
        each!(i => vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a[i]), vdupq_n_s32(-N))))
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u8) -> F {
        unsafe {
            let (a, b) = (vld1q_u8(p), vld1q_u8(p.add(16)));
            [upper_halves::<0>(a), upper_halves::<1>(a), upper_halves::<0>(b), upper_halves::<1>(b)]
        }
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const u8) -> F {
        unsafe {
            let bytes = vld1q_s8(p.cast());
            let (a, b) = (vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
            [
                vcvtq_f32_s32(vmovl_s16(vget_low_s16(a))),
                vcvtq_f32_s32(vmovl_high_s16(a)),
                vcvtq_f32_s32(vmovl_s16(vget_low_s16(b))),
                vcvtq_f32_s32(vmovl_high_s16(b)),
            ]
        }
    }
    // Byte look-ups of the codes in lane order, of the lower and of the upper bytes of their bf16.
    #[inline(always)]
    unsafe fn load_mxfp4<const STEP: usize>(p: *const u8, scale: u8) -> F {
        const ORDER: [u8; 8] = [0, 4, 1, 5, 2, 6, 3, 7];
        unsafe {
            let bytes = vtbl1_u8(vld1_u8(p.add(8 * STEP)), vld1_u8(ORDER.as_ptr()));
            let low = vreinterpret_u16_u8(vand_u8(bytes, vdup_n_u8(15)));
            let high = vreinterpret_u16_u8(vshr_n_u8::<4>(bytes));
            let codes = vcombine_u16(vzip1_u16(low, high), vzip2_u16(low, high));
            let codes = vreinterpretq_u8_u16(codes);
            let [lower, upper] = &mxfp4::BYTES.0[usize::from(scale)];
            let lower = vqtbl1q_u8(vld1q_u8(lower.as_ptr()), codes);
            let upper = vqtbl1q_u8(vld1q_u8(upper.as_ptr()), codes);
            let (a, b) = (vzip1q_u8(lower, upper), vzip2q_u8(lower, upper));
            [upper_halves::<0>(a), upper_halves::<1>(a), upper_halves::<0>(b), upper_halves::<1>(b)]
        }
    }
    #[inline(always)]
    unsafe fn prefetch(_: *const u8) {}
    #[inline(always)]
    unsafe fn fold(a: F) -> f32 {
        unsafe {
            let (b0, b1) = (vaddq_f32(a[0], a[2]), vaddq_f32(a[1], a[3]));
            let c = vaddq_f32(b0, b1);
            let d = vadd_f32(vget_low_f32(c), vget_high_f32(c));
            vget_lane_f32::<0>(d) + vget_lane_f32::<1>(d)
        }
    }
}
