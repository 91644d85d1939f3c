//! Runs every kernel on seeded inputs with every instruction set this CPU has, single-threaded and
//! without the test harness, so that it also runs under an emulator. Each result must equal, bit for
//! bit, the scalar one and the one recorded in `tests/vectors/kernels.txt`.
//!
//! `selfcheck --write` prints the recording instead, for that file.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)] // Its output is its purpose.

mod cases;
mod products;
mod recording;

use cases::{CASES, Case};
use deltafin_kernels::{Isa, Kernels, Serial};
use recording::{Record, Recording, canonical};
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--write") {
        for case in cases() {
            println!("{}", Record::of(case, &case.run(&Kernels::reference())));
        }
        return ExitCode::SUCCESS;
    }
    let recording = Recording::committed();
    let failures = cases().filter(|case| !check(case, &recording)).count();
    match failures {
        0 => println!("OK"),
        n => println!("{n} kernels FAILED"),
    }
    ExitCode::from(u8::from(failures > 0))
}

fn cases() -> impl Iterator<Item = &'static Case> {
    CASES.iter().chain(products::CASES)
}

/// Prints one line; whether all is well.
fn check(case: &Case, recording: &Recording) -> bool {
    let scalar = case.run(&Kernels::reference());
    let recorded = recording.check(case, &scalar);
    print!("{:24} {:6} floats  scalar {}", case.name, scalar.len(), word(recorded));
    let mut good = recorded;
    for isa in Isa::available().filter(|isa| *isa != Isa::SCALAR) {
        let got = case.run(&Kernels::new(isa, Arc::new(Serial)));
        let wrong = differing(&got, &scalar);
        print!("  {} {}", isa.kind(), word(wrong.is_none()));
        if let Some(i) = wrong {
            print!(" (element {i}: {:e} for {:e})", got[i], scalar[i]);
        }
        good &= wrong.is_none();
    }
    println!();
    good
}

fn word(good: bool) -> &'static str {
    if good { "ok" } else { "DIFFERS" }
}

/// The first place where two results differ in their bits.
fn differing(a: &[f32], b: &[f32]) -> Option<usize> {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).position(|(a, b)| canonical(*a) != canonical(*b))
}
