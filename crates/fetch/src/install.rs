//! From a source to a folder of proven files.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use crate::folder::{self, Folder, taken_bytes};
use crate::lanes::{Lanes, Pace};
use crate::listing::{Listing, RemoteFile};
use crate::map::Map;
use crate::record::Record;
use crate::remote::{Manner, Remote, reach};
use crate::transfer::{self, End, Work};
use crate::{Event, FetchError, Patience, Source, Watch};

/// So that one can be proven, and the next begun, while the pieces of a third come.
const FILES_AT_ONCE: usize = 3;
/// Between two looks at whether to stop.
const LOOK: Duration = Duration::from_millis(50);

/// What to bring where, and how.
#[derive(Clone, Debug)]
pub struct Order<'o> {
    /// From where; no folder.
    pub source: &'o Source,
    /// Into this folder, which is made if need be.
    pub dir: &'o Path,
    /// Where the hub is, if not where it usually is.
    pub endpoint: Option<&'o str>,
    /// Requests that may be on their way at once.
    pub jobs: usize,
    /// At most so many bytes a second, of all requests together.
    pub bytes_per_second: Option<u64>,
    /// Only what these layers need, and what is in none.
    pub layers: Option<RangeInclusive<u32>>,
    /// How long the source is asked that gives nothing.
    pub patience: Patience,
}

/// What is in a folder after an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The source, with its revision.
    pub source: String,
    /// Files in all.
    pub files: usize,
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes that came.
    pub received: u64,
    /// Whether all of it is here, rather than the layers that were asked for.
    pub is_whole: bool,
}

/// A file that is not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its name.
    pub name: String,
    /// The reason.
    pub why: String,
}

/// What an installation would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// Where from, with the revision.
    pub source: String,
    /// Each file, and how many bytes of it are here already.
    pub files: Vec<(RemoteFile, u64)>,
}

/// Brings the files of a source into a folder, or goes on with it, until all are there or `stop` is raised.
pub fn install(
    order: &Order<'_>,
    watch: Arc<dyn Watch>,
    stop: &AtomicBool,
) -> Result<Installed, FetchError> {
    let folder = Folder::open(order.dir)?;
    let asked = order.source.to_string();
    let known = folder.record()?.filter(|record| record.asked == asked);
    running(order.dir, stop, async {
        let manner = Manner { endpoint: order.endpoint, patience: &order.patience, watch: &*watch };
        let known = known.map(|record| record.listing);
        let (remote, listing) = reach(order.source, known, manner).await?;
        watch.event(Event::Plan {
            source: &listing.source,
            files: listing.files.len(),
            bytes: listing.bytes(),
        });
        let record = Record { asked, listing };
        let disk = |error| FetchError::disk(order.dir, error);
        let is_known = folder.record()?.as_ref() == Some(&record);
        if is_known && !folder.is_begun() && is_complete(&folder, &record.listing) {
            let Listing { source, files } = record.listing;
            let bytes = files.iter().map(|file| file.bytes).sum();
            watch.event(Event::Kept { bytes });
            return Ok(Installed {
                source,
                files: files.len(),
                bytes,
                received: 0,
                is_whole: true,
            });
        }
        if !is_known || !folder.is_begun() {
            folder.begin(&record).map_err(disk)?;
        }
        let listing = record.listing;
        check_room(&folder, &listing, order)?;
        bring(order, watch.clone(), remote, folder, listing).await
    })
}

/// What [`install`] would fetch. Nothing is written.
pub fn list(
    order: &Order<'_>,
    watch: Arc<dyn Watch>,
    stop: &AtomicBool,
) -> Result<Outlook, FetchError> {
    let asked = order.source.to_string();
    let known = folder::record(order.dir)?.filter(|record| record.asked == asked);
    let listing = running(order.dir, stop, async {
        let manner = Manner { endpoint: order.endpoint, patience: &order.patience, watch: &*watch };
        let known = known.map(|record| record.listing);
        reach(order.source, known, manner).await.map(|(_, listing)| listing)
    })?;
    let here = |file: RemoteFile| {
        let map = Map::read(&folder::map_path(order.dir, &file.name), &file).ok().flatten();
        let here = map.map_or(0, |known| match known.proven {
            true => file.bytes,
            false => known.pieces.values().map(|piece| piece.0).sum(),
        });
        (file, here)
    };
    Ok(Outlook { source: listing.source, files: listing.files.into_iter().map(here).collect() })
}

/// Runs to the end, or until `stop` is raised; then what is on its way is dropped.
pub(crate) fn running<T>(
    dir: &Path,
    stop: &AtomicBool,
    work: impl Future<Output = Result<T, FetchError>>,
) -> Result<T, FetchError> {
    let runtime = runtime().map_err(|error| FetchError::disk(dir, error))?;
    let stopped = async {
        while !stop.load(Ordering::Relaxed) {
            sleep(LOOK).await;
        }
    };
    let result = runtime.block_on(async {
        tokio::select! {
            result = work => result,
            () = stopped => Err(FetchError::Interrupted),
        }
    });
    // A file that is being read to be proven is let go of soon after.
    runtime.shutdown_timeout(Duration::from_secs(5));
    result
}

fn runtime() -> std::io::Result<Runtime> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4);
    Builder::new_multi_thread().worker_threads(threads).thread_name("fetch").enable_all().build()
}

/// Whether every file is here, and was proven when it came.
fn is_complete(folder: &Folder, listing: &Listing) -> bool {
    listing.files.iter().all(|file| {
        let known = Map::read(&folder.map(&file.name), file).ok().flatten();
        let meta = std::fs::metadata(folder.file(&file.name));
        known.is_some_and(|known| known.proven) && meta.is_ok_and(|meta| meta.len() == file.bytes)
    })
}

/// Refuses before the first byte what the drive has no room for.
fn check_room(folder: &Folder, listing: &Listing, order: &Order<'_>) -> Result<(), FetchError> {
    if order.layers.is_some() {
        return Ok(()); // how much of each file that is, its header says
    }
    let missing = |file: &RemoteFile| {
        let here = [folder.file(&file.name), folder.part(&file.name)];
        let taken = here.iter().map(|path| taken_bytes(path)).max().unwrap_or(0);
        file.bytes.saturating_sub(taken)
    };
    let needed = listing.files.iter().map(missing).fold(0, u64::saturating_add);
    let path = || folder.dir().to_owned();
    let free = folder.free_bytes().map_err(|error| FetchError::disk(folder.dir(), error))?;
    if needed > free { Err(FetchError::Room { path: path(), needed, free }) } else { Ok(()) }
}

async fn bring(
    order: &Order<'_>,
    watch: Arc<dyn Watch>,
    remote: Remote,
    folder: Folder,
    listing: Listing,
) -> Result<Installed, FetchError> {
    let (files, bytes) = (listing.files.len(), listing.bytes());
    let jobs = order.jobs.max(1);
    let work = Arc::new(Work {
        remote,
        folder,
        patience: order.patience,
        lanes: Lanes::new(jobs),
        pace: Pace::new(order.bytes_per_second),
        watch,
        jobs,
        layers: order.layers.clone(),
        received: AtomicU64::new(0),
        given_up: AtomicBool::new(false),
    });
    let one = |file: RemoteFile| {
        let (work, name) = (work.clone(), file.name.clone());
        async move { (name, transfer::file(work, file).await) }
    };
    let mut going =
        futures_util::stream::iter(listing.files).map(one).buffer_unordered(FILES_AT_ONCE);
    let (mut missing, mut is_whole) = (Vec::new(), true);
    while let Some((name, end)) = going.next().await {
        match end? {
            End::Done => {}
            End::Partial => is_whole = false,
            End::Missing(why) => missing.push(Missing { name, why }),
        }
    }
    drop(going);
    if !missing.is_empty() {
        missing.sort_by(|a, b| a.name.cmp(&b.name));
        return Err(FetchError::Incomplete { missing, total: files });
    }
    if is_whole {
        work.folder.finish().map_err(|error| FetchError::disk(order.dir, error))?;
    }
    let received = work.received.load(Ordering::Relaxed);
    Ok(Installed { source: listing.source, files, bytes, received, is_whole })
}
