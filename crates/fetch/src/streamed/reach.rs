//! The way from a folder to its source, and from a shard to its files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use deltafin_checkpoint::Shard;
use deltafin_store::{LocalShards, OpenError, Store};
use tokio::runtime::{Builder, Runtime};

use super::access::{self, Access};
use super::cache::Cache;
use super::placed::Placed;
use super::shelf::{self, Shelf};
use super::silence::{Noticing, Silence};
use super::{Streamed, Streaming};
use crate::folder::{self, Kind};
use crate::lanes::{Lanes, Pace};
use crate::listing::RemoteFile;
use crate::noted::Whole;
use crate::piece::Traffic;
use crate::remote::{Manner, reach};
use crate::{Event, FetchError, Source, Watch};

/// Records that are on their way at once where each is in memory until it is whole.
const GATHERED_AT_ONCE: usize = 4;

/// The way to the source.
pub(super) struct Reach {
    pub(super) dir: PathBuf,
    /// The source as it was given when the folder was set up.
    pub(super) asked: String,
    /// All shards of the checkpoint.
    pub(super) shards: Vec<Shard>,
    pub(super) cache: Cache,
    /// Why nothing may be written in the folder, if it may not: then what comes is not kept.
    pub(super) unkept: Option<String>,
    /// It was told that the drive is full.
    pub(super) is_cramped: AtomicBool,
    pub(super) traffic: Traffic,
    /// Nothing once this is being dropped.
    pub(super) runtime: Option<Runtime>,
    pub(super) lanes: usize,
    pub(super) interrupted: Arc<AtomicBool>,
    /// The source gives nothing at the moment.
    pub(super) silence: Arc<Silence>,
    /// Keeps out whoever sets the folder up.
    _lock: File,
}

impl Reach {
    pub(super) fn open(
        streaming: &Streaming<'_>,
        watch: Arc<dyn Watch>,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Reach, FetchError> {
        let Streaming { dir, source, endpoint, jobs, bytes_per_second, patience, cache_limit } =
            *streaming;
        let lock = folder::share(dir)?;
        folder::check_seen(dir)?;
        let unfinished = || FetchError::from(OpenError::Unfinished { path: dir.to_owned() });
        if folder::state(dir) != Some((Kind::Stream, true)) {
            return Err(unfinished());
        }
        let record = folder::record(dir)?.ok_or_else(unfinished)?;
        let disk = |error| FetchError::disk(dir, error);
        let files = record.listing.files.iter().filter(|file| file.is_shard());
        let files: Vec<_> = files.cloned().collect();
        let shards = files.iter().map(|file| Shard { name: file.name.clone(), len: file.bytes });
        let shards = shards.collect();
        let (cache, unkept) = match open_cache(dir, &files, cache_limit, Access::Full) {
            Err(FetchError::ReadOnly { reason, .. }) => {
                (open_cache(dir, &files, None, Access::ReadOnly)?, Some(reason.to_string()))
            }
            opened => (opened?, None),
        };
        if let Some(why) = unkept.as_deref().filter(|_| !cache.is_all_here()) {
            watch.event(Event::Unkept { dir, why });
        }
        let is_gathered = unkept.is_some() || !cache.stacks().is_empty();
        let jobs = if is_gathered { jobs.min(GATHERED_AT_ONCE) } else { jobs };
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
            unkept,
            is_cramped: AtomicBool::new(false),
            traffic,
            runtime,
            lanes,
            interrupted,
            silence,
            _lock,
        })
    }

    /// The store of these shards.
    pub(super) fn store(self: &Arc<Reach>, names: &[String]) -> Result<Arc<dyn Store>, OpenError> {
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
        let paths = names.iter().map(|name| self.dir.join(name)).collect();
        let distant = Arc::new(Placed { shelves, paths, whole, reach: Arc::clone(self) });
        Ok(Arc::new(Streamed { shards, local, distant }))
    }
}

/// What a folder has of these shards, all of them in one way.
fn open_cache(
    dir: &Path,
    files: &[RemoteFile],
    limit: Option<u64>,
    access: Access,
) -> Result<Cache, FetchError> {
    let unfinished = || FetchError::from(OpenError::Unfinished { path: dir.to_owned() });
    let fault = |error| access.fault(dir, error);
    if access.writes() {
        access::check_writable(dir).map_err(fault)?;
    }
    let mut shelves: Vec<Arc<Shelf>> = Vec::new();
    for file in files {
        match Shelf::open(dir, file, access).map_err(fault)? {
            shelf::Found::Whole => {}
            shelf::Found::Part(shelf) => shelves.push(Arc::from(shelf)),
            shelf::Found::Nothing => return Err(unfinished()),
        }
    }
    let layered = shelves.iter().filter(|shelf| shelf.is_layered()).count();
    if layered > 0 && layered < shelves.len() {
        return Err(unfinished());
    }
    Cache::open(dir, shelves, limit, access)
}

impl Drop for Reach {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Whoever drops this may be part of another runtime, and must not wait there.
            runtime.shutdown_background();
        }
    }
}

/// A shard that the source does not have.
fn empty(name: &str) -> Shard {
    Shard { name: name.to_owned(), len: 0 }
}
