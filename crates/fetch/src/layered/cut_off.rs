//! Experts that a map speaks of and whose layer's file ends before they do.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::records_path;
use crate::map::{Known, Slot};

/// First byte, length and place of each. A file that is not there ends at once.
pub(crate) fn cut_off(dir: &Path, known: &Known) -> Vec<(u64, u64, Slot)> {
    let mut lengths = BTreeMap::new();
    let length = |layer| fs::metadata(records_path(dir, layer)).map_or(0, |meta| meta.len());
    let slotted = known.pieces.iter().filter_map(|(offset, (bytes, _))| {
        known.slots.get(offset).map(|slot| (*offset, *bytes, *slot))
    });
    let mut is_cut = |(_, bytes, slot): &(u64, u64, Slot)| {
        let end = *lengths.entry(slot.layer).or_insert_with(|| length(slot.layer));
        end.saturating_sub(slot.at) < *bytes
    };
    slotted.filter(|record| is_cut(record)).collect()
}
