//! What is left to be fetched of a file, to the byte.
//!
//! Where only a part of a shard is wanted, its header says which bytes those are. It is read from the
//! folder if it is there, else from the source.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use deltafin_checkpoint::{Header, header_extent};
use deltafin_store::SpineNote;

use crate::cut::{self, LENGTH_BYTES, Owner, Piece};
use crate::folder::{self, Kind};
use crate::listing::RemoteFile;
use crate::map::{Known, Map};
use crate::remote::{Manner, Remote, asking};
use crate::wanted::Goal;
use crate::{FetchError, Source, Wanted, layered, layers};

/// A file of a source, and how much of it is still to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prospect {
    /// The file.
    pub file: RemoteFile,
    /// Bytes of it that are wanted and here.
    pub here: u64,
    /// Bytes of it that are wanted and not here.
    pub missing: u64,
}

/// How far an installation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Bytes that are wanted and here.
    pub here: u64,
    /// Bytes that are wanted and not here.
    pub missing: u64,
    /// Whether experts are to come later, and are counted in neither.
    pub is_streamed: bool,
    /// The first and the last of the layers that alone are to come, and are counted, if it is not to be all.
    pub layers: Option<(u32, u32)>,
}

/// Where a file is in a folder, finished or not; what has its header, where it lies layer by layer.
pub(crate) fn path(dir: &Path, file: &RemoteFile) -> PathBuf {
    let part = folder::part_path(dir, &file.name);
    let base = layered::base_path(dir, &file.name);
    match (part.exists(), base.exists()) {
        (true, _) => part,
        (false, true) => base,
        (false, false) => dir.join(&file.name),
    }
}

/// What is known of a file in a folder.
fn known(dir: &Path, file: &RemoteFile) -> Known {
    let map = Map::read(&folder::map_path(dir, &file.name), file);
    map.ok().flatten().unwrap_or_default()
}

impl Prospect {
    /// Nothing of it is here any more.
    pub(crate) fn restart(&mut self) {
        self.missing += std::mem::take(&mut self.here);
    }

    fn of_all(file: RemoteFile, known: &Known, goal: &Goal) -> Prospect {
        let (holes, listed) = (known.hole_bytes(), known.bytes());
        let here = if known.proven { file.bytes.saturating_sub(holes) } else { listed };
        let here = if goal.spares(&file, known) { here + holes } else { here };
        Prospect { missing: file.bytes.saturating_sub(here), here, file }
    }

    fn of_pieces(file: RemoteFile, pieces: &[Piece], known: &Known, goal: &Goal) -> Prospect {
        let (mut here, mut missing) = (0, 0);
        for piece in pieces.iter().filter(|piece| goal.includes(piece)) {
            *(if goal.has(&file, known, piece) { &mut here } else { &mut missing }) += piece.bytes;
        }
        Prospect { file, here, missing }
    }
}

/// Of a file in a folder, as far as that can be told without its source: nothing where a header is needed
/// that is not here.
pub(crate) fn look(dir: &Path, file: &RemoteFile, goal: &Goal) -> Option<Prospect> {
    let known = known(dir, file);
    let is_whole = matches!(goal.wanted, Wanted::All | Wanted::Fitting);
    if known.proven || is_whole || !file.is_shard() || file.bytes <= LENGTH_BYTES {
        return Some(Prospect::of_all(file.clone(), &known, goal));
    }
    let pieces = pieces_here(dir, file, &known)?;
    Some(Prospect::of_pieces(file.clone(), &pieces, &known, goal))
}

/// How much of an unfinished installation is here and how much is to come, by what the folder alone says; nothing
/// where nothing is being installed, or headers that say what is wanted are not here yet.
pub fn standing(dir: &Path) -> Option<Standing> {
    let wanted = match folder::state(dir)?.0 {
        Kind::Full => layers::begun_layers(dir).ok()?.map_or(Wanted::All, Wanted::Layers),
        Kind::Stream => Wanted::Spine,
    };
    let layers = match &wanted {
        Wanted::Layers(layers) => Some((*layers.start(), *layers.end())),
        _ => None,
    };
    let is_streamed = wanted == Wanted::Spine;
    let goal = Goal::of(wanted, SpineNote::read(dir).is_ok_and(|note| note.is_freed));
    let files = folder::record(dir).ok().flatten()?.listing.files;
    let looks: Option<Vec<_>> = files.iter().map(|file| look(dir, file, &goal)).collect();
    let sum = |part: fn(&Prospect) -> u64| looks.as_ref().map(|all| all.iter().map(part).sum());
    Some(Standing {
        here: sum(|prospect| prospect.here)?,
        missing: sum(|prospect| prospect.missing)?,
        is_streamed,
        layers,
    })
}

/// As [`look`], with the header from the source if need be.
pub(crate) async fn ask(
    remote: &Remote,
    source: &Source,
    manner: Manner<'_>,
    dir: &Path,
    file: RemoteFile,
    goal: &Goal,
) -> Result<Prospect, FetchError> {
    if let Some(prospect) = look(dir, &file, goal) {
        return Ok(prospect);
    }
    let head = from_source(remote, source, manner, &file).await?;
    let pieces = pieces(&head, head.len() as u64, file.bytes);
    let known = known(dir, &file);
    Ok(Prospect::of_pieces(file, &pieces, &known, goal))
}

/// The header of a shard with its length, from the folder if it is there, else from the source.
pub(crate) async fn head(
    remote: &Remote,
    source: &Source,
    manner: Manner<'_>,
    dir: &Path,
    file: &RemoteFile,
) -> Result<Vec<u8>, FetchError> {
    match head_here(dir, file, &known(dir, file)) {
        Some(head) => Ok(head),
        None => from_source(remote, source, manner, file).await,
    }
}

/// What cannot be a header is fetched, and refused when it is held against its proof: here it is its length.
async fn from_source(
    remote: &Remote,
    source: &Source,
    manner: Manner<'_>,
    file: &RemoteFile,
) -> Result<Vec<u8>, FetchError> {
    let length_bytes = LENGTH_BYTES.min(file.bytes);
    let length = asking(source, manner, || remote.bytes(file, 0..length_bytes)).await?;
    match header_extent(&length, file.bytes) {
        Ok(extent) => asking(source, manner, || remote.bytes(file, 0..extent)).await,
        Err(_) => Ok(length),
    }
}

/// All pieces of a shard in a folder, if its header is here.
pub(crate) fn pieces_here(dir: &Path, file: &RemoteFile, known: &Known) -> Option<Vec<Piece>> {
    let head = head_here(dir, file, known)?;
    Some(pieces(&head, head.len() as u64, file.bytes))
}

/// The pieces that are wanted of a shard in the making and are not in its map. Where the header is not, nothing else
/// is known of it.
pub(crate) fn unnoted(dir: &Path, file: &RemoteFile, known: &Known, goal: &Goal) -> Vec<Piece> {
    let is_absent = |piece: &Piece| goal.includes(piece) && !goal.has(file, known, piece);
    match pieces_here(dir, file, known) {
        Some(pieces) => pieces.into_iter().filter(is_absent).collect(),
        None => cut::even(0, LENGTH_BYTES.min(file.bytes), Owner::File),
    }
}

/// The header of a shard in a folder, with its length, if it is here.
fn head_here(dir: &Path, file: &RemoteFile, known: &Known) -> Option<Vec<u8>> {
    let path = match known.is_layered {
        true => layered::base_path(dir, &file.name),
        false => path(dir, file),
    };
    let open = File::open(path).ok()?;
    let read = |bytes: u64| -> io::Result<Vec<u8>> {
        let mut head = vec![0; bytes as usize];
        open.read_exact_at(&mut head, 0).map(|()| head)
    };
    let whole = |piece: &Piece| known.has(piece);
    if !cut::even(0, LENGTH_BYTES, Owner::File).iter().all(whole) {
        return None;
    }
    let extent = header_extent(&read(LENGTH_BYTES).ok()?, file.bytes).ok()?;
    if !cut::even(LENGTH_BYTES, extent, Owner::File).iter().all(whole) {
        return None;
    }
    read(extent).ok()
}

/// All pieces of a shard, by its header: the header's own first.
pub(crate) fn pieces(head: &[u8], extent: u64, bytes: u64) -> Vec<Piece> {
    let mut all = cut::even(0, LENGTH_BYTES, Owner::File);
    all.extend(cut::even(LENGTH_BYTES, extent, Owner::File));
    match Header::parse(head, bytes) {
        Ok(header) => all.extend(cut::shard(&header)),
        Err(_) => all.extend(cut::even(extent, bytes, Owner::File)),
    }
    all
}
