//! Pieces that somebody asked for, from the source to the folder, each by one process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use deltafin_store::{Hold, StoreError};
use tokio::time::sleep;

use super::cache::{Place, is_full};
use super::claim::Claim;
use super::held::Held;
use super::reach::Reach;
use super::shelf::Shelf;
use crate::cut::Piece;
use crate::map::Digest;
use crate::piece::{self, Broken, Sink};
use crate::{Event, FetchError};

/// Between two looks at whether to stop, or whether another process has fetched what is wanted.
const LOOK: Duration = Duration::from_millis(20);

/// A source that has sent no byte for so long gives nothing, as far as an interrupt is concerned: its connections may
/// stand still long before anybody says so.
const QUIET: Duration = Duration::from_millis(500);

/// A file that has another entity tag than before is asked for again this often, where that may be.
const TRIES: u32 = 3;

/// How often room is made for what a full drive did not take: others may write there, too.
const ROOM_TRIES: u32 = 8;

/// How often it is looked for experts that may go, where all of them are being read.
const ROOM_LOOKS: u32 = 100;

/// Why a piece did not come here.
enum Unfetched {
    /// The folder does not take it.
    Disk(io::Error),
    /// It is not to be had.
    Failed(StoreError),
}

/// Pieces of a shelf, by their numbers.
pub(super) type Part = (Arc<Shelf>, std::ops::Range<usize>);

impl Reach {
    /// Brings what is not here of a read's pieces, unless other processes do, and holds all of them.
    pub(super) fn hold(&self, parts: &[Part], stop: &AtomicBool) -> Result<Hold, StoreError> {
        let (mut claims, mut room_tries) = (Vec::new(), ROOM_TRIES);
        loop {
            let mut held = Held::of(parts.to_vec(), self.cache.time());
            let missing = held.missing();
            let Some((shelf, number)) = missing.first() else {
                if let Some(mark) = held.mark() {
                    held.claims = claims;
                    return Ok(Hold::new(mark, Box::new(held)));
                }
                continue;
            };
            let disk =
                |error| shelf.failed(*number, FetchError::disk(shelf.path(), error).to_string());
            let admitted = match self.admit(&missing) {
                Err(error) if self.makes_room(&missing, &error, &mut room_tries) => continue,
                admitted => admitted.map_err(disk)?,
            };
            let Some(admitted) = admitted else {
                // Nothing is held while others are waited for, who may wait for this.
                drop((held, std::mem::take(&mut claims)));
                if self.is_to_stop(stop, true) {
                    return Err(shelf.failed(*number, "interrupted".to_owned()));
                }
                thread::sleep(LOOK);
                continue;
            };
            for ((shelf, number), claim) in missing.iter().zip(admitted) {
                let Err(why) = self.fetch(shelf, *number, stop) else {
                    claims.push(claim);
                    continue;
                };
                self.cache.let_go(shelf, *number, claim);
                match why {
                    Unfetched::Disk(error)
                        if self.makes_room(&missing, &error, &mut room_tries) =>
                    {
                        break;
                    }
                    Unfetched::Disk(error) => return Err(disk(error)),
                    Unfetched::Failed(error) => return Err(error),
                }
            }
        }
    }

    /// Whether room was made on a full drive for what is missing. Only where a limit lets experts go.
    fn makes_room(&self, missing: &[Place], error: &io::Error, tries: &mut u32) -> bool {
        if !is_full(error) || *tries == 0 || !self.cache.is_limited() {
            return false;
        }
        *tries -= 1;
        let is_made = || self.cache.make_room(missing).unwrap_or(false);
        let made = (0..ROOM_LOOKS).find(|look| {
            thread::sleep(if *look > 0 { LOOK } else { Duration::ZERO });
            is_made()
        });
        if made.is_none() {
            return false;
        }
        if !self.is_cramped.swap(true, Ordering::Relaxed) {
            self.traffic.watch.event(Event::Cramped { dir: &self.dir });
        }
        true
    }

    /// The right to fetch these, as [`Cache::admit`]; one that needs no room, of none, where another process brought
    /// one of them.
    fn admit(&self, missing: &[Place]) -> io::Result<Option<Vec<Claim>>> {
        let look = || -> io::Result<bool> {
            missing.iter().try_for_each(|(shelf, _)| shelf.look())?;
            Ok(missing.iter().any(|(shelf, number)| shelf.is_here(*number)))
        };
        if look()? {
            return Ok(Some(Vec::new()));
        }
        let admitted = self.cache.admit(missing)?;
        // Whoever had one before may have brought it.
        if look()? { Ok(Some(Vec::new())) } else { Ok(admitted) }
    }

    /// Brings a piece here that this process may fetch.
    fn fetch(&self, shelf: &Shelf, number: usize, stop: &AtomicBool) -> Result<(), Unfetched> {
        let gathered = self.cache.stacks().gathering(shelf, number);
        let to: &dyn Sink = gathered.as_ref().map_or(shelf, |gathered| gathered);
        let digest = self.bring(to, shelf, number, stop)?;
        self.cache.keep(shelf, number, digest, gathered).map_err(Unfetched::Disk)
    }

    /// Brings a piece to memory.
    pub(super) fn pass(
        &self,
        to: &dyn Sink,
        shelf: &Shelf,
        number: usize,
        stop: &AtomicBool,
    ) -> Result<(), StoreError> {
        self.bring(to, shelf, number, stop).map(drop).map_err(|why| match why {
            Unfetched::Disk(error) => {
                shelf.failed(number, FetchError::disk(shelf.path(), error).to_string())
            }
            Unfetched::Failed(error) => error,
        })
    }

    /// Brings a piece to wherever it is to lie.
    fn bring(
        &self,
        to: &dyn Sink,
        shelf: &Shelf,
        number: usize,
        stop: &AtomicBool,
    ) -> Result<Digest, Unfetched> {
        let piece = shelf.piece(number);
        let failed = |why| Unfetched::Failed(shelf.failed(number, why));
        let stopped = || failed("interrupted".to_owned());
        let mut tries = 1;
        loop {
            match self.range(to, piece, stop).ok_or_else(stopped)? {
                Ok(digest) => return Ok(digest),
                Err(Broken::Changed(_)) if tries < TRIES && shelf.forgets_tag() => tries += 1,
                Err(Broken::Changed(why)) => {
                    return Err(failed(self.replaced(shelf, &why)));
                }
                Err(Broken::Lasting(why)) => {
                    let later = match self.unkept {
                        None => "what came is kept, ask again when its source can be reached",
                        Some(_) => "ask again when its source can be reached",
                    };
                    return Err(failed(format!("{why}; {later}")));
                }
                Err(Broken::Disk(error)) => return Err(Unfetched::Disk(error)),
            }
        }
    }

    /// That a source has another file than the one that the folder was set up with, and what helps.
    fn replaced(&self, shelf: &Shelf, why: &str) -> String {
        let (dir, asked) = (self.dir.display(), &self.asked);
        let remedy = match shelf.is_told_by_tag() {
            true => format!(
                "'deltafin setup --stream --model {dir}' fetches what is there now in place of it, and --full all of it"
            ),
            // A folder goes on with the commit that it was begun with.
            false => format!(
                "ask again later, or 'deltafin setup --stream --source {asked} --model FOLDER' fetches what is there now into another folder"
            ),
        };
        format!("it was replaced at its source: {why}; {remedy}")
    }

    /// Fetches a piece; nothing if it was stopped.
    fn range(
        &self,
        to: &dyn Sink,
        piece: Piece,
        stop: &AtomicBool,
    ) -> Option<Result<Digest, Broken>> {
        // Whoever asks anew waits anew.
        self.traffic.try_again();
        self.runtime.as_ref()?.block_on(async {
            tokio::select! {
                fetched = piece::fetch(&self.traffic, to, piece) => Some(fetched),
                () = self.stopped(stop) => None,
            }
        })
    }

    fn is_to_stop(&self, stop: &AtomicBool, is_waiting: bool) -> bool {
        stop.load(Ordering::Relaxed) || is_waiting && self.interrupted.load(Ordering::Relaxed)
    }

    async fn stopped(&self, stop: &AtomicBool) {
        let (mut came, mut since) = (self.silence.came(), Instant::now());
        while !self.is_to_stop(stop, self.silence.is_told() || since.elapsed() >= QUIET) {
            sleep(LOOK).await;
            let now = self.silence.came();
            if now != came {
                (came, since) = (now, Instant::now());
            }
        }
    }
}
