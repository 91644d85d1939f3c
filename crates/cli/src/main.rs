//! The `deltafin` command.
#![forbid(unsafe_code)]
fn main() {}
