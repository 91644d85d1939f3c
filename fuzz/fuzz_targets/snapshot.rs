//! Feeds anything to [`check::check`], which ordinary tests run over the committed corpus.
#![no_main]

#[path = "../checks/snapshot.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
