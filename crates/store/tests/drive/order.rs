//! Order and endings, with a store that reads when it is told to.

use std::sync::{Arc, Condvar, Mutex, Weak};

use deltafin_checkpoint::{Shard, Span};
use deltafin_store::arena::{Arena, Slab};
use deltafin_store::drive::{
    Class, IoMode, Landed, Landing, Reader, Ticket, Tuning, open_reader_tuned, room_for,
};
use deltafin_store::{Store, StoreError};

use crate::support::*;

/// A store with a gate: reads wait in front of it while it is shut.
struct Gated {
    inner: Arc<dyn Store>,
    open: Mutex<bool>,
    moved: Condvar,
}

impl Gated {
    fn new() -> Arc<Gated> {
        let (inner, open) = (in_memory(&shards()), Mutex::new(false));
        Arc::new(Gated { inner, open, moved: Condvar::new() })
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.moved.notify_all();
    }
}

impl Store for Gated {
    fn shards(&self) -> &[Shard] {
        self.inner.shards()
    }

    fn read_exact(&self, span: Span, buf: &mut [u8]) -> Result<(), StoreError> {
        let open = self.open.lock().unwrap();
        drop(self.moved.wait_while(open, |open| !*open).unwrap());
        self.inner.read_exact(span, buf)
    }
}

/// One thread, so that reads land in the order in which they are read.
const ONE: Tuning = Tuning { chunk_bytes: 4096, depth: 1, idle_depth: 1, threads: 1 };

fn shut() -> (Arc<Gated>, Harbour) {
    let gated = Gated::new();
    let store = Arc::clone(&gated) as Arc<dyn Store>;
    let harbour = Harbour::new(&store, IoMode::Buffered, ONE);
    (gated, harbour)
}

fn tickets(landed: &[(Ticket, Landed)]) -> Vec<u64> {
    landed.iter().map(|(ticket, _)| ticket.0).collect()
}

#[test]
fn the_urgent_overtake_what_waits_and_what_is_half_read() {
    let (gated, harbour) = shut();
    let (long, short) = ([span(0, 0, 50_000)], [span(0, 9, 4000)]);
    harbour.ask(1, Class::Guess, &long);
    harbour.ask(2, Class::Ahead, &long);
    harbour.ask(3, Class::Demand, &short);
    harbour.ask(4, Class::Guess, &short);
    harbour.ask(5, Class::Demand, &short);
    harbour.reader.promote(Ticket(4));
    harbour.reader.promote(Ticket(1234));
    gated.open();
    let landed = harbour.shore.wait(5);
    assert_eq!(tickets(&landed), [3, 5, 4, 2, 1]);
    for (ticket, landed) in landed {
        let pieces = if ticket.0 < 3 { long } else { short };
        assert_eq!(whole(landed), wanted(&*gated.inner, &pieces));
    }
}

#[test]
fn what_has_not_begun_can_be_cancelled_and_gives_its_slab_back() {
    let (gated, harbour) = shut();
    let piece = [span(0, 0, 50_000)];
    (0..4).for_each(|number| harbour.ask(number, Class::Demand, &piece));
    harbour.reader.cancel(Ticket(1));
    harbour.reader.cancel(Ticket(3));
    harbour.reader.cancel(Ticket(99));
    gated.open();
    let mut landed = harbour.shore.by_ticket(4);
    for (number, whole_wanted) in [(0, true), (1, false), (2, true), (3, false)] {
        match landed.remove(&Ticket(number)).unwrap() {
            Landed::Whole(filled) => {
                assert!(whole_wanted);
                assert_eq!(*filled, wanted(&*gated.inner, &piece));
            }
            Landed::Cancelled(slab) => {
                assert!(!whole_wanted && slab.len() >= 50_000);
            }
            Landed::Failed(_, error) => panic!("{error}"),
        }
    }
    assert_eq!(harbour.arena.free_bytes(), harbour.arena.len());
}

/// Asked for again and again from where reads land, into the slab that just came back.
struct Chain {
    reader: Mutex<Weak<dyn Reader>>,
    store: Arc<dyn Store>,
    done: Mutex<Vec<Ticket>>,
    news: Condvar,
}

fn link(number: u64) -> [Span; 1] {
    [span(0, number * 13, 5000 + number)]
}

impl Landing for Chain {
    fn landed(&self, ticket: Ticket, landed: Landed) {
        let Landed::Whole(filled) = landed else { panic!() };
        assert_eq!(*filled, wanted(&*self.store, &link(ticket.0)));
        let next = Ticket(ticket.0 + 1);
        if let Some(reader) = self.reader.lock().unwrap().upgrade()
            && next.0 < 100
        {
            reader.read(next, Class::Demand, &link(next.0), filled.into_slab());
        }
        self.done.lock().unwrap().push(ticket);
        self.news.notify_all();
    }
}

#[test]
fn the_next_read_may_be_asked_for_from_where_the_last_one_lands() {
    let dir = folder();
    let store = on_disk(dir.path(), &shards());
    for mode in MODES {
        let nothing: Weak<Nobody> = Weak::new();
        let chain = Arc::new(Chain {
            reader: Mutex::new(nothing),
            store: Arc::clone(&store),
            done: Mutex::default(),
            news: Condvar::new(),
        });
        let landing = Arc::clone(&chain) as Arc<dyn Landing>;
        let reader = open_reader_tuned(Arc::clone(&store), mode, &[], landing, SMALL).unwrap();
        let reader: Arc<dyn Reader> = Arc::from(reader);
        *chain.reader.lock().unwrap() = Arc::downgrade(&reader);
        let arena = Arena::new(1).unwrap();
        reader.read(Ticket(0), Class::Demand, &link(0), arena.take(room_for(&link(99))).unwrap());
        let done = chain.done.lock().unwrap();
        let done = chain.news.wait_while(done, |done| done.len() < 100).unwrap();
        assert_eq!(done.len(), 100);
    }
}

/// Stands for a reader that is not there yet.
struct Nobody;

impl Reader for Nobody {
    fn read(&self, _: Ticket, _: Class, _: &[Span], _: Slab) {}
    fn promote(&self, _: Ticket) {}
    fn cancel(&self, _: Ticket) {}
    fn report(&self) -> deltafin_store::drive::ReaderReport {
        deltafin_store::drive::ReaderReport::default()
    }
}

/// With the gate shut the first read is in flight, and dropping waits for it.
#[test]
fn dropping_waits_for_what_is_in_flight_and_cancels_the_rest() {
    let (gated, harbour) = shut();
    let piece = [span(0, 0, 4000)];
    harbour.ask(0, Class::Demand, &piece);
    while harbour.reader.report().drives[0].busy.is_zero() {
        std::thread::yield_now();
    }
    (1..5).for_each(|number| harbour.ask(number, Class::Ahead, &piece));
    let Harbour { arena, shore, reader } = harbour;
    let dropped = std::thread::spawn(move || drop(reader));
    gated.open();
    dropped.join().unwrap();
    let mut landed = shore.by_ticket(5);
    let first = landed.remove(&Ticket(0)).unwrap();
    assert_eq!(whole(first), wanted(&*gated.inner, &piece));
    drop(landed);
    assert_eq!(arena.free_bytes(), arena.len());
}

/// An arena for two records: a third waits for a slab, not for the reader.
#[test]
fn memory_for_few_records_serves_many() {
    let dir = folder();
    let store = on_disk(dir.path(), &shards());
    for mode in MODES {
        let harbour = Harbour::new(&store, mode, SMALL);
        let piece = [span(0, 1, 300_000)];
        let room = room_for(&piece);
        let rest = harbour.arena.take(harbour.arena.len() - 2 * room).unwrap();
        (0..2).for_each(|number| harbour.ask(number, Class::Demand, &piece));
        assert!(harbour.arena.take(1).is_none());
        for number in 2..20 {
            let (_, landed) = harbour.shore.wait(1).remove(0);
            assert_eq!(whole(landed), wanted(&*store, &piece));
            harbour.ask(number, Class::Demand, &piece);
        }
        harbour.shore.wait(2);
        drop(rest);
        assert_eq!(harbour.arena.free_bytes(), harbour.arena.len());
    }
}
