//! The order in which chunks of reads start on one drive. No I/O and no threads here.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use deltafin_checkpoint::Span;
use smallvec::SmallVec;

use super::layout::{Cursor, Run, join};
use super::{Class, Filled, Landed, Landing, Ticket, Traffic};
use crate::StoreError;
use crate::arena::{Cut, Part, Slab};

/// A released expert is one piece; a few more need no allocation either.
type Pieces = SmallVec<[Span; 4]>;

/// The limits of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// What chunks begin and end at multiples of, in the file.
    pub(super) align: u64,
    /// The most bytes of a chunk.
    pub(super) chunk_bytes: u64,
    /// The most chunks in flight.
    pub(super) depth: usize,
    /// The most chunks in flight when one starts that nobody waits for.
    pub(super) idle_depth: usize,
}

/// As many reads find room from the start: how many come together is a matter of luck, and to grow for one
/// more in the middle of a token would be an allocation there.
const FEW_READS: usize = 64;

/// The reads of one drive that have not landed.
pub(super) struct Queue {
    limits: Limits,
    reads: Vec<Option<Read>>,
    vacant: Vec<usize>,
    /// Reads of which something has not started, by class.
    waiting: [VecDeque<usize>; 3],
    over: VecDeque<Over>,
    in_flight: usize,
    stopped: bool,
    tally: Tally,
}

/// Counters of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) landed: [Traffic; 3],
    pub(super) over_read_bytes: u64,
    pub(super) retries: u64,
    pub(super) busy: Duration,
    pub(super) most_reads: usize,
    busy_since: Option<Instant>,
}

struct Read {
    ticket: Ticket,
    class: Class,
    pieces: Pieces,
    cut: Cut,
    cursor: Cursor,
    begun: bool,
    dropped: bool,
    failure: Option<(Position, StoreError)>,
}

/// Of two failures of a read the one that is earlier in the record is told: the first chunk
/// that is not there knows best where a file ends.
type Position = (usize, u64);

/// A transfer that has started.
#[derive(Debug)]
pub(super) struct Chunk {
    read: usize,
    pub(super) run: Run,
    pub(super) part: Part,
}

#[cfg(target_os = "linux")]
impl Chunk {
    /// One that belongs to no read of a queue.
    pub(super) fn alone(run: Run, part: Part) -> Chunk {
        Chunk { read: usize::MAX, run, part }
    }
}

/// A read that is over, to be told outside the lock.
pub(super) struct Over {
    ticket: Ticket,
    pieces: Pieces,
    slab: Slab,
    outcome: Outcome,
}

enum Outcome {
    Whole { align: u64 },
    Cancelled,
    Failed(StoreError),
}

impl Over {
    /// Moves several pieces together, and tells.
    pub(super) fn tell(self, landing: &dyn Landing) {
        let Over { ticket, pieces, mut slab, outcome } = self;
        let landed = match outcome {
            Outcome::Whole { align } => {
                let record = join(slab.bytes_mut(), &pieces, align);
                Landed::Whole(Filled::new(slab, record))
            }
            Outcome::Cancelled => Landed::Cancelled(slab),
            Outcome::Failed(error) => Landed::Failed(slab, error),
        };
        landing.landed(ticket, landed);
    }
}

impl Queue {
    pub(super) fn new(limits: Limits) -> Queue {
        Queue {
            limits,
            reads: Vec::with_capacity(FEW_READS),
            vacant: Vec::with_capacity(FEW_READS),
            waiting: [(); 3].map(|()| VecDeque::with_capacity(FEW_READS)),
            over: VecDeque::with_capacity(FEW_READS),
            in_flight: 0,
            stopped: false,
            tally: Tally::default(),
        }
    }

    /// A read that waits from here on.
    pub(super) fn push(&mut self, ticket: Ticket, class: Class, pieces: &[Span], slab: Slab) {
        let read = Read {
            ticket,
            class,
            pieces: Pieces::from_slice(pieces),
            cut: Cut::new(slab),
            cursor: Cursor::default(),
            begun: false,
            dropped: self.stopped,
            failure: None,
        };
        let nothing_to_do = self.stopped || read.cursor.is_over(pieces, self.limits.align);
        let at = self.vacant.pop().unwrap_or(self.reads.len());
        match self.reads.get_mut(at) {
            Some(place) => *place = Some(read),
            None => self.reads.push(Some(read)),
        }
        let reads = self.reads.len() - self.vacant.len();
        self.tally.most_reads = self.tally.most_reads.max(reads);
        if nothing_to_do {
            self.finish(at);
        } else {
            self.waiting[class as usize].push_back(at);
        }
    }

    /// A read that fails before it has a place in the queue.
    pub(super) fn push_failed(&mut self, ticket: Ticket, slab: Slab, error: StoreError) {
        let outcome = Outcome::Failed(error);
        self.over.push_back(Over { ticket, pieces: Pieces::new(), slab, outcome });
    }

    pub(super) fn promote(&mut self, ticket: Ticket) {
        if let Some((class, place)) = self.find(ticket, &[Class::Ahead, Class::Guess])
            && let Some(at) = self.waiting[class as usize].remove(place)
        {
            self.read(at).class = Class::Demand;
            self.waiting[Class::Demand as usize].push_back(at);
        }
    }

    pub(super) fn cancel(&mut self, ticket: Ticket) {
        if let Some((class, place)) = self.find(ticket, &Class::ALL)
            && let Some(&at) = self.waiting[class as usize].get(place)
            && !self.read(at).begun
        {
            self.waiting[class as usize].remove(place);
            self.read(at).dropped = true;
            self.finish(at);
        }
    }

    /// The next chunk to start, if one may start.
    pub(super) fn next(&mut self) -> Option<Chunk> {
        let class =
            Class::ALL.into_iter().find(|class| !self.waiting[*class as usize].is_empty())?;
        let depth = match class {
            Class::Demand => self.limits.depth,
            Class::Ahead | Class::Guess => self.limits.idle_depth,
        };
        if self.in_flight >= depth {
            return None;
        }
        let at = *self.waiting[class as usize].front()?;
        let Limits { align, chunk_bytes, .. } = self.limits;
        let read = self.read(at);
        let run = read.cursor.next(&read.pieces, align, chunk_bytes)?;
        let part = read.cut.lend(run.len);
        read.begun = true;
        if read.cursor.is_over(&read.pieces, align) {
            self.waiting[class as usize].pop_front();
        }
        self.started();
        Some(Chunk { read: at, run, part })
    }

    /// A chunk that is over: the bytes that came, at least [`Run::enough`], or why not.
    pub(super) fn done(&mut self, chunk: Chunk, outcome: Result<usize, StoreError>) {
        self.ended();
        let Chunk { read: at, run, part } = chunk;
        self.read(at).cut.back(part);
        match outcome {
            Ok(got) => self.tally.over_read_bytes += (got - (run.enough - run.lead)) as u64,
            Err(error) => self.fail(at, (run.number, run.at), error),
        }
        let align = self.limits.align;
        let read = self.read(at);
        let rest = !read.cursor.is_over(&read.pieces, align);
        let no_more = !rest || read.dropped || read.failure.is_some();
        if read.cut.out() == 0 && no_more {
            self.finish(at);
        }
    }

    /// What is left of a read that failed is not read.
    fn fail(&mut self, at: usize, position: Position, error: StoreError) {
        let read = self.read(at);
        if read.failure.as_ref().is_none_or(|(first, _)| position < *first) {
            read.failure = Some((position, error));
        }
        let class = read.class as usize;
        self.waiting[class].retain(|waiting| *waiting != at);
    }

    /// Nothing starts any more. What waits is cancelled, and so is what is half read, as soon as
    /// nothing of it is in flight.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
        for class in Class::ALL {
            while let Some(at) = self.waiting[class as usize].pop_front() {
                self.read(at).dropped = true;
                if self.read(at).cut.out() == 0 {
                    self.finish(at);
                }
            }
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// The next read to be told of.
    pub(super) fn take_over(&mut self) -> Option<Over> {
        self.over.pop_front()
    }

    /// A transfer was tried again.
    pub(super) fn count_retry(&mut self) {
        self.tally.retries += 1;
    }

    /// The counters, up to this moment.
    pub(super) fn tally(&self) -> Tally {
        let mut tally = self.tally;
        tally.busy += tally.busy_since.map_or(Duration::ZERO, |since| since.elapsed());
        tally
    }

    fn started(&mut self) {
        if self.in_flight == 0 {
            self.tally.busy_since = Some(Instant::now());
        }
        self.in_flight += 1;
    }

    fn ended(&mut self) {
        self.in_flight -= 1;
        if self.in_flight == 0 {
            let since = self.tally.busy_since.take();
            self.tally.busy += since.map_or(Duration::ZERO, |since| since.elapsed());
        }
    }

    /// Takes a read with nothing in flight out of the table.
    fn finish(&mut self, at: usize) {
        let read = self.reads[at].take().expect("a read that is not over is in the table");
        self.vacant.push(at);
        let outcome = match read.failure {
            Some((_, error)) => Outcome::Failed(error),
            None if read.dropped => Outcome::Cancelled,
            None => {
                let traffic = &mut self.tally.landed[read.class as usize];
                traffic.reads += 1;
                traffic.bytes += read.pieces.iter().map(|piece| piece.len()).sum::<u64>();
                Outcome::Whole { align: self.limits.align }
            }
        };
        let (ticket, pieces, slab) = (read.ticket, read.pieces, read.cut.whole());
        self.over.push_back(Over { ticket, pieces, slab, outcome });
    }

    fn read(&mut self, at: usize) -> &mut Read {
        self.reads[at].as_mut().expect("a read that is not over is in the table")
    }

    /// Where among those that wait in these classes a ticket is.
    fn find(&self, ticket: Ticket, classes: &[Class]) -> Option<(Class, usize)> {
        let is_it = |at: &usize| self.reads[*at].as_ref().is_some_and(|r| r.ticket == ticket);
        classes
            .iter()
            .find_map(|class| Some((*class, self.waiting[*class as usize].iter().position(is_it)?)))
    }
}

#[cfg(test)]
mod tests;
