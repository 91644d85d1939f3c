//! Small words of the interface.

use std::fmt;

/// How urgent a read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Somebody waits for it.
    Demand = 0,
    /// It will be needed. Chunks of it start only while none of a demand waits.
    Ahead = 1,
    /// It may be needed. Chunks of it start only while none of the others waits.
    Guess = 2,
}

impl Class {
    /// All, the most urgent first.
    pub const ALL: [Class; 3] = [Class::Demand, Class::Ahead, Class::Guess];
}

/// The name of a read, chosen by who asks; unique among the reads in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// How bytes get from a drive to a slab. Never changes which bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoMode {
    /// The first of the others that the file's drive is capable of.
    Auto,
    /// `io_uring` and O_DIRECT (Linux).
    Uring,
    /// Positional reads past the page cache on threads: O_DIRECT on Linux, F_NOCACHE on macOS.
    Direct,
    /// [`Store::read_exact`](crate::Store::read_exact) on threads.
    Buffered,
}

impl fmt::Display for IoMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            IoMode::Auto => "auto",
            IoMode::Uring => "uring",
            IoMode::Direct => "direct",
            IoMode::Buffered => "buffered",
        })
    }
}
