//! What can go wrong while bytes move.

use deltafin_spec::{ExpertId, LayerId};
use deltafin_store::StoreError;
use deltafin_store::arena::ArenaError;
use deltafin_store::drive::ReaderError;

/// Weights could not be had.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// A layer's spine could not be read.
    #[error("layer {layer}: {source}")]
    Layer {
        /// The layer it was for.
        layer: LayerId,
        /// What failed.
        source: StoreError,
    },
    /// An expert could not be read.
    #[error("layer {layer}, expert {expert}: {source}")]
    Expert {
        /// The layer it was for.
        layer: LayerId,
        /// The expert it was for.
        expert: ExpertId,
        /// What failed.
        source: StoreError,
    },
    /// Something outside the layers could not be read.
    #[error("{part}: {source}")]
    Global {
        /// What it was for.
        part: &'static str,
        /// What failed.
        source: StoreError,
    },
    /// Experts are waited for that nobody reads: every slot is taken by what cannot make room.
    #[error(
        "layer {layer}: its experts find no room, for all of {slots} slots are in use: a fault of this program; \
         start it again, with more --slabs if it comes back"
    )]
    Stuck {
        /// The layer they are of.
        layer: LayerId,
        /// Slots that have memory.
        slots: usize,
    },
    /// There is no memory for the plan.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// The drives cannot be read as asked.
    #[error(transparent)]
    Reader(#[from] ReaderError),
    /// A layout that cannot work.
    #[error("{wanted} bytes are set aside for streamed spines, the largest needs {needed}")]
    StreamRoom {
        /// Bytes set aside.
        wanted: usize,
        /// Bytes of the largest unit.
        needed: usize,
    },
}
