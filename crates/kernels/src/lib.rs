//! Arithmetic on plain slices, the same to the last bit on every instruction set.
//!
//! **Promise.** For equal inputs every function returns bit-equal outputs whatever the instruction
//! set, the number of threads and the number of rows computed together. It follows from three rules:
//!
//! 1. A dot product is summed in 16 fp32 lanes by fused multiply-add and then folded 8+8, 4+4, 2+2,
//!    1+1. Which column goes to which lane is fixed per weight format (see [`Matrix`]).
//! 2. Blocking decides which (row, position) pairs are computed together, never the order inside one.
//! 3. `exp`, `tanh` and `sigmoid` are our own polynomials over the same lanes; division and square
//!    root are the correctly rounded IEEE operations.
//!
//! Softmax over positions works in blocks that begin at absolute positions ([`POSITIONS_PER_BLOCK`]).
//!
//! **How.** Every kernel is written once, generic over the lanes, and instantiated for each
//! instruction set inside a function that enables it. `unsafe` vouches for two things: that the CPU
//! has the instruction set, of which an [`Isa`] is the proof, and that tasks write different parts of
//! a buffer (`disjoint`).
//!
//! The crate does no I/O and starts no threads: it is handed an [`Isa`] and a [`Parallel`] pool.

mod attention;
mod attnres;
mod conv;
mod disjoint;
mod elementwise;
mod isa;
mod kda;
mod lanes;
mod latent;
mod math;
mod matrix;
mod norm;
mod parallel;
pub mod probe;
mod products;
mod situ;

pub use attention::POSITIONS_PER_BLOCK;
pub use attnres::attention_residual;
pub use elementwise::{
    add, add_scaled, all_finite, exp, multiply, multiply_sigmoid, sigmoid, tanh,
};
pub use isa::{Isa, IsaKind, UnknownIsa, UnsupportedIsa};
pub use latent::LatentDims;
pub use matrix::{Matrix, MatrixError, Weights};
pub use norm::{gated_head_norm, l2_normalize, rms_norm};
pub use parallel::{Kernels, Parallel, Serial};
pub use products::{Product, Scratch};
pub use situ::situ;
