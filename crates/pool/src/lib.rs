//! A fixed set of threads that share out row ranges.
#![forbid(unsafe_code)]
