//! What a reader has done.

use std::time::Duration;

use super::{Class, IoMode};
use crate::Asked;

/// What a reader has done, by drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReaderReport {
    /// The drives; shards that are no files of this machine count as one.
    pub drives: Vec<DriveReport>,
    /// Reads that had to wait for bytes from elsewhere.
    pub brought: Traffic,
    /// Records that were taken away to make room for such.
    pub evicted: Traffic,
    /// How the source of these was asked.
    pub asked: Asked,
}

/// What was read from one drive, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveReport {
    /// A shard's file on it, or the name of a shard.
    pub file: String,
    /// The mode in use, never [`IoMode::Auto`].
    pub mode: IoMode,
    /// The mode in words, such as "io_uring, O_DIRECT, registered buffers".
    pub how: String,
    /// Why it is not the fastest mode, where `auto` or the kernel decided so: one line.
    pub notice: Option<String>,
    /// Reads that landed whole, by the class they had at the end.
    pub landed: [Traffic; 3],
    /// Bytes that came along because direct reads begin and end at pages.
    pub over_read_bytes: u64,
    /// Transfers that failed and were tried again.
    pub retries: u64,
    /// Time with at least one transfer in flight.
    pub busy: Duration,
    /// The most reads that were waiting or in flight at once.
    pub most_reads: usize,
}

/// An amount of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads.
    pub reads: u64,
    /// Their bytes, without what came along.
    pub bytes: u64,
}

impl DriveReport {
    /// What landed under this class.
    pub fn landed(&self, class: Class) -> Traffic {
        self.landed[class as usize]
    }
}

impl ReaderReport {
    /// What landed under this class, from all drives.
    pub fn landed(&self, class: Class) -> Traffic {
        self.drives.iter().fold(Traffic::default(), |sum, drive| {
            let here = drive.landed(class);
            Traffic { reads: sum.reads + here.reads, bytes: sum.bytes + here.bytes }
        })
    }
}
