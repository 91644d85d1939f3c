//! What is kept of earlier conversations, and where.

use std::path::PathBuf;

use clap::Args;
use deltafin_engine::SnapshotMemory;

use super::size::{Auto, Count};

/// The flags of a server about snapshots.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Conversations")]
pub(super) struct SnapshotArgs {
    /// Memory for states of conversations to go on from, a part of --memory; 0 for none
    ///
    /// 'auto' takes a sixteenth of --memory, but no more than sixteen short conversations or 256M take,
    /// whichever is more. Where a short conversation takes more than the sixteenth, up to twice as much,
    /// it takes that; where it takes more still, or more than all else leaves, none.
    #[arg(
        long,
        value_name = "SIZE|auto",
        default_value = "auto",
        env = "DELTAFIN_SNAPSHOT_MEMORY",
        hide_env_values = true
    )]
    snapshot_memory: Auto<Count>,

    /// Folder in which conversations outlast the server
    ///
    /// By default the user's cache folder, unless weights are read from that drive while it answers.
    /// Servers may share a folder.
    #[arg(long, value_name = "DIR", env = "DELTAFIN_SNAPSHOT_DIR", hide_env_values = true)]
    snapshot_dir: Option<PathBuf>,

    /// Most bytes of snapshots in that folder; 0 to write none
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "8G",
        env = "DELTAFIN_SNAPSHOT_DISK",
        hide_env_values = true
    )]
    snapshot_disk: Count,
}

/// What a server keeps on a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotDisk {
    /// The folder, where one was named.
    pub(crate) folder: Option<PathBuf>,
    /// The most bytes in it; none when zero.
    pub(crate) bytes: u64,
}

impl SnapshotArgs {
    pub(super) fn memory(&self) -> SnapshotMemory {
        memory(&self.snapshot_memory)
    }

    pub(super) fn disk(self) -> SnapshotDisk {
        SnapshotDisk { folder: self.snapshot_dir, bytes: self.snapshot_disk.0 as u64 }
    }
}

/// What was typed for the memory of snapshots.
pub(super) fn memory(typed: &Auto<Count>) -> SnapshotMemory {
    match typed.0 {
        None => SnapshotMemory::Auto,
        Some(Count(bytes)) => SnapshotMemory::Bytes(bytes as u64),
    }
}
