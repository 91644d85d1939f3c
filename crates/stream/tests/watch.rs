//! Whoever watches a stream is told of every read, once when it is asked for and once when it is over.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex, Weak};

use deltafin_checkpoint::Recipe;
use deltafin_spec::{ExpertId, Half, LayerId};
use deltafin_store::Checkpoint;
use deltafin_store::drive::{Class, IoMode};
use deltafin_stream::{End, Layout, Phase, Prefetch, ReadWatcher, Record, Stream};
use deltafin_testkit::{open, open_as};

#[derive(Default)]
struct Notes {
    asked: Mutex<Vec<(Record, Class, u64)>>,
    landed: Mutex<Vec<(Record, End)>>,
}

impl ReadWatcher for Notes {
    fn asked(&self, record: Record, class: Class, bytes: u64) {
        self.asked.lock().unwrap().push((record, class, bytes));
    }

    fn promoted(&self, _record: Record) {}

    fn landed(&self, record: Record, end: End) {
        self.landed.lock().unwrap().push((record, end));
    }
}

/// Nothing stays and nothing is guessed.
fn scarce(checkpoint: &Checkpoint, units: usize) -> Stream {
    let everything = Layout::everything(checkpoint.spec());
    let layout = Layout {
        resident: vec![false; everything.resident.len()],
        stream_bytes: units * deltafin_stream::largest_unit_room(&checkpoint.catalog),
        expert_slots: 3,
        slot_bytes: None,
        cache: false,
        prefetch: Prefetch::Off,
    };
    let (catalog, store) = (Arc::clone(&checkpoint.catalog), Arc::clone(&checkpoint.store));
    Stream::open(catalog, store, layout, IoMode::Buffered).unwrap()
}

/// A layer's spine, all its experts, and the head.
fn use_layer(stream: &Stream, layer: LayerId, ids: &[ExpertId]) {
    stream.begin(Phase::Decode, 1, true);
    for half in Half::ALL {
        drop(stream.spine(layer, half).unwrap());
    }
    stream.demand(layer, ids);
    stream.take(layer, ids, &mut |_, _| ()).unwrap();
    drop(stream.head().unwrap());
}

#[test]
fn every_read_is_told_of_at_both_ends() {
    let checkpoint = open("k3-micro");
    let stream = scarce(&checkpoint, 1);
    let (layer, ids) = (LayerId::new(1), Vec::from_iter(checkpoint.spec().moe.expert_ids()));
    let notes = Arc::new(Notes::default());
    let watcher: Weak<Notes> = Arc::downgrade(&notes);
    stream.watch_reads(watcher);
    use_layer(&stream, layer, &ids);

    let asked = notes.asked.lock().unwrap().clone();
    let of = |record| asked.iter().filter(move |(other, ..)| *other == record);
    for &id in &ids {
        let bytes = checkpoint.catalog.expert(layer, id).record.len();
        let [told] = of(Record::Expert(layer, id)).collect::<Vec<_>>()[..] else {
            panic!("{id:?} is read once");
        };
        assert_eq!((told.1, told.2), (Class::Demand, bytes));
    }
    let spine = Half::ALL.map(|half| Record::Spine(layer, half));
    for record in spine.into_iter().chain([Record::Head]) {
        assert!(of(record).count() > 0, "{record:?}: {asked:?}");
    }
    let landed = notes.landed.lock().unwrap().clone();
    for record in ids.iter().map(|id| Record::Expert(layer, *id)).chain([Record::Head]) {
        assert!(landed.contains(&(record, End::Whole)), "{record:?}");
    }

    let told = asked.len();
    drop(notes);
    use_layer(&stream, layer, &ids);
    let later = Arc::new(Notes::default());
    let watcher: Weak<Notes> = Arc::downgrade(&later);
    stream.watch_reads(watcher);
    use_layer(&stream, layer, &ids);
    let again = later.asked.lock().unwrap().len();
    assert!(again > ids.len() && again <= 2 * told, "another may watch when the first is gone");
}

#[test]
fn while_a_second_half_is_used_the_next_layer_s_first_is_read() {
    let checkpoint = open("k3-micro");
    let stream = scarce(&checkpoint, 1);
    let notes = Arc::new(Notes::default());
    let watcher: Weak<Notes> = Arc::downgrade(&notes);
    stream.watch_reads(watcher);
    stream.begin(Phase::Prefill, 5, false);
    let [now, next] = [0, 1].map(LayerId::new);
    drop(stream.spine(now, Half::Attention).unwrap());
    let in_use = stream.spine(now, Half::Ffn).unwrap();
    let asked = notes.asked.lock().unwrap().clone();
    let ahead = Record::Spine(next, Half::Attention);
    assert!(
        asked.iter().any(|(record, class, _)| (*record, *class) == (ahead, Class::Ahead)),
        "{asked:?}"
    );
    drop(in_use);
}

/// However little memory there is, and where each unit is held against its digests first, too.
#[test]
fn what_does_not_stay_is_read_once_a_pass() {
    const PASSES: usize = 4;
    for checkpoint in [open("k3-micro"), open_as("k3-micro", Recipe::Int8)] {
        for units in 1..4 {
            let stream = scarce(&checkpoint, units);
            let notes = Arc::new(Notes::default());
            let watcher: Weak<Notes> = Arc::downgrade(&notes);
            stream.watch_reads(watcher);
            let layers = || checkpoint.spec().layer_ids();
            for _ in 0..PASSES {
                stream.begin(Phase::Decode, 1, true);
                for layer in layers() {
                    for half in Half::ALL {
                        drop(stream.spine(layer, half).unwrap());
                    }
                }
                drop(stream.head().unwrap());
            }
            let asked = notes.asked.lock().unwrap();
            let halves =
                layers().flat_map(|layer| Half::ALL.map(|half| Record::Spine(layer, half)));
            for record in halves.chain([Record::Head]) {
                let times = asked.iter().filter(|(other, ..)| *other == record).count();
                // Once more where it is read ahead for a pass that did not come.
                assert!(
                    (PASSES..=PASSES + 1).contains(&times),
                    "{record:?} {times} times, {units} units"
                );
            }
        }
    }
}
