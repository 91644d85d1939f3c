//! Element by element, at every length around sixteen.

mod common;

use common::{Random, SIZES, assert_close, same_everywhere, same_on_each_isa, sigmoid, wide};
use deltafin_kernels::{Isa, add, add_scaled, all_finite, multiply, multiply_sigmoid, situ, tanh};

#[test]
fn add_multiply_and_add_scaled_round_once() {
    for len in SIZES {
        let mut random = Random(len as u64);
        let (a, b) = (random.vector(len, 3.0), random.vector(len, 1e-3));
        let check = |run: &dyn Fn(Isa, &mut [f32]), exact: &dyn Fn(f32, f32) -> f32| {
            let got = same_on_each_isa(|isa| {
                let mut acc = a.clone();
                run(isa, &mut acc);
                acc
            });
            let wanted: Vec<f32> = a.iter().zip(&b).map(|(a, b)| exact(*a, *b)).collect();
            common::assert_same_bits(&got, &wanted, "once rounded");
        };
        check(&|isa, acc| add(isa, acc, &b), &|a, b| a + b);
        check(&|isa, acc| multiply(isa, acc, &b), &|a, b| a * b);
        check(&|isa, acc| add_scaled(isa, acc, &b, 0.3), &|a, b| b.mul_add(0.3, a));
    }
}

#[test]
fn gates_match_f64() {
    for len in SIZES {
        let mut random = Random(len as u64);
        let (x, gate) = (random.vector(len, 3.0), random.vector(len, 20.0));
        let got = same_on_each_isa(|isa| {
            let mut x = x.clone();
            multiply_sigmoid(isa, &mut x, &gate);
            x
        });
        let exact =
            wide(&x).iter().zip(wide(&gate)).map(|(x, g)| x * sigmoid(g)).collect::<Vec<_>>();
        assert_close(&got, &exact, 1e-6);
    }
}

#[test]
fn situ_matches_f64() {
    for len in SIZES.into_iter().chain([5000, 40_000]) {
        let mut random = Random(len as u64);
        let (gate, up) = (random.vector(len, 12.0), random.vector(len, 60.0));
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
        let exact =
            exact.map(|(g, u)| 4.0 * (g / 4.0).tanh() * sigmoid(g) * 25.0 * (u / 25.0).tanh());
        assert_close(&got, &exact.collect::<Vec<_>>(), 5e-7);
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
