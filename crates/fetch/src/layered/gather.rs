//! From files layer by layer to the shard that they are of.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::{BLOCK_BYTES, Compact, base_path, layer_of, place};
use crate::bring::FILES_AT_ONCE;
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
        if copy((&path, at), (&out, offset), bytes, &mut block)? == Some(digest) {
            known.pieces.insert(offset, (bytes, digest));
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

/// Copies bytes; gives the digest of what was copied, nothing where the source has not so many.
fn copy(
    from: (&Path, u64),
    to: (&File, u64),
    bytes: u64,
    block: &mut [u8],
) -> io::Result<Option<Digest>> {
    let source = match File::open(from.0) {
        Ok(source) => source,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let (mut hasher, mut done) = (blake3::Hasher::new(), 0);
    while done < bytes {
        let want = block.len().min((bytes - done) as usize);
        match source.read_at(&mut block[..want], from.1 + done) {
            Ok(0) => return Ok(None),
            Ok(got) => {
                hasher.update(&block[..got]);
                to.0.write_all_at(&block[..got], to.1 + done)?;
                done += got as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(*hasher.finalize().as_bytes()))
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
