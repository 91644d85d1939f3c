//! A kernel whose transfers end in any order, with less than was asked for, or with an error.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use deltafin_checkpoint::{ShardId, Span};

use super::super::queue::{Limits, Queue};
use super::super::{Class, Landed, Landing, Ticket, room_for};
use super::*;
use crate::{LocalShards, StoreError};

const DEPTH: usize = 4;
const CHUNK_BYTES: usize = 8 * PAGE_BYTES;
const FILE_BYTES: usize = 300_000;

/// What an error leaves in the memory of a transfer.
const RUBBISH: u8 = 0xee;

/// Of a hundred transfers, how many end in which way.
#[derive(Clone, Copy, Debug)]
struct Ills {
    short: u64,
    interrupted: u64,
    failed: u64,
}

/// A ring whose flights end when and how a seed says.
struct SickRing {
    ring: Ring,
    landed: Vec<Ended>,
    seed: u64,
    ills: Ills,
}

impl SickRing {
    fn below(&mut self, n: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.seed >> 33) as usize % n
    }

    /// What becomes of a flight that brought so many bytes.
    fn ail(&mut self, mut flight: Flight, got: usize) -> Ended {
        let Ills { short, interrupted, failed } = self.ills;
        let lot = self.below(100) as u64;
        let from = flight.progress.resume();
        let outcome = if lot < short && got > PAGE_BYTES {
            // Only a file's end gives part of a page.
            Ok(PAGE_BYTES * (1 + self.below(got.div_ceil(PAGE_BYTES) - 1)))
        } else if (short..short + interrupted).contains(&lot) {
            Err(io::ErrorKind::Interrupted.into())
        } else if (short + interrupted..short + interrupted + failed).contains(&lot) {
            Err(io::Error::from_raw_os_error(libc::EIO))
        } else {
            Ok(got)
        };
        let kept = outcome.as_ref().map_or(0, |kept| *kept);
        flight.chunk.part.bytes_mut()[from + kept..].fill(RUBBISH);
        Ended::Flight(flight, outcome)
    }
}

impl Flights for SickRing {
    fn is_empty(&self) -> bool {
        self.ring.is_empty() && self.landed.is_empty()
    }

    fn start(&mut self, flight: Flight) {
        self.ring.start(flight);
    }

    fn listen(&mut self, bell: &OwnedFd) {
        self.ring.listen(bell);
    }

    fn submit(&mut self) {
        self.ring.submit();
    }

    /// What is kept back here nobody else would wake the thread for.
    fn wait(&mut self) {
        if self.landed.is_empty() { self.ring.wait() } else { self.ring.submit() }
    }

    fn ended(&mut self) -> Option<Ended> {
        while let Some(ended) = self.ring.ended() {
            self.landed.push(ended);
        }
        if self.landed.is_empty() || self.below(3) == 0 {
            return None;
        }
        let at = self.below(self.landed.len());
        match self.landed.swap_remove(at) {
            Ended::Flight(flight, Ok(got)) => Some(self.ail(flight, got)),
            other => Some(other),
        }
    }
}

struct Shore(Mutex<Sender<(Ticket, Landed)>>);

impl Landing for Shore {
    fn landed(&self, ticket: Ticket, landed: Landed) {
        self.0.lock().unwrap().send((ticket, landed)).unwrap();
    }
}

/// A drive with such a ring, and where its reads land.
struct Harbour {
    bytes: Vec<u8>,
    path: String,
    shared: Arc<Shared>,
    landed: Receiver<(Ticket, Landed)>,
    thread: JoinHandle<()>,
    arena: Arc<Arena>,
}

impl Harbour {
    /// Nothing where there are no rings.
    fn new(dir: &tempfile::TempDir, seed: u64, ills: Ills) -> Option<Harbour> {
        let bytes: Vec<u8> =
            (0..FILE_BYTES as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let path = dir.path().join("s");
        fs::write(&path, &bytes).unwrap();
        let store = Arc::new(LocalShards::open(dir.path(), &["s"]).unwrap());
        let (sender, landed) = channel();
        let (align, chunk_bytes) = (PAGE_BYTES as u64, CHUNK_BYTES as u64);
        let queue = Queue::new(Limits { align, chunk_bytes, depth: DEPTH, idle_depth: DEPTH });
        let bell = Arc::new(Bell::new().ok()?);
        let ringing = Arc::clone(&bell);
        let shared = Shared::new(queue, store, Arc::new(Shore(Mutex::new(sender))));
        let shared = Arc::new(shared.with_bell(move || ringing.ring()));
        let behind = move |ring| SickRing { ring, landed: Vec::new(), seed, ills };
        let started = start_behind(&shared, &bell, &[], DEPTH, None, behind).ok()?;
        let (arena, thread) = (Arena::new(4 << 20).unwrap(), started.thread);
        Some(Harbour { bytes, path: path.display().to_string(), shared, landed, thread, arena })
    }

    /// Reads so many records; gives how many failed, each with a place inside the record.
    fn read(self, count: u64) -> usize {
        for number in 0..count {
            let slab = self.arena.take(room_for(&[record(number)])).unwrap();
            let class = Class::ALL[number as usize % 3];
            self.shared.lock().push(Ticket(number), class, &[record(number)], slab);
        }
        self.shared.wake();
        let mut failed = 0;
        let mut seen = vec![false; count as usize];
        for _ in 0..count {
            let (ticket, landed) = self.landed.recv_timeout(Duration::from_secs(60)).unwrap();
            assert!(!std::mem::replace(&mut seen[ticket.0 as usize], true), "landed twice");
            let span = record(ticket.0);
            match landed {
                Landed::Whole(filled) => {
                    let wanted = &self.bytes[span.offset() as usize..span.end() as usize];
                    assert!(*filled == *wanted, "other bytes of {span}");
                }
                Landed::Failed(_, error) => {
                    let StoreError::Read { file, offset, .. } = &error else { panic!("{error}") };
                    let pages = span.offset() / PAGE_BYTES as u64 * PAGE_BYTES as u64..span.end();
                    assert!(*file == self.path && pages.contains(offset), "{error}, for {span}");
                    failed += 1;
                }
                Landed::Cancelled(_) => panic!("nobody cancels"),
            }
        }
        self.shared.lock().stop();
        self.shared.wake();
        self.thread.join().unwrap();
        assert_eq!(self.arena.free_bytes(), self.arena.len());
        failed
    }
}

/// The last ones end where the file does, in the middle of a page.
fn record(number: u64) -> Span {
    let len = 100 + number * 4093 % 90_000;
    let offset = (number * 7919).min(FILE_BYTES as u64 - len);
    Span::new(ShardId::new(0), offset, len).unwrap()
}

/// Gives how many reads of all seeds failed; nothing where there are no rings.
fn check(ills: Ills) -> Option<usize> {
    let dir = tempfile::tempdir().unwrap();
    let mut failed = 0;
    for seed in 0..60 {
        println!("seed {seed}");
        failed += Harbour::new(&dir, seed, ills)?.read(40);
    }
    Some(failed)
}

#[test]
fn less_than_asked_for_and_out_of_order_is_read_to_the_end() {
    let failed = check(Ills { short: 40, interrupted: 20, failed: 0 });
    assert_eq!(failed.unwrap_or(0), 0);
}

#[test]
fn one_error_is_tried_again_and_two_are_told_with_their_place() {
    let failed = check(Ills { short: 10, interrupted: 5, failed: 20 });
    assert!(failed.is_none_or(|failed| failed > 0), "nothing failed twice");
}
