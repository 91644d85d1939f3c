//! Bytes of a released checkpoint to a validated catalog of spans.
#![forbid(unsafe_code)]
