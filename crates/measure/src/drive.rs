//! How fast a drive gives spans as long as an expert, read as the engine reads them.
//!
//! The reader of the `store` crate is used with as many reads waiting as the engine has. Spans are taken
//! in a shuffled order and none is read twice, so that no cache on the way has seen it in this run.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use deltafin_checkpoint::{ShardId, Span};
use deltafin_store::arena::{Arena, PAGE_BYTES, Slab};
use deltafin_store::drive::{
    Class, IoMode, Landed, Landing, Reader, ReaderError, Ticket, open_reader, room_for,
};
use deltafin_store::{LocalShards, OpenError, Store, StoreError};
use serde::Serialize;
use thiserror::Error;

use crate::{Doubt, Room, TooLittle, doubt, spread};

/// How fast the drive is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriveSpeed {
    /// Bytes that were asked for per second, in 10^9.
    pub gbps: f64,
    /// The slowest and the fastest of several stretches of the measurement, in the same unit; nothing where
    /// it was too short to tell.
    pub between_gbps: Option<[f64; 2]>,
    /// Bytes that were read.
    pub bytes: u64,
    /// Reads they took.
    pub reads: usize,
    /// How they were read, in words.
    pub how: String,
    /// Why not in the fastest way, where that is so.
    pub notice: Option<String>,
    /// Why this may not be the drive's speed.
    pub doubts: Vec<Doubt>,
}

/// The drive cannot be measured.
#[derive(Debug, Error)]
#[allow(missing_docs)] // the messages say what the fields are
pub enum DriveError {
    #[error("there is nothing to read from")]
    Nothing,
    /// The budget of a plan has no part in it.
    #[error(
        "measuring the drive takes {} MiB of memory, which the system refuses; raise the limit of \
         address space (ulimit -v), or give the drive's speed with --drive-gbps", wanted >> 20
    )]
    Room { wanted: usize },
    #[error(transparent)]
    TooLittle(#[from] TooLittle),
    #[error(transparent)]
    Reader(#[from] ReaderError),
    #[error(transparent)]
    Read(#[from] StoreError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{}: no file to measure with can be written here: {reason}; name another place, or give the drive's speed", dir.display())]
    Write { dir: PathBuf, reason: String },
}

/// What measuring a drive may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// For how long to read.
    pub time: Duration,
    /// Memory to read into: two records at least.
    pub room: Room,
}

impl Effort {
    /// For so long, with as much memory as reads of Kimi K3's experts have use for.
    pub fn of(time: Duration) -> Effort {
        Effort { time, room: Room::ALL }
    }
}

/// The most reads that wait at a time: two layers' worth of K3's experts.
const DEPTH: usize = 32;
/// One is used while the other is read.
const LEAST_DEPTH: usize = 2;
/// The most memory they may take together.
const ROOM: usize = 600 << 20;

/// Reads as many of these records as `effort` allows, each at most once. A record is a list of spans.
///
/// # Errors
/// When there are none, there is no memory for them, or a read fails.
pub fn drive_speed(
    store: Arc<dyn Store>,
    records: &[Vec<Span>],
    effort: Effort,
) -> Result<DriveSpeed, DriveError> {
    let slab = records.iter().map(|record| room_for(record)).max().unwrap_or(0);
    if records.is_empty() {
        return Err(DriveError::Nothing);
    }
    let room = effort.room.of_at_least(slab as u64 * LEAST_DEPTH.min(records.len()) as u64)?;
    let room = usize::try_from(room).unwrap_or(usize::MAX).min(ROOM);
    let depth = (room / slab.max(1)).clamp(LEAST_DEPTH, DEPTH).min(records.len());
    let wanted = depth * slab;
    let arena = Arena::new(wanted).map_err(|_| DriveError::Room { wanted })?;
    let (sender, landed) = channel();
    let landing = Arc::new(Landings(sender));
    let reader = open_reader(Arc::clone(&store), IoMode::Auto, &[Arc::clone(&arena)], landing)?;
    let (order, landings) = (shuffled(records), Vec::with_capacity(records.len()));
    let mut run = Run { reader: &*reader, landed, order, next: 0, bytes: 0, landings };
    let slabs: Vec<_> = (0..depth).filter_map(|_| arena.take(slab)).collect();
    let before = doubt::counted_bytes();
    let (seconds, read) = run.run(slabs, effort.time)?;
    let counted = before.zip(doubt::counted_bytes()).map(|(before, after)| after - before);
    let report = reader.report();
    let drive = report.drives.first();
    let mode = drive.map_or(IoMode::Buffered, |drive| drive.mode);
    let between_gbps = spread::of(&run.landings);
    let mut doubts = doubt::about(&*store, &read, mode, counted);
    doubts.extend(between_gbps.and_then(spread::doubt));
    Ok(DriveSpeed {
        gbps: run.bytes as f64 / seconds / 1e9,
        between_gbps,
        bytes: run.bytes,
        reads: run.next,
        how: drive.map(|drive| drive.how.clone()).unwrap_or_default(),
        notice: drive.and_then(|drive| drive.notice.clone()),
        doubts,
    })
}

/// Writes a file at `path`, where there is none yet, reads spans of `len` bytes of it and removes it.
/// What ends the process meanwhile has to remove it itself.
///
/// # Errors
/// When it cannot be written or read, or there is no memory for that; then nothing is written.
pub fn drive_speed_at(path: &Path, len: u64, effort: Effort) -> Result<DriveSpeed, DriveError> {
    // Begin and end anywhere, as experts do.
    let record =
        |n| Some(vec![Span::new(ShardId::new(0), n * (len + PAGE_BYTES as u64) + 100, len)?]);
    let slab = record(0).map_or(0, |record| room_for(&record));
    effort.room.of_at_least(LEAST_DEPTH as u64 * slab as u64)?;
    let dir = path.parent().unwrap_or(Path::new(""));
    let refused =
        |e: std::io::Error| DriveError::Write { dir: dir.to_owned(), reason: e.to_string() };
    let mut file = File::options().write(true).create_new(true).open(path).map_err(refused)?;
    let _removed = Removed(path);
    let bytes = fill(&mut file, effort.time).map_err(refused)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let store = Arc::new(LocalShards::open(dir, &[name.unwrap_or_default()])?);
    let records: Vec<_> = (0..bytes / (len + PAGE_BYTES as u64)).filter_map(record).collect();
    drive_speed(store, &records, effort)
}

/// Removes a file at the end.
struct Removed<'a>(&'a Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        // It was ours and in nobody's way: what is left of it is only room.
        let _ = fs::remove_file(self.0);
    }
}

/// The most that is written, and the least even if the drive is slow.
const FILE_MOST: u64 = 1 << 30;
const FILE_LEAST: u64 = 128 << 20;

/// Fills `file` with bytes that no file system can compress; gives their number.
fn fill(file: &mut File, time: Duration) -> std::io::Result<u64> {
    let start = Instant::now();
    let (mut block, mut state, mut written) = (vec![0u8; 4 << 20], 1u64, 0u64);
    while written < FILE_MOST && (written < FILE_LEAST || start.elapsed() < 2 * time) {
        for eight in block.as_chunks_mut::<8>().0 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *eight = state.to_le_bytes();
        }
        file.write_all(&block)?;
        written += block.len() as u64;
    }
    file.sync_all()?;
    Ok(written)
}

/// Passes on what lands.
struct Landings(Sender<Landed>);

impl Landing for Landings {
    fn landed(&self, _: Ticket, landed: Landed) {
        // Nobody listens any more once the measurement has failed.
        let _ = self.0.send(landed);
    }
}

/// A measurement under way.
struct Run<'a> {
    reader: &'a dyn Reader,
    landed: Receiver<Landed>,
    order: Vec<&'a [Span]>,
    next: usize,
    bytes: u64,
    /// When each read was there, in seconds, and its bytes.
    landings: Vec<(f64, u64)>,
}

impl Run<'_> {
    /// Keeps all slabs busy until the time is up or all has been read; gives the seconds until the last
    /// read was there, and all that was read.
    fn run(&mut self, slabs: Vec<Slab>, time: Duration) -> Result<(f64, Vec<Span>), DriveError> {
        let start = Instant::now();
        let mut waiting = 0;
        for slab in slabs {
            waiting += usize::from(self.ask(slab));
        }
        while waiting > 0 {
            let Ok(landed) = self.landed.recv() else { break };
            waiting -= 1;
            let slab = match landed {
                Landed::Whole(filled) => {
                    self.bytes += filled.len() as u64;
                    self.landings.push((start.elapsed().as_secs_f64(), filled.len() as u64));
                    filled.into_slab()
                }
                Landed::Cancelled(slab) => slab,
                Landed::Failed(_, error) => return Err(error.into()),
            };
            if start.elapsed() < time {
                waiting += usize::from(self.ask(slab));
            }
        }
        let read = self.order[..self.next].iter().flat_map(|record| record.iter().copied());
        Ok((start.elapsed().as_secs_f64().max(1e-9), read.collect()))
    }

    fn ask(&mut self, slab: Slab) -> bool {
        let Some(record) = self.order.get(self.next) else { return false };
        self.reader.read(Ticket(self.next as u64), Class::Demand, record, slab);
        self.next += 1;
        true
    }
}

/// The records in an order that no read-ahead foresees, another one each time.
fn shuffled(records: &[Vec<Span>]) -> Vec<&[Span]> {
    let mut order: Vec<&[Span]> = records.iter().map(Vec::as_slice).collect();
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut state = clock.map_or(1, |since| since.as_nanos() as u64) | 1;
    for i in (1..order.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(i, (state >> 33) as usize % (i + 1));
    }
    order
}
