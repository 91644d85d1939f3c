//! From a source to a folder of proven files.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use crate::folder::{self, Folder, Kind};
use crate::lanes::{Lanes, Pace};
use crate::listing::{Listing, RemoteFile};
use crate::map::Map;
use crate::piece::Traffic;
use crate::prospect::{self, Prospect};
use crate::record::Record;
use crate::remote::{Manner, Remote, reach};
use crate::transfer::{self, End, Work};
use crate::{Event, FetchError, Patience, Source, Wanted, Watch, room};

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
    /// How much of it.
    pub wanted: Wanted,
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
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes that came.
    pub received: u64,
    /// How much of it is here: all, all but experts, or these layers.
    pub extent: Wanted,
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
    /// Each file.
    pub files: Vec<Prospect>,
    /// How much of it would be brought here.
    pub extent: Wanted,
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
        let record = Record { asked, listing };
        let disk = |error| FetchError::disk(order.dir, error);
        let state = match folder.record()?.as_ref() == Some(&record) {
            true => folder.state(),
            false => None,
        };
        let wanted = choose(order, &record.listing, state, &*watch).map_err(disk)?;
        let kind = kind(&wanted);
        if let Some(done) = finished(&folder, &record.listing, state, kind) {
            watch.event(Event::Plan {
                source: &record.listing.source,
                files: record.listing.files.len(),
                bytes: record.listing.bytes(),
            });
            watch.event(Event::Kept { bytes: record.listing.bytes() });
            return Ok(done);
        }
        if state != Some((kind, false)) {
            folder.begin(&record, kind).map_err(disk)?;
        }
        let listing = record.listing;
        bring(order, wanted, watch.clone(), remote, folder, listing).await
    })
}

/// What [`install`] would fetch. Nothing is written.
pub fn list(
    order: &Order<'_>,
    watch: Arc<dyn Watch>,
    stop: &AtomicBool,
) -> Result<Outlook, FetchError> {
    let asked = order.source.to_string();
    let record = folder::record(order.dir)?.filter(|record| record.asked == asked);
    running(order.dir, stop, async {
        let manner = Manner { endpoint: order.endpoint, patience: &order.patience, watch: &*watch };
        let known = record.map(|record| record.listing);
        let state = known.as_ref().and_then(|_| folder::state(order.dir));
        let (remote, listing) = reach(order.source, known, manner).await?;
        let disk = |error| FetchError::disk(order.dir, error);
        let wanted = choose(order, &listing, state, &*watch).map_err(disk)?;
        let ask = |file| prospect::ask(&remote, order.source, manner, order.dir, file, &wanted);
        let files = futures_util::stream::iter(listing.files).map(ask);
        let files = files.buffered(order.jobs.max(1)).try_collect().await?;
        Ok(Outlook { source: listing.source, files, extent: wanted })
    })
}

/// What a folder is to have in the end for this to be there.
fn kind(wanted: &Wanted) -> Kind {
    match wanted {
        Wanted::Spine => Kind::Stream,
        Wanted::Fitting | Wanted::All | Wanted::Layers(_) => Kind::Full,
    }
}

/// How much to bring: what was said, what the folder was begun with, or what fits.
fn choose(
    order: &Order<'_>,
    listing: &Listing,
    state: Option<(Kind, bool)>,
    watch: &dyn Watch,
) -> io::Result<Wanted> {
    if order.wanted != Wanted::Fitting {
        return Ok(order.wanted.clone());
    }
    Ok(match state {
        Some((Kind::Full, _)) => Wanted::All,
        Some((Kind::Stream, _)) => Wanted::Spine,
        None => {
            let needed = room::needed(order.dir, listing);
            let free = room::free_bytes(order.dir)?;
            if needed.saturating_add(room::spare(needed)) <= free {
                return Ok(Wanted::All);
            }
            watch.event(Event::Streams { needed, free });
            Wanted::Spine
        }
    })
}

/// What there is if nothing is left to be done.
fn finished(
    folder: &Folder,
    listing: &Listing,
    state: Option<(Kind, bool)>,
    wanted: Kind,
) -> Option<Installed> {
    let extent = match (state?, wanted) {
        ((Kind::Full, true), _) if is_complete(folder, listing, true) => Wanted::All,
        ((Kind::Stream, true), Kind::Stream) if is_complete(folder, listing, false) => {
            Wanted::Spine
        }
        _ => return None,
    };
    let (source, files) = (listing.source.clone(), listing.files.len());
    Some(Installed { source, files, bytes: listing.bytes(), received: 0, extent })
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

/// Whether every file is here, and was proven when it came; or is in the making, where that is enough.
fn is_complete(folder: &Folder, listing: &Listing, is_whole: bool) -> bool {
    listing.files.iter().all(|file| {
        let known = Map::read(&folder.map(&file.name), file).ok().flatten();
        let has_length = |path| std::fs::metadata(path).is_ok_and(|meta| meta.len() == file.bytes);
        known.is_some_and(|known| match known.proven {
            true => has_length(folder.file(&file.name)),
            false => !is_whole && has_length(folder.part(&file.name)),
        })
    })
}

async fn bring(
    order: &Order<'_>,
    wanted: Wanted,
    watch: Arc<dyn Watch>,
    remote: Remote,
    folder: Folder,
    listing: Listing,
) -> Result<Installed, FetchError> {
    let (folder, jobs) = (Arc::new(folder), order.jobs.max(1));
    let disk = |error| FetchError::disk(order.dir, error);
    let work = |watch: Arc<dyn Watch>| {
        let traffic = Traffic {
            remote: remote.clone(),
            patience: order.patience,
            lanes: Lanes::new(jobs),
            pace: Pace::new(order.bytes_per_second),
            watch,
            received: AtomicU64::new(0),
            given_up: AtomicBool::new(false),
        };
        Arc::new(Work { traffic, folder: folder.clone(), jobs, wanted: wanted.clone() })
    };
    let mut received = 0;
    if wanted != Wanted::All {
        let quiet = work(Arc::new(OnlyWaiting(watch.clone())));
        headers(&quiet, &listing).await?;
        received = quiet.traffic.received.load(Ordering::Relaxed);
    }
    let needed = room::check(&folder, &listing, &wanted)?;
    let (source, files) = (&*listing.source, listing.files.len());
    watch.event(Event::Plan { source, files, bytes: needed });
    let work = work(watch);
    let missing = files_of(&work, &listing).await?;
    if !missing.is_empty() {
        return Err(FetchError::Incomplete { missing, total: files });
    }
    match wanted {
        Wanted::Layers(_) => {}
        Wanted::Fitting | Wanted::All => folder.finish(Kind::Full).map_err(disk)?,
        Wanted::Spine => {
            settle(&folder, &listing).map_err(disk)?;
            folder.finish(Kind::Stream).map_err(disk)?;
        }
    }
    received += work.traffic.received.load(Ordering::Relaxed);
    let bytes = listing.bytes();
    Ok(Installed { source: listing.source, files, bytes, received, extent: wanted })
}

/// Brings the headers of shards that are not here: they say which bytes are wanted.
async fn headers(work: &Arc<Work>, listing: &Listing) -> Result<(), FetchError> {
    let unknown =
        |file: &&RemoteFile| prospect::look(work.folder.dir(), file, &work.wanted).is_none();
    let files: Vec<_> = listing.files.iter().filter(unknown).cloned().collect();
    let one = |file| transfer::header(work.clone(), file);
    let going = futures_util::stream::iter(files).map(one).buffer_unordered(work.jobs);
    going.try_for_each(|()| async { Ok(()) }).await
}

/// Brings what is wanted of all files; gives those that are not to be had.
async fn files_of(work: &Arc<Work>, listing: &Listing) -> Result<Vec<Missing>, FetchError> {
    let one = |file: RemoteFile| {
        let (work, name) = (work.clone(), file.name.clone());
        async move { (name, transfer::file(work, file).await) }
    };
    let files = listing.files.clone();
    let mut going = futures_util::stream::iter(files).map(one).buffer_unordered(FILES_AT_ONCE);
    let mut missing = Vec::new();
    while let Some((name, end)) = going.next().await {
        if let End::Missing(why) = end? {
            missing.push(Missing { name, why });
        }
    }
    missing.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(missing)
}

/// Sees to it that what is here is on the drive, before that is noted: nobody reads it all again to know.
fn settle(folder: &Folder, listing: &Listing) -> io::Result<()> {
    for file in &listing.files {
        let part = folder.part(&file.name);
        if part.exists() {
            let open = OpenOptions::new().write(true).open(&part)?;
            // With its length the file is the released one, with holes.
            open.set_len(file.bytes)?;
            open.sync_all()?;
            File::open(folder.map(&file.name))?.sync_all()?;
        }
    }
    Ok(())
}

/// Tells what is waited for, and nothing else.
struct OnlyWaiting(Arc<dyn Watch>);

impl Watch for OnlyWaiting {
    fn event(&self, event: Event<'_>) {
        if let Event::Waiting { .. } = event {
            self.0.event(event);
        }
    }
}
