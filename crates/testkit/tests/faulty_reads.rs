//! A reader over a store that fails: right bytes or a typed error, each read lands once, and all
//! memory comes back.
#![allow(clippy::unwrap_used)]

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deltafin_checkpoint::{ShardId, Span};
use deltafin_store::arena::Arena;
use deltafin_store::drive::{
    Class, IoMode, Landed, Landing, Ticket, Tuning, open_reader_tuned, room_for,
};
use deltafin_store::{MemoryShards, Store, StoreError};
use deltafin_testkit::{Fault, FaultyStore, Hits};

struct Shore(Mutex<Sender<(Ticket, Landed)>>);

impl Landing for Shore {
    fn landed(&self, ticket: Ticket, landed: Landed) {
        self.0.lock().unwrap().send((ticket, landed)).unwrap();
    }
}

fn memory() -> Arc<dyn Store> {
    let bytes: Vec<u8> =
        (0..200_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    Arc::new(MemoryShards::new([("shard".to_owned(), bytes.into())]))
}

fn span(offset: u64, len: u64) -> Span {
    Span::new(ShardId::new(0), offset, len).unwrap()
}

fn record(number: u64) -> Span {
    span(number * 900, 10_000 + number)
}

fn bytes_of(store: &dyn Store, span: Span) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![0; span.len() as usize];
    store.read_exact(span, &mut bytes).map(|()| bytes)
}

const READS: u64 = 100;

/// Reads all records; gives how many failed.
fn run(fault: Fault, hits: Hits) -> (usize, u64) {
    let plain = memory();
    let faulty = Arc::new(FaultyStore::new(Arc::clone(&plain), fault, hits));
    let (sender, landed) = channel();
    let landing = Arc::new(Shore(Mutex::new(sender)));
    let tuning = Tuning { chunk_bytes: 4096, depth: 8, idle_depth: 8, threads: 8 };
    let store = Arc::clone(&faulty) as Arc<dyn Store>;
    let reader = open_reader_tuned(store, IoMode::Auto, &[], landing, tuning).unwrap();
    let arena = Arena::new(4 << 20).unwrap();
    for number in 0..READS {
        let slab = arena.take(room_for(&[record(number)])).unwrap();
        reader.read(Ticket(number), Class::ALL[number as usize % 3], &[record(number)], slab);
    }
    let mut failed = 0;
    let mut seen = vec![false; READS as usize];
    for _ in 0..READS {
        let (ticket, landed) = landed.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(!std::mem::replace(&mut seen[ticket.0 as usize], true), "landed twice");
        match landed {
            Landed::Whole(filled) => {
                assert_eq!(*filled, bytes_of(&*plain, record(ticket.0)).unwrap());
            }
            Landed::Failed(_, error) => {
                assert!(error.to_string().contains("shard"), "{error}");
                failed += 1;
            }
            Landed::Cancelled(_) => panic!("nobody cancels"),
        }
    }
    drop(reader);
    assert_eq!(arena.free_bytes(), arena.len());
    (failed, faulty.struck())
}

#[test]
fn every_honest_fault_ends_in_right_bytes_or_a_typed_error() {
    for fault in Fault::HONEST {
        for hits in [(1, 1), (2, 2), (3, 10)].map(|(seed, every)| Hits { seed, every }) {
            let (failed, struck) = run(fault, hits);
            assert!(struck > 0, "{fault:?} {hits:?} struck nothing");
            match fault {
                Fault::Late(_) => assert_eq!(failed, 0),
                _ => assert!(failed > 0, "{fault:?} {hits:?}"),
            }
        }
    }
}

#[test]
fn the_same_seed_strikes_the_same_reads_whatever_their_order() {
    let spans: Vec<Span> = (0..60).map(|number| span(number * 31, 100 + number)).collect();
    let struck = |seed: u64, order: &mut dyn Iterator<Item = &Span>| {
        let hits = Hits { seed, every: 3 };
        let store = FaultyStore::new(memory(), Fault::FailsForEver, hits);
        let mut failed: Vec<Span> =
            order.filter(|span| bytes_of(&store, **span).is_err()).copied().collect();
        failed.sort();
        failed
    };
    let first = struck(7, &mut spans.iter());
    assert!(!first.is_empty() && first.len() < spans.len());
    assert_eq!(first, struck(7, &mut spans.iter().rev()));
    assert_ne!(first, struck(8, &mut spans.iter()));
}

#[test]
fn each_fault_does_what_it_says() {
    let all = Hits { seed: 5, every: 1 };
    let store = |fault| FaultyStore::new(memory(), fault, all);
    let place = span(100, 1000);
    let right = bytes_of(&*memory(), place).unwrap();

    let once = store(Fault::FailsOnce);
    assert!(matches!(bytes_of(&once, place), Err(StoreError::Read { offset: 100, .. })));
    assert_eq!(bytes_of(&once, place).unwrap(), right);
    assert_eq!(once.struck(), 1);

    let for_ever = store(Fault::FailsForEver);
    assert!((0..3).all(|_| bytes_of(&for_ever, place).is_err()));

    let short = bytes_of(&store(Fault::Short), place).unwrap_err();
    assert!(matches!(short, StoreError::EndOfFile { wanted: 1000, got: 0..1000, .. }));
    let vanished = bytes_of(&store(Fault::Vanished), place).unwrap_err();
    assert!(matches!(vanished, StoreError::Reopen { offset: 100, wanted: 1000, .. }));
    assert_eq!(bytes_of(&store(Fault::Late(Duration::from_millis(1))), place).unwrap(), right);

    let flipped = bytes_of(&store(Fault::FlippedBit), place).unwrap();
    let flipped_once = store(Fault::FlippedOnce);
    assert_ne!(bytes_of(&flipped_once, place).unwrap(), right);
    assert_eq!(bytes_of(&flipped_once, place).unwrap(), right);
    let differing: u32 = flipped.iter().zip(&right).map(|(a, b)| (a ^ b).count_ones()).sum();
    assert_eq!(differing, 1);
}

#[test]
fn a_fault_keeps_to_its_shards_and_to_its_time() {
    let all = Hits { seed: 5, every: 1 };
    let store = FaultyStore::new(memory(), Fault::Short, all);
    let place = span(100, 1000);
    store.heal();
    assert!(bytes_of(&store, place).is_ok());
    store.fall_ill();
    assert!(bytes_of(&store, place).is_err());
    assert!(bytes_of(&store.within(1..2), place).is_ok());
}
