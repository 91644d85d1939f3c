//! A drive whose chunks are read through a ring, by one thread.

mod ring;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};

use super::direct::{Progress, begin, ended, failed};
use super::layout::Run;
use super::queue::Chunk;
use super::threads::{self, Shared};
use crate::arena::{Arena, Cut, PAGE_BYTES};
use crate::{LocalFile, Store};
use ring::{Ended, Flight, Ring};

/// What a drive's thread asks of a ring: tests put a kernel behind it that nobody has.
trait Flights {
    /// Whether nothing is in flight.
    fn is_empty(&self) -> bool;
    /// Starts a flight with the next submit.
    fn start(&mut self, flight: Flight);
    /// The next wait also ends when this becomes readable; once.
    fn listen(&mut self, bell: &OwnedFd);
    /// Tells the kernel of what was started.
    fn submit(&mut self);
    /// As submit, and waits until something ended.
    fn wait(&mut self);
    /// What ended.
    fn ended(&mut self) -> Option<Ended>;
}

/// Ends the wait of a ring's thread.
pub(super) struct Bell {
    /// Whether the thread waits, or is about to. Set while it holds the queue's lock.
    asleep: AtomicBool,
    fd: OwnedFd,
}

impl Bell {
    pub(super) fn new() -> io::Result<Bell> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Bell { asleep: AtomicBool::new(false), fd })
    }

    /// Costs a system call only if the thread waits.
    pub(super) fn ring(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            // It refuses only when the count is full, and then it rings already.
            let _rings = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    fn silence(&self) {
        let _was_silent = rustix::io::read(&self.fd, &mut [0; 8]);
    }
}

/// A ring at work.
pub(super) struct Started {
    pub(super) thread: JoinHandle<()>,
    /// Whether the arenas are registered, or why not.
    pub(super) registered: io::Result<()>,
}

/// Starts the thread, after a real transfer through the ring, for which `probe` is a page of a
/// file on the drive. The reason of a refusal is in words.
pub(super) fn start(
    shared: &Arc<Shared>,
    bell: &Arc<Bell>,
    arenas: &[Arc<Arena>],
    depth: usize,
    probe: Option<Run>,
) -> Result<Started, String> {
    start_behind(shared, bell, arenas, depth, probe, |ring| ring)
}

fn start_behind<F: Flights>(
    shared: &Arc<Shared>,
    bell: &Arc<Bell>,
    arenas: &[Arc<Arena>],
    depth: usize,
    probe: Option<Run>,
    behind: impl FnOnce(Ring) -> F + Send + 'static,
) -> Result<Started, String> {
    let (started, starts) = mpsc::sync_channel(1);
    let (shared, bell, arenas) = (Arc::clone(shared), Arc::clone(bell), arenas.to_vec());
    let drive = move || match prepare(&*shared.store, &arenas, depth, probe) {
        Ok((ring, registered)) => {
            drop(arenas);
            if started.send(Ok(registered)).is_ok() {
                Drive { shared: &shared, bell: &bell, ring: behind(ring) }.work();
            }
        }
        Err(reason) => drop(started.send(Err(reason))),
    };
    let thread = threads::begin(thread::Builder::new().name("drive-ring".to_owned()), drive);
    let thread = thread.map_err(|error| error.to_string())?;
    let registered = starts.recv().map_err(|gone| gone.to_string())??;
    Ok(Started { thread, registered })
}

/// A ring that has shown that it works, and whether the arenas are registered.
fn prepare(
    store: &dyn Store,
    arenas: &[Arc<Arena>],
    depth: usize,
    probe: Option<Run>,
) -> Result<(Ring, io::Result<()>), String> {
    let mut ring = Ring::new(depth).map_err(|error| error.to_string())?;
    if let Some(run) = probe {
        transfer(&mut ring, file_of(store, run), run)?;
    }
    let registered = if arenas.is_empty() { Ok(()) } else { ring.register(arenas) };
    Ok((ring, registered))
}

/// One transfer, into memory of its own.
fn transfer(ring: &mut Ring, file: LocalFile<'_>, run: Run) -> Result<(), String> {
    let arena = Arena::new(PAGE_BYTES).map_err(|error| error.to_string())?;
    let slab = arena.take(run.len).ok_or("the first transfer is longer than its memory")?;
    let mut cut = Cut::new(slab);
    let open = file.direct(run.wanted()).map_err(|error| error.to_string())?;
    let chunk = Chunk::alone(run, cut.lend(run.len));
    ring.start(flight(chunk, open, begin(file, run), false));
    loop {
        ring.wait();
        if let Some(Ended::Flight(flight, outcome)) = ring.ended() {
            cut.back(flight.chunk.part);
            let got = outcome.map_err(|error| error.to_string())?;
            let short = || format!("a transfer gave {got} of {} bytes", run.enough);
            return if got >= run.enough { Ok(()) } else { Err(short()) };
        }
    }
}

fn file_of(store: &dyn Store, run: Run) -> LocalFile<'_> {
    store.file(run.piece.shard()).expect("the shards of a drive with a ring are files")
}

/// The first flight of a chunk, or the first since its file was opened afresh.
fn flight(chunk: Chunk, file: Arc<File>, at: u64, tried_again: bool) -> Flight {
    Flight { chunk, file, at, progress: Progress::default(), tried_again }
}

/// What the thread works with.
struct Drive<'a, F> {
    shared: &'a Shared,
    bell: &'a Bell,
    ring: F,
}

impl<F: Flights> Drive<'_, F> {
    fn work(mut self) {
        self.ring.listen(&self.bell.fd);
        loop {
            let mut queue = self.shared.lock();
            if let Some(chunk) = queue.next() {
                drop(queue);
                self.launch(chunk);
            } else if let Some(over) = queue.take_over() {
                drop(queue);
                // The drive reads on while somebody hears of it.
                self.ring.submit();
                over.tell(&*self.shared.landing);
            } else if queue.is_stopped() && self.ring.is_empty() {
                return;
            } else {
                self.bell.asleep.store(true, Ordering::SeqCst);
                drop(queue);
                self.ring.wait();
                self.bell.asleep.store(false, Ordering::SeqCst);
                self.reap();
            }
        }
    }

    fn launch(&mut self, chunk: Chunk) {
        let (run, file) = (chunk.run, file_of(&*self.shared.store, chunk.run));
        match file.direct(run.wanted()) {
            Ok(open) => self.ring.start(flight(chunk, open, begin(file, run), false)),
            Err(error) => self.shared.lock().done(chunk, Err(error)),
        }
    }

    fn reap(&mut self) {
        while let Some(ended) = self.ring.ended() {
            match ended {
                Ended::Flight(flight, outcome) => self.landed(flight, outcome),
                Ended::Bell => {
                    self.bell.silence();
                    self.ring.listen(&self.bell.fd);
                }
            }
        }
    }

    fn landed(&mut self, mut flight: Flight, outcome: io::Result<usize>) {
        let run = flight.chunk.run;
        let file = file_of(&*self.shared.store, run);
        let outcome = match outcome {
            Ok(got) => {
                flight.progress.add(got);
                if !flight.progress.is_over(run.enough) {
                    return self.ring.start(flight);
                }
                let done = flight.progress.done;
                if done >= run.enough { Ok(done) } else { Err(ended(file, run, done)) }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                return self.ring.start(flight);
            }
            Err(_) if !flight.tried_again => {
                file.forget(run.wanted());
                self.shared.lock().count_retry();
                match file.direct(run.wanted()) {
                    Ok(open) => {
                        let again = self::flight(flight.chunk, open, begin(file, run), true);
                        return self.ring.start(again);
                    }
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(failed(file, run, &error)),
        };
        self.shared.lock().done(flight.chunk, outcome);
    }
}

#[cfg(test)]
mod tests;
