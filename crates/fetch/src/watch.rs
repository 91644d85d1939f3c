//! What an installation tells while it works.

use std::path::Path;
use std::time::Duration;

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'e> {
    /// It is known what there is to bring here.
    Plan {
        /// Where from, with the revision.
        source: &'e str,
        /// Files in all.
        files: usize,
        /// Bytes in all.
        bytes: u64,
    },
    /// The drive has no room for all of it, so experts are to come when they are needed.
    Streams {
        /// Bytes that all of it would take.
        needed: u64,
        /// Bytes that there is room for.
        free: u64,
    },
    /// Only layers were asked for, and a part of a file would take the room of all of it: all but the experts comes, and
    /// those of the layers are to be fetched then.
    LayersLater,
    /// So many bytes were here already, and are what they should be.
    Kept {
        /// How many.
        bytes: u64,
    },
    /// So many bytes came.
    Received {
        /// How many.
        bytes: u64,
    },
    /// So many bytes that had come have to come again.
    Lost {
        /// How many.
        bytes: u64,
    },
    /// A file was replaced at its source since some of it came: what came goes.
    Anew {
        /// Its name.
        name: &'e str,
        /// What is another than it was.
        why: &'e str,
    },
    /// A file is being fetched.
    Began {
        /// Its name.
        name: &'e str,
        /// Its length.
        bytes: u64,
    },
    /// A file is whole, and is being read to be compared with what the source announced.
    Proving {
        /// Its name.
        name: &'e str,
    },
    /// The drive takes no bytes of a file back, so what was released stays beside its pack.
    Keeps,
    /// What every token uses is being packed, as far as this file was the last for it.
    Packing {
        /// Its name.
        name: &'e str,
    },
    /// A file is here and proven.
    Done {
        /// Its name.
        name: &'e str,
    },
    /// The drive is full: experts make room for others though they take less than they may.
    Cramped {
        /// The folder.
        dir: &'e Path,
    },
    /// Nothing may be written in the folder: experts that are not here come each time they are needed, and are not kept.
    Unkept {
        /// The folder.
        dir: &'e Path,
        /// Why.
        why: &'e str,
    },
    /// The source gave something else than was asked for; it is asked again.
    Waiting {
        /// The file.
        name: &'e str,
        /// What it gave.
        why: &'e str,
        /// How long it is left alone.
        wait: Duration,
    },
}

/// Whoever is told, from any thread.
pub trait Watch: Send + Sync {
    /// Is told.
    fn event(&self, event: Event<'_>);
}

impl<F: Fn(Event<'_>) + Send + Sync> Watch for F {
    fn event(&self, event: Event<'_>) {
        self(event);
    }
}
