//! `exp`, `tanh` and `sigmoid` against f64, over floats of every exponent.
//!
//! `cargo test --release -p deltafin-kernels --test math_accuracy -- --ignored --nocapture` looks at
//! every single float and prints the largest errors.

mod common;

use common::{assert_same_bits, same_on_each_isa};
use deltafin_kernels::{Isa, exp, sigmoid, tanh};

type InPlace = fn(Isa, &mut [f32]);

struct Function {
    name: &'static str,
    ours: InPlace,
    exact: fn(f64) -> f64,
    most_ulp: f64,
}

const FUNCTIONS: [Function; 3] = [
    Function { name: "exp", ours: exp, exact: f64::exp, most_ulp: 1.0 },
    Function { name: "tanh", ours: tanh, exact: f64::tanh, most_ulp: 1.5 },
    Function { name: "sigmoid", ours: sigmoid, exact: common::sigmoid, most_ulp: 2.5 },
];

/// The distance in units of the last place that `exact` has as a float.
fn error_ulp(got: f32, exact: f64) -> f64 {
    let rounded = exact as f32;
    if got == rounded || (got.is_nan() && exact.is_nan()) {
        return 0.0;
    }
    let exponent = exact.abs().log2().floor().max(-126.0);
    (f64::from(got) - exact).abs() / (exponent - 23.0).exp2()
}

/// The largest error over every `stride`-th bit pattern, and where.
fn largest_error(function: &Function, isa: Isa, stride: usize) -> (f64, f32) {
    let mut worst = (0.0, 0.0);
    let mut batch = Vec::with_capacity(4096);
    let mut patterns = (0..=u32::MAX).step_by(stride).map(f32::from_bits).peekable();
    while patterns.peek().is_some() {
        batch.clear();
        batch.extend(patterns.by_ref().take(4096));
        let inputs = batch.clone();
        (function.ours)(isa, &mut batch);
        for (x, got) in inputs.iter().zip(&batch) {
            let error = error_ulp(*got, (function.exact)(f64::from(*x)));
            if error.is_nan() || error > worst.0 {
                worst = (error, *x);
            }
        }
    }
    worst
}

#[track_caller]
fn check_accuracy(stride: usize) {
    for function in FUNCTIONS {
        let (ulp, x) = largest_error(&function, Isa::best(), stride);
        assert!(ulp <= function.most_ulp, "{}({x:e}) is off by {ulp} ulp", function.name);
        if stride == 1 {
            eprintln_for_the_record(function.name, ulp, x);
        }
    }
}

#[allow(clippy::print_stderr)] // Asked for with --nocapture.
fn eprintln_for_the_record(name: &str, ulp: f64, x: f32) {
    eprintln!("{name}: at most {ulp:.3} ulp, at {x:e}");
}

#[test]
fn a_sample_of_all_floats_is_accurate() {
    check_accuracy(1999);
}

#[test]
#[ignore = "minutes: every float"]
fn every_float_is_accurate() {
    check_accuracy(1);
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    let inputs: Vec<f32> = (0..=u32::MAX).step_by(49_999).map(f32::from_bits).collect();
    for function in FUNCTIONS {
        same_on_each_isa(|isa| {
            let mut x = inputs.clone();
            (function.ours)(isa, &mut x);
            x
        });
    }
}

#[test]
fn limits() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let tiny = f32::from_bits(1);
    let cases: [(InPlace, &[(f32, f32)]); 3] = [
        (
            exp,
            &[
                (0.0, 1.0),
                (-0.0, 1.0),
                (inf, inf),
                (-inf, 0.0),
                (nan, nan),
                (88.72284, inf),
                (1e30, inf),
                (-103.0, tiny),
                (-104.0, 0.0),
                (-1e30, 0.0),
                (tiny, 1.0),
            ],
        ),
        (
            tanh,
            &[
                (0.0, 0.0),
                (-0.0, -0.0),
                (inf, 1.0),
                (-inf, -1.0),
                (nan, nan),
                (1e30, 1.0),
                (-20.0, -1.0),
                (tiny, tiny),
                (-1e-38, -1e-38),
            ],
        ),
        (
            sigmoid,
            &[
                (0.0, 0.5),
                (-0.0, 0.5),
                (inf, 1.0),
                (-inf, 0.0),
                (nan, nan),
                (-103.0, tiny),
                (-1e30, 0.0),
                (1e30, 1.0),
            ],
        ),
    ];
    for (ours, cases) in cases {
        let (mut x, wanted): (Vec<f32>, Vec<f32>) = cases.iter().copied().unzip();
        ours(Isa::best(), &mut x);
        assert_same_bits(&x, &wanted, "limits");
    }
}

#[test]
fn exp_never_falls_as_its_argument_grows() {
    let mut x: Vec<f32> = (0..2_000_000).map(|i| -104.0 + i as f32 * 1e-4).collect();
    exp(Isa::best(), &mut x);
    assert!(x.windows(2).all(|w| w[0] <= w[1]));
}
