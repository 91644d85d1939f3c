//! What can go wrong between a plan and its files.

use std::io;
use std::path::PathBuf;

use deltafin_spec::SpecError;

/// A synthetic checkpoint could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SynthError {
    /// The dimensions make no model.
    #[error("these dimensions make no model: {0}")]
    Dimensions(#[from] SpecError),
    /// The directory holds something.
    #[error("{} is not empty: give a new directory, or empty this one", .0.display())]
    NotEmpty(PathBuf),
    /// A file is where the directory is to be, or one of those above it.
    #[error("{}: this, or what it is said to lie in, is a file: give a new directory", .0.display())]
    NoFolder(PathBuf),
    /// The file system is too full.
    #[error("{}: {needed} bytes are needed, {free} are free: make room, or choose smaller dimensions or --sparse", .dir.display())]
    NoRoom {
        /// Where they were to go.
        dir: PathBuf,
        /// Bytes the checkpoint takes.
        needed: u64,
        /// Bytes there are.
        free: u64,
    },
    /// A file or directory could not be made or written.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}
