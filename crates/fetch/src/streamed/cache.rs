//! The experts of a folder that came when they were needed, as a cache: what room they take, and how room is
//! made for others.
//!
//! **Promise.** A process that was given a limit never begins to fetch what would make the cache, with what other
//! processes brought and are bringing, larger than that; it takes the coldest experts away first. Nobody,
//! with a limit or without, ever takes the hole that is left for an expert.
//!
//! Counted are blocks of the file system, each record and each shard with one more for the file system's own account of it;
//! where experts lie layer by layer, the lengths of the layers' files ([`super::stacks`]). What setup put here, the first expert of each layer included, is not counted and never goes.
//!
//! Who may fetch a record is whoever has its [claim](Claim). Where there is a limit, one process at a time is
//! at this, by a lock of `.deltafin/room`:
//!
//! ```text
//! claim what is to come ─► count ─► too much? take away the coldest:
//!     claim it ─► its line is taken back in the map ─► map synced ─► hole ─► claim ends
//! ```
//!
//! *Whoever reads* looks into the map before and after. A hole is made after the line is taken back: so
//! where the map still says, after the read, that the record is here, and that it was never gone in between
//! ([`Known::turns`](crate::map::Known::turns)), no hole was there to be read. A read that finds it otherwise is not
//! used, and the record is brought again. It then keeps its claim until it is read, and what is claimed is not
//! taken away: so each read succeeds, however small the limits of others.
//!
//! *Whoever is killed* leaves the file of its claim. The record is either noted, and here; or not noted, and
//! what its place has is of no use: the next process that counts makes a hole of it. A map that lost its last
//! lines with the power lost lines of records that came, for those of records that went are synced.

mod evict;
mod fit;
mod probe;
mod trim;

pub(super) use evict::is_full;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use deltafin_store::Heat;
use deltafin_store::drive::Traffic;

use super::access::Access;
use super::claim::Claim;
use super::shelf::Shelf;
use super::stack::Gathering;
use super::stacks::Stacks;
use crate::map::Digest;
use crate::{FetchError, folder};

/// What a file system may need for its own account of a record, beside the record, and of a file with holes.
const ACCOUNT_BYTES: u64 = 4096;

/// A piece of a shelf, by its number.
pub(super) type Place = (Arc<Shelf>, usize);

/// The experts of a folder.
pub(super) struct Cache {
    dir: PathBuf,
    claims: PathBuf,
    shelves: Vec<Arc<Shelf>>,
    /// Where experts lie that are not in the shards.
    stacks: Stacks,
    limit: Option<u64>,
    clock: AtomicU64,
    heat: OnceLock<Weak<dyn Heat>>,
    evicted: Mutex<Traffic>,
}

impl Cache {
    /// That of a folder. A limit is in bytes; where nothing may be written there is nothing to bound.
    pub(super) fn open(
        dir: &Path,
        shelves: Vec<Arc<Shelf>>,
        limit: Option<u64>,
        access: Access,
    ) -> Result<Cache, FetchError> {
        let lock = |reason: io::Error| match reason.kind() {
            PermissionDenied | ReadOnlyFilesystem => access.fault(dir, reason),
            _ => FetchError::Lock { path: dir.to_owned(), reason },
        };
        let limit = limit.filter(|_| access.writes());
        let stacks = Stacks::open(dir, &shelves, access).map_err(lock)?;
        if let Some(path) = stacks.cut_short(&shelves, access).map_err(lock)? {
            return Err(FetchError::LayerCut { path: path.to_owned(), model: dir.to_owned() });
        }
        let cache = Cache {
            dir: dir.to_owned(),
            claims: folder::claims(dir),
            shelves,
            stacks,
            limit,
            clock: AtomicU64::new(1),
            heat: OnceLock::new(),
            evicted: Mutex::default(),
        };
        if limit.is_some() {
            if cache.stacks.is_empty() {
                probe::check(dir)?;
            }
            let _turn = cache.turn().map_err(lock)?;
            if cache.stacks.is_empty() {
                cache.sweep().map_err(|error| FetchError::cache(dir, error))?;
            }
        }
        Ok(cache)
    }

    /// Refuses a limit that does not hold the experts of one token in one layer, of which there are `top_k`.
    pub(super) fn check(&self, top_k: usize) -> Result<(), FetchError> {
        let Some(limit) = self.limit else { return Ok(()) };
        let experts = self.shelves.iter().flat_map(experts);
        let largest = experts.map(|(shelf, numbers)| self.charges(&shelf, &numbers)).max();
        let least = self.accounts() + largest.unwrap_or(0) * top_k as u64;
        match limit < least {
            true => Err(FetchError::Limit { path: self.dir.clone(), limit, least }),
            false => Ok(()),
        }
    }

    /// Bytes of the longest expert.
    pub(super) fn longest_expert(&self) -> u64 {
        let bytes = |(shelf, numbers): (Arc<Shelf>, Vec<usize>)| {
            numbers.iter().map(|number| shelf.piece(*number).bytes).sum()
        };
        self.shelves.iter().flat_map(experts).map(bytes).max().unwrap_or(0)
    }

    /// Whether all experts are here, as far as this process knows.
    pub(super) fn is_all_here(&self) -> bool {
        let is_here = |shelf: &Arc<Shelf>| (0..shelf.pieces().len()).all(|n| shelf.is_here(n));
        self.shelves.iter().all(is_here)
    }

    /// Bytes that a file system may need for its own account of the shards, once they have many holes; or what the
    /// last block of a layer's file may have beyond its end.
    fn accounts(&self) -> u64 {
        if self.stacks.is_empty() {
            return self.shelves.len() as u64 * ACCOUNT_BYTES;
        }
        let block = self.shelves.iter().map(|shelf| shelf.block()).max().unwrap_or(0);
        self.stacks.len() as u64 * block
    }

    /// The layers' files.
    pub(super) fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    /// Notes a piece that came, once it is on the drive; what was gathered of it goes to its layer's file.
    pub(super) fn keep(
        &self,
        shelf: &Shelf,
        number: usize,
        digest: Digest,
        gathered: Option<Gathering<'_>>,
    ) -> io::Result<()> {
        match gathered {
            None => shelf.keep(number, digest),
            Some(gathered) => self.stacks.put(&self.shelves, (shelf, number), digest, gathered),
        }
    }

    pub(super) fn shelves(&self) -> &[Arc<Shelf>] {
        &self.shelves
    }

    /// A number that is larger each time.
    pub(super) fn time(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    /// Who knows which experts are used most. The first one that is named is asked.
    pub(super) fn go_by(&self, heat: Weak<dyn Heat>) {
        let _ = self.heat.set(heat);
    }

    /// What this process took away.
    pub(super) fn evicted(&self) -> Traffic {
        *self.evicted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to fetch all of these, and room for them; nothing while another process has one of them
    /// in hand, or all that could go is being read.
    pub(super) fn admit(&self, wanted: &[Place]) -> io::Result<Option<Vec<Claim>>> {
        let Some(limit) = self.limit else { return self.claim_all(wanted) };
        let _turn = self.turn()?;
        let Some(claims) = self.claim_all(wanted)? else { return Ok(None) };
        if !self.stacks.is_empty() {
            return Ok(self.fit(limit)?.then_some(claims));
        }
        let over = self.count()?.saturating_sub(limit);
        Ok(self.evict(over)?.then_some(claims))
    }

    /// Whether experts may make room for others.
    pub(super) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Takes experts away, the coldest first, until the drive has room for these though it is full; says whether it has.
    pub(super) fn make_room(&self, wanted: &[Place]) -> io::Result<bool> {
        let _turn = self.turn()?;
        self.look()?;
        if !self.stacks.is_empty() {
            return self.shorten(wanted);
        }
        self.evict(wanted.iter().map(|(shelf, number)| self.charge(shelf, *number)).sum())
    }

    /// Ends a claim under which nothing whole came; what came takes no room, where that can be helped.
    pub(super) fn let_go(&self, shelf: &Shelf, number: usize, claim: Claim) {
        // Without locks another process may be bringing it. What did not come whole has no slot yet.
        if claim.keeps_others_out() && self.stacks.is_empty() {
            // A failure costs room alone: whoever opens the folder next with a limit counts it.
            let _ = self.free(shelf, vec![(number, claim)]);
        }
    }

    /// One process at a time, and one of its threads, until it is dropped.
    fn turn(&self) -> io::Result<File> {
        let path = folder::room(&self.dir);
        let turn = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        turn.lock()?;
        Ok(turn)
    }

    fn claim_path(&self, shelf: &Shelf, number: usize) -> PathBuf {
        self.claims.join(format!("{}.{}", shelf.name(), shelf.piece(number).offset))
    }

    fn claim(&self, shelf: &Shelf, number: usize) -> io::Result<Option<Claim>> {
        let claim = Claim::take(&self.claim_path(shelf, number));
        match self.limit {
            // Where there are no locks, two processes may fetch it both: that costs time alone.
            None => Ok(claim.unwrap_or(Some(Claim::none()))),
            Some(_) => claim,
        }
    }

    fn claim_all(&self, wanted: &[Place]) -> io::Result<Option<Vec<Claim>>> {
        wanted.iter().map(|(shelf, number)| self.claim(shelf, *number)).collect()
    }

    /// Bytes that count against the limit, those on their way included. What killed processes left goes.
    fn count(&self) -> io::Result<u64> {
        // First what is coming: what is noted in between is then counted once, and not never.
        let coming = self.coming()?;
        self.look()?;
        let mut bytes = self.accounts();
        for (shelf, numbers) in self.shelves.iter().flat_map(experts) {
            bytes += self.charges(&shelf, &numbers.filtered(|number| shelf.is_here(number)));
        }
        for (shelf, number) in &coming {
            match self.claim(shelf, *number)? {
                Some(claim) => self.free(shelf, vec![(*number, claim)])?,
                None if shelf.is_here(*number) => {}
                None => bytes += self.charge(shelf, *number),
            }
        }
        Ok(bytes)
    }

    fn look(&self) -> io::Result<()> {
        self.shelves.iter().try_for_each(|shelf| shelf.look())
    }

    /// The experts' pieces that somebody has claimed, or had when it was ended.
    fn coming(&self) -> io::Result<Vec<Place>> {
        let mut coming = Vec::new();
        for entry in fs::read_dir(&self.claims)? {
            let name = entry?.file_name();
            coming.extend(name.to_str().and_then(|name| self.place(name)));
        }
        Ok(coming)
    }

    /// What the name of a claim's file is of.
    fn place(&self, name: &str) -> Option<Place> {
        let (name, offset) = name.rsplit_once('.')?;
        let offset = offset.parse().ok()?;
        let shelf = self.shelves.iter().find(|shelf| shelf.name() == name)?;
        let number = shelf.pieces().binary_search_by_key(&offset, |piece| piece.offset).ok()?;
        shelf.may_go(number).then(|| (Arc::clone(shelf), number))
    }

    /// Makes holes of bytes that are neither noted nor coming, of whoever could not do that himself.
    fn sweep(&self) -> io::Result<()> {
        self.look()?;
        for shelf in &self.shelves {
            for number in shelf.strays()? {
                if let Some(claim) = self.claim(shelf, number)? {
                    self.free(shelf, vec![(number, claim)])?;
                }
            }
        }
        Ok(())
    }

    /// Bytes that a piece counts for, here or on its way.
    fn charge(&self, shelf: &Shelf, number: usize) -> u64 {
        let piece = shelf.piece(number);
        let blocks = shelf.blocks(piece.offset..piece.end());
        let in_shard = || blocks.end - blocks.start + ACCOUNT_BYTES;
        self.stacks.slot_bytes(shelf, number).unwrap_or_else(in_shard)
    }

    fn charges(&self, shelf: &Shelf, numbers: &[usize]) -> u64 {
        numbers.iter().map(|number| self.charge(shelf, *number)).sum()
    }

    /// Makes holes of claimed pieces, if they are not noted.
    fn free(&self, shelf: &Shelf, mut claimed: Vec<(usize, Claim)>) -> io::Result<()> {
        shelf.look()?;
        let numbers: Vec<usize> = claimed.iter().map(|(number, _)| *number).collect();
        for number in numbers.filtered(|number| !shelf.is_here(number)) {
            // A block that is shared goes when nobody has, or fetches, what else is in it.
            shelf.free(number, |other| {
                if !shelf.may_go(other) {
                    return Ok(false);
                }
                if claimed.iter().all(|(number, _)| *number != other) {
                    let Some(claim) = self.claim(shelf, other)? else { return Ok(false) };
                    claimed.push((other, claim));
                    shelf.look()?;
                }
                Ok(!shelf.is_here(other))
            })?;
        }
        Ok(())
    }
}

/// The experts of a shelf that may go, each with the numbers of its pieces.
fn experts(shelf: &Arc<Shelf>) -> impl Iterator<Item = (Arc<Shelf>, Vec<usize>)> + '_ {
    let mut first = 0;
    let runs = shelf.pieces().chunk_by(|a, b| a.owner == b.owner).map(move |run| {
        let numbers: Vec<usize> = (first..first + run.len()).collect();
        first += run.len();
        numbers
    });
    runs.filter(|numbers| shelf.may_go(numbers[0])).map(|numbers| (Arc::clone(shelf), numbers))
}

/// Numbers without some.
trait Filtered {
    fn filtered(&self, keeps: impl Fn(usize) -> bool) -> Vec<usize>;
}

impl Filtered for Vec<usize> {
    fn filtered(&self, keeps: impl Fn(usize) -> bool) -> Vec<usize> {
        self.iter().copied().filter(|number| keeps(*number)).collect()
    }
}
