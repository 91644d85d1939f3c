//! Whether a source can be reached, and what it has at this moment.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::cut::LENGTH_BYTES;
use crate::install::running;
use crate::listing::Listing;
use crate::remote::{Manner, Remote, asking, reach};
use crate::{Event, FetchError, Patience, Source, folder};

/// A source that answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Sighting {
    /// The source, with its revision.
    pub source: String,
    /// Files of the checkpoint.
    pub files: usize,
    /// Bytes of the checkpoint.
    pub bytes: u64,
    /// How long it took to answer.
    pub seconds: f64,
    /// How far this machine's clock is before the source's, if it told the time.
    pub clock_ahead_seconds: Option<i64>,
}

/// Where to look, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Lookout<'l> {
    /// The source, which is no folder.
    pub source: &'l Source,
    /// Where the hub is, if not where it usually is.
    pub endpoint: Option<&'l str>,
    /// The folder that is to be filled from it, if there is one: the revision that this has is asked for.
    pub dir: Option<&'l Path>,
    /// How long each answer is waited for.
    pub patience: Patience,
    /// How long all of them together.
    pub most: Duration,
}

/// Asks a source what it has, unless its folder knows that, and for the first bytes of a shard: those may come from
/// another server. Nothing is written, no weights are fetched.
///
/// # Errors
/// When it cannot be reached, refuses, has no checkpoint or not this one, or takes too long.
pub fn sight(lookout: Lookout<'_>, stop: &AtomicBool) -> Result<Sighting, FetchError> {
    let Lookout { source, dir, most, .. } = lookout;
    let known = dir.map(folder::record).transpose()?.flatten();
    let known = known.filter(|record| record.asked == source.to_string());
    let known = known.map(|record| record.listing);
    running(Path::new("."), stop, async {
        let seen = timeout(most, seen(lookout, known)).await;
        seen.unwrap_or_else(|_| {
            let why = format!("it took more than {} s to answer", most.as_secs_f32());
            Err(FetchError::Source { what: source.to_string(), why })
        })
    })
}

async fn seen(lookout: Lookout<'_>, known: Option<Listing>) -> Result<Sighting, FetchError> {
    let Lookout { source, endpoint, patience, .. } = lookout;
    let began = Instant::now();
    let quiet = |_: Event<'_>| {};
    let manner = Manner { endpoint, patience: &patience, watch: &quiet };
    let (remote, listing) = reach(source, known, manner).await?;
    try_shard(&remote, &listing, source, manner).await?;
    Ok(Sighting {
        files: listing.files.len(),
        bytes: listing.bytes(),
        seconds: began.elapsed().as_secs_f64(),
        clock_ahead_seconds: remote.clock_ahead_seconds(),
        source: listing.source,
    })
}

/// Fetches what a shard begins with.
async fn try_shard(
    remote: &Remote,
    listing: &Listing,
    source: &Source,
    manner: Manner<'_>,
) -> Result<(), FetchError> {
    let shard = listing.files.iter().find(|file| file.is_shard() && file.bytes > LENGTH_BYTES);
    match shard {
        Some(shard) => {
            asking(source, manner, || remote.bytes(shard, 0..LENGTH_BYTES)).await.map(drop)
        }
        None => Ok(()),
    }
}
