//! Opening a reader: which drives there are, and what each is capable of.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use deltafin_checkpoint::{ShardId, Span};
use thiserror::Error;

use super::direct::read_run;
use super::distant::Bringing;
use super::kept::Kept;
use super::layout::{Cursor, Run};
use super::queue::{Limits, Queue};
use super::threads::{self, Shared, Way};
#[cfg(target_os = "linux")]
use super::uring::{self, Bell, Started};
use super::{Class, DriveReport, IoMode, Landing, Reader, ReaderReport, Ticket, room_for};
use crate::arena::{Arena, PAGE_BYTES, Slab};
use crate::store::check_span;
use crate::{LocalFile, Store};

/// A reader that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages say what the fields are
pub enum ReaderError {
    #[error("{file}: no file of this machine, so not for {mode} reads; choose auto or buffered")]
    NoFile { file: String, mode: IoMode },
    #[error("{file}: {mode} reads cannot be had: {reason}; choose auto")]
    Refused { file: String, mode: IoMode, reason: String },
    #[error(
        "no thread for reads can be started: {reason}; raise the limit of threads (ulimit -u) or of address \
         space (ulimit -v), or lower --threads"
    )]
    Thread { reason: String },
}

/// Sizes that change speed and nothing else. The least in flight that gave a drive's full speed
/// was measured to be 4 MiB; demands may have more, since nothing goes before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// The most bytes of one transfer, a multiple of [`PAGE_BYTES`].
    pub chunk_bytes: usize,
    /// The most transfers in flight on a drive with a ring.
    pub depth: usize,
    /// The most transfers in flight when one starts that nobody waits for: what a demand that
    /// comes next has to wait behind.
    pub idle_depth: usize,
    /// Threads on a drive without a ring.
    pub threads: usize,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { chunk_bytes: 1 << 20, depth: 16, idle_depth: 4, threads: 8 }
    }
}

/// Opens a reader of what `store` has. Reads land at `landing`, which does not own the reader.
///
/// The memory of `arenas` is registered with a ring's kernel, which saves it some processor time
/// and no more. It is then resident, all of it, and [`Arena::release_free`] does nothing while the
/// reader lives. Slabs of other arenas can be read into just as well: give none to stay lean.
pub fn open_reader(
    store: Arc<dyn Store>,
    mode: IoMode,
    arenas: &[Arc<Arena>],
    landing: Arc<dyn Landing>,
) -> Result<Box<dyn Reader>, ReaderError> {
    open_reader_tuned(store, mode, arenas, landing, Tuning::default())
}

/// As [`open_reader`], with other sizes.
pub fn open_reader_tuned(
    store: Arc<dyn Store>,
    mode: IoMode,
    arenas: &[Arc<Arena>],
    landing: Arc<dyn Landing>,
    tuning: Tuning,
) -> Result<Box<dyn Reader>, ReaderError> {
    let mut landing = landing;
    let distant = store.distant().map(|distant| {
        let last = Arc::clone(&landing);
        let kept = Arc::new(Kept::new(Arc::clone(&distant), Arc::clone(&last)));
        landing = Arc::clone(&kept) as Arc<dyn Landing>;
        (distant, kept, last)
    });
    let ground = Ground { store, arenas, landing, tuning };
    let mut drives: Vec<Drive> = Vec::new();
    let mut known: Vec<Option<u64>> = Vec::new();
    let mut drive_of = Vec::new();
    for number in 0..ground.store.shards().len() {
        let shard = ShardId::new(number as u32);
        let device = ground.store.file(shard).map(|file| file.device());
        let drive = match known.iter().position(|other| *other == device) {
            Some(drive) => drive,
            None => {
                drives.push(ground.drive(mode, shard)?);
                known.push(device);
                drives.len() - 1
            }
        };
        drive_of.push(drive);
    }
    if drives.is_empty() {
        drives.push(ground.buffered(ShardId::new(0))?);
    }
    let drives = Box::new(Drives { store: ground.store, drives, drive_of });
    Ok(match distant {
        Some((distant, kept, last)) => Box::new(Bringing::start(distant, drives, kept, last)?),
        None => drives,
    })
}

/// What every drive of a reader stands on.
struct Ground<'a> {
    store: Arc<dyn Store>,
    #[cfg_attr(target_os = "macos", allow(dead_code))] // only rings register memory
    arenas: &'a [Arc<Arena>],
    landing: Arc<dyn Landing>,
    tuning: Tuning,
}

impl Ground<'_> {
    /// The drive that this shard is on.
    fn drive(&self, mode: IoMode, shard: ShardId) -> Result<Drive, ReaderError> {
        match mode {
            IoMode::Auto => self.best(shard),
            IoMode::Uring => self.ring(shard),
            IoMode::Direct => self.direct(shard),
            IoMode::Buffered => self.buffered(shard),
        }
    }

    fn best(&self, shard: ShardId) -> Result<Drive, ReaderError> {
        if self.store.file(shard).is_none() {
            return self.buffered(shard);
        }
        let mut reasons = Vec::new();
        for attempt in [Self::ring, Self::direct] {
            match attempt(self, shard) {
                Ok(mut drive) => {
                    drive.notice = notice(&reasons);
                    return Ok(drive);
                }
                Err(ReaderError::Refused { mode, reason, .. }) => {
                    reasons.push(format!("no {mode} reads ({reason})"));
                }
                Err(other) => return Err(other),
            }
        }
        let mut drive = self.buffered(shard)?;
        drive.notice = notice(&reasons);
        Ok(drive)
    }

    #[cfg(target_os = "linux")]
    fn ring(&self, shard: ShardId) -> Result<Drive, ReaderError> {
        let refused = |reason: String| self.refused(shard, IoMode::Uring, reason);
        let run = self.page(shard, IoMode::Uring)?.map(|(_, run)| run);
        let bell = Arc::new(Bell::new().map_err(|error| refused(error.to_string()))?);
        let depth = self.tuning.depth.max(1);
        let ring = Arc::clone(&bell);
        let shared = self.shared(PAGE_BYTES as u64, depth).with_bell(move || ring.ring());
        let shared = Arc::new(shared);
        let Started { thread, registered } =
            uring::start(&shared, &bell, self.arenas, depth, run).map_err(refused)?;
        let mut how = "io_uring, O_DIRECT".to_owned();
        if !self.arenas.is_empty() && registered.is_ok() {
            how.push_str(", registered buffers");
        }
        let unregistered = |error| format!("memory for reads is not registered ({error})");
        let (file, mode, threads) = (self.name(shard), IoMode::Uring, vec![thread]);
        let notice = registered.err().map(unregistered);
        Ok(Drive { file, mode, how, notice, shared, threads })
    }

    #[cfg(target_os = "macos")]
    fn ring(&self, shard: ShardId) -> Result<Drive, ReaderError> {
        Err(self.refused(shard, IoMode::Uring, "macOS has no io_uring".to_owned()))
    }

    fn direct(&self, shard: ShardId) -> Result<Drive, ReaderError> {
        self.probe(shard)?;
        let threads = self.tuning.threads;
        self.on_threads(shard, IoMode::Direct, format!("direct reads on {threads} threads"))
    }

    fn buffered(&self, shard: ShardId) -> Result<Drive, ReaderError> {
        let threads = self.tuning.threads;
        let how = match self.store.file(shard) {
            Some(_) => format!("buffered reads on {threads} threads"),
            None => format!("no file, copied from memory on {threads} threads"),
        };
        self.on_threads(shard, IoMode::Buffered, how)
    }

    fn on_threads(&self, shard: ShardId, mode: IoMode, how: String) -> Result<Drive, ReaderError> {
        let (way, align) = match mode {
            IoMode::Direct => (Way::Direct, PAGE_BYTES as u64),
            _ => (Way::Buffered, 1),
        };
        let count = self.tuning.threads.max(1);
        let shared = Arc::new(self.shared(align, count));
        let threads = threads::start(&shared, way, count)
            .map_err(|error| ReaderError::Thread { reason: error.to_string() })?;
        Ok(Drive { file: self.name(shard), mode, how, notice: None, shared, threads })
    }

    fn shared(&self, align: u64, depth: usize) -> Shared {
        let chunk_bytes = self.tuning.chunk_bytes.clamp(1, 1 << 30).next_multiple_of(PAGE_BYTES);
        let idle_depth = self.tuning.idle_depth.clamp(1, depth);
        let limits = Limits { align, chunk_bytes: chunk_bytes as u64, depth, idle_depth };
        let landing = Arc::clone(&self.landing);
        Shared::new(Queue::new(limits), Arc::clone(&self.store), landing)
    }

    fn refused(&self, shard: ShardId, mode: IoMode, reason: String) -> ReaderError {
        ReaderError::Refused { file: self.name(shard), mode, reason }
    }

    /// One real transfer past the page cache: what is documented to work and what does are two
    /// things, between all file systems there are.
    fn probe(&self, shard: ShardId) -> Result<(), ReaderError> {
        let refused = |reason: String| self.refused(shard, IoMode::Direct, reason);
        let Some((file, run)) = self.page(shard, IoMode::Direct)? else { return Ok(()) };
        let arena = Arena::new(PAGE_BYTES).map_err(|error| refused(error.to_string()))?;
        let slab = arena.take(run.len);
        let mut slab = slab.ok_or_else(|| refused("no memory for a transfer".to_owned()))?;
        let (outcome, _) = read_run(file, run, slab.bytes_mut());
        outcome.map(|_| ()).map_err(|error| refused(error.to_string()))
    }

    /// A page to try, of a file on the drive that this shard is on, if one has any.
    fn page(
        &self,
        shard: ShardId,
        mode: IoMode,
    ) -> Result<Option<(LocalFile<'_>, Run)>, ReaderError> {
        let no_file = || ReaderError::NoFile { file: self.name(shard), mode };
        let device = self.store.file(shard).ok_or_else(no_file)?.device();
        let Some((shard, file)) = self.not_empty(device) else { return Ok(None) };
        let page = PAGE_BYTES as u64;
        let span = Span::new(shard, 0, self.store.shards()[shard.index()].len.min(page));
        let run = span.and_then(|span| Cursor::default().next(&[span], page, page));
        Ok(run.map(|run| (file, run)))
    }

    /// A file on this drive with something to read in it.
    fn not_empty(&self, device: u64) -> Option<(ShardId, LocalFile<'_>)> {
        let shards = self.store.shards().iter().enumerate().filter(|(_, shard)| shard.len > 0);
        shards
            .filter_map(|(number, _)| {
                let shard = ShardId::new(number as u32);
                Some((shard, self.store.file(shard)?))
            })
            .find(|(_, file)| file.device() == device)
    }

    fn name(&self, shard: ShardId) -> String {
        match self.store.file(shard) {
            Some(file) => file.path().display().to_string(),
            None => {
                self.store.shards().get(shard.index()).map_or(String::new(), |s| s.name.clone())
            }
        }
    }
}

fn notice(reasons: &[String]) -> Option<String> {
    (!reasons.is_empty()).then(|| reasons.join(", "))
}

/// A drive at work.
struct Drive {
    file: String,
    mode: IoMode,
    how: String,
    notice: Option<String>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Drive {
    fn report(&self) -> DriveReport {
        let tally = self.shared.lock().tally();
        DriveReport {
            file: self.file.clone(),
            mode: self.mode,
            how: self.how.clone(),
            notice: self.notice.clone(),
            landed: tally.landed,
            over_read_bytes: tally.over_read_bytes,
            retries: tally.retries,
            busy: tally.busy,
            most_reads: tally.most_reads,
        }
    }
}

impl Drop for Drive {
    /// Waits for what is in flight. A reader that is dropped from where its own reads land
    /// cannot wait for that thread, which ends right after.
    fn drop(&mut self) {
        self.shared.lock().stop();
        self.shared.wake();
        let here = thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != here) {
            // A panic there was told where it happened.
            let _ended = thread.join();
        }
    }
}

/// The reader: drives, and which shard is on which.
struct Drives {
    store: Arc<dyn Store>,
    drives: Vec<Drive>,
    drive_of: Vec<usize>,
}

impl Drives {
    /// The drive that reads these pieces: that of the first, unless one of the others can only
    /// be read through the store.
    fn drive(&self, pieces: &[Span]) -> &Drive {
        let drives = pieces.iter().map(|piece| &self.drives[self.drive_of[piece.shard().index()]]);
        let mut drives = drives.peekable();
        let first = drives.peek().copied().unwrap_or(&self.drives[0]);
        drives.find(|drive| drive.mode == IoMode::Buffered).unwrap_or(first)
    }
}

impl Reader for Drives {
    fn read(&self, ticket: Ticket, class: Class, pieces: &[Span], slab: Slab) {
        let (room, len) = (room_for(pieces), slab.len());
        assert!(room <= len, "a slab of {len} bytes for a record that needs {room}");
        let known = pieces.iter().try_for_each(|p| check_span(self.store.shards(), *p).map(|_| ()));
        let drive = match &known {
            Ok(()) => self.drive(pieces),
            Err(_) => &self.drives[0],
        };
        let mut queue = drive.shared.lock();
        match known {
            Ok(()) => queue.push(ticket, class, pieces, slab),
            Err(error) => queue.push_failed(ticket, slab, error),
        }
        drop(queue);
        drive.shared.wake();
    }

    fn promote(&self, ticket: Ticket) {
        for drive in &self.drives {
            drive.shared.lock().promote(ticket);
            drive.shared.wake();
        }
    }

    fn cancel(&self, ticket: Ticket) {
        for drive in &self.drives {
            drive.shared.lock().cancel(ticket);
            drive.shared.wake();
        }
    }

    fn report(&self) -> ReaderReport {
        let drives = self.drives.iter().map(Drive::report).collect();
        ReaderReport { drives, ..ReaderReport::default() }
    }
}

impl fmt::Debug for Drives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drives").field("report", &self.report()).finish_non_exhaustive()
    }
}
