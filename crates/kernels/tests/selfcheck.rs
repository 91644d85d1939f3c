//! Every kernel on every instruction set of this CPU gives the recorded bits.

#[path = "../examples/selfcheck/cases.rs"]
mod cases;
#[path = "../examples/selfcheck/products.rs"]
mod products;
#[path = "../examples/selfcheck/recording.rs"]
mod recording;

mod common;

use recording::{Record, Recording};

#[test]
fn all_instruction_sets_and_threads_reproduce_the_recording() {
    let recording = Recording::committed();
    for case in cases::CASES.iter().chain(products::CASES) {
        for kernels in common::all_kernels() {
            let got = case.run(&kernels);
            let isa = kernels.isa().kind();
            assert!(recording.check(case, &got), "{isa} gives {}", Record::of(case, &got));
        }
    }
}
