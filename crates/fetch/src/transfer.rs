//! One file from a source: its pieces, many at once, each until it is here.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use deltafin_checkpoint::{Header, header_extent};
use futures_util::StreamExt as _;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::cut::{self, LENGTH_BYTES, Owner, Piece};
use crate::fault::Fault;
use crate::folder::Folder;
use crate::lanes::{Lanes, Pace};
use crate::listing::RemoteFile;
use crate::part::{Found, Part};
use crate::patience::Silence;
use crate::remote::Remote;
use crate::{Event, FetchError, Patience, Watch};

/// A file that turns out to be another one than announced, or changes on the way, is fetched again this
/// often.
const TRIES: u32 = 3;

/// What all files of an installation share.
pub(crate) struct Work {
    pub(crate) remote: Remote,
    pub(crate) folder: Folder,
    pub(crate) patience: Patience,
    pub(crate) lanes: Lanes,
    pub(crate) pace: Pace,
    pub(crate) watch: Arc<dyn Watch>,
    /// Requests that may be on their way.
    pub(crate) jobs: usize,
    /// The layers that are wanted; all of them if nothing is said.
    pub(crate) layers: Option<RangeInclusive<u32>>,
    /// Bytes that came, of all files.
    pub(crate) received: AtomicU64,
    /// The source gave nothing for so long that nothing more is begun.
    pub(crate) given_up: AtomicBool,
}

/// How a file's transfer ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It is here.
    Done,
    /// What is wanted of it is here.
    Partial,
    /// It is not to be had, for this reason.
    Missing(String),
}

/// Why a piece is not here.
enum Broken {
    Changed(String),
    Lasting(String),
    Disk(FetchError),
}

/// Brings a file here.
pub(crate) async fn file(work: Arc<Work>, file: RemoteFile) -> Result<End, FetchError> {
    let part = match find(&work, &file).await? {
        Found::Done => {
            work.watch.event(Event::Kept { bytes: file.bytes });
            work.watch.event(Event::Done { name: &file.name });
            return Ok(End::Done);
        }
        Found::Part(part) => Arc::from(part),
    };
    if work.given_up.load(Ordering::Relaxed) {
        return Ok(End::Missing("not tried: the source gives nothing".to_owned()));
    }
    work.watch.event(Event::Began { name: &file.name, bytes: file.bytes });
    let mut why = String::new();
    for try_again in 0..TRIES {
        why = match pieces(&work, &part, try_again == 0).await {
            Ok(false) => return Ok(End::Partial),
            Ok(true) => {
                work.watch.event(Event::Proving { name: &file.name });
                if finish(&work, &part).await? {
                    work.watch.event(Event::Done { name: &file.name });
                    return Ok(End::Done);
                }
                format!("what came is not what the source announced: {}", file.proof)
            }
            Err(Broken::Changed(why)) => format!("it changes at the source: {why}"),
            Err(Broken::Lasting(why)) => return Ok(End::Missing(why)),
            Err(Broken::Disk(error)) => return Err(error),
        };
        let lost = part.reset().map_err(|error| FetchError::disk(part.path(), error))?;
        work.watch.event(Event::Lost { bytes: lost });
    }
    Ok(End::Missing(format!("{why}, {TRIES} times")))
}

async fn find(work: &Arc<Work>, file: &RemoteFile) -> Result<Found, FetchError> {
    let (shared, name) = (work.clone(), file.clone());
    let found = spawn_blocking(move || {
        let mut proving = || shared.watch.event(Event::Proving { name: &name.name });
        Part::find(&shared.folder, &name, &mut proving)
    });
    let path = work.folder.part(&file.name);
    joined(found.await)?.map_err(|error| FetchError::disk(&path, error))
}

/// Proves a whole part, and gives it its name if it is what was announced.
async fn finish(work: &Arc<Work>, part: &Arc<Part>) -> Result<bool, FetchError> {
    let (shared, here) = (work.clone(), part.clone());
    let proof = spawn_blocking(move || {
        let is_proven = here.is_proven()?;
        if is_proven {
            here.publish(&shared.folder)?;
        }
        Ok(is_proven)
    });
    joined(proof.await)?.map_err(|error: io::Error| FetchError::disk(part.path(), error))
}

/// A task's own fault is the whole program's.
fn joined<T>(result: Result<T, tokio::task::JoinError>) -> Result<T, FetchError> {
    result.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => FetchError::Interrupted,
    })
}

/// Brings all pieces here that are wanted; says whether that is all there are.
async fn pieces(work: &Arc<Work>, part: &Arc<Part>, is_first: bool) -> Result<bool, Broken> {
    let bytes = part.file().bytes;
    let mut all = Vec::new();
    if part.file().is_shard() && bytes > LENGTH_BYTES {
        let length = cut::even(0, LENGTH_BYTES, Owner::File);
        fetch_all(work, part, &length, is_first).await?;
        let extent = read_head(part, LENGTH_BYTES, |head| header_extent(head, bytes).ok())?;
        // A header that cannot be one shows at the end, when the file is held against its proof.
        let extent = extent.unwrap_or(LENGTH_BYTES);
        let header = cut::even(LENGTH_BYTES, extent, Owner::File);
        fetch_all(work, part, &header, is_first).await?;
        let data = read_head(part, extent, |head| {
            Header::parse(head, bytes).ok().map(|header| cut::shard(&header))
        })?;
        all.extend(data.unwrap_or_else(|| cut::even(extent, bytes, Owner::File)));
    } else {
        all.extend(cut::even(0, bytes, Owner::File));
    }
    let count = all.len();
    if let Some(layers) = &work.layers {
        all.retain(|piece| piece.owner.layer().is_none_or(|layer| layers.contains(&layer)));
    }
    fetch_all(work, part, &all, is_first).await?;
    Ok(all.len() == count)
}

fn read_head<T>(
    part: &Part,
    bytes: u64,
    read: impl FnOnce(&[u8]) -> Option<T>,
) -> Result<Option<T>, Broken> {
    let head = part.head(bytes);
    let head = head.map_err(|error| Broken::Disk(FetchError::disk(part.path(), error)))?;
    Ok(read(&head))
}

/// Fetches what is not here of these pieces, in their order, a bounded number at once.
async fn fetch_all(
    work: &Arc<Work>,
    part: &Arc<Part>,
    pieces: &[Piece],
    is_first: bool,
) -> Result<(), Broken> {
    let mut going = JoinSet::new();
    let mut missing = pieces.iter().copied().filter(|piece| !part.has(*piece));
    if is_first {
        let here = pieces.iter().filter(|piece| part.has(**piece)).map(|piece| piece.bytes).sum();
        work.watch.event(Event::Kept { bytes: here });
    }
    loop {
        while going.len() < work.jobs
            && let Some(piece) = missing.next()
        {
            going.spawn(fetch(work.clone(), part.clone(), piece));
        }
        let Some(ended) = going.join_next().await else { return Ok(()) };
        let ended = joined(ended).map_err(Broken::Disk)?;
        if let Err(broken) = ended {
            going.shutdown().await;
            return Err(broken);
        }
    }
}

/// A piece as far as it has come.
struct Arrived {
    hasher: blake3::Hasher,
    bytes: u64,
    /// Another tag than that of the pieces before, when the last answer had one.
    other_tag: Option<String>,
}

/// Fetches a piece, going on at the byte where an answer ended early.
async fn fetch(work: Arc<Work>, part: Arc<Part>, piece: Piece) -> Result<(), Broken> {
    let disk = |error| Broken::Disk(FetchError::disk(part.path(), error));
    let mut arrived = Arrived { hasher: blake3::Hasher::new(), bytes: 0, other_tag: None };
    let (mut silence, mut others) = (Silence::new(), work.received.load(Ordering::Relaxed));
    loop {
        let (lane, before) = (work.lanes.enter().await, arrived.bytes);
        let result = attempt(&work, &part, piece, &mut arrived).await;
        drop(lane);
        if arrived.bytes > before {
            silence.broken();
            others = work.received.load(Ordering::Relaxed);
        }
        let (why, after, crowded) = match result {
            Ok(()) => {
                work.lanes.went_well();
                return part.note(piece, *arrived.hasher.finalize().as_bytes()).map_err(disk);
            }
            Err(Attempt::Disk(error)) => return Err(disk(error)),
            Err(Attempt::Fault(Fault::Changed(why))) => return Err(Broken::Changed(why)),
            Err(Attempt::Fault(Fault::Lasting(why))) => return Err(Broken::Lasting(why)),
            Err(Attempt::Fault(Fault::Passing { why, after, crowded })) => (why, after, crowded),
        };
        let Some(wait) = silence.wait(&work.patience, after) else {
            if work.received.load(Ordering::Relaxed) == others {
                work.given_up.store(true, Ordering::Relaxed);
            }
            return Err(Broken::Lasting(why));
        };
        if crowded {
            work.lanes.crowded(wait);
        }
        work.watch.event(Event::Waiting { name: &part.file().name, why: &why, wait });
        sleep(wait).await;
    }
}

/// Why one request did not end its piece.
enum Attempt {
    Fault(Fault),
    Disk(io::Error),
}

impl From<Fault> for Attempt {
    fn from(fault: Fault) -> Attempt {
        Attempt::Fault(fault)
    }
}

/// One request for the rest of a piece.
async fn attempt(
    work: &Work,
    part: &Part,
    piece: Piece,
    arrived: &mut Arrived,
) -> Result<(), Attempt> {
    let still = || Fault::passing(format!("no byte for {} s", work.patience.stall.as_secs_f32()));
    let range = piece.offset + arrived.bytes..piece.end();
    let reply = timeout(work.patience.stall, work.remote.read(part.file(), range)).await;
    let mut slice = reply.map_err(|_| still())??;
    check_tag(part, slice.tag.take(), arrived)?;
    while arrived.bytes < piece.bytes {
        let next = timeout(work.patience.stall, slice.bytes.next()).await.map_err(|_| still())?;
        let Some(bytes) = next else { return Err(Fault::passing("the answer ended early").into()) };
        let bytes = bytes.map_err(|error| Fault::of(&error))?;
        let room = piece.bytes - arrived.bytes;
        if bytes.len() as u64 > room {
            return Err(Fault::passing("more came than was asked for").into());
        }
        work.pace.take(bytes.len()).await;
        part.write(&bytes, piece.offset + arrived.bytes).map_err(Attempt::Disk)?;
        arrived.hasher.update(&bytes);
        arrived.bytes += bytes.len() as u64;
        work.received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        work.watch.event(Event::Received { bytes: bytes.len() as u64 });
    }
    Ok(())
}

/// Refuses an answer from another state of the file. One such answer may be a slip on the way; two alike
/// mean that the file was replaced.
fn check_tag(part: &Part, tag: Option<String>, arrived: &mut Arrived) -> Result<(), Attempt> {
    if part.accepts(tag.as_deref()).map_err(Attempt::Disk)? {
        arrived.other_tag = None;
        return Ok(());
    }
    let words = "its entity tag is another than that of the pieces before";
    if arrived.other_tag == tag {
        return Err(Fault::Changed(words.to_owned()).into());
    }
    arrived.other_tag = tag;
    Err(Fault::passing(words).into())
}
