//! Bytes of a released checkpoint to a validated catalog of spans.
//!
//! Everything here works on bytes that somebody else has read; there is no I/O. The bytes
//! come from strangers, so the parsers are a security boundary: every way to be wrong is a
//! typed error, sizes are computed with overflow checks, and nothing is allocated that is
//! larger than what was handed in.
//!
//! ```text
//! config.json ──► Config ─────────────┐
//! shard headers ─► Header ────────────┼─► CatalogBuilder ─► Catalog ─► spans to read
//! model.safetensors.index.json ► Index┘         └─► every Problem, if there are any
//! manifest.json of a spine pack ──► pack::Manifest ─► Catalog::with_pack
//! ```
//!
//! Once a [`Catalog`] exists, each [`Span`] in it is inside its shard, every tensor of the
//! roster is present once with the right dtype and shape, and offsets need no more checks.
#![forbid(unsafe_code)]
#![recursion_limit = "256"] // for the long literal of a configuration

mod catalog;
mod config;
mod generation;
mod header;
mod identity;
mod index;
mod json;
pub mod pack;
mod problem;
mod recipe;
mod record;
mod span;
mod spine;
pub mod write;

pub use catalog::{Catalog, CatalogBuilder, Globals, Ignored, RowTable, Shard, SpanTensor};
pub use config::{Config, ConfigError};
pub use generation::Generation;
pub use header::{Header, HeaderError, MAX_HEADER_BYTES, TensorInfo, header_extent};
pub use identity::{Identity, IdentityHasher};
pub use index::{Index, IndexEntry, IndexError};
pub use problem::{Problem, Problems};
pub use recipe::Recipe;
pub use record::{ExpertLayout, ExpertRecord, Record, TensorPlace};
pub use span::{ShardId, Span};
pub use spine::{PlacedTensor, PlacedTensors, Spine};
