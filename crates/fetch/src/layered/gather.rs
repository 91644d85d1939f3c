//! From files layer by layer to the shard that they are of.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::{BLOCK_BYTES, Compact, base_path, layer_of, place};
use crate::bring::FILES_AT_ONCE;
use crate::cut::{self, Owner, Piece};
use crate::folder::{Folder, map_path, taken_bytes};
use crate::listing::{Listing, RemoteFile};
use crate::map::{Digest, Known, Map};

/// Copies what is here of a shard to its offsets in the file in the making, as far as it is what the map says, and
/// gives the room back where it was. Whenever it ends in between, what was here still is, and the next call does it.
pub(crate) fn gather(folder: &Folder, file: &RemoteFile, known: &mut Known) -> io::Result<()> {
    let (dir, name) = (folder.dir(), file.name.as_str());
    let compact = Compact::here(dir, file, known);
    let mut options = OpenOptions::new();
    let out = options.write(true).create(true).truncate(false).open(folder.part(name))?;
    let mut block = vec![0; BLOCK_BYTES];
    for (offset, (bytes, digest)) in std::mem::take(&mut known.pieces) {
        let Some((path, at)) = place(dir, file, known, &compact, offset) else { continue };
        // In the shard a long record is several pieces.
        let pieces = match known.slots.contains_key(&offset) {
            true => cut::even(offset, offset + bytes, Owner::File),
            false => vec![Piece { offset, bytes, owner: Owner::File }],
        };
        let copied = copy((&path, at), &out, &pieces, &mut block)?;
        if let Some((_, of_pieces)) = copied.filter(|(of_all, _)| *of_all == digest) {
            let noted = pieces.iter().zip(of_pieces);
            known.pieces.extend(noted.map(|(piece, of)| (piece.offset, (piece.bytes, of))));
        }
    }
    out.sync_all()?;
    folder.sync()?;
    known.is_layered = false;
    known.slots.clear();
    Map::create(&folder.map(name), file, known.clone())?;
    folder.sync()?;
    remove(&base_path(dir, name))?;
    if let Ok(Some(record)) = folder.record() {
        sweep(dir, &record.listing)?;
    }
    Ok(())
}

/// Copies pieces that follow each other to their offsets; gives the digest of all of them, and of each. Nothing where
/// the source has not so many bytes.
fn copy(
    from: (&Path, u64),
    to: &File,
    pieces: &[Piece],
    block: &mut [u8],
) -> io::Result<Option<(Digest, Vec<Digest>)>> {
    let source = match File::open(from.0) {
        Ok(source) => source,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let (mut of_all, mut of_pieces, mut at) = (blake3::Hasher::new(), Vec::new(), from.1);
    for piece in pieces {
        let (mut of_piece, mut to_offset) = (blake3::Hasher::new(), piece.offset);
        while to_offset < piece.end() {
            let want = block.len().min((piece.end() - to_offset) as usize);
            match source.read_at(&mut block[..want], at) {
                Ok(0) => return Ok(None),
                Ok(got) => {
                    of_all.update(&block[..got]);
                    of_piece.update(&block[..got]);
                    to.write_all_at(&block[..got], to_offset)?;
                    (at, to_offset) = (at + got as u64, to_offset + got as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        of_pieces.push(*of_piece.finalize().as_bytes());
    }
    Ok(Some((*of_all.finalize().as_bytes(), of_pieces)))
}

/// Removes the files of layers that no map speaks of any more.
pub(crate) fn sweep(dir: &Path, listing: &Listing) -> io::Result<()> {
    let mut in_use = BTreeSet::new();
    for file in listing.files.iter().filter(|file| file.is_shard()) {
        let known = Map::read(&map_path(dir, &file.name), file)?.unwrap_or_default();
        in_use.extend(known.slots.values().map(|slot| slot.layer));
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let layer = entry.file_name().to_str().and_then(layer_of);
        if layer.is_some_and(|layer| !in_use.contains(&layer)) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a file, if there is one.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Bytes of the drive that are given back while a folder becomes whole, shards that are in the making counted out.
pub(crate) fn given_back(dir: &Path, listing: &Listing) -> u64 {
    let bases = listing.files.iter().map(|file| taken_bytes(&base_path(dir, &file.name)));
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let layers = entries.filter(|entry| entry.file_name().to_str().and_then(layer_of).is_some());
    let taken: u64 = bases.chain(layers.map(|entry| taken_bytes(&entry.path()))).sum();
    let longest = listing.files.iter().map(|file| file.bytes).max().unwrap_or(0);
    taken.saturating_sub(longest.saturating_mul(FILES_AT_ONCE as u64 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Proof;
    use crate::layered::{PAGE_BYTES, records_path};
    use crate::map::Slot;

    /// Setup looks for what it would fetch: pieces of the shard.
    #[test]
    fn a_long_record_is_the_pieces_of_its_shard_once_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let (offset, bytes) = (PAGE_BYTES * 3 + 5, (70 << 20) + 7);
        let name = "model.safetensors".to_owned();
        let file = RemoteFile { name, bytes: offset + bytes, proof: Proof::None };
        let record: Vec<u8> = (0..bytes).map(|at| (at >> 12) as u8 ^ at as u8).collect();
        let at = PAGE_BYTES + 5;
        let layer = File::create(records_path(dir.path(), 2)).unwrap();
        layer.write_all_at(&record, at).unwrap();
        fs::write(base_path(dir.path(), &file.name), "").unwrap();
        let mut known = Known { is_layered: true, ..Known::default() };
        known.pieces.insert(offset, (bytes, *blake3::hash(&record).as_bytes()));
        known.slots.insert(offset, Slot { layer: 2, at });
        gather(&folder, &file, &mut known).unwrap();
        let wanted = cut::even(offset, offset + bytes, Owner::Expert(2, 1));
        assert!(wanted.len() > 2 && known.pieces.len() == wanted.len());
        for piece in wanted {
            let within = (piece.offset - offset) as usize..(piece.end() - offset) as usize;
            let digest = *blake3::hash(&record[within]).as_bytes();
            assert_eq!(known.pieces[&piece.offset], (piece.bytes, digest));
        }
        let there = fs::read(folder.part(&file.name)).unwrap();
        assert!(there[offset as usize..] == record[..]);
        let noted = Map::read(&folder.map(&file.name), &file).unwrap().unwrap();
        assert_eq!(noted, known);
    }
}
