//! What can be wrong with a file.

use std::io;

/// Why a file is no snapshot to go on from.
#[derive(Debug, thiserror::Error)]
pub enum Flaw {
    /// It ends within its head or its ids.
    #[error("it ends after {bytes} bytes, within its head")]
    Short {
        /// Where it ends.
        bytes: u64,
    },
    /// It begins with something else.
    #[error("it is not a snapshot")]
    Magic,
    /// It is in another version of the format.
    #[error(
        "it has version {found} of the format, this program version {}",
        crate::format::VERSION
    )]
    Version {
        /// Its version.
        found: u8,
    },
    /// It was made of other weights.
    #[error("it is of another checkpoint")]
    Checkpoint,
    /// It was computed with another representation of the spine, or on another class of device.
    #[error("it is of another recipe")]
    Recipe,
    /// Its state has other dimensions.
    #[error("it is of a model of other dimensions")]
    Shape,
    /// It is of other tokens than its name says.
    #[error("it is of other tokens")]
    Ids,
    /// Its length is not what its head says.
    #[error("it has {found} bytes where {wanted} were expected")]
    Length {
        /// The length that follows from its head.
        wanted: u64,
        /// The length it has.
        found: u64,
    },
    /// A byte of it changed.
    #[error("it is damaged: its digest is another")]
    Digest,
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
}
