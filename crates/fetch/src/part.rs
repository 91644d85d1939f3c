//! A file in the making.
//!
//! Its bytes lie at their offsets in `NAME.part`, what is not there yet is a hole, and a [`Map`] says
//! which pieces are there. It gets its name when it is proven and on the drive.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::Proof;
use crate::adopted::Adopted;
use crate::cut::Piece;
use crate::folder::Folder;
use crate::layered::{self, Compact};
use crate::listing::RemoteFile;
use crate::map::{Digest, Known, Map};
use crate::mark;
use crate::piece::Sink;
use crate::prospect;
use crate::verify::is_taken_back;

/// Bytes read at once.
const BLOCK_BYTES: usize = 1 << 20;
/// As many as every kernel takes (`IOV_MAX`).
const BLOCKS_AT_ONCE: usize = 1024;

/// What a folder has of a file.
pub(crate) enum Found {
    /// All of it, proven.
    Done,
    /// What a part has, perhaps nothing.
    Part(Box<Part>),
}

/// A file in the making.
#[derive(Debug)]
pub(crate) struct Part {
    file: RemoteFile,
    path: PathBuf,
    finished: PathBuf,
    out: File,
    map: Mutex<Map>,
    /// Where what is here of it lies, if not at its offsets.
    compact: Option<Mutex<Compact>>,
}

impl Part {
    /// What there is of a file, which is to lie layer by layer or at its offsets. Pieces that a map lists are read, and
    /// kept where they are what it says. `proving` is called before a whole file is read.
    pub(crate) fn find(
        folder: &Folder,
        file: &RemoteFile,
        is_layered: bool,
        proving: &mut dyn FnMut(),
    ) -> io::Result<Found> {
        let name = file.name.as_str();
        let (finished, path, notes) = (folder.file(name), folder.part(name), folder.map(name));
        let mut known = Map::read(&notes, file)?.unwrap_or_default();
        let is_whole = |path: &Path| {
            fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() == file.bytes)
        };
        if is_taken_back(&known) && !path.exists() && is_whole(&finished) {
            fs::rename(&finished, &path)?;
        }
        let (has_part, base) = (path.is_file(), layered::base_path(folder.dir(), name));
        if let Some(whole) = [&path, &base].into_iter().find(|path| known.proven && is_whole(path))
        {
            fs::rename(whole, &finished)?;
            folder.sync()?;
            return Ok(Found::Done);
        }
        if !has_part && is_whole(&finished) {
            if known.proven {
                return Ok(Found::Done);
            }
            proving();
            let proven = Known { proven: true, ..Known::default() };
            let pieces = prospect::pieces_here(folder.dir(), file, &proven);
            // Who computes with it holds its pieces against what they are.
            let mut adopted = Adopted::of(pieces.filter(|_| file.is_shard()).unwrap_or_default());
            let mut show = |bytes: &[u8]| adopted.update(bytes);
            if file.proof.holds_shown(&finished, file.bytes, &mut show)? == Some(true) {
                let pieces = adopted.pieces();
                Map::create(&notes, file, Known { pieces, ..proven })?;
                return Ok(Found::Done);
            }
        }
        known.proven = false;
        if file.proof != Proof::None {
            // Servers may rename a state between runs; what it is, its digest says.
            known.tag = None;
        }
        if is_layered && !known.is_layered {
            known = Known { is_layered, ..Known::default() };
        }
        let is_gathered = known.is_layered && !is_layered;
        if is_gathered {
            layered::gather(folder, file, &mut known)?;
        } else if !is_layered {
            // What was gathered by one that was ended right after.
            layered::remove(&base)?;
        }
        let path = if is_layered { base } else { path };
        let mut options = OpenOptions::new();
        let out = options.read(true).write(true).create(true).truncate(false).open(&path)?;
        let mut compact = None;
        match (is_layered, is_gathered) {
            (true, _) => compact = Some(layered::keep_true(folder.dir(), file, &mut known)?),
            (false, false) => keep_true(&out, &mut known, |_| true)?,
            (false, true) => {}
        }
        if file.proof == Proof::None && known.bytes() + known.hole_bytes() == file.bytes {
            // Whether the source still has this one, its tag says, and that comes with a piece.
            known.pieces.pop_first();
        }
        if known.pieces.is_empty() {
            out.set_len(0)?;
            known.tag = None;
        }
        let (map, compact) =
            (Mutex::new(Map::create(&notes, file, known)?), compact.map(Mutex::new));
        let part = Part { file: file.clone(), path, finished, out, map, compact };
        Ok(Found::Part(Box::new(part)))
    }

    /// Learns its pieces, of a shard whose header ends at `extent`.
    pub(crate) fn lay(&self, extent: u64, others: &[Piece]) {
        if let Some(mut compact) = self.compact() {
            *compact = Compact::after_header(extent, others);
        }
    }

    fn compact(&self) -> Option<MutexGuard<'_, Compact>> {
        self.compact.as_ref().map(|compact| compact.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Where the byte at an offset goes.
    fn place(&self, offset: u64) -> io::Result<u64> {
        match self.compact() {
            None => Ok(offset),
            Some(compact) => {
                compact.position(offset).ok_or_else(|| io::Error::other("it has no place here"))
            }
        }
    }

    /// A proven file with holes, which are to be filled with what was in them.
    pub(crate) fn with_holes(folder: &Folder, file: &RemoteFile) -> io::Result<Part> {
        let (path, notes) = (folder.file(&file.name), folder.map(&file.name));
        let mut known = Map::read(&notes, file)?.unwrap_or_default();
        let out = OpenOptions::new().read(true).write(true).open(&path)?;
        // What filled a hole may not have come to the drive; all else was there when it was proven.
        let freed = known.freed.clone();
        keep_true(&out, &mut known, |offset| freed.contains_key(&offset))?;
        if file.proof != Proof::None {
            known.tag = None;
        }
        let (finished, map) = (path.clone(), Mutex::new(Map::create(&notes, file, known)?));
        Ok(Part { file: file.clone(), path, finished, out, map, compact: None })
    }

    /// What is known of it.
    pub(crate) fn known(&self) -> Known {
        self.map().known().clone()
    }

    /// Whether a piece that came is another than the one that was proven with its file.
    pub(crate) fn refuses(&self, piece: Piece, digest: &Digest) -> bool {
        let map = self.map();
        let was = map.known().freed.get(&piece.offset);
        map.known().proven && was.is_some_and(|was| *was != (piece.bytes, *digest))
    }

    /// Sees to it that what filled holes is on the drive; unless they are to be holes again, it is as if
    /// they had never been any.
    pub(crate) fn filled(&self, frees: bool) -> io::Result<()> {
        self.out.sync_all()?;
        let mut map = self.map();
        let mut known = map.known().clone();
        if !frees {
            known.freed.retain(|offset, _| !known.pieces.contains_key(offset));
        }
        let path = map.path().to_owned();
        *map = Map::create(&path, &self.file, known)?;
        Ok(())
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a piece is here.
    pub(crate) fn has(&self, piece: Piece) -> bool {
        self.map().known().pieces.get(&piece.offset).is_some_and(|known| known.0 == piece.bytes)
    }

    /// Notes that a piece is here.
    pub(crate) fn note(&self, piece: Piece, digest: Digest) -> io::Result<()> {
        self.map().note(piece, digest)
    }

    /// The first bytes, which must be here.
    pub(crate) fn head(&self, bytes: u64) -> io::Result<Vec<u8>> {
        let mut head = vec![0; bytes as usize];
        self.out.read_exact_at(&mut head, 0).map(|()| head)
    }

    /// Forgets all of it; gives how many bytes that were.
    pub(crate) fn reset(&self) -> io::Result<u64> {
        let mut map = self.map();
        let lost = map.known().bytes();
        let path = map.path().to_owned();
        let is_layered = map.known().is_layered;
        *map = Map::create(&path, &self.file, Known { is_layered, ..Known::default() })?;
        if let Some(mut compact) = self.compact() {
            *compact = Compact::default();
        }
        self.out.set_len(0)?;
        Ok(lost)
    }

    /// Whether it is what the source announced; where that said nothing, its length has to do.
    pub(crate) fn is_proven(&self) -> io::Result<bool> {
        let holds = self.file.proof.holds(&self.path, self.file.bytes)?;
        Ok(holds.unwrap_or(fs::metadata(&self.path)?.len() == self.file.bytes))
    }

    /// Gives it its name.
    pub(crate) fn publish(&self, folder: &Folder) -> io::Result<()> {
        self.out.sync_all()?;
        if self.compact.is_some() {
            // All of it was wanted, so that it lies as in the finished file.
            let mut map = self.map();
            let (path, known) = (map.path().to_owned(), map.known().clone());
            let known = Known { is_layered: false, proven: true, ..known };
            *map = Map::create(&path, &self.file, known)?;
        } else {
            self.map().note_proven()?;
        }
        fs::rename(&self.path, &self.finished)?;
        folder.sync()
    }
}

impl Sink for Part {
    fn file(&self) -> &RemoteFile {
        &self.file
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.out.write_all_at(bytes, self.place(offset)?)
    }

    fn write_blocks(&self, blocks: &[Bytes], offset: u64) -> io::Result<()> {
        let mut at = self.place(offset)?;
        for few in blocks.chunks(BLOCKS_AT_ONCE) {
            let mut slices: Vec<IoSlice<'_>> =
                few.iter().map(|block| IoSlice::new(block)).collect();
            let mut rest = &mut slices[..];
            while !rest.is_empty() {
                match rustix::io::pwritev(&self.out, rest, at) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(wrote) => {
                        at += wrote as u64;
                        IoSlice::advance_slices(&mut rest, wrote);
                    }
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn other_tag(&self, tag: Option<&str>) -> io::Result<Option<String>> {
        let mut map = self.map();
        match (tag, map.known().tag.as_deref()) {
            (None, _) => Ok(None),
            (Some(tag), Some(known)) => Ok(mark::differ(known, tag).then(|| known.to_owned())),
            (Some(tag), None) => map.note_tag(tag).map(|()| None),
        }
    }
}

/// Keeps of a map the pieces whose bytes are what it says, as far as there is doubt.
fn keep_true(part: &File, known: &mut Known, is_doubted: impl Fn(u64) -> bool) -> io::Result<()> {
    let mut block = vec![0; BLOCK_BYTES];
    let pieces = std::mem::take(&mut known.pieces);
    for (offset, (bytes, digest)) in pieces {
        if !is_doubted(offset) || digest_of(part, offset, bytes, &mut block)? == Some(digest) {
            known.pieces.insert(offset, (bytes, digest));
        }
    }
    Ok(())
}

/// The digest of bytes of a file; nothing where it ends before them.
pub(crate) fn digest_of(
    file: &File,
    offset: u64,
    bytes: u64,
    block: &mut [u8],
) -> io::Result<Option<Digest>> {
    let (mut hasher, mut at, end) = (blake3::Hasher::new(), offset, offset + bytes);
    while at < end {
        let want = block.len().min((end - at) as usize);
        match file.read_at(&mut block[..want], at) {
            Ok(0) => return Ok(None),
            Ok(got) => {
                hasher.update(&block[..got]);
                at += got as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(*hasher.finalize().as_bytes()))
}
