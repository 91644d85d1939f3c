//! Fixtures and deliberately awkward weights for tests.
#![forbid(unsafe_code)]
