//! Element by element, at every length around sixteen.

mod common;

use common::{
    Contents, Random, SIZES, assert_close, same_everywhere, same_on_each_isa, sigmoid, wide,
};
use deltafin_kernels::{Isa, add, add_scaled, all_finite, multiply, multiply_sigmoid, situ, tanh};
use proptest::prelude::*;

/// Rounded once, so equal to the bit: for these the scalar definition is the twin.
#[track_caller]
fn check_rounded_once(a: &[f32], b: &[f32], by: f32) {
    let check = |run: &dyn Fn(Isa, &mut [f32]), exact: &dyn Fn(f32, f32) -> f32| {
        let got = same_on_each_isa(|isa| {
            let mut acc = a.to_vec();
            run(isa, &mut acc);
            acc
        });
        let wanted: Vec<f32> = a.iter().zip(b).map(|(a, b)| exact(*a, *b)).collect();
        common::assert_same_bits(&got, &wanted, "once rounded");
    };
    check(&|isa, acc| add(isa, acc, b), &|a, b| a + b);
    check(&|isa, acc| multiply(isa, acc, b), &|a, b| a * b);
    check(&|isa, acc| add_scaled(isa, acc, b, by), &|a, b| b.mul_add(by, a));
}

#[test]
fn add_multiply_and_add_scaled_round_once() {
    for len in SIZES {
        let mut random = Random(len as u64);
        check_rounded_once(&random.vector(len, 3.0), &random.vector(len, 1e-3), 0.3);
    }
}

#[track_caller]
fn check_gates(len: usize, contents: Contents, random: &mut Random) {
    let (x, gate) = (contents.floats(random, len, 3.0), contents.floats(random, len, 20.0));
    let got = same_on_each_isa(|isa| {
        let mut x = x.clone();
        multiply_sigmoid(isa, &mut x, &gate);
        x
    });
    if contents != Contents::Anything {
        let pairs = wide(&x).into_iter().zip(wide(&gate));
        assert_close(&got, &pairs.map(|(x, g)| x * sigmoid(g)).collect::<Vec<_>>(), 1e-6);
    }
}

#[test]
fn gates_match_f64() {
    for len in SIZES {
        check_gates(len, Contents::Ordinary, &mut Random(len as u64));
    }
}

#[track_caller]
fn check_situ(len: usize, contents: Contents, random: &mut Random) {
    let (gate, up) = (contents.floats(random, len, 12.0), contents.floats(random, len, 60.0));
    let got = same_everywhere(|kernels| {
        let mut gate = gate.clone();
        kernels.situ_all(&mut gate, &up, 4.0, 25.0);
        gate
    });
    let alone = same_on_each_isa(|isa| {
        let mut gate = gate.clone();
        situ(isa, &mut gate, &up, 4.0, 25.0);
        gate
    });
    common::assert_same_bits(&got, &alone, "whole and in parts");
    let exact = wide(&gate).into_iter().zip(wide(&up));
    let exact = exact.map(|(g, u)| 4.0 * (g / 4.0).tanh() * sigmoid(g) * 25.0 * (u / 25.0).tanh());
    if contents != Contents::Anything {
        assert_close(&got, &exact.collect::<Vec<_>>(), 5e-7);
    }
}

#[test]
fn situ_matches_f64() {
    for len in SIZES.into_iter().chain([5000, 40_000]) {
        check_situ(len, Contents::Ordinary, &mut Random(len as u64));
    }
}

proptest! {
    #![proptest_config(common::cases(128))]

    #[test]
    fn any_elements(len in 0usize..300, contents in Contents::any(), seed in any::<u64>()) {
        let mut random = Random(seed);
        let (a, b) = (contents.floats(&mut random, len, 3.0), contents.floats(&mut random, len, 2.0));
        check_rounded_once(&a, &b, random.unit());
        check_gates(len, contents, &mut random);
        check_situ(len, contents, &mut random);
        for isa in Isa::available() {
            prop_assert_eq!(all_finite(isa, &a), a.iter().all(|x| x.is_finite()));
        }
    }
}

#[test]
fn situ_keeps_nan_and_bounds_infinity() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let mut gate = [nan, 1.0, inf, -inf, 3e38, 1.0];
    situ(Isa::best(), &mut gate, &[1.0, nan, inf, 1.0, -3e38, 0.0], 4.0, 25.0);
    assert!(gate[0].is_nan() && gate[1].is_nan());
    assert_eq!(gate[2..], [100.0, -0.0, -100.0, 0.0]);
}

#[test]
fn an_element_does_not_depend_on_its_place() {
    let x = Random(5).vector(200, 8.0);
    let mut whole = x.clone();
    tanh(Isa::best(), &mut whole);
    for (i, x) in x.iter().enumerate() {
        let mut alone = [*x];
        tanh(Isa::best(), &mut alone);
        assert_eq!(alone[0].to_bits(), whole[i].to_bits());
    }
}

#[test]
fn one_bad_element_is_found_anywhere() {
    for isa in Isa::available() {
        for len in SIZES {
            let mut x = vec![f32::MAX; len];
            assert!(all_finite(isa, &x));
            for i in 0..len {
                for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    let good = std::mem::replace(&mut x[i], bad);
                    assert!(!all_finite(isa, &x), "{bad} at {i} of {len}");
                    x[i] = good;
                }
            }
        }
        assert!(all_finite(isa, &[]));
    }
}

#[test]
#[should_panic(expected = "operands differ in length")]
fn lengths_are_checked() {
    add(Isa::SCALAR, &mut [0.0; 3], &[0.0; 4]);
}
