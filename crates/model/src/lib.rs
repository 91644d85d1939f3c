//! One forward pass of Kimi K3 over any number of rows.
//!
//! **Promise.** [`Forward::run`] advances a [`State`] by the given token ids and leaves the final
//! hidden rows in the [`Workspace`]; [`Forward::logits`] turns them into logits. The result for a
//! position depends on the ids up to it and on nothing else: not on how many rows a pass has, nor on
//! the order experts arrive in, threads or instruction set.
//!
//! **Relies on.** [`Weights`], a trait this crate owns: *layer L's spine* and *these experts*. The
//! crate does no I/O and starts no threads.
//!
//! Read it in this order: `forward.rs` (the layer loop and the attention residuals, as in the paper),
//! `kda.rs`, `mla.rs`, `ffn.rs`, `moe.rs`.
#![forbid(unsafe_code)]

mod error;
mod ffn;
mod forward;
mod kda;
mod mla;
mod moe;
mod observer;
mod predict;
mod router;
mod state;
mod weights;
mod workspace;

pub use error::{Place, StepError};
pub use forward::Forward;
pub use observer::{Observer, Part, Silent, Tap};
pub use state::{KdaState, LatentCache, LayerState, Recurrent, State};
pub use weights::{
    Attention, AttentionHalf, AttentionView, Expert, Ffn, FfnHalf, FfnView, Glu, Head, Ids, Kda,
    Lease, Mla, Moe, PassPlan, ResidualMix, Tail, TailView, Vector, View, Weights,
};
pub use workspace::Workspace;
