//! Who generates and who waits.
//!
//! Promises: one slot, taken in order of arrival; never more than the bound waits; whoever stops
//! waiting leaves the queue at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// The queue in front of the model.
#[derive(Clone, Debug)]
pub(crate) struct Queue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most_waiting: usize,
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    busy: bool,
    next: u64,
    waiting: VecDeque<(u64, oneshot::Sender<Slot>)>,
    /// How long the last generation held the slot.
    last: Option<Duration>,
}

/// The queue is full; a good moment to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) retry_after_s: u64,
}

/// Seconds to wait when nothing was measured yet.
const RETRY_UNKNOWN_S: u64 = 30;
/// Clients take longer delays for nonsense.
const RETRY_MOST_S: u64 = 60;

impl Queue {
    pub(crate) fn new(most_waiting: usize) -> Queue {
        Queue(Arc::new(Shared { most_waiting, line: Mutex::default() }))
    }

    /// Joins the queue, or is turned away.
    pub(crate) fn join(&self) -> Result<Ticket, Full> {
        let mut line = self.0.lock();
        let (sender, turn) = oneshot::channel();
        let number = line.next;
        line.next += 1;
        if !line.busy {
            line.busy = true;
            let _ = sender.send(self.0.slot());
        } else {
            self.room_in(&line)?;
            line.waiting.push_back((number, sender));
        }
        Ok(Ticket { place: Place { shared: self.0.clone(), number }, turn })
    }

    /// Whether there is a place for one more; how long to wait for it otherwise.
    pub(crate) fn room(&self) -> Result<(), Full> {
        let line = self.0.lock();
        if line.busy { self.room_in(&line) } else { Ok(()) }
    }

    fn room_in(&self, line: &Line) -> Result<(), Full> {
        match line.waiting.len() < self.0.most_waiting {
            true => Ok(()),
            false => Err(Full { retry_after_s: line.retry_after_s() }),
        }
    }

    /// Whether somebody generates.
    pub(crate) fn is_busy(&self) -> bool {
        self.0.lock().busy
    }

    /// How many wait.
    pub(crate) fn depth(&self) -> usize {
        self.0.lock().waiting.len()
    }
}

impl Line {
    fn retry_after_s(&self) -> u64 {
        let rounds = self.waiting.len() as u32 + 1;
        let estimate = self.last.map(|last| (last * rounds).as_secs() + 1);
        estimate.unwrap_or(RETRY_UNKNOWN_S).clamp(1, RETRY_MOST_S)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(self: &Arc<Self>) -> Slot {
        Slot { shared: Some(self.clone()), taken: Instant::now(), used: false }
    }
}

/// A place in the queue, and the slot that comes with its turn.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) place: Place,
    pub(crate) turn: oneshot::Receiver<Slot>,
}

/// A place in the queue, until dropped.
#[derive(Debug)]
pub(crate) struct Place {
    shared: Arc<Shared>,
    number: u64,
}

impl Place {
    /// How many are served before this one, the running one included; 0 when it is its turn.
    pub(crate) fn ahead(&self) -> usize {
        let line = self.shared.lock();
        line.waiting.iter().position(|(number, _)| *number == self.number).map_or(0, |at| at + 1)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.lock().waiting.retain(|(number, _)| *number != self.number);
        // A slot that was handed over and never fetched is dropped with its receiver.
    }
}

/// The right to generate, until dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    shared: Option<Arc<Shared>>,
    taken: Instant,
    used: bool,
}

impl Slot {
    /// Something was generated, so the time it takes says something about the next one.
    pub(crate) fn progress(&mut self) {
        self.used = true;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else { return };
        loop {
            let mut line = shared.lock();
            if self.used {
                line.last = Some(self.taken.elapsed());
            }
            let Some((_, next)) = line.waiting.pop_front() else {
                line.busy = false;
                return;
            };
            drop(line);
            match next.send(shared.slot()) {
                Ok(()) => return,
                // It left in this moment; its slot must not pass itself on a second time.
                Err(mut unwanted) => drop(unwanted.shared.take()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(ticket: &mut Ticket) -> Option<Slot> {
        ticket.turn.try_recv().ok()
    }

    #[test]
    fn turns_come_in_order_and_the_bound_holds() {
        let queue = Queue::new(2);
        let mut first = queue.join().unwrap();
        let (mut second, mut third) = (queue.join().unwrap(), queue.join().unwrap());
        assert_eq!(queue.join().unwrap_err(), Full { retry_after_s: 30 });
        assert_eq!(queue.room(), Err(Full { retry_after_s: 30 }));
        assert_eq!((first.place.ahead(), second.place.ahead(), third.place.ahead()), (0, 1, 2));
        let slot = now(&mut first).unwrap();
        assert!(now(&mut second).is_none());
        drop(slot);
        let slot = now(&mut second).unwrap();
        assert_eq!((queue.depth(), third.place.ahead()), (1, 1));
        drop(slot);
        drop(now(&mut third).unwrap());
        assert!(!queue.is_busy() && queue.room().is_ok());
    }

    #[test]
    fn who_leaves_frees_its_place() {
        let queue = Queue::new(1);
        let mut first = queue.join().unwrap();
        let second = queue.join().unwrap();
        drop(second);
        assert_eq!(queue.depth(), 0);
        let third = queue.join().unwrap();
        drop(now(&mut first));
        // The third was handed the slot and never fetched it.
        drop(third);
        assert!(!queue.is_busy());
    }

    #[test]
    fn without_a_queue_a_second_one_is_turned_away() {
        let queue = Queue::new(0);
        let first = queue.join().unwrap();
        assert!(queue.join().is_err());
        drop(first);
        assert!(queue.join().is_ok());
    }
}
