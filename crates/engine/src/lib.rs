//! Token ids in, token ids out.
#![forbid(unsafe_code)]
