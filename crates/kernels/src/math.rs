//! `exp`, `tanh` and `sigmoid` of sixteen lanes: our own polynomials, so that no platform's maths
//! library is on the path from token to logits and every instruction set gives the same bits.
//!
//! The coefficients are minimax fits, rounded to fp32 one after the other from the lowest power up,
//! each time refitting the rest. Over all floats `exp` is within 1 ulp of the exact value, `tanh`
//! within 1.5 and `sigmoid` within 2.5 (`tests/math_accuracy.rs` measures them).
#![allow(unsafe_code)]

use crate::lanes::Lanes;
use std::f32::consts::{LN_2, LOG2_E};

/// Adding 1.5 · 2^23 leaves a small number rounded to an integer in the low bits of the sum.
const ROUND: f32 = 12_582_912.0;
/// ln 2 - `LN_2`.
const LN_2_REST: f32 = -1.904_654_2e-9;

/// (e^r - 1 - r) / r² on |r| <= ln 2 / 2, highest power first; relative error of e^r 7.7e-9.
const EXP: [f32; 5] = [0.001_380_569_3, 0.008_367_901, 0.041_668_22, 0.166_665_23, 0.499_999_94];

/// (tanh x / x - 1) / x² as a polynomial of x² on |x| <= 0.625, highest power first; relative error
/// of tanh 4.9e-9.
const TANH: [f32; 5] =
    [-0.005_743_253_5, 0.020_678_341, -0.053_753_957, 0.133_316_55, -0.333_332_93];

/// The polynomial of `x` with these coefficients, highest power first, by Horner's rule.
#[inline(always)]
unsafe fn polynomial<L: Lanes>(x: L::F, coefficients: &[f32; 5]) -> L::F {
    // SAFETY: the caller proves the instruction set.
    unsafe {
        let mut sum = L::splat(coefficients[0]);
        for c in &coefficients[1..] {
            sum = L::fma(sum, x, L::splat(*c));
        }
        sum
    }
}

/// e^x. Infinity above 88.72; gradual underflow to zero below -87.33; NaN stays NaN.
///
/// # Safety
///
/// The CPU has the instruction set of `L`.
#[inline(always)]
pub(crate) unsafe fn exp<L: Lanes>(x: L::F) -> L::F {
    // SAFETY: the caller proves the instruction set.
    unsafe {
        // Outside these bounds the result is 0 or infinity. The order of operands lets NaN through.
        let x = L::max(L::splat(-104.0), L::min(L::splat(89.0), x));
        let rounded = L::fma(x, L::splat(LOG2_E), L::splat(ROUND));
        let n = L::sub(rounded, L::splat(ROUND));
        let r = L::fma(n, L::splat(-LN_2), x); // exact: both have few enough bits
        let r = L::fma(n, L::splat(-LN_2_REST), r);
        let q = L::fma(polynomial::<L>(r, &EXP), r, L::splat(1.0));
        let e = L::fma(q, r, L::splat(1.0));
        // 2^n in two steps, n = m1 + m2 - 256, for n may be outside the exponents of fp32.
        let m = L::add_i(L::bits(rounded), L::splat_i(256 - ROUND.to_bits() as i32));
        let m1 = L::shr_i::<1>(m);
        let m2 = L::shr_i::<1>(L::add_i(m, L::splat_i(1)));
        L::mul(L::mul(e, power_of_two::<L>(m1)), power_of_two::<L>(m2))
    }
}

/// 2^(m - 128) for 1 < m < 256.
#[inline(always)]
unsafe fn power_of_two<L: Lanes>(m: L::I) -> L::F {
    // SAFETY: the caller proves the instruction set.
    unsafe { L::from_bits(L::shl_i::<23>(L::add_i(m, L::splat_i(-1)))) }
}

/// tanh x, with full relative accuracy near zero; ±1 beyond |x| = 9.02; NaN stays NaN.
///
/// # Safety
///
/// The CPU has the instruction set of `L`.
#[inline(always)]
pub(crate) unsafe fn tanh<L: Lanes>(x: L::F) -> L::F {
    // SAFETY: the caller proves the instruction set.
    unsafe {
        let one = L::splat(1.0);
        let size = magnitude::<L>(x);
        let square = L::mul(size, size);
        let small = L::fma(L::mul(size, square), polynomial::<L>(square, &TANH), size);
        let e = exp::<L>(L::add(size, size));
        let large = L::sub(one, L::div(L::splat(2.0), L::add(e, one)));
        let tanh = L::select_lt(size, L::splat(0.625), small, large);
        L::from_bits(L::or_i(L::bits(tanh), sign::<L>(x)))
    }
}

/// 1 / (1 + e^-x), decaying like e^x for negative x down to the smallest float; NaN stays NaN.
///
/// # Safety
///
/// The CPU has the instruction set of `L`.
#[inline(always)]
pub(crate) unsafe fn sigmoid<L: Lanes>(x: L::F) -> L::F {
    // SAFETY: the caller proves the instruction set.
    unsafe {
        let (zero, one) = (L::splat(0.0), L::splat(1.0));
        // e^-|x| never overflows: sigmoid(x) = 1 / (1 + e^-x) = e^x / (1 + e^x).
        let e = exp::<L>(L::sub(zero, magnitude::<L>(x)));
        L::div(L::select_lt(x, zero, e, one), L::add(one, e))
    }
}

#[inline(always)]
unsafe fn magnitude<L: Lanes>(x: L::F) -> L::F {
    // SAFETY: the caller proves the instruction set.
    unsafe { L::from_bits(L::and_i(L::bits(x), L::splat_i(i32::MAX))) }
}

#[inline(always)]
unsafe fn sign<L: Lanes>(x: L::F) -> L::I {
    // SAFETY: the caller proves the instruction set.
    unsafe { L::and_i(L::bits(x), L::splat_i(i32::MIN)) }
}
