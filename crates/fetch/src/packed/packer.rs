//! Who packs: which parts can be made, makes them, and frees what they hold.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deltafin_checkpoint::pack::PackPart;
use deltafin_checkpoint::{Identity, IdentityHasher, Recipe, Span};
use deltafin_setup::Packing;
use deltafin_store::{Checkpoint, OpenError, SpineNote, SpinePack, Store, pack_dir};

use super::arriving::Arriving;
use super::parts::Parts;
use super::{hole, list};
use crate::cut::{Owner, Piece};
use crate::folder::Folder;
use crate::listing::{Listing, RemoteFile};
use crate::map::{Known, Map};
use crate::part::digest_of;
use crate::wanted::Goal;
use crate::{FetchError, prospect};

/// Bytes read at once.
const BLOCK_BYTES: usize = 1 << 20;

/// Packs what arrives.
#[derive(Debug)]
pub(crate) struct Packer {
    folder: Arc<Folder>,
    recipe: Recipe,
    frees: bool,
    shards: Vec<RemoteFile>,
    parts: Parts,
    work: Mutex<Work>,
    /// What the work has made, for those who cannot wait for it.
    made: Mutex<BTreeSet<PackPart>>,
    stopped: AtomicBool,
}

#[derive(Debug)]
struct Work {
    packing: Packing,
    /// Shards of which all that is to come is here, and is what it should be.
    settled: BTreeSet<usize>,
}

impl Packer {
    /// For a folder that has the headers of all shards and every other file.
    pub(crate) fn open(
        folder: Arc<Folder>,
        listing: &Listing,
        note: SpineNote,
    ) -> Result<Packer, FetchError> {
        let dir = folder.dir().to_owned();
        let (recipe, frees) = (note.recipe, note.is_freed);
        let checkpoint = open(&folder, listing)?;
        let shards = checkpoint.store.shards().iter();
        let shards: Vec<RemoteFile> = shards.map(|shard| of_name(listing, &shard.name)).collect();
        let provisional = provisional(&checkpoint, listing);
        let kept = checkpoint.never_packed(recipe).collect();
        let parts = Parts::of(&checkpoint.catalog, recipe, kept);
        let same = checkpoint.clone();
        let out = pack_dir(&dir, recipe);
        // By the released bytes; where some of these are freed, by what the pack has of them.
        let told = || match shards.iter().all(|file| has_spine(&folder, file)) {
            true => same.identity().ok(),
            false => same.identity_with(&SpinePack::open(&out, 0).ok()?).ok(),
        };
        let is_ours = |found: Identity| note.identity == Some(found) || told() == Some(found);
        list::restore(&dir, recipe, &out).map_err(|error| FetchError::disk(&out, error))?;
        let packing = Packing::open(checkpoint, recipe, &out, provisional, is_ours)?;
        let made = parts.all().iter().map(|packed| packed.part).filter(|part| packing.has(*part));
        let made = Mutex::new(made.collect());
        let work = Mutex::new(Work { packing, settled: BTreeSet::new() });
        let stopped = AtomicBool::new(false);
        Ok(Packer { folder, recipe, frees, shards, parts, work, made, stopped })
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what it is at soon after.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn made(&self) -> MutexGuard<'_, BTreeSet<PackPart>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether every part is made.
    pub(crate) fn has_all(&self) -> bool {
        self.made().len() == self.parts.all().len()
    }

    /// Whether a part is made.
    pub(crate) fn has(&self, part: PackPart) -> bool {
        self.made().contains(&part)
    }

    /// Whether finished parts have all bytes of a piece.
    pub(crate) fn holds(&self, file: &RemoteFile, piece: &Piece) -> bool {
        let Some(shard) = self.number(file) else { return false };
        let made = self.made();
        self.frees && self.parts.hold(shard, piece, |part| made.contains(&part))
    }

    fn number(&self, file: &RemoteFile) -> Option<usize> {
        self.shards.iter().position(|shard| shard.name == file.name)
    }

    /// Makes the pack's files that a shard was the last for, of which nothing more is to come, and frees
    /// what they hold.
    pub(crate) fn settle(&self, file: &RemoteFile) -> Result<(), FetchError> {
        let Some(shard) = self.number(file) else { return Ok(()) };
        let mut work = self.work();
        self.distrust(&mut work.packing, shard)?;
        work.settled.insert(shard);
        let mut touched = BTreeSet::from([shard]);
        for packed in self.parts.from(shard) {
            let from: BTreeSet<usize> = packed.spans.iter().map(|s| s.shard().index()).collect();
            if !from.is_subset(&work.settled) {
                continue;
            }
            if !work.packing.has(packed.part) {
                if !self.is_here(packed.part, &from)? {
                    continue;
                }
                work.packing.make(packed.part, &|| !self.stopped.load(Ordering::Relaxed))?;
                self.made().insert(packed.part);
            }
            touched.extend(from);
        }
        if self.frees {
            let settled = touched.intersection(&work.settled);
            settled.into_iter().try_for_each(|shard| self.free(&work.packing, *shard))?;
        }
        Ok(())
    }

    /// Takes back what was made of bytes of a file, all of which come anew.
    pub(crate) fn forget(&self, file: &RemoteFile) -> Result<(), FetchError> {
        let Some(shard) = self.number(file) else { return Ok(()) };
        let parts = self.parts.from(shard).map(|packed| packed.part).collect();
        self.take_back(&mut self.work().packing, &parts)
    }

    fn take_back(
        &self,
        packing: &mut Packing,
        parts: &BTreeSet<PackPart>,
    ) -> Result<(), FetchError> {
        self.made().retain(|part| !parts.contains(part));
        Ok(packing.forget(parts)?)
    }

    /// Takes back parts that were made of other bytes than have come since.
    fn distrust(&self, packing: &mut Packing, shard: usize) -> Result<(), FetchError> {
        let (file, known) = self.known(shard)?;
        let (pieces, freed) = (&known.pieces, &known.freed);
        let others = freed.iter().filter(|(at, piece)| pieces.get(at).is_some_and(|p| p != *piece));
        let others = others.map(|(offset, (bytes, _))| Piece {
            offset: *offset,
            bytes: *bytes,
            owner: Owner::File,
        });
        let parts: BTreeSet<_> =
            others.flat_map(|piece| self.parts.around(shard, &piece).collect::<Vec<_>>()).collect();
        self.take_back(packing, &parts)?;
        if !parts.is_empty() {
            // From here on what is listed is what counts.
            let holes = freed.iter().filter(|(at, _)| !pieces.contains_key(at));
            let freed = holes.map(|(at, piece)| (*at, *piece)).collect();
            let known = Known { freed, ..known };
            let map = self.folder.map(&file.name);
            Map::create(&map, file, known).map_err(|error| FetchError::disk(&map, error))?;
        }
        Ok(())
    }

    fn known(&self, shard: usize) -> Result<(&RemoteFile, Known), FetchError> {
        let file = &self.shards[shard];
        let map = self.folder.map(&file.name);
        let known = Map::read(&map, file).map_err(|error| FetchError::disk(&map, error))?;
        Ok((file, known.unwrap_or_default()))
    }

    /// Whether all released bytes of a part are here.
    fn is_here(&self, part: PackPart, shards: &BTreeSet<usize>) -> Result<bool, FetchError> {
        for &shard in shards {
            let (file, known) = self.known(shard)?;
            let pieces = prospect::pieces_here(self.folder.dir(), file, &known);
            let mut pieces = pieces.unwrap_or_default().into_iter();
            let is_of = |piece: &Piece| self.parts.around(shard, piece).any(|of| of == part);
            if !pieces.all(|piece| known.has(&piece) || !is_of(&piece)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Frees the pieces of a shard that finished parts hold: first the map says so, then there is a hole.
    fn free(&self, packing: &Packing, shard: usize) -> Result<(), FetchError> {
        let (file, mut known) = self.known(shard)?;
        let dir = self.folder.dir();
        let path = prospect::path(dir, file);
        let disk = |error: io::Error| FetchError::disk(&path, error);
        let Some(pieces) = prospect::pieces_here(dir, file, &known) else { return Ok(()) };
        if !hole::is_own(&path) {
            return Ok(());
        }
        let is_held = |piece: &&Piece| self.parts.hold(shard, piece, |part| packing.has(part));
        let free: Vec<Piece> =
            pieces.iter().filter(is_held).filter(|piece| known.has(piece)).copied().collect();
        if !free.is_empty() {
            if known.proven {
                add_digests(&path, &mut known, &pieces).map_err(disk)?;
            }
            for piece in free {
                if let Some(was) = known.pieces.remove(&piece.offset) {
                    known.freed.insert(piece.offset, was);
                }
            }
            Map::create(&self.folder.map(&file.name), file, known.clone()).map_err(disk)?;
            self.folder.sync().map_err(disk)?;
        }
        // Also what a run that was ended in between left.
        hole::free(&path, known.holes().map(|(offset, bytes, _)| (offset, bytes))).map_err(disk)
    }

    /// Bytes that the drive has to have room for, if so many are still to come.
    pub(crate) fn room(&self, missing: u64, goal: &Goal) -> Result<u64, FetchError> {
        let known = (0..self.shards.len()).map(|shard| Ok(self.known(shard)?.1));
        let known = known.collect::<Result<Vec<Known>, FetchError>>()?;
        let is_here = |span: &Span| {
            let known = &known[span.shard().index()];
            known.covers(span.offset()) || goal.spares(&self.shards[span.shard().index()], known)
        };
        let (mut growth, mut passing) = (0, 0);
        for packed in self.parts.all() {
            let (here, absent): (Vec<&Span>, Vec<&Span>) =
                packed.spans.iter().partition(|span| is_here(span));
            let bytes = |spans: Vec<&Span>| spans.iter().map(|span| span.len()).sum::<u64>();
            if !self.has(packed.part) {
                // What is here makes room when it is packed.
                let freed = if self.frees { bytes(here) } else { 0 };
                growth += packed.bytes.saturating_sub(freed);
            }
            passing += bytes(absent);
        }
        let passing = if self.frees { passing.min(missing) } else { 0 };
        let both = if self.frees { self.parts.longest() } else { 0 };
        Ok(missing - passing + growth + passing.min(self.parts.window()) + both)
    }

    /// What a pack that was there is known by.
    pub(crate) fn known_identity(&self) -> Option<Identity> {
        self.work().packing.known()
    }

    /// What the pack will be known by, of which all is made.
    pub(crate) fn identity(&self) -> Result<Identity, FetchError> {
        Ok(self.work().packing.identity()?)
    }

    /// Makes it a pack.
    pub(crate) fn finish(&self) -> Result<(), FetchError> {
        self.work().packing.finish()?;
        let (dir, recipe) = (self.folder.dir(), self.recipe);
        let kept = list::keep(dir, recipe, &pack_dir(dir, recipe));
        kept.map_err(|error| FetchError::disk(dir, error))
    }
}

/// Digests of the pieces of a proven file that has none yet, as it was here before setup came.
fn add_digests(path: &std::path::Path, known: &mut Known, pieces: &[Piece]) -> io::Result<()> {
    let unknown = |piece: &&Piece| {
        !known.pieces.contains_key(&piece.offset) && !known.freed.contains_key(&piece.offset)
    };
    let unknown: Vec<Piece> = pieces.iter().filter(unknown).copied().collect();
    let (file, mut block) = (File::open(path)?, vec![0; BLOCK_BYTES]);
    for Piece { offset, bytes, .. } in unknown {
        if let Some(digest) = digest_of(&file, offset, bytes, &mut block)? {
            known.pieces.insert(offset, (bytes, digest));
        }
    }
    Ok(())
}

fn open(folder: &Folder, listing: &Listing) -> Result<Checkpoint, OpenError> {
    let dir = folder.dir();
    deltafin_store::open_unfinished(dir, |names| {
        let arriving = Arriving::of(dir.to_owned(), names, listing)?;
        Ok(Arc::new(arriving) as Arc<dyn Store>)
    })
}

/// The file of a shard that a listing has, as was seen when it was opened.
fn of_name(listing: &Listing, name: &str) -> RemoteFile {
    let found = listing.files.iter().find(|file| file.name == *name).cloned();
    found.unwrap_or_else(|| unreachable!("{name} was opened by the listing"))
}

/// A name for exactly these files, as far as their source says what they are.
fn provisional(checkpoint: &Checkpoint, listing: &Listing) -> Identity {
    let mut hasher = IdentityHasher::new("deltafin arriving");
    hasher.field(&checkpoint.catalog.identity().to_bytes());
    hasher.field(listing.source.as_bytes());
    for file in &listing.files {
        hasher.field(file.name.as_bytes());
        hasher.number(file.bytes);
        hasher.field(file.proof.to_string().as_bytes());
    }
    hasher.finish()
}

/// Whether the released spine of a shard is here.
fn has_spine(folder: &Folder, file: &RemoteFile) -> bool {
    let known = Map::read(&folder.map(&file.name), file).ok().flatten().unwrap_or_default();
    let pieces = prospect::pieces_here(folder.dir(), file, &known);
    let is_there = |piece: &Piece| known.has(piece) || matches!(piece.owner, Owner::Expert(_, 1..));
    pieces.is_some_and(|pieces| pieces.iter().all(is_there))
}
