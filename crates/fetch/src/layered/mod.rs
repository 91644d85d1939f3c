//! A part of a model where files cannot have holes, as on exFAT: what is here lies one after the other.
//!
//! ```text
//! NAME.base             of a shard: its header, what every token uses, the first expert of each layer
//! experts-LLL.records   of a layer: its other experts, each in a slot of its own
//! .deltafin/NAME.map    as ever; a line of an expert says in which layer's file it lies, and where
//! ```
//!
//! **Promise.** No file grows by bytes that are not there yet. Every piece lies at an offset that is the one in
//! its shard modulo [`PAGE_BYTES`](crate::cut::PAGE_BYTES), so that reads past the page cache bring the same pages.
//!
//! In a base the places follow from the header; in a layer's file all slots are of one length, and any record of the
//! layer may go to any of them.

mod compact;
mod cut_off;
mod gather;
mod slots;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cut::{Owner, PAGE_BYTES, Piece};
use crate::folder::{map_path, part_path};
use crate::listing::{Listing, RemoteFile};
use crate::map::{Known, Map};
use crate::part::digest_of;

pub(crate) use compact::Compact;
pub(crate) use cut_off::cut_off;
pub(crate) use gather::{gather, given_back, remove, sweep};
pub(crate) use slots::free_slots;

/// Bytes read at once.
const BLOCK_BYTES: usize = 1 << 20;

/// How a part of a model lies on its drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// In the shards, at its offsets, where what is not there takes no room; else as [`Layout::Layers`]. A folder that
    /// was begun goes on as it was.
    #[default]
    Auto,
    /// Experts in one file for each layer.
    Layers,
}

/// How shards were begun in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// None was.
    Nothing,
    /// As in the released files.
    Released,
    /// Layer by layer.
    Layered,
    /// Some so, some so: one was to become the other when that was stopped.
    Both,
}

/// How shards were begun in a folder.
pub(crate) fn begun(dir: &Path, listing: &Listing) -> io::Result<Begun> {
    let (mut released, mut layered) = (false, false);
    for file in listing.files.iter().filter(|file| file.is_shard()) {
        let known = Map::read(&map_path(dir, &file.name), file)?.unwrap_or_default();
        layered |= known.is_layered;
        let has_part = || part_path(dir, &file.name).exists();
        released |= !known.is_layered && !known.pieces.is_empty() && has_part();
    }
    Ok(match (released, layered) {
        (false, false) => Begun::Nothing,
        (true, false) => Begun::Released,
        (false, true) => Begun::Layered,
        (true, true) => Begun::Both,
    })
}

/// Where the base of a shard is.
pub(crate) fn base_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.base"))
}

/// Where the experts of a layer are.
pub(crate) fn records_path(dir: &Path, layer: u32) -> PathBuf {
    dir.join(format!("experts-{layer:03}.records"))
}

/// The layer whose experts a file of this name has.
pub(crate) fn layer_of(name: &str) -> Option<u32> {
    let layer = name.strip_prefix("experts-")?.strip_suffix(".records")?.parse().ok()?;
    records_path(Path::new(""), layer).ends_with(name).then_some(layer)
}

/// Whether a piece is in its layer's file, and not in the base of its shard.
pub(crate) fn is_slotted(owner: Owner) -> bool {
    matches!(owner, Owner::Expert(_, 1..))
}

/// Bytes of the pages that bytes of a shard are in: as many as a slot for them needs.
pub(crate) fn paged(offset: u64, bytes: u64) -> u64 {
    (offset % PAGE_BYTES + bytes).next_multiple_of(PAGE_BYTES)
}

/// The pieces of a shard, with each such record as one, however long.
pub(crate) fn pieces(all: Vec<Piece>) -> Vec<Piece> {
    let mut merged: Vec<Piece> = Vec::with_capacity(all.len());
    for piece in all {
        match merged.last_mut() {
            Some(last)
                if is_slotted(piece.owner)
                    && last.owner == piece.owner
                    && last.end() == piece.offset =>
            {
                last.bytes += piece.bytes;
            }
            _ => merged.push(piece),
        }
    }
    merged
}

/// Where the piece with this first byte lies in a folder, if it has a place.
pub(crate) fn place(
    dir: &Path,
    file: &RemoteFile,
    known: &Known,
    compact: &Compact,
    offset: u64,
) -> Option<(PathBuf, u64)> {
    match known.slots.get(&offset) {
        Some(slot) => Some((records_path(dir, slot.layer), slot.at)),
        None => Some((base_path(dir, &file.name), compact.position(offset)?)),
    }
}

/// Whether all that setup brings of a shard is here, by its length.
pub(crate) fn has_base(dir: &Path, file: &RemoteFile, known: &Known) -> bool {
    let compact = Compact::here(dir, file, known);
    compact.bytes() > 0 && has_length(dir, file, known, &compact)
}

/// Whether a base is here that is as long as its header says, if that can be read.
pub(crate) fn has_length(dir: &Path, file: &RemoteFile, known: &Known, compact: &Compact) -> bool {
    let there = fs::metadata(base_path(dir, &file.name));
    known.is_layered && there.is_ok_and(|meta| meta.is_file() && meta.len() >= compact.bytes())
}

/// Keeps of a map the pieces whose bytes are what it says; gives the places in the base, as far as the header says.
pub(crate) fn keep_true(dir: &Path, file: &RemoteFile, known: &mut Known) -> io::Result<Compact> {
    let mut block = vec![0; BLOCK_BYTES];
    let is_header = |offset: u64| offset <= crate::cut::LENGTH_BYTES;
    let header: Vec<u64> = known.pieces.keys().copied().filter(|at| is_header(*at)).collect();
    retain_true(dir, file, known, &Compact::default(), &header, &mut block)?;
    let compact = Compact::here(dir, file, known);
    let rest: Vec<u64> = known.pieces.keys().copied().filter(|at| !is_header(*at)).collect();
    retain_true(dir, file, known, &compact, &rest, &mut block)?;
    Ok(compact)
}

fn retain_true(
    dir: &Path,
    file: &RemoteFile,
    known: &mut Known,
    compact: &Compact,
    offsets: &[u64],
    block: &mut [u8],
) -> io::Result<()> {
    for offset in offsets {
        let Some((bytes, digest)) = known.pieces.get(offset).copied() else { continue };
        let found = match place(dir, file, known, compact, *offset) {
            Some((path, at)) => digest_in(&path, at, bytes, block)?,
            None => None,
        };
        if found != Some(digest) {
            known.pieces.remove(offset);
            known.slots.remove(offset);
        }
    }
    Ok(())
}

/// The digest of bytes of a file; nothing where there is no such file, or it ends before them.
pub(crate) fn digest_in(
    path: &Path,
    at: u64,
    bytes: u64,
    block: &mut [u8],
) -> io::Result<Option<crate::map::Digest>> {
    match fs::File::open(path) {
        Ok(open) => digest_of(&open, at, bytes, block),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_layers_are_read_as_they_are_written() {
        for layer in [0, 7, 92, 999, 1000] {
            let path = records_path(Path::new("x"), layer);
            assert_eq!(layer_of(path.file_name().unwrap().to_str().unwrap()), Some(layer));
        }
        for name in ["experts-7.records", "experts-007.record", "experts-+07.records", "a"] {
            assert_eq!(layer_of(name), None, "{name}");
        }
    }

    #[test]
    fn a_long_record_is_one_piece_and_nothing_else_is() {
        let piece = |offset, bytes, owner| Piece { offset, bytes, owner };
        let (expert, first) = (Owner::Expert(3, 7), Owner::Expert(3, 0));
        let cut = vec![
            piece(0, 5, first),
            piece(5, 5, first),
            piece(10, 5, expert),
            piece(15, 6, expert),
            piece(30, 5, expert),
            piece(35, 5, Owner::Expert(3, 8)),
        ];
        let merged: Vec<(u64, u64)> = pieces(cut).iter().map(|p| (p.offset, p.bytes)).collect();
        assert_eq!(merged, [(0, 5), (5, 5), (10, 11), (30, 5), (35, 5)]);
    }
}
