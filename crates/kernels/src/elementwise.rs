//! Functions of one element at a time. A result depends on the element's value only, never on its
//! place: the end of a slice goes through the same sixteen lanes, padded.
#![allow(unsafe_code)]

use crate::lanes::slices::{load, store};
use crate::lanes::{LANES, Lanes, instantiate};
use crate::{Isa, math};

#[track_caller]
fn same_length(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len(), "operands differ in length");
}

/// `acc += x`.
#[track_caller]
pub fn add(isa: Isa, acc: &mut [f32], x: &[f32]) {
    same_length(acc, x);
    add_on(isa, acc, x);
}

/// `acc += x * by`, rounded once.
#[track_caller]
pub fn add_scaled(isa: Isa, acc: &mut [f32], x: &[f32], by: f32) {
    same_length(acc, x);
    add_scaled_on(isa, acc, x, by);
}

/// `acc *= x`.
#[track_caller]
pub fn multiply(isa: Isa, acc: &mut [f32], x: &[f32]) {
    same_length(acc, x);
    multiply_on(isa, acc, x);
}

/// `x *= sigmoid(gate)`: the output gate of an attention layer.
#[track_caller]
pub fn multiply_sigmoid(isa: Isa, x: &mut [f32], gate: &[f32]) {
    same_length(x, gate);
    multiply_sigmoid_on(isa, x, gate);
}

instantiate! {
    fn add_on(acc: &mut [f32], x: &[f32]) = add_lanes;
}
instantiate! {
    fn add_scaled_on(acc: &mut [f32], x: &[f32], by: f32) = add_scaled_lanes;
}
instantiate! {
    fn multiply_on(acc: &mut [f32], x: &[f32]) = multiply_lanes;
}
instantiate! {
    fn multiply_sigmoid_on(x: &mut [f32], gate: &[f32]) = multiply_sigmoid_lanes;
}
instantiate! {
    /// `x <- 1 / (1 + e^-x)`, within 2.5 ulp. NaN stays NaN.
    pub fn sigmoid(x: &mut [f32]) = sigmoid_lanes;
}
instantiate! {
    /// `x <- e^x`, within 1 ulp, with gradual underflow. NaN stays NaN.
    pub fn exp(x: &mut [f32]) = exp_lanes;
}
instantiate! {
    /// `x <- tanh x`, within 1.5 ulp, also near zero. NaN stays NaN.
    pub fn tanh(x: &mut [f32]) = tanh_lanes;
}
instantiate! {
    /// Whether no element is infinite or NaN.
    pub fn all_finite(x: &[f32]) -> bool = all_finite_lanes;
}

// SAFETY, for all below: the caller proves the instruction set, as `instantiate!` does.

#[inline(always)]
unsafe fn add_lanes<L: Lanes>(acc: &mut [f32], x: &[f32]) {
    for (a, x) in acc.chunks_mut(LANES).zip(x.chunks(LANES)) {
        // SAFETY: see above.
        unsafe { store::<L>(L::add(load::<L>(a), load::<L>(x)), a) }
    }
}

#[inline(always)]
unsafe fn add_scaled_lanes<L: Lanes>(acc: &mut [f32], x: &[f32], by: f32) {
    for (a, x) in acc.chunks_mut(LANES).zip(x.chunks(LANES)) {
        // SAFETY: see above.
        unsafe { store::<L>(L::fma(load::<L>(x), L::splat(by), load::<L>(a)), a) }
    }
}

#[inline(always)]
unsafe fn multiply_lanes<L: Lanes>(acc: &mut [f32], x: &[f32]) {
    for (a, x) in acc.chunks_mut(LANES).zip(x.chunks(LANES)) {
        // SAFETY: see above.
        unsafe { store::<L>(L::mul(load::<L>(a), load::<L>(x)), a) }
    }
}

#[inline(always)]
unsafe fn multiply_sigmoid_lanes<L: Lanes>(x: &mut [f32], gate: &[f32]) {
    for (x, g) in x.chunks_mut(LANES).zip(gate.chunks(LANES)) {
        // SAFETY: see above.
        unsafe { store::<L>(L::mul(load::<L>(x), math::sigmoid::<L>(load::<L>(g))), x) }
    }
}

#[inline(always)]
unsafe fn sigmoid_lanes<L: Lanes>(x: &mut [f32]) {
    for x in x.chunks_mut(LANES) {
        // SAFETY: see above.
        unsafe { store::<L>(math::sigmoid::<L>(load::<L>(x)), x) }
    }
}

#[inline(always)]
unsafe fn exp_lanes<L: Lanes>(x: &mut [f32]) {
    for x in x.chunks_mut(LANES) {
        // SAFETY: see above.
        unsafe { store::<L>(math::exp::<L>(load::<L>(x)), x) }
    }
}

#[inline(always)]
unsafe fn tanh_lanes<L: Lanes>(x: &mut [f32]) {
    for x in x.chunks_mut(LANES) {
        // SAFETY: see above.
        unsafe { store::<L>(math::tanh::<L>(load::<L>(x)), x) }
    }
}

#[inline(always)]
unsafe fn all_finite_lanes<L: Lanes>(x: &[f32]) -> bool {
    // SAFETY: see above.
    unsafe {
        let zero = L::splat(0.0);
        let mut sum = zero;
        for x in x.chunks(LANES) {
            sum = L::fma(load::<L>(x), zero, sum); // 0 · x is NaN for NaN and the infinities
        }
        L::fold(sum) == 0.0
    }
}
