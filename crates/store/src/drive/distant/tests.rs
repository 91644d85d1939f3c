//! Which read is brought next, what becomes of those that are called back, and the end, without a network.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use deltafin_checkpoint::ShardId;

use super::*;
use crate::arena::Arena;
use crate::drive::Filled;
use crate::{Asked, Hold};
use Class::{Ahead, Demand, Guess};

const BYTES: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(10);

/// A source that is told when to give what. A read's shard has the number of its ticket.
#[derive(Default)]
struct Source {
    lanes: usize,
    here: HashSet<u64>,
    failing: HashSet<u64>,
    /// What is brought and not kept.
    passing: HashSet<u64>,
    /// Whose bytes make room for others while they are read, each once.
    withdrawn: Mutex<HashSet<u64>>,
    given: Mutex<HashSet<u64>>,
    giving: Condvar,
    begun: Mutex<Vec<u64>>,
    beginning: Condvar,
}

fn number(pieces: &[Span]) -> u64 {
    pieces[0].shard().index() as u64
}

impl Source {
    fn new(lanes: usize) -> Source {
        Source { lanes, ..Source::default() }
    }

    fn give(&self, ticket: u64) {
        self.given.lock().unwrap().insert(ticket);
        self.giving.notify_all();
    }

    /// What it was asked for, in order, once that is so much.
    #[track_caller]
    fn begun(&self, count: usize) -> Vec<u64> {
        let begun = self.begun.lock().unwrap();
        let waits = |begun: &mut Vec<u64>| begun.len() < count;
        let (begun, late) = self.beginning.wait_timeout_while(begun, PATIENCE, waits).unwrap();
        assert!(!late.timed_out(), "{begun:?}");
        begun.clone()
    }
}

impl Distant for Source {
    fn is_here(&self, pieces: &[Span]) -> bool {
        self.here.contains(&number(pieces))
    }

    fn hold_here(&self, pieces: &[Span]) -> Option<Hold> {
        self.is_here(pieces).then(Hold::for_good)
    }

    fn was_kept(&self, pieces: &[Span], _: &Hold) -> bool {
        !self.withdrawn.lock().unwrap().remove(&number(pieces))
    }

    fn hold(&self, pieces: &[Span], stop: &AtomicBool) -> Result<Hold, StoreError> {
        let ticket = number(pieces);
        self.begun.lock().unwrap().push(ticket);
        self.beginning.notify_all();
        let look = Duration::from_millis(1);
        let mut given = self.given.lock().unwrap();
        while !given.contains(&ticket) && !stop.load(Ordering::Relaxed) {
            given = self.giving.wait_timeout(given, look).unwrap().0;
        }
        match self.failing.contains(&ticket) || !given.contains(&ticket) {
            true => Err(StoreError::NoShard { number: ticket as usize, shards: 0 }),
            false if self.passing.contains(&ticket) => Ok(Hold::passing(vec![ticket as u8; BYTES])),
            false => Ok(Hold::new(0, Box::new(()))),
        }
    }

    fn lanes(&self) -> usize {
        self.lanes
    }

    fn asked(&self) -> Asked {
        Asked { requests: 7, waits: 3 }
    }
}

/// Drives that have what they are asked for at once, in order and on a thread of their own as drives do, and say
/// what they were told.
struct Drives {
    reads: Mutex<Sender<(Ticket, Slab)>>,
    told: Mutex<Sender<(&'static str, u64, Option<Class>)>>,
}

impl Drives {
    fn new(landing: Arc<dyn Landing>, told: Sender<(&'static str, u64, Option<Class>)>) -> Drives {
        let (reads, asked) = channel::<(Ticket, Slab)>();
        thread::spawn(move || {
            for (ticket, slab) in asked {
                landing.landed(ticket, Landed::Whole(Filled::new(slab, 0..BYTES)));
            }
        });
        Drives { reads: Mutex::new(reads), told: Mutex::new(told) }
    }

    fn tell(&self, what: &'static str, ticket: Ticket, class: Option<Class>) {
        self.told.lock().unwrap().send((what, ticket.0, class)).unwrap();
    }
}

impl Reader for Drives {
    fn read(&self, ticket: Ticket, class: Class, _: &[Span], slab: Slab) {
        self.tell("read", ticket, Some(class));
        self.reads.lock().unwrap().send((ticket, slab)).unwrap();
    }

    fn promote(&self, ticket: Ticket) {
        self.tell("promote", ticket, None);
    }

    fn cancel(&self, ticket: Ticket) {
        self.tell("cancel", ticket, None);
    }

    fn report(&self) -> ReaderReport {
        ReaderReport::default()
    }
}

struct Shore(Mutex<Sender<(u64, &'static str)>>);

impl Landing for Shore {
    fn landed(&self, ticket: Ticket, landed: Landed) {
        let how = match landed {
            Landed::Whole(_) => "whole",
            Landed::Cancelled(_) => "cancelled",
            Landed::Failed(..) => "failed",
        };
        self.0.lock().unwrap().send((ticket.0, how)).unwrap();
    }
}

struct Bench {
    source: Arc<Source>,
    reader: Option<Bringing>,
    arena: Arc<Arena>,
    landed: Receiver<(u64, &'static str)>,
    told: Receiver<(&'static str, u64, Option<Class>)>,
}

impl Bench {
    fn new(source: Source) -> Bench {
        let source = Arc::new(source);
        let ((shore, landed), (tell, told)) = (channel(), channel());
        let landing: Arc<dyn Landing> = Arc::new(Shore(Mutex::new(shore)));
        let kept = Arc::new(Kept::new(source.clone(), landing.clone()));
        let drives = Drives::new(kept.clone(), tell);
        let reader = Bringing::start(source.clone(), Box::new(drives), kept, landing).unwrap();
        let arena = Arena::new(1 << 21).unwrap();
        Bench { source, reader: Some(reader), arena, landed, told }
    }

    fn reader(&self) -> &Bringing {
        self.reader.as_ref().unwrap()
    }

    fn read(&self, ticket: u64, class: Class) {
        let piece = Span::new(ShardId::new(ticket as u32), 0, BYTES as u64).unwrap();
        let slab = self.arena.take(BYTES).unwrap();
        self.reader().read(Ticket(ticket), class, &[piece], slab);
    }

    /// The next read that landed, and how.
    #[track_caller]
    fn landed(&self) -> (u64, &'static str) {
        self.landed.recv_timeout(PATIENCE).unwrap()
    }

    /// What the drives were told next.
    #[track_caller]
    fn told(&self) -> (&'static str, u64, Option<Class>) {
        self.told.recv_timeout(PATIENCE).unwrap()
    }
}

#[test]
fn demands_come_before_what_is_read_ahead_and_that_before_guesses() {
    let bench = Bench::new(Source::new(1));
    bench.read(1, Demand);
    assert_eq!(bench.source.begun(1), [1]);
    for (ticket, class) in [(2, Guess), (3, Ahead), (4, Demand), (5, Guess), (6, Demand)] {
        bench.read(ticket, class);
    }
    (1..=6).for_each(|ticket| bench.source.give(ticket));
    assert_eq!(bench.source.begun(6), [1, 4, 6, 3, 2, 5]);
    let landed: Vec<u64> = (0..6).map(|_| bench.landed().0).collect();
    assert_eq!(landed, [1, 4, 6, 3, 2, 5]);
    let report = bench.reader().report();
    assert_eq!(report.brought, Traffic { reads: 6, bytes: 6 * BYTES as u64 });
    assert_eq!(report.asked, Asked { requests: 7, waits: 3 });
}

#[test]
fn guesses_leave_a_thread_to_demands() {
    for (lanes, idle) in [(2, 1), (3, 2), (4, 2)] {
        let bench = Bench::new(Source::new(lanes));
        (1..=4).for_each(|ticket| bench.read(ticket, if ticket % 2 == 0 { Guess } else { Ahead }));
        let begun: HashSet<u64> = bench.source.begun(idle).into_iter().collect();
        bench.read(9, Demand);
        let all = bench.source.begun(idle + 1);
        assert_eq!((all.len(), all.last()), (idle + 1, Some(&9)), "{lanes}: {all:?}");
        bench.source.give(9);
        assert_eq!(bench.landed(), (9, "whole"));
        // Its thread takes no guess while half of them do.
        assert_eq!(bench.source.begun(idle + 1).len(), idle + 1);
        // One that ends lets the next begin.
        let first = *begun.iter().next().unwrap();
        bench.source.give(first);
        assert_eq!(bench.landed(), (first, "whole"));
        assert_eq!(bench.source.begun(idle + 2).len(), idle + 2);
    }
}

#[test]
fn what_is_promoted_counts_as_a_demand_wherever_it_is() {
    let bench = Bench::new(Source::new(1));
    bench.read(1, Guess);
    bench.source.begun(1);
    bench.read(2, Ahead);
    bench.read(3, Guess);
    // On its way, waiting, and neither: then it is the drives'.
    [1, 3, 8].into_iter().for_each(|ticket| bench.reader().promote(Ticket(ticket)));
    assert_eq!(bench.told(), ("promote", 8, None));
    (1..=3).for_each(|ticket| bench.source.give(ticket));
    assert_eq!(bench.source.begun(3), [1, 3, 2]);
    for read in [(1, Demand), (3, Demand), (2, Ahead)] {
        assert_eq!(bench.told(), ("read", read.0, Some(read.1)));
    }
}

#[test]
fn what_is_called_back_lands_once() {
    let bench = Bench::new(Source::new(1));
    bench.read(1, Demand);
    bench.source.begun(1);
    bench.read(2, Demand);
    // One that waits lands at once with a free thread; one on its way comes all the same.
    [2, 1, 8].into_iter().for_each(|ticket| bench.reader().cancel(Ticket(ticket)));
    assert_eq!(bench.told(), ("cancel", 8, None));
    bench.source.give(1);
    let mut landed = [bench.landed(), bench.landed()];
    landed.sort_unstable();
    assert_eq!(landed, [(1, "whole"), (2, "cancelled")]);
    assert_eq!(bench.source.begun(1), [1]);
}

#[test]
fn what_cannot_be_had_fails_alone() {
    let failing = HashSet::from([2]);
    let bench = Bench::new(Source { failing, ..Source::new(1) });
    (1..=3).for_each(|ticket| bench.read(ticket, Demand));
    (1..=3).for_each(|ticket| bench.source.give(ticket));
    let mut landed = [bench.landed(), bench.landed(), bench.landed()];
    landed.sort_unstable();
    assert_eq!(landed, [(1, "whole"), (2, "failed"), (3, "whole")]);
    assert_eq!(bench.reader().report().brought.reads, 2);
}

#[test]
fn what_was_withdrawn_while_it_was_read_is_brought_again() {
    let withdrawn = Mutex::new(HashSet::from([1]));
    let bench = Bench::new(Source { withdrawn, ..Source::new(1) });
    bench.source.give(1);
    bench.read(1, Guess);
    assert_eq!(bench.source.begun(2), [1, 1]);
    assert_eq!(bench.landed(), (1, "whole"));
    assert_eq!(bench.told(), ("read", 1, Some(Guess)));
    assert_eq!(bench.told(), ("read", 1, Some(Demand)));
}

/// It lands with the bytes that were brought, and the drives hear nothing of it.
#[test]
fn what_is_not_kept_never_sees_the_drives() {
    let bench = Bench::new(Source { passing: HashSet::from([1]), ..Source::new(1) });
    bench.source.give(1);
    bench.read(1, Demand);
    assert_eq!(bench.landed(), (1, "whole"));
    bench.source.give(2);
    bench.read(2, Demand);
    assert_eq!((bench.told(), bench.landed()), (("read", 2, Some(Demand)), (2, "whole")));
    assert_eq!(bench.reader().report().brought.reads, 2);
    let filled = filled(bench.arena.take(2 * BYTES).unwrap(), &[7; BYTES]);
    assert_eq!(*filled, [7; BYTES]);
}

#[test]
fn what_is_here_goes_to_the_drives_at_once() {
    let bench = Bench::new(Source { here: HashSet::from([2]), ..Source::new(1) });
    bench.read(1, Demand);
    bench.source.begun(1);
    bench.read(2, Guess);
    assert_eq!((bench.told(), bench.landed()), (("read", 2, Some(Guess)), (2, "whole")));
}

#[test]
fn at_the_end_everything_lands() {
    let mut bench = Bench::new(Source::new(2));
    bench.read(1, Demand);
    bench.read(2, Demand);
    bench.source.begun(2);
    (3..=5).for_each(|ticket| bench.read(ticket, Guess));
    drop(bench.reader.take());
    let mut landed: Vec<_> = bench.landed.iter().collect();
    landed.sort_unstable();
    let cancelled: Vec<_> = (1..=5).map(|ticket| (ticket, "cancelled")).collect();
    assert_eq!(landed, cancelled);
}
