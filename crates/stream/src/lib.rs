//! When bytes move.
//!
//! A [`Stream`] hands out the halves of layers and the experts that a forward pass asks for. What stays in
//! memory, and how much is set aside for what does not, is said by a [`Layout`]; the reads are done
//! by a [`deltafin_store::drive::Reader`].
//!
//! ```text
//! spine(half) ──► feed   halves of resident layers stay once read; the others are read ahead in the
//!                        order of use, as far as their arena reaches, and given back after use
//! demand(ids) ──► slots  every expert has a slot: free, being read, full, or in use. Full ones are
//! take(ids)              the cache; the least useful one makes room
//! expect(ids) ──► slots  guesses: read when a drive has nothing better to do
//! ```
//!
//! **Promises.** Bytes handed out are the record's: what is noted of them holds, and what they were when they were used
//! before, or they are read once more and then refused. A slot or half that is being filled or used is
//! never given to something else. No record is read twice in a pass that takes each layer's experts in
//! ascending order, but for a read that failed. A read that fails is told to whoever asked for it, and
//! only to them. No memory is allocated once all arenas are there, but to hold something against digests for the first time.
//!
//! **Relies on.** One pass at a time: whoever begins one takes over what the last one left behind.
#![forbid(unsafe_code)]

mod batch;
mod counters;
mod error;
mod feed;
mod guesses;
mod heat;
mod layout;
mod lease;
mod parts;
mod proofs;
mod rows;
mod settle;
mod shared;
#[cfg(test)]
mod simulation;
mod slots;
mod stream;
mod sums;
mod taken;
mod victim;
mod watch;

pub use counters::{Counters, Phase, Use};
pub use error::StreamError;
pub use heat::heat_counts;
pub use layout::{Layout, Prefetch};
pub use lease::SpineLease;
pub use parts::{largest_unit_room, unit_rooms};
pub use stream::{Stream, expert_room};
pub use sums::Share;
pub use watch::{End, ReadWatcher, Record};
