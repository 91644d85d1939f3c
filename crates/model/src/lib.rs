//! One forward pass of Kimi K3 over any number of rows.
#![forbid(unsafe_code)]
