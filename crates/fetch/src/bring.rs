//! All files of a listing, from a source into a folder.
//!
//! A folder that runs as it is stays so until nothing is left that could refuse what is wanted: only then it is noted
//! as unfinished.

use std::fs::{File, OpenOptions};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use deltafin_checkpoint::{Identity, Recipe};
use deltafin_store::SpineNote;
use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::folder::{Folder, Kind};
use crate::install::{Installed, Missing, Order};
use crate::lanes::{Lanes, Pace};
use crate::layered::{self, base_path};
use crate::listing::{Listing, RemoteFile};
use crate::origin::{self, Replacement};
use crate::packed::{Packer, Spine};
use crate::piece::Traffic;
use crate::record::Record;
use crate::remote::{Manner, Remote};
use crate::transfer::{self, End, Work};
use crate::wanted::Goal;
use crate::{Event, FetchError, Wanted, Watch, anew, layers, prospect, room};

/// So that one can be proven, and the next begun, while the pieces of a third come.
pub(crate) const FILES_AT_ONCE: usize = 3;
/// How often all files are looked through for what the pack needs.
const ROUNDS: usize = 3;

/// An installation under way.
pub(crate) struct Bring<'o> {
    pub(crate) order: &'o Order<'o>,
    pub(crate) goal: Goal,
    /// How the spine is to lie.
    pub(crate) note: SpineNote,
    /// Whether shards are to lie layer by layer.
    pub(crate) is_layered: bool,
    /// What the folder was to have, and whether it had that, if it is of the same files.
    pub(crate) state: Option<(Kind, bool)>,
    /// What was replaced at the source since some of it came.
    pub(crate) anew: Vec<Replacement>,
    pub(crate) watch: Arc<dyn Watch>,
    pub(crate) remote: Remote,
    pub(crate) folder: Arc<Folder>,
}

impl Bring<'_> {
    /// Brings what is wanted of them, and packs the spine where that is wanted.
    pub(crate) async fn all(mut self, record: Record, kind: Kind) -> Result<Installed, FetchError> {
        let listing = record.listing.clone();
        let is_packed = self.note.recipe != Recipe::Bf16;
        let (files, mut received) = (listing.files.len(), 0);
        if !is_packed {
            // By what is known already; more may be once headers are here.
            room::check(&self.folder, &listing, &self.goal, None)?;
        }
        let runs = matches!(self.state, Some((_, true)));
        if !runs {
            self.begin(&record, kind)?;
            self.forget()?;
        }
        if self.goal.wanted != Wanted::All || is_packed {
            received += self.beforehand(&listing, is_packed).await?;
        }
        let mut packer = if is_packed { self.packer(&listing)? } else { None };
        let needed = room::check(&self.folder, &listing, &self.goal, packer.as_deref())?;
        if runs {
            self.begin(&record, kind)?;
        }
        if let Some(identity) = packer.as_deref().and_then(Packer::known_identity) {
            self.note_identity(identity)?;
        }
        self.watch.event(Event::Plan { source: &listing.source, files, bytes: needed });
        let is_partial = matches!(self.goal.wanted, Wanted::Layers(_));
        for _ in 0..ROUNDS {
            let work = self.work(self.watch.clone(), packer.clone());
            let ending = Ending(packer.clone());
            let missing = files_of(&work, &listing.files).await?;
            received += work.traffic.received.load(Ordering::Relaxed);
            if !missing.is_empty() {
                return Err(FetchError::Incomplete { missing, total: files });
            }
            let is_done = packer.as_ref().map_or(!is_packed, |packer| packer.has_all());
            if is_partial || is_done {
                self.check_unchanged(&listing).await?;
                self.finish(&listing, packer.as_deref())?;
                let bytes = listing.bytes();
                let (source, extent) = (listing.source, self.goal.wanted);
                return Ok(Installed { source, files, bytes, received, extent });
            }
            // What a finished file of the pack was made of came anew, or headers were not to be had before.
            drop((work, packer, ending));
            packer = self.packer(&listing)?;
        }
        Err(FetchError::Unpacked { path: self.order.dir.to_owned() })
    }

    /// Notes what is wanted, and how the spine is to lie; from here on the folder is unfinished.
    fn begin(&self, record: &Record, kind: Kind) -> Result<(), FetchError> {
        let disk = |error| FetchError::disk(self.order.dir, error);
        if self.order.spine == Spine::Released {
            self.folder.choose_released().map_err(disk)?;
        }
        layers::note(self.order.dir, &self.goal.wanted)?;
        if self.state != Some((kind, false)) {
            self.folder.begin(record, kind).map_err(disk)?;
        }
        self.folder.lay(self.note).map_err(disk)
    }

    /// Takes back what came of files that were replaced since.
    fn forget(&mut self) -> Result<(), FetchError> {
        let disk = |error| FetchError::disk(self.order.dir, error);
        if !self.anew.is_empty() {
            self.note.identity = None;
            anew::forget(&self.folder, self.note.recipe, &self.anew).map_err(disk)?;
            self.folder.lay(self.note).map_err(disk)?;
        }
        Ok(())
    }

    fn work(&self, watch: Arc<dyn Watch>, packer: Option<Arc<Packer>>) -> Arc<Work> {
        let jobs = self.order.jobs.max(1);
        let traffic = Traffic {
            remote: self.remote.clone(),
            patience: self.order.patience,
            lanes: Lanes::new(jobs),
            pace: Pace::new(self.order.bytes_per_second),
            watch,
            received: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            given_up: Mutex::default(),
        };
        let (folder, goal) = (self.folder.clone(), self.goal.clone());
        let is_layered = self.is_layered;
        Arc::new(Work { traffic, folder, jobs, goal, is_layered, packer })
    }

    /// Brings what says which bytes are wanted: headers of shards, and for a pack what says what they are.
    async fn beforehand(&self, listing: &Listing, is_packed: bool) -> Result<u64, FetchError> {
        let quiet = self.work(Arc::new(OnlyWaiting(self.watch.clone())), None);
        if is_packed {
            let small: Vec<_> =
                listing.files.iter().filter(|file| !file.is_shard()).cloned().collect();
            let missing = files_of(&quiet, &small).await?;
            if !missing.is_empty() {
                return Err(FetchError::Incomplete { missing, total: listing.files.len() });
            }
        }
        let missing = headers(&quiet, listing).await?;
        if !missing.is_empty() {
            return Err(FetchError::Incomplete { missing, total: listing.files.len() });
        }
        Ok(quiet.traffic.received.load(Ordering::Relaxed))
    }

    /// Who packs the spine; nobody as long as a header is not here.
    fn packer(&self, listing: &Listing) -> Result<Option<Arc<Packer>>, FetchError> {
        let goal = Goal::of(Wanted::Spine, self.goal.frees);
        let is_known = |file: &RemoteFile| prospect::look(self.folder.dir(), file, &goal).is_some();
        match listing.files.iter().all(is_known) {
            true => {
                let packer = Packer::open(self.folder.clone(), listing, self.note)?;
                Ok(Some(Arc::new(packer)))
            }
            false => Ok(None),
        }
    }

    /// Notes what the pack is known by, before it says so itself: once released bytes are freed, nothing else tells
    /// that it is this checkpoint's.
    fn note_identity(&mut self, identity: Identity) -> Result<(), FetchError> {
        if self.note.identity != Some(identity) {
            self.note.identity = Some(identity);
            let laid = self.folder.lay(self.note);
            laid.map_err(|error| FetchError::disk(self.order.dir, error))?;
        }
        Ok(())
    }

    /// Refuses files that came before and after their source changed.
    async fn check_unchanged(&self, listing: &Listing) -> Result<(), FetchError> {
        let (endpoint, patience) = (self.order.endpoint, &self.order.patience);
        let manner = Manner { endpoint, patience, watch: &*self.watch };
        let is_streamed = self.goal.wanted == Wanted::Spine;
        origin::check_unchanged(self.order, &self.remote, manner, listing, is_streamed).await
    }

    /// Notes that what was wanted is here.
    fn finish(&mut self, listing: &Listing, packer: Option<&Packer>) -> Result<(), FetchError> {
        let disk = |error| FetchError::disk(self.order.dir, error);
        let kind = match self.goal.wanted {
            Wanted::Layers(_) => return Ok(()),
            Wanted::Fitting | Wanted::All => Kind::Full,
            Wanted::Spine => Kind::Stream,
        };
        if let Some(packer) = packer {
            self.note_identity(packer.identity()?)?;
            packer.finish()?;
        }
        if kind == Kind::Stream {
            settle(&self.folder, listing).map_err(disk)?;
        }
        layered::sweep(self.folder.dir(), listing).map_err(disk)?;
        self.folder.finish(kind).map_err(disk)
    }
}

/// Ends the packing with the transfer.
struct Ending(Option<Arc<Packer>>);

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(packer) = &self.0 {
            packer.stop();
        }
    }
}

/// Brings the headers of shards that are not here: they say which bytes are wanted. Gives those that are not to be had
/// because the source gives nothing.
async fn headers(work: &Arc<Work>, listing: &Listing) -> Result<Vec<Missing>, FetchError> {
    let goal = Goal::of(Wanted::Spine, work.goal.frees);
    let unknown = |file: &&RemoteFile| prospect::look(work.folder.dir(), file, &goal).is_none();
    let files: Vec<_> = listing.files.iter().filter(unknown).cloned().collect();
    let one = |file| transfer::header(work.clone(), file);
    let going = futures_util::stream::iter(files).map(one).buffer_unordered(work.jobs);
    let mut missing: Vec<Missing> = going.try_filter_map(async |end| Ok(end)).try_collect().await?;
    missing.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(missing)
}

/// Brings what is wanted of all files; gives those that are not to be had.
async fn files_of(work: &Arc<Work>, files: &[RemoteFile]) -> Result<Vec<Missing>, FetchError> {
    let one = |file: RemoteFile| {
        let (work, name) = (work.clone(), file.name.clone());
        async move { (name, transfer::file(work, file).await) }
    };
    let files = files.to_vec();
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
        let (part, base) = (folder.part(&file.name), base_path(folder.dir(), &file.name));
        if part.exists() {
            let open = OpenOptions::new().write(true).open(&part)?;
            // With its length the file is the released one, with holes.
            open.set_len(file.bytes)?;
            open.sync_all()?;
        } else if base.exists() {
            OpenOptions::new().write(true).open(&base)?.sync_all()?;
        } else {
            continue;
        }
        File::open(folder.map(&file.name))?.sync_all()?;
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
