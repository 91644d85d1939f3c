//! Slices of any length as sixteen lanes: what is missing at the end is zero and is not written.
#![allow(unsafe_code)]

use super::{LANES, Lanes};

/// The first sixteen floats of `x`, with zero lanes after its end.
///
/// # Safety
///
/// The CPU has the instruction set of `L`.
#[inline(always)]
pub(crate) unsafe fn load<L: Lanes>(x: &[f32]) -> L::F {
    if x.len() >= LANES {
        // SAFETY: sixteen floats are there.
        return unsafe { L::load(x.as_ptr()) };
    }
    let mut padded = [0.0; LANES];
    padded[..x.len()].copy_from_slice(x);
    // SAFETY: the array holds sixteen floats.
    unsafe { L::load(padded.as_ptr()) }
}

/// Writes as many lanes of `v` as `x` has room for, at most sixteen.
///
/// # Safety
///
/// The CPU has the instruction set of `L`.
#[inline(always)]
pub(crate) unsafe fn store<L: Lanes>(v: L::F, x: &mut [f32]) {
    if x.len() >= LANES {
        // SAFETY: sixteen floats are there.
        return unsafe { L::store(v, x.as_mut_ptr()) };
    }
    // SAFETY: the caller proves the instruction set.
    let lanes = unsafe { to_array::<L>(v) };
    x.copy_from_slice(&lanes[..x.len()]);
}

/// Sixteen floats from `x[at]` on; with `WHOLE` the caller knows that they are there.
///
/// # Safety
///
/// The CPU has the instruction set of `L`. With `WHOLE`, `at + 16` is within `x`.
#[inline(always)]
pub(crate) unsafe fn load_at<L: Lanes, const WHOLE: bool>(x: &[f32], at: usize) -> L::F {
    debug_assert!(!WHOLE || at + LANES <= x.len());
    // SAFETY: the caller's promise.
    unsafe { if WHOLE { L::load(x.as_ptr().add(at)) } else { load::<L>(&x[at..]) } }
}

/// Sixteen floats to `x[at]` and on; with `WHOLE` the caller knows that there is room.
///
/// # Safety
///
/// The CPU has the instruction set of `L`. With `WHOLE`, `at + 16` is within `x`.
#[inline(always)]
pub(crate) unsafe fn store_at<L: Lanes, const WHOLE: bool>(v: L::F, x: &mut [f32], at: usize) {
    debug_assert!(!WHOLE || at + LANES <= x.len());
    // SAFETY: the caller's promise.
    unsafe { if WHOLE { L::store(v, x.as_mut_ptr().add(at)) } else { store::<L>(v, &mut x[at..]) } }
}

/// The lanes as an array.
///
/// # Safety
///
/// The CPU has the instruction set of `L`.
#[inline(always)]
pub(crate) unsafe fn to_array<L: Lanes>(v: L::F) -> [f32; LANES] {
    let mut lanes = [0.0; LANES];
    // SAFETY: the array holds sixteen floats.
    unsafe { L::store(v, lanes.as_mut_ptr()) };
    lanes
}

/// `acc` plus the products of `a` and `b`: element `i` goes to lane `i % 16`, one fused multiply-add
/// each, in ascending order. The end is as if padded with zeros.
///
/// # Safety
///
/// The CPU has the instruction set of `L`.
#[inline(always)]
pub(crate) unsafe fn dot<L: Lanes>(a: &[f32], b: &[f32], mut acc: L::F) -> L::F {
    for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
        // SAFETY: the caller proves the instruction set.
        acc = unsafe { L::fma(load::<L>(a), load::<L>(b), acc) };
    }
    acc
}
