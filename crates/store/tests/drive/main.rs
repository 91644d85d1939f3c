//! What a reader must do in every mode.
#![allow(clippy::unwrap_used)]

mod contract;
mod faults;
mod modes;
mod order;
mod place;
mod support;
