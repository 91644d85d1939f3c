//! Feeds anything to [`check::check`], which ordinary tests run over the committed corpus.
//!
//! The parser is compiled in by its files: with its crate would come a whole HTTP client.
#![no_main]
#![allow(dead_code, reason = "of these files the parser alone is used")]

#[path = "../../crates/fetch/src/hub/answer.rs"]
mod answer;
#[path = "../checks/hub_listing.rs"]
mod check;
#[path = "../../crates/fetch/src/listing.rs"]
mod listing;
#[path = "../../crates/fetch/src/proof.rs"]
mod proof;

use proof::Proof;

mod hub {
    pub(crate) use crate::answer;
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
