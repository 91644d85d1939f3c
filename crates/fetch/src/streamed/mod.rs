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
//! Where nothing may be written, what is not here comes into the memory of whoever asks for it, and is not kept
//! ([`passing`]).
//!
//! Any number of processes may do this in one folder at a time: each sees what the others noted. Setting
//! the folder up keeps all of them out.

mod access;
mod bring;
mod cache;
mod claim;
mod held;
mod notes;
mod passing;
mod placed;
mod reach;
mod shelf;
mod silence;
mod spread;
mod stack;
mod stacks;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use deltafin_checkpoint::{Shard, ShardId, Span};
use deltafin_store::{
    Checkpoint, Distant, Inspection, LocalFile, LocalShards, Noted, OpenError, Store, StoreError,
};

use crate::{FetchError, Patience, Source, Watch};
use placed::Placed;
use reach::Reach;

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

/// The shards of the folder, with holes that are filled when somebody asks for what is in them.
struct Streamed {
    /// As in the released files.
    shards: Vec<Shard>,
    /// Those of the shards, by their numbers, then those of layers.
    local: LocalShards,
    distant: Arc<Placed>,
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
            if let Some(bytes) = hold.bytes() {
                buf.copy_from_slice(bytes);
                return Ok(());
            }
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
