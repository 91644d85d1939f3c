//! Slots of the layers' files that no map speaks of.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use super::{is_slotted, paged, pieces, records_path};
use crate::listing::RemoteFile;
use crate::map::{Known, Map};
use crate::{folder, prospect};

/// Room in a layer's file that has no expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeSlots {
    pub(crate) layer: u32,
    /// Bytes of the file up to the end of its last expert.
    pub(crate) end: u64,
    /// Bytes after that.
    pub(crate) after: u64,
    /// Bytes of free slots before it, which experts that come fill.
    pub(crate) between: u64,
}

/// A layer's slots, as maps and headers tell them.
#[derive(Debug, Default)]
struct Slots {
    bytes: u64,
    /// Where those begin that have something.
    taken: BTreeSet<u64>,
}

/// Those of the files of a folder that have any, by layer. The folder must be locked: else what is on its way is not
/// known.
pub(crate) fn free_slots(dir: &Path, files: &[RemoteFile]) -> io::Result<Vec<FreeSlots>> {
    let mut layers: BTreeMap<u32, Slots> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_shard()) {
        let known = Map::read(&folder::map_path(dir, &file.name), file)?.unwrap_or_default();
        if known.is_layered {
            add(&mut layers, dir, file, &known);
        }
    }
    let free = layers.into_iter().filter_map(|(layer, slots)| slots.free_in(dir, layer));
    Ok(free.filter(|free| free.after + free.between > 0).collect())
}

fn add(layers: &mut BTreeMap<u32, Slots>, dir: &Path, file: &RemoteFile, known: &Known) {
    for piece in pieces(prospect::pieces_here(dir, file, known).unwrap_or_default()) {
        if let Some(layer) = piece.owner.layer().filter(|_| is_slotted(piece.owner)) {
            let slots = layers.entry(layer).or_default();
            slots.bytes = slots.bytes.max(paged(piece.offset, piece.bytes));
        }
    }
    for slot in known.slots.values() {
        layers.entry(slot.layer).or_default().taken.insert(slot.at);
    }
}

impl Slots {
    /// Nothing where no header says how long they are, or there is no file.
    fn free_in(&self, dir: &Path, layer: u32) -> Option<FreeSlots> {
        let length = fs::metadata(records_path(dir, layer)).ok()?.len();
        let end = match self.taken.last() {
            Some(at) => (at.checked_div(self.bytes)? + 1) * self.bytes,
            None => 0,
        };
        let taken = self.taken.len() as u64 * self.bytes;
        let (after, between) = (length.saturating_sub(end), end.saturating_sub(taken));
        Some(FreeSlots { layer, end, after, between })
    }
}
