//! Arithmetic on slices with one order of summation on every instruction set.
#![forbid(unsafe_code)]
