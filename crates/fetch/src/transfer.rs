//! One file from a source: its pieces, many at once, each until it is here.

use std::io;
use std::sync::Arc;

use deltafin_checkpoint::{Header, header_extent};
use tokio::task::{JoinSet, spawn_blocking};

use crate::cut::{self, LENGTH_BYTES, Owner, Piece};
use crate::folder::Folder;
use crate::install::Missing;
use crate::listing::RemoteFile;
use crate::map::Map;
use crate::packed::Packer;
use crate::part::{Found, Part};
use crate::piece::{self, Broken, Sink as _, Traffic};
use crate::wanted::Goal;
use crate::{Event, FetchError, Wanted, prospect};

/// A file that turns out to be another one than announced, or changes on the way, is fetched again this
/// often.
const TRIES: u32 = 3;

/// What all files of an installation share.
pub(crate) struct Work {
    pub(crate) traffic: Traffic,
    pub(crate) folder: Arc<Folder>,
    /// Requests that may be on their way.
    pub(crate) jobs: usize,
    /// How much of the files.
    pub(crate) goal: Goal,
    /// Whether shards are to lie layer by layer.
    pub(crate) is_layered: bool,
    /// Packs the spine as it arrives, where it is to be packed.
    pub(crate) packer: Option<Arc<Packer>>,
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

/// Brings a file here, and packs what it was the last file for.
pub(crate) async fn file(work: Arc<Work>, file: RemoteFile) -> Result<End, FetchError> {
    let end = bring(&work, &file).await?;
    let is_settled = match end {
        End::Done => true,
        End::Partial => work.goal.wanted == Wanted::Spine,
        End::Missing(_) => false,
    };
    if is_settled && let Some(packer) = work.packer.clone() {
        work.traffic.watch.event(Event::Packing { name: &file.name });
        joined(spawn_blocking(move || packer.settle(&file)).await)??;
    }
    Ok(end)
}

async fn bring(work: &Arc<Work>, file: &RemoteFile) -> Result<End, FetchError> {
    let part = match find(work, file).await? {
        Found::Done => {
            let filled = match fill_holes(work, file).await? {
                Ok(filled) => filled,
                Err(why) => return Ok(End::Missing(why)),
            };
            work.traffic.watch.event(Event::Kept { bytes: file.bytes - filled });
            work.traffic.watch.event(Event::Done { name: &file.name });
            return Ok(End::Done);
        }
        Found::Part(part) => Arc::from(part),
    };
    if let Some(why) = work.traffic.not_tried() {
        return Ok(End::Missing(why));
    }
    work.traffic.watch.event(Event::Began { name: &file.name, bytes: file.bytes });
    let mut why = String::new();
    for try_again in 0..TRIES {
        why = match pieces(work, &part, try_again == 0).await {
            Ok(false) => return Ok(End::Partial),
            Ok(true) => {
                work.traffic.watch.event(Event::Proving { name: &file.name });
                if finish(work, &part).await? {
                    work.traffic.watch.event(Event::Done { name: &file.name });
                    return Ok(End::Done);
                }
                format!("what came is not what the source announced: {}", file.proof)
            }
            Err(Broken::Changed(why)) => format!("it changes at the source: {why}"),
            Err(Broken::Lasting(why)) => return Ok(End::Missing(why)),
            Err(Broken::Disk(error)) => return Err(FetchError::disk(part.path(), error)),
        };
        if let Some(packer) = work.packer.clone() {
            let file = file.clone();
            joined(spawn_blocking(move || packer.forget(&file)).await)??;
        }
        let lost = part.reset().map_err(|error| FetchError::disk(part.path(), error))?;
        work.traffic.watch.event(Event::Lost { bytes: lost });
    }
    Ok(End::Missing(format!("{why}, {TRIES} times")))
}

/// Fetches again what a proven file has holes for and is in no pack any more, or is not to be. Gives how
/// many bytes that are, or the reason where they are not to be had.
async fn fill_holes(
    work: &Arc<Work>,
    file: &RemoteFile,
) -> Result<Result<u64, String>, FetchError> {
    let disk = |error| FetchError::disk(&work.folder.file(&file.name), error);
    let map = work.folder.map(&file.name);
    let known = Map::read(&map, file).map_err(disk)?.unwrap_or_default();
    if known.hole_bytes() == 0 {
        return Ok(Ok(0));
    }
    let pieces = prospect::pieces_here(work.folder.dir(), file, &known).unwrap_or_default();
    let is_wanted = |piece: &Piece| known.is_freed(piece) && !is_held(work, file, piece);
    let pieces: Vec<Piece> = pieces.into_iter().filter(is_wanted).collect();
    if pieces.is_empty() {
        return Ok(Ok(0));
    }
    let bytes = pieces.iter().map(|piece| piece.bytes).sum();
    let part = Arc::new(Part::with_holes(&work.folder, file).map_err(disk)?);
    let mut why = String::new();
    for _ in 0..TRIES {
        why = match fetch_all(work, &part, &pieces, false).await {
            Ok(()) => return part.filled(work.goal.frees).map(|()| Ok(bytes)).map_err(disk),
            Err(Broken::Changed(why)) => format!("it changed at the source: {why}"),
            Err(Broken::Lasting(why)) => return Ok(Err(why)),
            Err(Broken::Disk(error)) => return Err(disk(error)),
        };
    }
    Ok(Err(format!("{why}, {TRIES} times")))
}

/// Whether finished parts of the pack have all of a piece.
fn is_held(work: &Work, file: &RemoteFile, piece: &Piece) -> bool {
    work.packer.as_ref().is_some_and(|packer| packer.holds(file, piece))
}

async fn find(work: &Arc<Work>, file: &RemoteFile) -> Result<Found, FetchError> {
    let (shared, name) = (work.clone(), file.clone());
    let found = spawn_blocking(move || {
        let mut proving = || shared.traffic.watch.event(Event::Proving { name: &name.name });
        let is_layered = shared.is_layered && name.is_shard() && name.bytes > LENGTH_BYTES;
        Part::find(&shared.folder, &name, is_layered, &mut proving)
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

/// Brings the header of a shard here, and nothing else; gives the reason where the source gives nothing at all.
pub(crate) async fn header(
    work: Arc<Work>,
    file: RemoteFile,
) -> Result<Option<Missing>, FetchError> {
    let Found::Part(part) = find(&work, &file).await? else { return Ok(None) };
    let part = Arc::from(part);
    match after_header(&work, &part, false).await {
        Err(Broken::Lasting(why)) if work.traffic.is_given_up() => {
            Ok(Some(Missing { name: file.name, why }))
        }
        // Whoever wants the rest will hear of it.
        Ok(_) | Err(Broken::Changed(_) | Broken::Lasting(_)) => Ok(None),
        Err(Broken::Disk(error)) => Err(FetchError::disk(part.path(), error)),
    }
}

/// Brings all pieces here that are wanted; says whether that is all there are.
async fn pieces(work: &Arc<Work>, part: &Arc<Part>, is_first: bool) -> Result<bool, Broken> {
    let mut all = after_header(work, part, is_first).await?;
    let count = all.len();
    all.retain(|piece| work.goal.includes(piece));
    let wanted = all.len();
    let known = part.known();
    if work.goal.spares(part.file(), &known) {
        all.retain(|piece| !(known.is_freed(piece) && is_held(work, part.file(), piece)));
    }
    fetch_all(work, part, &all, is_first).await?;
    Ok(wanted == count)
}

/// Brings a shard's header here; gives the pieces after it, or those of any other file.
async fn after_header(
    work: &Arc<Work>,
    part: &Arc<Part>,
    is_first: bool,
) -> Result<Vec<Piece>, Broken> {
    let bytes = part.file().bytes;
    if !part.file().is_shard() || bytes <= LENGTH_BYTES {
        return Ok(cut::even(0, bytes, Owner::File));
    }
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
    let data = data.unwrap_or_else(|| cut::even(extent, bytes, Owner::File));
    part.lay(extent, &data);
    Ok(data)
}

fn read_head<T>(
    part: &Part,
    bytes: u64,
    read: impl FnOnce(&[u8]) -> Option<T>,
) -> Result<Option<T>, Broken> {
    Ok(read(&part.head(bytes).map_err(Broken::Disk)?))
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
        work.traffic.watch.event(Event::Kept { bytes: here });
    }
    loop {
        while going.len() < work.jobs
            && let Some(piece) = missing.next()
        {
            going.spawn(fetch(work.clone(), part.clone(), piece));
        }
        let Some(ended) = going.join_next().await else { return Ok(()) };
        // Nobody but this function ends them.
        let ended = ended.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Broken::Lasting("it was stopped".to_owned())),
        });
        if let Err(broken) = ended {
            going.shutdown().await;
            return Err(broken);
        }
    }
}

/// Fetches a piece, and notes that it is here.
async fn fetch(work: Arc<Work>, part: Arc<Part>, piece: Piece) -> Result<(), Broken> {
    let digest = piece::fetch(&work.traffic, &*part, piece).await?;
    if part.refuses(piece, &digest) {
        return Err(Broken::Changed("what came is not what was here before".to_owned()));
    }
    part.note(piece, digest).map_err(Broken::Disk)
}
