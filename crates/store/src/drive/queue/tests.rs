//! Which chunk starts next, without a drive.

use std::sync::{Arc, Mutex};

use deltafin_checkpoint::ShardId;

use super::*;
use crate::arena::Arena;

const PAGE: u64 = 4096;

/// Reads of a number of pages each; a chunk is a page.
struct Bench {
    arena: Arc<Arena>,
    queue: Queue,
}

impl Bench {
    fn new(depth: usize, idle_depth: usize) -> Bench {
        let limits = Limits { align: PAGE, chunk_bytes: PAGE, depth, idle_depth };
        Bench { arena: Arena::new(1 << 21).unwrap(), queue: Queue::new(limits) }
    }

    /// The shard's number is the ticket's.
    fn push(&mut self, ticket: u64, class: Class, pages: u64) {
        let piece = Span::new(ShardId::new(ticket as u32), 0, pages * PAGE).unwrap();
        let slab = self.arena.take((pages * PAGE) as usize).unwrap();
        self.queue.push(Ticket(ticket), class, &[piece], slab);
    }

    /// Starts a chunk; gives its read's ticket and which page it is.
    fn start(&mut self) -> Option<(Chunk, u64, u64)> {
        let chunk = self.queue.next()?;
        let (ticket, page) = (chunk.run.piece.shard().index() as u64, chunk.run.at / PAGE);
        Some((chunk, ticket, page))
    }

    fn end(&mut self, chunk: Chunk) {
        let enough = chunk.run.enough;
        self.queue.done(chunk, Ok(enough));
    }

    /// Runs chunks one at a time; gives what they were.
    fn run(&mut self, count: usize) -> Vec<(u64, u64)> {
        let one = |_| {
            let (chunk, ticket, page) = self.start().unwrap();
            self.end(chunk);
            (ticket, page)
        };
        (0..count).map(one).collect()
    }

    /// What landed since the last look: ticket and how.
    fn landed(&mut self) -> Vec<(u64, &'static str)> {
        let shore = Shore::default();
        while let Some(over) = self.queue.take_over() {
            over.tell(&shore);
        }
        shore.0.into_inner().unwrap()
    }
}

#[derive(Default)]
struct Shore(Mutex<Vec<(u64, &'static str)>>);

impl Landing for Shore {
    fn landed(&self, ticket: Ticket, landed: Landed) {
        let how = match landed {
            Landed::Whole(_) => "whole",
            Landed::Cancelled(_) => "cancelled",
            Landed::Failed(..) => "failed",
        };
        self.0.lock().unwrap().push((ticket.0, how));
    }
}

use Class::{Ahead, Demand, Guess};

#[test]
fn within_a_class_the_first_record_is_read_first() {
    let mut bench = Bench::new(8, 8);
    bench.push(1, Demand, 2);
    bench.push(2, Demand, 2);
    assert_eq!(bench.run(4), [(1, 0), (1, 1), (2, 0), (2, 1)]);
    assert_eq!(bench.landed(), [(1, "whole"), (2, "whole")]);
}

#[test]
fn the_urgent_go_first_and_a_half_read_guess_waits() {
    let mut bench = Bench::new(8, 8);
    bench.push(1, Guess, 2);
    assert_eq!(bench.run(1), [(1, 0)]);
    bench.push(2, Ahead, 2);
    assert_eq!(bench.run(1), [(2, 0)]);
    bench.push(3, Demand, 1);
    assert_eq!(bench.run(3), [(3, 0), (2, 1), (1, 1)]);
    assert_eq!(bench.landed(), [(3, "whole"), (2, "whole"), (1, "whole")]);
}

#[test]
fn no_more_chunks_are_in_flight_than_the_depth_of_their_class() {
    let mut bench = Bench::new(3, 1);
    bench.push(1, Ahead, 9);
    let (ahead, ..) = bench.start().unwrap();
    assert!(bench.start().is_none());
    bench.push(2, Demand, 9);
    let (_one, ticket, _) = bench.start().unwrap();
    assert_eq!(ticket, 2);
    let (_two, ..) = bench.start().unwrap();
    assert!(bench.start().is_none());
    bench.end(ahead);
    assert_eq!(bench.start().unwrap().1, 2);
    assert!(bench.start().is_none());
}

#[test]
fn what_is_promoted_is_read_behind_the_demands_there_are() {
    let mut bench = Bench::new(8, 8);
    bench.push(1, Guess, 2);
    bench.push(2, Guess, 1);
    assert_eq!(bench.run(1), [(1, 0)]);
    bench.push(3, Demand, 1);
    bench.push(4, Ahead, 1);
    bench.queue.promote(Ticket(2));
    bench.queue.promote(Ticket(1));
    bench.queue.promote(Ticket(77));
    assert_eq!(bench.run(4), [(3, 0), (2, 0), (1, 1), (4, 0)]);
    let landed = bench.queue.tally().landed;
    assert_eq!(landed[Demand as usize], Traffic { reads: 3, bytes: 4 * PAGE });
    assert_eq!(landed[Ahead as usize], Traffic { reads: 1, bytes: PAGE });
    assert_eq!(landed[Guess as usize], Traffic::default());
}

#[test]
fn only_what_has_not_begun_is_cancelled() {
    let mut bench = Bench::new(8, 8);
    bench.push(1, Demand, 2);
    bench.push(2, Demand, 2);
    let (chunk, ..) = bench.start().unwrap();
    bench.queue.cancel(Ticket(1));
    bench.queue.cancel(Ticket(2));
    bench.queue.cancel(Ticket(2));
    bench.queue.cancel(Ticket(77));
    assert_eq!(bench.landed(), [(2, "cancelled")]);
    bench.end(chunk);
    assert_eq!(bench.run(1), [(1, 1)]);
    assert_eq!(bench.landed(), [(1, "whole")]);
    assert_eq!(bench.arena.free_bytes(), bench.arena.len());
}

fn error(got: u64) -> StoreError {
    StoreError::EndOfFile { file: String::new(), offset: 0, wanted: 1, got }
}

#[test]
fn what_is_left_of_a_failed_read_is_not_read() {
    let mut bench = Bench::new(2, 2);
    bench.push(1, Demand, 9);
    bench.push(2, Demand, 1);
    let ((first, ..), (second, ..)) = (bench.start().unwrap(), bench.start().unwrap());
    bench.queue.done(second, Err(error(2)));
    assert_eq!(bench.landed(), [], "a chunk is still in flight");
    bench.queue.cancel(Ticket(1));
    bench.queue.promote(Ticket(1));
    bench.queue.done(first, Err(error(1)));
    let over = bench.queue.take_over().unwrap();
    let Outcome::Failed(told) = over.outcome else { panic!() };
    assert_eq!(told, error(1), "the earlier place in the record is told");
    drop(over.slab);
    assert_eq!(bench.run(1), [(2, 0)]);
    assert_eq!(bench.landed(), [(2, "whole")]);
    assert_eq!(bench.arena.free_bytes(), bench.arena.len());
}

#[test]
fn when_it_stops_everything_lands_once() {
    let mut bench = Bench::new(2, 2);
    bench.push(1, Ahead, 1);
    bench.push(2, Ahead, 3);
    bench.push(3, Guess, 3);
    let ((one, ..), (half, ..)) = (bench.start().unwrap(), bench.start().unwrap());
    bench.queue.stop();
    assert!(bench.start().is_none());
    assert_eq!(bench.landed(), [(3, "cancelled")]);
    bench.end(half);
    bench.end(one);
    bench.push(4, Demand, 1);
    assert_eq!(bench.landed(), [(2, "cancelled"), (1, "whole"), (4, "cancelled")]);
    assert_eq!(bench.arena.free_bytes(), bench.arena.len());
}

#[test]
fn bytes_that_came_along_are_counted() {
    let mut bench = Bench::new(2, 2);
    let piece = Span::new(ShardId::new(0), 4000, 200).unwrap();
    let slab = bench.arena.take(8192).unwrap();
    bench.queue.push(Ticket(0), Demand, &[piece], slab);
    for got in [4096, 2000] {
        let chunk = bench.queue.next().unwrap();
        bench.queue.done(chunk, Ok(got));
    }
    let tally = bench.queue.tally();
    assert_eq!(tally.over_read_bytes, 4096 + 2000 - 200);
    assert_eq!(tally.landed[0], Traffic { reads: 1, bytes: 200 });
    assert_eq!(tally.most_reads, 1);
}
