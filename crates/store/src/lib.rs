//! Where the bytes of a span live.
//!
//! A [`Store`] answers spans. [`LocalShards`] reads the files of a folder, [`MemoryShards`]
//! slices; whoever asks cannot tell which. [`open_dir`] and [`from_memory`] put a store, the
//! catalog of what is in it and the small files beside it together to a [`Checkpoint`],
//! after everything that can be checked without reading weights was checked.
//!
//! A read gives all the bytes that were asked for or a typed error with file and offset.
//! It never gives zeros for what could not be read, and never ends the process: files are
//! read, not mapped, so that one that is cut in use is an error and no signal.
//!
//! [`drive`] reads records of a store into memory of an [`arena`], in the order of their urgency
//! and past the page cache where the drive is capable of it.
// Allowed where memory is mapped and lent: `arena`, `drive/uring`; and to ask a kernel or an allocator:
// `kernel_count`, `hole`, `heap`.
#![deny(unsafe_code)]

pub mod arena;
mod checkpoint;
pub mod drive;
mod error;
mod folder;
mod freed;
pub mod heap;
pub mod hole;
pub mod kernel_count;
mod local;
mod memory;
mod noted;
mod open;
mod spine;
mod store;

pub use checkpoint::{Checkpoint, TokenizerFiles};
pub use deltafin_checkpoint::Problem;
pub use error::{OpenError, StoreError};
pub use local::{Files, LocalFile, LocalShards};
pub use memory::{MemoryShards, ShardBytes};
pub use noted::{Noted, damaged, pieces_of, prove, prove_at_rest};
pub use open::{
    DeclaredIds, Inspection, declared_ids, from_memory, inspect_dir, inspect_streamed, open_dir,
    open_streamed, open_unfinished,
};
pub use spine::{Damage, Remedy, SpineChoice, SpineError, SpineNote, SpinePack, pack_dir};
pub use store::{Asked, Distant, Heat, Hold, Store, read_record, read_row};
