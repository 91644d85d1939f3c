//! The contract, run against every mode.

use std::sync::Arc;

use deltafin_store::drive::{Class, IoMode, Landed, Ticket, Tuning};
use deltafin_store::{Store, StoreError};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::support::*;

fn check(store: &Arc<dyn Store>, mode: IoMode) {
    for tuning in [SMALL, Tuning::default()] {
        let harbour = Harbour::new(store, mode, tuning);
        assert_eq!(harbour.reader.report().drives[0].mode, mode);
        records_are_whole(store, &harbour);
        any_spans_give_what_the_store_gives(store, &harbour);
        spans_beyond_the_end_fail_with_numbers(store, &harbour);
        many_reads_may_be_in_flight(store, &harbour);
        a_slab_that_is_too_small_is_the_callers_fault(&harbour);
        all_memory_comes_back(&harbour);
        what_is_in_flight_at_the_end_lands(store, harbour);
    }
}

fn records_are_whole(store: &Arc<dyn Store>, harbour: &Harbour) {
    let records: [&[_]; 9] = [
        &[span(0, 0, 300_001)],
        &[span(0, 4095, 2)],
        &[span(0, 299_000, 1001)],
        &[span(0, 100_000, 50_000), span(0, 7, 4089), span(3, 4096, 1)],
        &[span(5, 4096, 4096), span(5, 0, 4096), span(2, 0, 4096)],
        &[span(4, 0, 1), span(1, 0, 0), span(4, 0, 1), span(0, 12_345, 67), span(3, 0, 4097)],
        &[span(1, 0, 0)],
        &[],
        &[span(5, 1, 20 * 4096 - 2)],
    ];
    for pieces in records {
        assert_eq!(whole(harbour.read(pieces)), wanted(&**store, pieces), "{pieces:?}");
    }
}

fn any_spans_give_what_the_store_gives(store: &Arc<dyn Store>, harbour: &Harbour) {
    let lens: Vec<u64> = store.shards().iter().map(|shard| shard.len).collect();
    let piece = (0..lens.len(), any::<u64>(), any::<u64>()).prop_map(move |(shard, a, b)| {
        let offset = a % (lens[shard] + 1);
        span(shard, offset, b % (lens[shard] - offset + 1))
    });
    let records = proptest::collection::vec(proptest::collection::vec(piece, 0..6), 1..12);
    let config = Config { failure_persistence: None, ..Config::with_cases(40) };
    let read_all = |records: Vec<Vec<_>>| {
        for (number, pieces) in records.iter().enumerate() {
            harbour.ask(number as u64, Class::ALL[number % 3], pieces);
        }
        let mut landed = harbour.shore.by_ticket(records.len());
        for (number, pieces) in records.iter().enumerate() {
            let bytes = whole(landed.remove(&Ticket(number as u64)).unwrap());
            prop_assert_eq!(bytes, wanted(&**store, pieces));
        }
        Ok(())
    };
    TestRunner::new(config).run(&records, read_all).unwrap();
}

fn spans_beyond_the_end_fail_with_numbers(store: &Arc<dyn Store>, harbour: &Harbour) {
    let bad = span(3, 4000, 98);
    for pieces in [vec![bad], vec![span(0, 0, 300_000), bad]] {
        let Landed::Failed(slab, error) = harbour.read(&pieces) else { panic!() };
        assert!(slab.len() >= 98);
        let by_store = store.read_exact(bad, &mut [0; 98]).unwrap_err();
        assert_eq!(error, by_store);
    }
    let Landed::Failed(_, error) = harbour.read(&[span(77, 0, 1)]) else { panic!() };
    assert_eq!(error, StoreError::NoShard { number: 77, shards: store.shards().len() });
}

fn many_reads_may_be_in_flight(store: &Arc<dyn Store>, harbour: &Harbour) {
    let piece = |number: u64| span(0, number * 997, 1 + number * 31);
    for number in 0..250 {
        harbour.ask(number, Class::ALL[number as usize % 3], &[piece(number)]);
    }
    let mut landed = harbour.shore.by_ticket(250);
    for number in 0..250 {
        let bytes = whole(landed.remove(&Ticket(number)).unwrap());
        assert_eq!(bytes, wanted(&**store, &[piece(number)]));
    }
}

fn a_slab_that_is_too_small_is_the_callers_fault(harbour: &Harbour) {
    let slab = harbour.arena.take(4096).unwrap();
    let read = || harbour.reader.read(Ticket(1), Class::Demand, &[span(0, 4095, 2)], slab);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).is_err());
}

fn all_memory_comes_back(harbour: &Harbour) {
    assert_eq!(harbour.arena.free_bytes(), harbour.arena.len());
}

/// Each ticket lands once, and no memory is lost, when the reader is dropped in the middle.
fn what_is_in_flight_at_the_end_lands(store: &Arc<dyn Store>, harbour: Harbour) {
    let Harbour { arena, shore, reader } = harbour;
    let piece = span(0, 3, 250_000);
    for number in 0..40 {
        let slab = arena.take(deltafin_store::drive::room_for(&[piece])).unwrap();
        reader.read(Ticket(number), Class::ALL[number as usize % 3], &[piece], slab);
    }
    drop(reader);
    let landed = shore.by_ticket(40);
    assert_eq!(landed.len(), 40);
    for landed in landed.into_values() {
        match landed {
            Landed::Whole(filled) => assert_eq!(*filled, wanted(&**store, &[piece])),
            Landed::Cancelled(_) => {}
            Landed::Failed(_, error) => panic!("{error}"),
        }
    }
    assert_eq!(arena.free_bytes(), arena.len());
}

#[test]
fn files() {
    let dir = folder();
    let store = on_disk(dir.path(), &shards());
    for mode in MODES {
        check(&store, mode);
    }
}

#[test]
fn memory() {
    check(&in_memory(&shards()), IoMode::Buffered);
}
