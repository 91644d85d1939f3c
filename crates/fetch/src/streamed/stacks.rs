//! The layers' files of a folder: which slot a record goes to, and how a limit is kept.
//!
//! A record goes to the first free slot, under the lock of its layer's file, and is noted under it: so a
//! slot is free where no map speaks of it, whoever was ended in between, and a file is never longer by more than the record
//! that is being written.
//!
//! Where there is a limit, what counts is how long the files are, and will be when all comes that is claimed. A layer
//! that needs a slot takes that of its own coldest expert, or the room of the last slot of another layer, whichever
//! expert is colder.
//!
//! Whoever reads a slot that is filled anew, or cut off, finds afterwards that its record was taken back, as where
//! there are holes ([`super::cache`]).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::access::Access;
use super::cache::Place;
use super::shelf::Shelf;
use super::stack::{Gathering, Stack};
use crate::layered::{self, paged};
use crate::map::{Digest, Slot};

/// The layers' files of a folder, by layer; none where experts are in the shards.
#[derive(Debug, Default)]
pub(super) struct Stacks(BTreeMap<u32, Stack>);

/// What is in a layer's file.
pub(super) struct Filled {
    pub(super) layer: u32,
    slot_bytes: u64,
    /// Slots that have room on the drive.
    slots: u64,
    /// What is here, by slot.
    pub(super) here: BTreeMap<u64, Place>,
    /// Records that are on their way.
    pub(super) coming: u64,
}

impl Filled {
    fn used(&self) -> u64 {
        self.here.len() as u64 + self.coming
    }

    /// Bytes of the drive, once all has come.
    pub(super) fn bytes(&self) -> u64 {
        self.slots.max(self.used()) * self.slot_bytes
    }

    /// Slots that have something, and those before them.
    fn tight(&self) -> u64 {
        self.here.last_key_value().map_or(0, |(slot, _)| slot + 1)
    }

    /// Whether the end of the file is of no use.
    pub(super) fn is_loose(&self) -> bool {
        self.slots > self.tight().max(self.used())
    }

    /// What makes room if it goes: anything where the file is to grow, else what is in its last slot.
    pub(super) fn candidates(&self) -> impl Iterator<Item = &Place> {
        let first = if self.used() > self.slots { 0 } else { self.tight().saturating_sub(1) };
        self.here.range(first..).map(|(_, place)| place)
    }
}

impl Stacks {
    /// Those of a folder with these shards.
    pub(super) fn open(dir: &Path, shelves: &[Arc<Shelf>], access: Access) -> io::Result<Stacks> {
        let mut lengths = BTreeMap::new();
        for piece in shelves.iter().filter(|shelf| shelf.is_layered()).flat_map(|s| s.pieces()) {
            if let Some(layer) = piece.owner.layer().filter(|_| layered::is_slotted(piece.owner)) {
                let length: &mut u64 = lengths.entry(layer).or_default();
                *length = paged(piece.offset, piece.bytes).max(*length);
            }
        }
        let stack = |(layer, bytes)| {
            let stack = Stack::open(dir, layer, bytes, access)?;
            Ok(stack.map(|stack| (layer, stack)))
        };
        let stacks = lengths.into_iter().filter_map(|of| stack(of).transpose());
        let stacks = Stacks(stacks.collect::<io::Result<_>>()?);
        // Where nothing can be locked, two processes might fill one slot.
        if let Some(stack) = stacks.0.values().next().filter(|_| access.writes()) {
            drop(stack.turn()?);
        }
        Ok(stacks)
    }

    /// The first file that ends before an expert that maps say is in it.
    pub(super) fn cut_short(
        &self,
        shelves: &[Arc<Shelf>],
        access: Access,
    ) -> io::Result<Option<&Path>> {
        for (layer, stack) in &self.0 {
            let is_short = |look: fn(&Shelf) -> io::Result<()>| -> io::Result<bool> {
                let here = here(shelves, *layer, stack.slot_bytes(), look)?;
                let bytes = stack.bytes()?;
                Ok(here.last_key_value().is_some_and(|(_, (shelf, number))| {
                    let end = shelf.slot_at(*number) + shelf.piece(*number).bytes;
                    bytes < end
                }))
            };
            if is_short(|_| Ok(()))? {
                // Another process may have taken experts away, and has said so before it cut the file.
                let _turn = access.writes().then(|| stack.turn()).transpose()?;
                if is_short(Shelf::look_locked)? {
                    return Ok(Some(stack.path()));
                }
            }
        }
        Ok(None)
    }

    /// Whether experts are in the shards.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Bytes of the longest slot of any layer; 0 where experts are in the shards.
    pub(super) fn longest_slot(&self) -> u64 {
        self.0.values().map(Stack::slot_bytes).max().unwrap_or(0)
    }

    /// Where the files are, by layer.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.values().map(Stack::path)
    }

    /// Which of them that of a layer is.
    pub(super) fn number(&self, layer: u32) -> Option<usize> {
        self.0.keys().position(|known| *known == layer)
    }

    /// Bytes of the slot that a piece needs; nothing where it has its place in its shard.
    pub(super) fn slot_bytes(&self, shelf: &Shelf, number: usize) -> Option<u64> {
        Some(self.of(shelf, number)?.1.slot_bytes())
    }

    fn of(&self, shelf: &Shelf, number: usize) -> Option<(u32, &Stack)> {
        let owner = shelf.piece(number).owner;
        let layer = owner.layer().filter(|_| shelf.is_layered() && layered::is_slotted(owner))?;
        Some((layer, self.0.get(&layer)?))
    }

    /// A place for a piece to come to; nothing where it has one in its shard.
    pub(super) fn gathering<'s>(&self, shelf: &'s Shelf, number: usize) -> Option<Gathering<'s>> {
        Some(Gathering::of(shelf, number, self.slot_bytes(shelf, number)?))
    }

    /// Puts a piece that came into a free slot, and notes it.
    pub(super) fn put(
        &self,
        shelves: &[Arc<Shelf>],
        (shelf, number): (&Shelf, usize),
        digest: Digest,
        gathered: Gathering<'_>,
    ) -> io::Result<()> {
        let Some((layer, stack)) = self.of(shelf, number) else { return Ok(()) };
        let turn = stack.turn()?;
        let taken: BTreeSet<u64> =
            here(shelves, layer, stack.slot_bytes(), Shelf::look_locked)?.into_keys().collect();
        if shelf.is_here(number) {
            return Ok(());
        }
        let slot = (0..).find(|slot| !taken.contains(slot)).unwrap_or(0);
        let (bytes, lead) = gathered.into_slot();
        let at = slot * stack.slot_bytes() + lead;
        let filled = turn.fill(slot, &bytes);
        let kept = filled.and_then(|()| shelf.keep_slotted(number, digest, Slot { layer, at }));
        drop(turn);
        if kept.is_err() {
            // What a full drive took of it would be room that nobody has.
            let _ = self.cut(shelves, layer);
        }
        kept
    }

    /// What is in each file, of what this process knows; `coming` is on its way.
    pub(super) fn filled(
        &self,
        shelves: &[Arc<Shelf>],
        coming: &[Place],
    ) -> io::Result<Vec<Filled>> {
        let of = |(layer, stack): (&u32, &Stack)| {
            let (layer, slot_bytes) = (*layer, stack.slot_bytes());
            let here = here(shelves, layer, slot_bytes, |_| Ok(()))?;
            let is_coming = |(shelf, number): &&Place| {
                shelf.piece(*number).owner.layer() == Some(layer) && !shelf.is_here(*number)
            };
            let coming = coming.iter().filter(is_coming).count() as u64;
            Ok(Filled { layer, slot_bytes, slots: stack.slots()?, here, coming })
        };
        self.0.iter().map(of).collect()
    }

    /// Gives the end of a layer's file back to the drive, as far as nothing is there.
    pub(super) fn cut(&self, shelves: &[Arc<Shelf>], layer: u32) -> io::Result<()> {
        let Some(stack) = self.0.get(&layer) else { return Ok(()) };
        let turn = stack.turn()?;
        let here = here(shelves, layer, stack.slot_bytes(), Shelf::look_locked)?;
        turn.cut(here.last_key_value().map_or(0, |(slot, _)| slot + 1))
    }
}

/// What is here of a layer's experts, by slot. Each shelf that has some is looked at before.
fn here(
    shelves: &[Arc<Shelf>],
    layer: u32,
    slot_bytes: u64,
    look: impl Fn(&Shelf) -> io::Result<()>,
) -> io::Result<BTreeMap<u64, Place>> {
    let mut found = BTreeMap::new();
    for shelf in shelves {
        let is_of = |number: &usize| {
            shelf.piece(*number).owner.layer() == Some(layer) && shelf.may_go(*number)
        };
        let numbers: Vec<usize> = (0..shelf.pieces().len()).filter(is_of).collect();
        if !numbers.is_empty() {
            look(shelf)?;
        }
        let here = numbers.into_iter().filter(|number| shelf.is_here(*number));
        found.extend(
            here.map(|number| (shelf.slot_at(number) / slot_bytes, (Arc::clone(shelf), number))),
        );
    }
    Ok(found)
}
