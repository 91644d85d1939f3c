//! A reader of a store that does not have all its bytes yet: what is missing is brought here first.
//!
//! ```text
//! read ─► all here? ─ yes ────────────────────────► the drives ─► kept? ─► landed
//!              └ no ─► demand │ ahead │ guess ─► brought, on a few threads ─► the drives
//! ```
//!
//! Bytes that are here may be taken away while they are read: such a read begins again, as a demand. Bytes that are
//! brought and not kept never see the drives.
//!
//! Demands go first. Guesses and what is read ahead never use more than half of the threads, rounded up, so
//! that a demand finds one wherever there are two.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};

use deltafin_checkpoint::Span;
use smallvec::SmallVec;

use super::kept::{Again, Kept};
use super::threads;
use super::{Class, Filled, Landed, Landing, Reader, ReaderError, ReaderReport, Ticket, Traffic};
use crate::arena::Slab;
use crate::{Distant, Hold, StoreError};

/// A reader on top of one that reads what is here.
pub(super) struct Bringing {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    distant: Arc<dyn Distant>,
    drives: Box<dyn Reader>,
    kept: Arc<Kept>,
    landing: Arc<dyn Landing>,
    queue: Mutex<Queue>,
    wake: Condvar,
    stop: AtomicBool,
}

/// A read that waits for its bytes.
struct Waiting {
    ticket: Ticket,
    class: Class,
    pieces: SmallVec<[Span; 4]>,
    slab: Slab,
}

/// The reads whose bytes are not here.
#[derive(Default)]
struct Queue {
    waiting: [VecDeque<Waiting>; 3],
    /// What is being brought, by ticket, with the class that it has by now.
    coming: Vec<(Ticket, Class)>,
    /// Of these, those that nobody waited for when they began.
    idle: usize,
    cancelled: VecDeque<(Ticket, Slab)>,
    brought: Traffic,
}

impl Queue {
    /// The next read to bring bytes for.
    fn next(&mut self, idle_most: usize) -> Option<Waiting> {
        let demand = self.waiting[Class::Demand as usize].pop_front();
        if demand.is_some() || self.idle >= idle_most {
            return demand;
        }
        let [_, rest @ ..] = &mut self.waiting;
        rest.iter_mut().find_map(VecDeque::pop_front)
    }

    /// Takes a read out that has not begun.
    fn take(&mut self, ticket: Ticket) -> Option<Waiting> {
        self.waiting.iter_mut().find_map(|waiting| {
            let at = waiting.iter().position(|read| read.ticket == ticket)?;
            waiting.remove(at)
        })
    }

    /// What is left of a read that was being brought: its class by now.
    fn came(&mut self, ticket: Ticket) -> Option<Class> {
        let at = self.coming.iter().position(|(coming, _)| *coming == ticket)?;
        Some(self.coming.swap_remove(at).1)
    }
}

impl Bringing {
    /// Puts itself before `drives`, whose reads land at `kept`.
    pub(super) fn start(
        distant: Arc<dyn Distant>,
        drives: Box<dyn Reader>,
        kept: Arc<Kept>,
        landing: Arc<dyn Landing>,
    ) -> Result<Bringing, ReaderError> {
        let lanes = distant.lanes().max(1);
        let (queue, wake, stop) = (Mutex::default(), Condvar::new(), AtomicBool::new(false));
        let shared = Arc::new(Shared { distant, drives, kept, landing, queue, wake, stop });
        let again: Weak<dyn Again> = Arc::downgrade(&shared) as Weak<Shared>;
        shared.kept.begin_at(again);
        let mut bringing = Bringing { shared, threads: Vec::with_capacity(lanes) };
        for number in 0..lanes {
            let shared = Arc::clone(&bringing.shared);
            let builder = thread::Builder::new().name(format!("bring-{number}"));
            match threads::begin(builder, move || shared.work(lanes.div_ceil(2))) {
                Ok(thread) => bringing.threads.push(thread),
                Err(error) if bringing.threads.is_empty() => {
                    return Err(ReaderError::Thread { reason: error.to_string() });
                }
                Err(_) => break,
            }
        }
        Ok(bringing)
    }
}

impl Drop for Bringing {
    fn drop(&mut self) {
        {
            let _queue = self.shared.lock();
            self.shared.stop.store(true, Ordering::Relaxed);
        }
        self.shared.wake.notify_all();
        let here = thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != here) {
            // A panic there was told where it happened.
            let _ended = thread.join();
        }
    }
}

impl Shared {
    /// A thread that panicked cannot have left the queue half changed.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, idle_most: usize) {
        let mut queue = self.lock();
        loop {
            if let Some((ticket, slab)) = queue.cancelled.pop_front() {
                drop(queue);
                self.landing.landed(ticket, Landed::Cancelled(slab));
                queue = self.lock();
            } else if self.stop.load(Ordering::Relaxed) {
                let rest = queue.waiting.iter_mut().find_map(VecDeque::pop_front);
                let Some(rest) = rest else { return };
                queue.cancelled.push_back((rest.ticket, rest.slab));
            } else if let Some(read) = queue.next(idle_most) {
                let is_idle = read.class != Class::Demand;
                queue.idle += usize::from(is_idle);
                queue.coming.push((read.ticket, read.class));
                drop(queue);
                let outcome = self.distant.hold(&read.pieces, &self.stop);
                queue = self.lock();
                queue.idle -= usize::from(is_idle);
                queue = self.pass_on(queue, read, outcome);
                // One that nobody waits for may have waited for this one's place.
                self.wake.notify_one();
            } else {
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Reads what was brought, or tells why it was not.
    fn pass_on<'q>(
        &'q self,
        mut queue: MutexGuard<'q, Queue>,
        read: Waiting,
        outcome: Result<Hold, StoreError>,
    ) -> MutexGuard<'q, Queue> {
        let class = queue.came(read.ticket).unwrap_or(read.class);
        let Waiting { ticket, pieces, slab, .. } = read;
        let error = match outcome {
            Ok(hold) => {
                queue.brought.reads += 1;
                queue.brought.bytes += pieces.iter().map(|piece| piece.len()).sum::<u64>();
                if let Some(bytes) = hold.bytes() {
                    drop(queue);
                    self.landing.landed(ticket, Landed::Whole(filled(slab, bytes)));
                    return self.lock();
                }
                // Under the lock, so that whoever promotes it finds it in one place or the other.
                self.read_held(ticket, class, &pieces, slab, hold);
                return queue;
            }
            Err(error) => error,
        };
        drop(queue);
        let landed = match self.stop.load(Ordering::Relaxed) {
            true => Landed::Cancelled(slab),
            false => Landed::Failed(slab, error),
        };
        self.landing.landed(ticket, landed);
        self.lock()
    }

    /// Reads what is here.
    fn read_held(&self, ticket: Ticket, class: Class, pieces: &[Span], slab: Slab, hold: Hold) {
        self.kept.note(ticket, pieces, hold);
        self.drives.read(ticket, class, pieces, slab);
    }
}

/// A slab with these bytes in it.
fn filled(mut slab: Slab, bytes: &[u8]) -> Filled {
    slab.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    Filled::new(slab, 0..bytes.len())
}

impl Again for Shared {
    fn again(&self, ticket: Ticket, pieces: SmallVec<[Span; 4]>, slab: Slab) -> Result<(), Slab> {
        let mut queue = self.lock();
        // The threads take what waits when they end, and nothing after that.
        if self.stop.load(Ordering::Relaxed) {
            return Err(slab);
        }
        let class = Class::Demand;
        queue.waiting[class as usize].push_back(Waiting { ticket, class, pieces, slab });
        self.wake.notify_one();
        Ok(())
    }
}

impl Reader for Bringing {
    fn read(&self, ticket: Ticket, class: Class, pieces: &[Span], slab: Slab) {
        if let Some(hold) = self.shared.distant.hold_here(pieces) {
            return self.shared.read_held(ticket, class, pieces, slab, hold);
        }
        let pieces = SmallVec::from_slice(pieces);
        let read = Waiting { ticket, class, pieces, slab };
        self.shared.lock().waiting[class as usize].push_back(read);
        self.shared.wake.notify_one();
    }

    fn promote(&self, ticket: Ticket) {
        let mut queue = self.shared.lock();
        if let Some(read) = queue.take(ticket) {
            let read = Waiting { class: Class::Demand, ..read };
            queue.waiting[Class::Demand as usize].push_back(read);
            self.shared.wake.notify_one();
        } else if let Some(coming) = queue.coming.iter_mut().find(|(t, _)| *t == ticket) {
            coming.1 = Class::Demand;
        } else {
            self.shared.drives.promote(ticket);
        }
    }

    fn cancel(&self, ticket: Ticket) {
        let mut queue = self.shared.lock();
        if let Some(read) = queue.take(ticket) {
            queue.cancelled.push_back((read.ticket, read.slab));
            self.shared.wake.notify_one();
        } else if !queue.coming.iter().any(|(coming, _)| *coming == ticket) {
            self.shared.drives.cancel(ticket);
        }
    }

    fn report(&self) -> ReaderReport {
        let brought = self.shared.lock().brought;
        let (evicted, asked) = (self.shared.distant.evicted(), self.shared.distant.asked());
        ReaderReport { brought, evicted, asked, ..self.shared.drives.report() }
    }
}

#[cfg(test)]
mod tests;
