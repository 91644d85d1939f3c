//! Whoever watches a stream is told of every read, once when it is asked for and once when it is over.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex, Weak};

use deltafin_spec::{ExpertId, LayerId};
use deltafin_store::Checkpoint;
use deltafin_store::drive::{Class, IoMode};
use deltafin_stream::{End, Layout, Phase, Prefetch, ReadWatcher, Record, Stream};
use deltafin_testkit::open;

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
fn scarce(checkpoint: &Checkpoint) -> Stream {
    let everything = Layout::everything(checkpoint.spec());
    let layout = Layout {
        resident: vec![false; everything.resident.len()],
        stream_bytes: deltafin_stream::largest_unit_room(&checkpoint.catalog),
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
    drop(stream.spine(layer).unwrap());
    stream.demand(layer, ids);
    stream.take(layer, ids, &mut |_, _| ()).unwrap();
    drop(stream.head().unwrap());
}

#[test]
fn every_read_is_told_of_at_both_ends() {
    let checkpoint = open("k3-micro");
    let stream = scarce(&checkpoint);
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
    assert!(of(Record::Spine(layer)).count() > 0 && of(Record::Head).count() > 0, "{asked:?}");
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
