//! Whether a source can be reached, and what it has at this moment.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::install::running;
use crate::remote::{Manner, reach};
use crate::{Event, FetchError, Patience, Source};

/// A source that answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Sighting {
    /// The source, with its revision.
    pub source: String,
    /// Files of the checkpoint.
    pub files: usize,
    /// Bytes of the checkpoint.
    pub bytes: u64,
    /// How long it took to say so.
    pub seconds: f64,
    /// How far this machine's clock is before the source's, if it told the time.
    pub clock_ahead_seconds: Option<i64>,
}

/// Asks a source, which is no folder, what it has. Nothing is written, no weights are fetched.
///
/// # Errors
/// When it cannot be reached, refuses, or has no checkpoint.
pub fn sight(
    source: &Source,
    endpoint: Option<&str>,
    patience: Patience,
    stop: &AtomicBool,
) -> Result<Sighting, FetchError> {
    let began = Instant::now();
    let quiet = |_: Event<'_>| {};
    running(Path::new("."), stop, async {
        let manner = Manner { endpoint, patience: &patience, watch: &quiet };
        let (remote, listing) = reach(source, None, manner).await?;
        Ok(Sighting {
            files: listing.files.len(),
            bytes: listing.bytes(),
            seconds: began.elapsed().as_secs_f64(),
            clock_ahead_seconds: remote.clock_ahead_seconds(),
            source: listing.source,
        })
    })
}
