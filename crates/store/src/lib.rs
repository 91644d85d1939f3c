//! Where the bytes of a span live: memory, local shards.
#![forbid(unsafe_code)]
