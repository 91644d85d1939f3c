//! A ring that owns what the kernel writes into.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};

use super::super::direct::Progress;
use super::super::queue::Chunk;
use super::Flights;
use crate::arena::Arena;

/// The most bytes of a registered buffer that the kernel takes.
const LARGEST_BUFFER: usize = 1 << 30;
/// What tells the bell's completion from those of flights.
const BELL: u64 = u64::MAX;

/// A transfer in flight, or between two flights.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) chunk: Chunk,
    pub(super) file: Arc<File>,
    /// Where in the file the run begins.
    pub(super) at: u64,
    pub(super) progress: Progress,
    pub(super) tried_again: bool,
}

/// Up to so many flights at once.
///
/// A flight owns its bytes, its file and, through its bytes, the memory they are in. It is in the
/// table from before the kernel hears of it until the kernel is done with it.
pub(super) struct Ring {
    ring: IoUring,
    flights: Vec<Option<Flight>>,
    registered: Vec<Arc<Arena>>,
}

impl Ring {
    /// To be used by the thread that calls this, and no other.
    pub(super) fn new(depth: usize) -> io::Result<Ring> {
        // One more, for the bell.
        let entries = u32::try_from(depth + 1).map_err(io::Error::other)?.next_power_of_two();
        let lean = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries);
        let ring = match lean {
            Ok(ring) => ring,
            // A kernel before 6.1 knows rings without these.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => IoUring::new(entries)?,
            Err(error) => return Err(error),
        };
        Ok(Ring { ring, flights: (0..depth).map(|_| None).collect(), registered: Vec::new() })
    }

    /// Registers the memory of these arenas, which makes it resident. All of it or nothing.
    pub(super) fn register(&mut self, arenas: &[Arc<Arena>]) -> io::Result<()> {
        let buffers: Vec<libc::iovec> = arenas.iter().flat_map(|arena| buffers_of(arena)).collect();
        arenas.iter().for_each(|arena| arena.pin());
        // SAFETY: the mappings stay while `registered` holds the arenas, and their pages stay the
        // same while they are pinned, so what the kernel writes to is what slabs show.
        let outcome = unsafe { self.ring.submitter().register_buffers(&buffers) };
        match outcome {
            Ok(()) => self.registered = arenas.to_vec(),
            Err(_) => arenas.iter().for_each(|arena| arena.unpin()),
        }
        outcome
    }

    /// # Safety
    /// What the entry points at stays, and is nobody else's, until its completion.
    unsafe fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: passed on to the caller.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.enter(0);
        }
    }

    /// The kernel refuses for a moment when it is interrupted or short of memory; flights that it
    /// knows of cannot be called back, so there is nothing else to do than to go on.
    fn enter(&mut self, want: usize) {
        if let Err(error) = self.ring.submit_and_wait(want)
            && error.kind() != io::ErrorKind::Interrupted
        {
            std::thread::yield_now();
        }
    }
}

impl Flights for Ring {
    fn is_empty(&self) -> bool {
        self.flights.iter().all(Option::is_none)
    }

    /// # Panics
    /// If there is no room.
    fn start(&mut self, flight: Flight) {
        let slot = self.flights.iter().position(Option::is_none).expect("room for a flight");
        let flight = self.flights[slot].insert(flight);
        let entry = entry(flight, &self.registered).user_data(slot as u64);
        // SAFETY: the entry points into bytes that the flight has for itself, and names a file
        // that it holds open; both stay in the table until the kernel reports the end.
        unsafe { self.push(entry) };
    }

    fn listen(&mut self, bell: &OwnedFd) {
        let entry = opcode::PollAdd::new(Fd(bell.as_raw_fd()), libc::POLLIN as u32).build();
        // SAFETY: to poll, the kernel needs the descriptor only now, and no memory of ours.
        unsafe { self.push(entry.user_data(BELL)) };
    }

    fn submit(&mut self) {
        if !self.ring.submission().is_empty() {
            self.enter(0);
        }
    }

    fn wait(&mut self) {
        self.enter(1);
    }

    /// A flight that ended and the bytes it brought, or the bell.
    fn ended(&mut self) -> Option<Ended> {
        let entry = self.ring.completion().next()?;
        if entry.user_data() == BELL {
            return Some(Ended::Bell);
        }
        let flight = self.flights[entry.user_data() as usize].take();
        let flight = flight.expect("the kernel reports a flight once");
        let outcome = usize::try_from(entry.result())
            .map_err(|_| io::Error::from_raw_os_error(-entry.result()));
        Some(Ended::Flight(flight, outcome))
    }
}

/// What a wait can end with.
pub(super) enum Ended {
    Flight(Flight, io::Result<usize>),
    Bell,
}

impl Drop for Ring {
    /// Memory that the kernel writes into is not given up.
    fn drop(&mut self) {
        while !self.is_empty() {
            self.wait();
            while self.ended().is_some() {}
        }
        if !self.registered.is_empty() {
            // Refused or not, nothing is in flight any more.
            let _unregistered = self.ring.submitter().unregister_buffers();
        }
        self.registered.iter().for_each(|arena| arena.unpin());
    }
}

fn buffers_of(arena: &Arena) -> impl Iterator<Item = libc::iovec> {
    (0..arena.len()).step_by(LARGEST_BUFFER).map(|start| libc::iovec {
        iov_base: arena.address(start).as_ptr().cast(),
        iov_len: LARGEST_BUFFER.min(arena.len() - start),
    })
}

/// Which registered buffer a run of an arena lies in, if it is one.
fn buffer(registered: &[Arc<Arena>], arena: &Arc<Arena>, start: usize, len: usize) -> Option<u16> {
    let known = registered.iter().position(|known| Arc::ptr_eq(known, arena))?;
    let (first, last) = (start / LARGEST_BUFFER, (start + len - 1) / LARGEST_BUFFER);
    let before = registered[..known].iter().map(|arena| arena.len().div_ceil(LARGEST_BUFFER));
    let number = before.sum::<usize>() + first;
    (first == last).then(|| u16::try_from(number).ok())?
}

fn entry(flight: &mut Flight, registered: &[Arc<Arena>]) -> squeue::Entry {
    let Flight { chunk, file, at, progress, .. } = flight;
    let from = progress.resume();
    let (arena, start) = chunk.part.place();
    let len = chunk.run.len - from;
    let buffer = buffer(registered, arena, start + from, len);
    let address = chunk.part.bytes_mut()[from..].as_mut_ptr();
    let (fd, at) = (Fd(file.as_raw_fd()), *at + from as u64);
    match buffer {
        Some(buffer) => opcode::ReadFixed::new(fd, address, len as u32, buffer).offset(at).build(),
        None => opcode::Read::new(fd, address, len as u32).offset(at).build(),
    }
}
