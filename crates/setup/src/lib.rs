//! What is done to a checkpoint before it runs.
//!
//! [`convert`] packs the spine of a released checkpoint into the files that
//! [`deltafin_checkpoint::pack`] describes, in the released bits or quantised. It can be stopped at
//! any moment, by whatever means, and goes on from the last whole file: the bytes come out the same.
//! [`Packing`] makes the same pack of a checkpoint that is still on its way.
#![forbid(unsafe_code)]

mod convert;
mod disk;
mod error;
mod half;
mod leftover;
mod noted;
mod packing;
mod quantize;
mod stream;
mod target;
mod writer;

pub use convert::{Converted, Progress, convert, pack_in_memory};
pub use error::ConvertError;
pub use leftover::{PackLeftovers, remove_pack};
pub use packing::{Packing, packed_bytes, released_spans};
