//! A checkpoint whose experts come when they are needed.
//!
//! The folder has all else. An expert that is asked for and not here is fetched as one range, written
//! where it lies in the released file, and noted once it is on the drive; from then on it is read like
//! any other. So what is asked for once stays, and `setup --full` goes on from it; where a limit was given, the
//! experts used least make room for others ([`cache`]).
//!
//! ```text
//! asked for ─► noted? ─ yes ──────────────────────────────────────► the file
//!                └ no ─► claimed, so that one process fetches it ─► range ─► file ─► synced ─► noted
//! ```
//!
//! Where files cannot have holes an expert goes to the file of its layer instead ([`stacks`]), and reads find it there
//! ([`spread`]).
//!
//! Any number of processes may do this in one folder at a time: each sees what the others noted. Setting
//! the folder up keeps all of them out.

mod cache;
mod claim;
mod held;
mod notes;
mod shelf;
mod spread;
mod stack;
mod stacks;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use deltafin_checkpoint::{Shard, ShardId, Span};
use deltafin_store::drive::Traffic as Amount;
use deltafin_store::{
    Asked, Checkpoint, Distant, Heat, Hold, Inspection, LocalFile, LocalShards, Noted, OpenError,
    Store, StoreError,
};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use crate::cut::Piece;
use crate::folder::{self, Kind};
use crate::lanes::{Lanes, Pace};
use crate::map::Digest;
use crate::noted::Whole;
use crate::piece::{self, Broken, Sink, Traffic};
use crate::remote::{Manner, reach};
use crate::{Event, FetchError, Patience, Source, Watch};
use cache::{Cache, Place};
use claim::Claim;
use held::Held;
use shelf::Shelf;

/// Between two looks at whether to stop, or whether another process has fetched what is wanted.
const LOOK: Duration = Duration::from_millis(20);

/// A source that has sent no byte for so long gives nothing, as far as an interrupt is concerned: its connections may
/// stand still long before anybody says so.
const QUIET: Duration = Duration::from_millis(500);

/// Records that are on their way at once where each is in memory until it is whole.
const GATHERED_AT_ONCE: usize = 4;

/// A file that has another entity tag than before is asked for again this often, where that may be.
const TRIES: u32 = 3;

/// How to reach the source of a folder.
#[derive(Clone, Copy, Debug)]
pub struct Streaming<'o> {
    /// The folder, set up with [`Wanted::Spine`](crate::Wanted::Spine).
    pub dir: &'o Path,
    /// Where experts come from, with what its server is to be told of who asks; as noted in the folder if not given.
    pub source: Option<&'o Source>,
    /// Where the hub is, if not where it usually is.
    pub endpoint: Option<&'o str>,
    /// Requests that may be on their way at once.
    pub jobs: usize,
    /// At most so many bytes a second, of all requests together.
    pub bytes_per_second: Option<u64>,
    /// How long the source is asked that gives nothing.
    pub patience: Patience,
    /// The most bytes that experts take in the folder which came when they were needed.
    pub cache_limit: Option<u64>,
}

/// Opens the checkpoint in a folder that has all but experts. Nothing is fetched yet.
///
/// `watch` is told of what comes and what is waited for. Once `interrupted` is raised, nobody waits for a
/// source that gives nothing any more.
pub fn open_streamed(
    streaming: &Streaming<'_>,
    watch: Arc<dyn Watch>,
    interrupted: Arc<AtomicBool>,
) -> Result<Checkpoint, FetchError> {
    let reach = Arc::new(Reach::open(streaming, watch, interrupted)?);
    let shards = |names: &[String]| reach.store(names);
    let checkpoint = deltafin_store::open_streamed(streaming.dir, shards)?;
    check_whole(&checkpoint, streaming.dir)?;
    reach.cache.check(checkpoint.spec().moe.top_k)?;
    Ok(checkpoint)
}

/// As [`open_streamed`], to list everything that is wrong with the folder.
pub fn inspect_streamed(
    streaming: &Streaming<'_>,
    watch: Arc<dyn Watch>,
) -> Result<Inspection, FetchError> {
    let reach = Arc::new(Reach::open(streaming, watch, Arc::default())?);
    let mut found = deltafin_store::inspect_streamed(streaming.dir, |names| reach.store(names));
    if let Some(checkpoint) = &found.checkpoint
        && let Err(problem) = check_whole(checkpoint, streaming.dir)
    {
        found = Inspection { problems: vec![problem], checkpoint: None };
    }
    Ok(found)
}

/// What a pass cannot wait for has to be here.
fn check_whole(checkpoint: &Checkpoint, dir: &Path) -> Result<(), OpenError> {
    let catalog = &checkpoint.catalog;
    let distant = checkpoint.store.distant();
    let is_here = |pieces: &[Span]| distant.as_ref().is_none_or(|distant| distant.is_here(pieces));
    if checkpoint.freed().is_some() && is_here(&[catalog.globals().embed.tensor().span]) {
        // What is not here is in a pack, and whoever wants the pack sees whether that is.
        return Ok(());
    }
    let spines =
        checkpoint.spec().layer_ids().flat_map(|layer| catalog.spine(layer).record().pieces());
    let globals = catalog.globals();
    let globals = [globals.embed.tensor(), &globals.norm, globals.head.tensor()];
    let globals: Vec<Span> = globals.map(|tensor| tensor.span).into();
    match spines.chain(&globals).all(|span| is_here(std::slice::from_ref(span))) {
        true => Ok(()),
        false => Err(OpenError::Unfinished { path: dir.to_owned() }),
    }
}

/// A shard that the source does not have.
fn empty(name: &str) -> Shard {
    Shard { name: name.to_owned(), len: 0 }
}

/// Pieces of a shelf, by their numbers.
type Part = (Arc<Shelf>, std::ops::Range<usize>);

/// The shards of the folder, with holes that are filled when somebody asks for what is in them.
struct Streamed {
    /// As in the released files.
    shards: Vec<Shard>,
    /// Those of the shards, by their numbers, then those of layers.
    local: LocalShards,
    distant: Arc<Placed>,
}

/// What is in the folder, by shard, and the way to what is not.
struct Placed {
    /// Nothing for a shard that is here as a whole.
    shelves: Vec<Option<Arc<Shelf>>>,
    whole: Whole,
    reach: Arc<Reach>,
}

/// The way to the source.
struct Reach {
    dir: PathBuf,
    /// The source as it was given when the folder was set up.
    asked: String,
    /// All shards of the checkpoint.
    shards: Vec<Shard>,
    cache: Cache,
    traffic: Traffic,
    /// Nothing once this is being dropped.
    runtime: Option<Runtime>,
    lanes: usize,
    interrupted: Arc<AtomicBool>,
    /// The source gives nothing at the moment.
    silence: Arc<Silence>,
    /// Keeps out whoever sets the folder up.
    _lock: File,
}

impl Reach {
    fn open(
        streaming: &Streaming<'_>,
        watch: Arc<dyn Watch>,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Reach, FetchError> {
        let Streaming { dir, source, endpoint, jobs, bytes_per_second, patience, cache_limit } =
            *streaming;
        let lock = folder::share(dir)?;
        let unfinished = || FetchError::from(OpenError::Unfinished { path: dir.to_owned() });
        if folder::state(dir) != Some((Kind::Stream, true)) {
            return Err(unfinished());
        }
        let record = folder::record(dir)?.ok_or_else(unfinished)?;
        let disk = |error| FetchError::cache(dir, error);
        fs::create_dir_all(folder::claims(dir)).map_err(disk)?;
        let (mut shelves, mut shards) = (Vec::new(), Vec::new());
        for file in record.listing.files.iter().filter(|file| file.is_shard()) {
            shards.push(Shard { name: file.name.clone(), len: file.bytes });
            match Shelf::open(dir, file).map_err(disk)? {
                shelf::Found::Whole => {}
                shelf::Found::Part(shelf) => shelves.push(Arc::from(shelf)),
                shelf::Found::Nothing => return Err(unfinished()),
            }
        }
        let layered = shelves.iter().filter(|shelf: &&Arc<Shelf>| shelf.is_layered()).count();
        if layered > 0 && layered < shelves.len() {
            return Err(unfinished());
        }
        let jobs = if layered > 0 { jobs.min(GATHERED_AT_ONCE) } else { jobs };
        let cache = Cache::open(dir, shelves, cache_limit)?;
        let mut builder = Builder::new_multi_thread();
        let builder = builder.worker_threads(2).thread_name("fetch").enable_all();
        let runtime = builder.build().map_err(disk)?;
        let silence = Arc::new(Silence::default());
        let watch: Arc<dyn Watch> = Arc::new(Noticing { watch, silence: Arc::clone(&silence) });
        let noted: Source = record.asked.parse()?;
        let source = source.filter(|source| source.to_string() == record.asked);
        let manner = Manner { endpoint, patience: &patience, watch: &*watch };
        let asked = record.asked.clone();
        let (remote, _) =
            runtime.block_on(reach(source.unwrap_or(&noted), Some(record.listing), manner))?;
        let traffic = Traffic {
            remote,
            patience,
            lanes: Lanes::new(jobs),
            pace: Pace::new(bytes_per_second),
            watch,
            received: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            given_up: Mutex::default(),
        };
        let (dir, runtime, lanes) = (dir.to_owned(), Some(runtime), jobs.max(1));
        let _lock = lock;
        Ok(Reach {
            dir,
            asked,
            shards,
            cache,
            traffic,
            runtime,
            lanes,
            interrupted,
            silence,
            _lock,
        })
    }

    /// The store of these shards.
    fn store(self: &Arc<Reach>, names: &[String]) -> Result<Arc<dyn Store>, OpenError> {
        let shelves = self.cache.shelves();
        let shelf = |name: &String| shelves.iter().find(|shelf| shelf.name() == name).cloned();
        let shelves: Vec<_> = names.iter().map(shelf).collect();
        let files = names.iter().zip(&shelves).map(|(name, shelf)| match shelf {
            Some(shelf) => shelf.path().to_owned(),
            None => self.dir.join(name),
        });
        let stacks = self.cache.stacks();
        let (shards, local) = if stacks.is_empty() {
            let local = LocalShards::open_written(names, files)?;
            (local.shards().to_vec(), local)
        } else {
            let of = |name: &String| self.shards.iter().find(|shard| shard.name == *name).cloned();
            let layers = stacks.paths().map(Path::to_owned);
            let words = stacks.paths().map(|path| path.display().to_string());
            let all: Vec<String> = names.iter().cloned().chain(words).collect();
            let local = LocalShards::open_growing(&all, files.chain(layers))?;
            (names.iter().map(|name| of(name).unwrap_or_else(|| empty(name))).collect(), local)
        };
        let whole = names.iter().zip(&shelves).map(|(name, shelf)| match shelf {
            Some(_) => None,
            None => Some(name.as_str()),
        });
        let whole = Whole::read(&self.dir, whole);
        let distant = Arc::new(Placed { shelves, whole, reach: Arc::clone(self) });
        Ok(Arc::new(Streamed { shards, local, distant }))
    }

    /// Brings what is not here of a read's pieces, unless other processes do, and holds all of them.
    fn hold(&self, parts: &[Part], stop: &AtomicBool) -> Result<Hold, StoreError> {
        let mut claims = Vec::new();
        loop {
            let mut held = Held::of(parts.to_vec(), self.cache.time());
            let missing = held.missing();
            let Some((shelf, number)) = missing.first() else {
                if let Some(mark) = held.mark() {
                    held.claims = claims;
                    return Ok(Hold::new(mark, Box::new(held)));
                }
                continue;
            };
            let disk =
                |error| shelf.failed(*number, FetchError::disk(shelf.path(), error).to_string());
            let admitted = self.admit(&missing).map_err(disk)?;
            let Some(admitted) = admitted else {
                // Nothing is held while others are waited for, who may wait for this.
                drop((held, std::mem::take(&mut claims)));
                if self.is_to_stop(stop, true) {
                    return Err(shelf.failed(*number, "interrupted".to_owned()));
                }
                thread::sleep(LOOK);
                continue;
            };
            for ((shelf, number), claim) in missing.iter().zip(admitted) {
                if let Err(error) = self.fetch(shelf, *number, stop) {
                    self.cache.let_go(shelf, *number, claim);
                    return Err(error);
                }
                claims.push(claim);
            }
        }
    }

    /// The right to fetch these, as [`Cache::admit`]; one that needs no room, of none, where another process brought
    /// one of them.
    fn admit(&self, missing: &[Place]) -> io::Result<Option<Vec<Claim>>> {
        let look = || -> io::Result<bool> {
            missing.iter().try_for_each(|(shelf, _)| shelf.look())?;
            Ok(missing.iter().any(|(shelf, number)| shelf.is_here(*number)))
        };
        if look()? {
            return Ok(Some(Vec::new()));
        }
        let admitted = self.cache.admit(missing)?;
        // Whoever had one before may have brought it.
        if look()? { Ok(Some(Vec::new())) } else { Ok(admitted) }
    }

    /// Brings a piece here that this process may fetch.
    fn fetch(&self, shelf: &Shelf, number: usize, stop: &AtomicBool) -> Result<(), StoreError> {
        let piece = shelf.piece(number);
        let disk = |error| shelf.failed(number, FetchError::disk(shelf.path(), error).to_string());
        let stopped = || shelf.failed(number, "interrupted".to_owned());
        let gathered = self.cache.stacks().gathering(shelf, number);
        let to: &dyn Sink = gathered.as_ref().map_or(shelf, |gathered| gathered);
        let mut tries = 1;
        let digest = loop {
            match self.range(to, piece, stop).ok_or_else(stopped)? {
                Ok(digest) => break digest,
                Err(Broken::Changed(_)) if tries < TRIES && shelf.forgets_tag() => tries += 1,
                Err(Broken::Changed(why)) => {
                    return Err(shelf.failed(number, self.replaced(shelf, &why)));
                }
                Err(Broken::Lasting(why)) => {
                    let later = "what came is kept, ask again when its source can be reached";
                    return Err(shelf.failed(number, format!("{why}; {later}")));
                }
                Err(Broken::Disk(error)) => return Err(disk(error)),
            }
        };
        self.cache.keep(shelf, number, digest, gathered).map_err(disk)
    }

    /// That a source has another file than the one that the folder was set up with, and what helps.
    fn replaced(&self, shelf: &Shelf, why: &str) -> String {
        let (dir, asked) = (self.dir.display(), &self.asked);
        let remedy = match shelf.is_told_by_tag() {
            true => format!(
                "'deltafin setup --stream --model {dir}' fetches what is there now in place of it, and --full all of it"
            ),
            // A folder goes on with the commit that it was begun with.
            false => format!(
                "ask again later, or 'deltafin setup --stream --source {asked} --model FOLDER' fetches what is there now into another folder"
            ),
        };
        format!("it was replaced at its source: {why}; {remedy}")
    }

    /// Fetches a piece; nothing if it was stopped.
    fn range(
        &self,
        to: &dyn Sink,
        piece: Piece,
        stop: &AtomicBool,
    ) -> Option<Result<Digest, Broken>> {
        // Whoever asks anew waits anew.
        self.traffic.try_again();
        self.runtime.as_ref()?.block_on(async {
            tokio::select! {
                fetched = piece::fetch(&self.traffic, to, piece) => Some(fetched),
                () = self.stopped(stop) => None,
            }
        })
    }

    fn is_to_stop(&self, stop: &AtomicBool, is_waiting: bool) -> bool {
        stop.load(Ordering::Relaxed) || is_waiting && self.interrupted.load(Ordering::Relaxed)
    }

    async fn stopped(&self, stop: &AtomicBool) {
        let (mut came, mut since) = (self.silence.came(), Instant::now());
        while !self.is_to_stop(stop, self.silence.is_told() || since.elapsed() >= QUIET) {
            sleep(LOOK).await;
            let now = self.silence.came();
            if now != came {
                (came, since) = (now, Instant::now());
            }
        }
    }
}

impl Drop for Reach {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Whoever drops this may be part of another runtime, and must not wait there.
            runtime.shutdown_background();
        }
    }
}

impl Placed {
    fn shelf(&self, span: &Span) -> Option<&Arc<Shelf>> {
        self.shelves.get(span.shard().index())?.as_ref()
    }
}

impl Placed {
    /// The pieces of these spans that could be missing.
    fn parts(&self, pieces: &[Span]) -> Vec<Part> {
        let part = |span: &Span| {
            let shelf = self.shelf(span)?;
            let numbers = shelf.around(*span);
            let could =
                numbers.clone().any(|number| shelf.may_go(number) || !shelf.is_here(number));
            could.then(|| (Arc::clone(shelf), numbers))
        };
        pieces.iter().filter_map(part).collect()
    }
}

impl Distant for Placed {
    fn is_here(&self, pieces: &[Span]) -> bool {
        pieces.iter().all(|span| self.shelf(span).is_none_or(|shelf| shelf.has(*span)))
    }

    fn hold_here(&self, pieces: &[Span]) -> Option<Hold> {
        let parts = self.parts(pieces);
        if parts.is_empty() {
            return Some(Hold::for_good());
        }
        let held = Held::of(parts, self.reach.cache.time());
        let mark = held.mark()?;
        Some(Hold::new(mark, Box::new(held)))
    }

    fn hold(&self, pieces: &[Span], stop: &AtomicBool) -> Result<Hold, StoreError> {
        match self.parts(pieces) {
            parts if parts.is_empty() => Ok(Hold::for_good()),
            parts => self.reach.hold(&parts, stop),
        }
    }

    fn was_kept(&self, pieces: &[Span], hold: &Hold) -> bool {
        let parts = self.parts(pieces);
        // A map that cannot be read says nothing; whoever brings the bytes again hears of it.
        let looked = parts.iter().try_for_each(|(shelf, _)| shelf.look_locked());
        looked.is_ok() && Held::of(parts, self.reach.cache.time()).mark() == Some(hold.mark())
    }

    fn go_by(&self, heat: Weak<dyn Heat>) {
        self.reach.cache.go_by(heat);
    }

    fn trim(&self) -> io::Result<Amount> {
        self.reach.cache.trim()
    }

    fn evicted(&self) -> Amount {
        self.reach.cache.evicted()
    }

    fn lanes(&self) -> usize {
        self.reach.lanes
    }

    fn coming_bytes(&self) -> u64 {
        self.reach.lanes as u64 * self.reach.cache.stacks().longest_slot()
    }

    fn asked(&self) -> Asked {
        let Traffic { requests, waits, .. } = &self.reach.traffic;
        let [requests, waits] = [requests, waits].map(|count| count.load(Ordering::Relaxed));
        Asked { requests, waits }
    }
}

impl Store for Streamed {
    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn read_exact(&self, span: Span, buf: &mut [u8]) -> Result<(), StoreError> {
        let pieces = [span];
        loop {
            let hold = match self.distant.hold_here(&pieces) {
                Some(hold) => hold,
                None => self.distant.hold(&pieces, &AtomicBool::new(false))?,
            };
            let read = self.read_here(span, buf);
            if hold.is_for_good() || self.distant.was_kept(&pieces, &hold) {
                return read;
            }
        }
    }

    fn file(&self, shard: ShardId) -> Option<LocalFile<'_>> {
        match self.distant.reach.cache.stacks().is_empty() {
            true => self.local.file(shard),
            false => {
                (shard.index() < self.shards.len()).then(|| LocalFile::new(self, shard.index()))
            }
        }
    }

    fn distant(&self) -> Option<Arc<dyn Distant>> {
        Some(self.distant.clone())
    }

    fn noted(&self, shard: ShardId, offset: u64) -> Option<Noted> {
        match self.distant.shelves.get(shard.index())? {
            Some(shelf) => shelf.noted(shard, offset),
            None => self.distant.whole.noted(shard, offset),
        }
    }
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streamed").field("dir", &self.distant.reach.dir).finish_non_exhaustive()
    }
}

/// Knows whether the source gives anything, and passes on what is said.
struct Noticing {
    watch: Arc<dyn Watch>,
    silence: Arc<Silence>,
}

/// Whether a source gives anything.
#[derive(Default)]
struct Silence {
    /// It was said that it does not.
    is_told: AtomicBool,
    /// How often something came.
    came: AtomicU64,
}

impl Silence {
    fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }

    fn came(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }
}

impl Watch for Noticing {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Waiting { .. } => self.silence.is_told.store(true, Ordering::Relaxed),
            Event::Received { .. } => {
                self.silence.is_told.store(false, Ordering::Relaxed);
                self.silence.came.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        self.watch.event(event);
    }
}
