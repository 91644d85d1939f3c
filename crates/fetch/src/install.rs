//! From a source to a folder of proven files.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deltafin_checkpoint::Recipe;
use deltafin_store::{SpineNote, SpinePack, pack_dir};
use futures_util::{StreamExt as _, TryStreamExt as _};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use crate::anew::Current;
use crate::bring::Bring;
use crate::folder::{self, Folder, Kind};
use crate::layered::{self, Begun, Layout};
use crate::listing::{Listing, RemoteFile};
use crate::map::Map;
use crate::packed::{Forecast, Forecaster, Spine, hole, mend};
use crate::prospect::{self, Prospect};
use crate::record::Record;
use crate::remote::{Manner, Remote};
use crate::wanted::Goal;
use crate::{Event, FetchError, Patience, Source, Wanted, Watch, layers, origin, room};

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
    /// How what every token uses is to lie.
    pub spine: Spine,
    /// How a part of it is to lie, where experts are to come when they are needed.
    pub layout: Layout,
    /// How long the source is asked that gives nothing.
    pub patience: Patience,
    /// Bytes that other things will take on the drive, where what fits is what comes.
    pub beside: u64,
}

impl<'o> Order<'o> {
    /// What is here, or what fits, at the usual pace and as patiently as usual.
    pub fn new(source: &'o Source, dir: &'o Path) -> Order<'o> {
        Order {
            source,
            dir,
            endpoint: None,
            jobs: 8,
            bytes_per_second: None,
            wanted: Wanted::Fitting,
            spine: Spine::AsBegun,
            layout: Layout::Auto,
            patience: Patience::default(),
            beside: 0,
        }
    }
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
    /// What becomes of the spine, where it is to be packed.
    pub packed: Option<Forecast>,
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
    let note = lay(order, mend::noted(order.dir)?, &*watch);
    running(order.dir, stop, async {
        let manner = Manner { endpoint: order.endpoint, patience: &order.patience, watch: &*watch };
        let (known, is_from_before) = (known.as_ref().map(|r| r.listing.clone()), known.is_some());
        let mut current = Current::reach(order, known, manner).await?;
        let mut record = Record { asked, listing: current.listing.clone() };
        let disk = |error| FetchError::disk(order.dir, error);
        let mut state = match folder.record()?.as_ref() == Some(&record) {
            true => folder.state(),
            false => None,
        };
        let forecaster = match (&order.wanted, state) {
            (Wanted::Fitting, None) => {
                forecaster(order, &record.listing, &current.remote, manner, note).await?
            }
            _ => None,
        };
        let most = forecaster.map(|of| of.forecast(&Wanted::All, note.is_freed).most);
        let wanted = choose(order, &record.listing, state, &*watch, most)?;
        let kind = kind(&wanted);
        let goal = Goal::of(wanted.clone(), note.is_freed);
        layers::check(order, &record.listing, &current.remote, manner).await?;
        let mut done = finished(&folder, &record.listing, state, kind, note.is_freed);
        if !is_complete(&folder, &record.listing, &goal) {
            current = current.now(order, manner, is_from_before).await?;
        } else if order.wanted == Wanted::Spine && state == Some((Kind::Stream, true)) {
            current = current.now_if_reached(order, manner).await?;
        }
        let Current { remote, listing, anew } = current;
        if !anew.is_empty() {
            (record.listing, state, done) = (listing, None, None);
        }
        if let Some(done) = done.filter(|_| is_laid(order.dir, note)) {
            if order.spine == Spine::Released {
                folder.choose_released().map_err(disk)?;
            }
            watch.event(Event::Plan {
                source: &record.listing.source,
                files: record.listing.files.len(),
                bytes: record.listing.bytes(),
            });
            watch.event(Event::Kept { bytes: record.listing.bytes() });
            return Ok(done);
        }
        let is_layered = is_layered(order, &record.listing, &wanted)?;
        let note = kept(note, is_layered, &*watch);
        let goal = Goal::of(wanted, note.is_freed);
        let (folder, watch) = (Arc::new(folder), watch.clone());
        let bring = Bring { order, goal, note, is_layered, state, anew, watch, remote, folder };
        bring.all(record, kind).await
    })
}

/// What [`install`] would fetch. Nothing is written.
pub fn list(
    order: &Order<'_>,
    watch: Arc<dyn Watch>,
    stop: &AtomicBool,
) -> Result<Outlook, FetchError> {
    folder::check_is_folder(order.dir)?;
    let asked = order.source.to_string();
    let record = folder::record(order.dir)?.filter(|record| record.asked == asked);
    running(order.dir, stop, async {
        let manner = Manner { endpoint: order.endpoint, patience: &order.patience, watch: &*watch };
        let known = record.map(|record| record.listing);
        let (state, is_from_before) =
            (known.as_ref().and_then(|_| folder::state(order.dir)), known.is_some());
        let current = Current::reach(order, known, manner).await?;
        let (remote, listing) = (current.remote.clone(), current.listing.clone());
        layers::check(order, &listing, &remote, manner).await?;
        let note = order.spine.resolved(mend::told(order.dir)?);
        let frees = note.is_freed && (hole::is_possible(order.dir) || state.is_some());
        let forecaster = forecaster(order, &listing, &remote, manner, note).await?;
        let most = forecaster.as_ref().map(|of| of.forecast(&Wanted::All, frees).most);
        let wanted = choose(order, &listing, state, &*watch, most)?;
        let frees = frees && !is_layered(order, &listing, &wanted)?;
        let packed = forecaster.map(|forecaster| forecaster.forecast(&wanted, frees));
        let later = later(order, state, &wanted);
        let goal = Goal { later, ..Goal::of(wanted.clone(), frees) };
        let mut files = prospects(order, &remote, manner, &listing, &goal).await?;
        if files.iter().any(|prospect| prospect.missing > 0) {
            let Current { remote, listing, anew } =
                current.now(order, manner, is_from_before).await?;
            if !anew.is_empty() {
                files = prospects(order, &remote, manner, &listing, &goal).await?;
                files
                    .iter_mut()
                    .filter(|of| origin::is_of(&anew, &of.file))
                    .for_each(Prospect::restart);
            }
        }
        Ok(Outlook { source: listing.source, files, extent: wanted, packed })
    })
}

/// What is left to be fetched of each file.
async fn prospects(
    order: &Order<'_>,
    remote: &Remote,
    manner: Manner<'_>,
    listing: &Listing,
    goal: &Goal,
) -> Result<Vec<Prospect>, FetchError> {
    let ask = |file| prospect::ask(remote, order.source, manner, order.dir, file, goal);
    let files = futures_util::stream::iter(listing.files.clone()).map(ask);
    files.buffered(order.jobs.max(1)).try_collect().await
}

/// The layers that were asked for, where their experts come once all else is here. A folder that streams already says
/// itself what of them is here.
fn later(
    order: &Order<'_>,
    state: Option<(Kind, bool)>,
    wanted: &Wanted,
) -> Option<RangeInclusive<u32>> {
    match (&order.wanted, wanted) {
        (Wanted::Layers(layers), Wanted::Spine) if state != Some((Kind::Stream, true)) => {
            Some(layers.clone())
        }
        _ => None,
    }
}

/// What a folder is to have in the end for this to be there.
fn kind(wanted: &Wanted) -> Kind {
    match wanted {
        Wanted::Spine => Kind::Stream,
        Wanted::Fitting | Wanted::All | Wanted::Layers(_) => Kind::Full,
    }
}

/// How the spine is to lie: as was said, as far as the drive can.
fn lay(order: &Order<'_>, noted: SpineNote, watch: &dyn Watch) -> SpineNote {
    let note = order.spine.resolved(noted);
    // What has holes is on a drive that can have them.
    if note.is_freed && !noted.is_freed && !hole::is_possible(order.dir) {
        watch.event(Event::Keeps);
        return SpineNote { is_freed: false, ..note };
    }
    note
}

/// Whether the spine lies as it is to.
fn is_laid(dir: &Path, note: SpineNote) -> bool {
    let is_noted = SpineNote::read(dir).is_ok_and(|noted| noted == note);
    let is_packed = || SpinePack::open(&pack_dir(dir, note.recipe), 0).is_ok();
    is_noted && (note.recipe == Recipe::Bf16 || note.identity.is_some() && is_packed())
}

/// Who says how much room a spine takes that is to be packed.
async fn forecaster(
    order: &Order<'_>,
    listing: &Listing,
    remote: &Remote,
    manner: Manner<'_>,
    note: SpineNote,
) -> Result<Option<Forecaster>, FetchError> {
    match note.recipe {
        Recipe::Bf16 => Ok(None),
        recipe => {
            let (source, dir) = (order.source, order.dir);
            Forecaster::of(listing, remote, source, manner, dir, recipe).await.map(Some)
        }
    }
}

/// How much to bring: what was said, what the folder was begun with, or what fits; `most` is how much room
/// all of it takes, where that is not just the bytes of the files. Layers are no part of what was finished
/// before, or is to be streamed: such a folder stays what it is. Nor are they where a part of a shard would take the room
/// of all of it: there their experts come once all else is here.
fn choose(
    order: &Order<'_>,
    listing: &Listing,
    state: Option<(Kind, bool)>,
    watch: &dyn Watch,
    most: Option<u64>,
) -> Result<Wanted, FetchError> {
    Ok(match (&order.wanted, state) {
        (Wanted::Fitting | Wanted::Layers(_), Some((Kind::Stream, _))) => Wanted::Spine,
        (Wanted::Fitting, Some((Kind::Full, _))) => {
            layers::begun_layers(order.dir)?.map_or(Wanted::All, Wanted::Layers)
        }
        (Wanted::Layers(_), Some((Kind::Full, true))) => Wanted::All,
        (Wanted::Layers(_), None) if order.layout == Layout::Layers || !has_holes(order) => {
            watch.event(Event::LayersLater);
            Wanted::Spine
        }
        (Wanted::All | Wanted::Spine | Wanted::Layers(_), _) => order.wanted.clone(),
        (Wanted::Fitting, None) => {
            let needed = most.unwrap_or_else(|| room::needed(order.dir, listing));
            let needed = needed.saturating_add(order.beside);
            let free = room::free_bytes(order.dir);
            let free = free.map_err(|error| FetchError::disk(order.dir, error))?;
            if needed.saturating_add(room::spare(needed)) <= free {
                return Ok(Wanted::All);
            }
            watch.event(Event::Streams { needed, free });
            Wanted::Spine
        }
    })
}

/// Whether what is wanted lies layer by layer. Refuses a part of a model that would take the room of all of it.
fn is_layered(order: &Order<'_>, listing: &Listing, wanted: &Wanted) -> Result<bool, FetchError> {
    let path = || order.dir.to_owned();
    match wanted {
        Wanted::Spine => {}
        Wanted::Layers(_) if !has_holes(order) => return Err(FetchError::NoParts { path: path() }),
        Wanted::Layers(_) | Wanted::All | Wanted::Fitting => return Ok(false),
    }
    let begun = layered::begun(order.dir, listing);
    match begun.map_err(|error| FetchError::disk(order.dir, error))? {
        Begun::Layered => Ok(true),
        Begun::Released if has_holes(order) => Ok(false),
        Begun::Released | Begun::Both => Err(FetchError::Begun { path: path() }),
        Begun::Nothing => Ok(order.layout == Layout::Layers || !has_holes(order)),
    }
}

/// Whether what is not there yet of a file takes no room.
fn has_holes(order: &Order<'_>) -> bool {
    hole::is_unwritten_free(order.dir)
}

/// How the spine is to lie: nothing is given back to the drive where shards are no files with holes.
fn kept(note: SpineNote, is_layered: bool, watch: &dyn Watch) -> SpineNote {
    if note.is_freed && is_layered {
        watch.event(Event::Keeps);
        return SpineNote { is_freed: false, ..note };
    }
    note
}

/// What there is if nothing is left to be done.
fn finished(
    folder: &Folder,
    listing: &Listing,
    state: Option<(Kind, bool)>,
    wanted: Kind,
    frees: bool,
) -> Option<Installed> {
    let extent = match (state?, wanted) {
        ((Kind::Full, true), _) => Wanted::All,
        ((Kind::Stream, true), Kind::Stream) => Wanted::Spine,
        _ => return None,
    };
    let goal = Goal::of(extent.clone(), frees);
    if !is_complete(folder, listing, &goal) {
        return None;
    }
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

/// Whether every file is here, as far as it is wanted.
fn is_complete(folder: &Folder, listing: &Listing, goal: &Goal) -> bool {
    listing.files.iter().all(|file| is_here(folder, file, goal))
}

/// Whether a file is here, and was proven when it came; or is in the making, where that is enough, and its map has all
/// that is wanted of it. What was taken out of it is in a pack, or is not here.
fn is_here(folder: &Folder, file: &RemoteFile, goal: &Goal) -> bool {
    let known = Map::read(&folder.map(&file.name), file).ok().flatten();
    let has_length = |path| std::fs::metadata(path).is_ok_and(|meta| meta.len() == file.bytes);
    known.filter(|known| goal.frees || known.hole_bytes() == 0).is_some_and(|known| {
        if known.proven {
            return has_length(folder.file(&file.name));
        }
        let has_part = || has_length(folder.part(&file.name));
        let is_long = || has_part() || layered::has_base(folder.dir(), file, &known);
        let has_all = || prospect::unnoted(folder.dir(), file, &known, goal).is_empty();
        goal.wanted == Wanted::Spine && is_long() && has_all()
    })
}
