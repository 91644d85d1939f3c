//! Measures memory bandwidth, multiply-add peak and kernel speed of this machine.
#![forbid(unsafe_code)]
