//! A small trained model of the K3 architecture, carried inside the binary.
#![forbid(unsafe_code)]
