//! What sequences left behind, to go on from: in memory, and on a drive for the next start.
//!
//! **Promise.** Going on from a snapshot gives the bits that the same tokens give from the beginning. A
//! snapshot is used whole or not at all, and only for the checkpoint, recipe and tokens it was made
//! of; what is damaged, cut short or foreign is dropped with one line and never tried twice. Memory and
//! drive each have a bound that is never exceeded; losing a snapshot costs time, nothing else.
//!
//! A state has two parts. The latent cache only grows, so snapshots of one conversation share its
//! pages. What KDA layers remember is overwritten by every token, so each snapshot has a copy of
//! its own ([`deltafin_model::Recurrent`]), and one can return to the positions of copies alone.
//!
//! ```text
//! prompt ─Snapshots::resume─► state as it was after the longest prefix that is known
//!    pass ─Snapshots::keep──► kept (memory, least recently used goes) ──writer──► folder (drive)
//! ```
//!
//! Read `page`, `kept`, `format`, `folder`, `writer`, then `snapshots`, which joins them.
#![forbid(unsafe_code)]

mod flaw;
mod folder;
mod format;
mod kept;
mod mark;
mod name;
mod page;
mod snapshots;
mod writer;

pub use flaw::Flaw;
pub use folder::{FolderOptions, Note};
pub use format::{Head, Origin, Reader, Shape, write};
pub use mark::{Mark, STRIDE};
pub use snapshots::Snapshots;
pub use writer::Writes;
