//! Random passes over a random division of memory: the bytes handed out are the record's, every
//! expert that was asked for comes once, and nothing hangs.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};

use deltafin_checkpoint::{Shard, Span};
use deltafin_spec::{ExpertId, FfnKind, Half, LayerId};
use deltafin_store::drive::IoMode;
use deltafin_store::{Checkpoint, Store, StoreError, read_record};
use deltafin_stream::{Counters, Layout, Phase, Prefetch, Stream, StreamError, largest_unit_room};
use deltafin_testkit::open;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

fn layout(checkpoint: &Checkpoint, random: &mut Random) -> Layout {
    let units = checkpoint.spec().layers.len() + 1;
    let stays = [0, 50, 100][random.below(3)];
    Layout {
        resident: (0..units).map(|_| random.chance(stays)).collect(),
        stream_bytes: [largest_unit_room(&checkpoint.catalog), 700 << 10, 4 << 20][random.below(3)],
        expert_slots: [1, 2, 3, 8, 40, 200][random.below(6)],
        slot_bytes: None,
        cache: random.chance(50),
        prefetch: Prefetch::ALL[random.below(4)],
    }
}

struct Rig {
    checkpoint: Checkpoint,
    stream: Stream,
}

impl Rig {
    fn new(random: &mut Random) -> Rig {
        let checkpoint = open("k3-micro");
        let layout = layout(&checkpoint, random);
        let mode = [IoMode::Auto, IoMode::Buffered][random.below(2)];
        let (catalog, store) = (Arc::clone(&checkpoint.catalog), Arc::clone(&checkpoint.store));
        let stream = Stream::open(catalog, store, layout, mode).unwrap();
        Rig { checkpoint, stream }
    }

    fn record(&self, layer: LayerId, expert: ExpertId) -> Vec<u8> {
        let record = self.checkpoint.catalog.expert(layer, expert).record;
        let mut bytes = vec![0; record.len() as usize];
        read_record(&*self.checkpoint.store, record, &mut bytes).unwrap();
        bytes
    }

    fn pass(&self, random: &mut Random) {
        let head = random.chance(70);
        let phase = [Phase::Prefill, Phase::Decode][random.below(2)];
        self.stream.begin(phase, [1, 5][random.below(2)], head);
        for layer in self.checkpoint.spec().layer_ids() {
            if random.chance(2) {
                return; // A pass that stops in the middle.
            }
            for half in Half::ALL {
                let spine = self.stream.spine(layer, half).unwrap();
                assert!(*spine == *self.spine(layer, half), "layer {layer}, {half:?}");
            }
            if self.checkpoint.spec().layer(layer).ffn == FfnKind::Moe {
                self.experts(layer, random);
            }
        }
        if head {
            let head = self.stream.head().unwrap();
            let tensor = self.checkpoint.catalog.globals().head.tensor();
            let mut wanted = vec![0; tensor.span.len() as usize];
            self.checkpoint.store.read_exact(tensor.span, &mut wanted).unwrap();
            assert!(*head == *wanted);
        }
    }

    fn spine(&self, layer: LayerId, half: Half) -> Vec<u8> {
        let record = self.checkpoint.catalog.spine(layer).half(half).record();
        let mut bytes = vec![0; record.len() as usize];
        read_record(&*self.checkpoint.store, record, &mut bytes).unwrap();
        bytes
    }

    fn experts(&self, layer: LayerId, random: &mut Random) {
        let experts = self.checkpoint.spec().moe.experts;
        let few = [10, 30, 100][random.below(3)];
        let some = |random: &mut Random| -> Vec<ExpertId> {
            let ids = self.checkpoint.spec().moe.expert_ids();
            ids.filter(|_| random.chance(few)).collect()
        };
        let ids = some(random);
        if random.chance(90) {
            self.stream.demand(layer, &ids);
        }
        let next = LayerId::new(layer.number() + 1);
        if next.index() < self.checkpoint.spec().layers.len() {
            drop(self.stream.peek(next));
            self.stream.expect(next, &some(random));
        }
        for window in ids.chunks(1 + random.below(experts)) {
            let mut seen = BTreeSet::new();
            self.stream
                .take(layer, window, &mut |id, bytes| {
                    assert!(seen.insert(id), "{id:?} came twice");
                    assert!(bytes == self.record(layer, id), "layer {layer}, expert {id}");
                })
                .unwrap();
            assert!(seen.into_iter().eq(window.iter().copied()));
        }
    }
}

#[test]
fn whatever_the_memory_the_bytes_are_the_records() {
    let mut right = 0;
    for seed in 0..60 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let rig = Rig::new(&mut random);
        (0..6).for_each(|_| rig.pass(&mut random));
        let Counters { decode, prefill, .. } = rig.stream.counters();
        assert_eq!(decode.passes + prefill.passes, 6);
        let used = decode.guesses_used + prefill.guesses_used;
        assert!(used <= decode.guesses + prefill.guesses);
        assert_eq!(used == 0, decode.guessed_bytes + prefill.guessed_bytes == 0);
        right += used;
    }
    assert!(right > 0, "no guess was ever of use");
}

#[test]
fn what_was_used_most_is_pinned_and_stays() {
    let checkpoint = open("k3-micro");
    let layout = Layout {
        expert_slots: 12,
        prefetch: Prefetch::Off,
        ..Layout::everything(checkpoint.spec())
    };
    let start = || {
        let (catalog, store) = (Arc::clone(&checkpoint.catalog), Arc::clone(&checkpoint.store));
        Stream::open(catalog, store, layout.clone(), IoMode::Auto).unwrap()
    };
    let use_once = |stream: &Stream, layer: u32, expert: u32| {
        stream.begin(Phase::Decode, 1, false);
        stream.take(LayerId::new(layer), &[ExpertId::new(expert)], &mut |_, _| {}).unwrap();
    };
    let first = start();
    (0..5).for_each(|_| (3..7).for_each(|expert| use_once(&first, 1, expert)));
    let identity = checkpoint.identity().unwrap();
    let file = first.heat_file(identity);
    let second = start();
    assert_eq!(second.pin(4), 0, "nothing was learned yet");
    assert!(second.adopt_heat(identity, &file));
    assert_eq!(second.pin(100), 4, "only what was ever used");
    // Enough others to push everything out that can be.
    (2..5).for_each(|layer| (0..16).for_each(|expert| use_once(&second, layer, expert)));
    let misses = second.counters().decode.misses;
    (3..7).for_each(|expert| use_once(&second, 1, expert));
    assert_eq!(second.counters().decode.misses, misses);
}

/// Otherwise the next token would wait for a slot for ever.
#[test]
fn memory_given_back_is_not_what_the_pinned_leave_to_a_layer() {
    let checkpoint = open("k3-micro");
    let layout = Layout { expert_slots: 20, ..Layout::everything(checkpoint.spec()) };
    let (catalog, store) = (Arc::clone(&checkpoint.catalog), Arc::clone(&checkpoint.store));
    let stream = Stream::open(catalog, store, layout, IoMode::Auto).unwrap();
    let ids: Vec<ExpertId> = checkpoint.spec().moe.expert_ids().collect();
    let use_some = |layer: u32, ids: &[ExpertId]| {
        let mut used = 0;
        stream.begin(Phase::Decode, 1, false);
        stream.take(LayerId::new(layer), ids, &mut |_, _| used += 1).unwrap();
        assert_eq!(used, ids.len());
    };
    use_some(1, &ids);
    assert_eq!(stream.pin(100), 12);
    assert_eq!(stream.shrink(0), 20, "12 are pinned, and twice top-k are a layer's");
    (2..5).for_each(|layer| use_some(layer, &ids));
}

/// A store whose reads wait until it is opened.
struct Gate {
    inner: Arc<dyn Store>,
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

impl Store for Gate {
    fn shards(&self) -> &[Shard] {
        self.inner.shards()
    }

    fn read_exact(&self, span: Span, buf: &mut [u8]) -> Result<(), StoreError> {
        drop(self.opened.wait_while(self.is_open.lock().unwrap(), |open| !*open).unwrap());
        self.inner.read_exact(span, buf)
    }
}

#[test]
fn an_expert_that_finds_no_room_does_not_count_as_pinned() {
    let checkpoint = open("k3-micro");
    let layout = Layout {
        expert_slots: 12,
        prefetch: Prefetch::Off,
        ..Layout::everything(checkpoint.spec())
    };
    let (is_open, opened) = (Mutex::new(true), Condvar::new());
    let gate = Arc::new(Gate { inner: Arc::clone(&checkpoint.store), is_open, opened });
    let store = Arc::clone(&gate) as Arc<dyn Store>;
    let stream = Stream::open(checkpoint.catalog, store, layout, IoMode::Auto).unwrap();
    let ids = |ids: std::ops::Range<u32>| ids.map(ExpertId::new).collect::<Vec<_>>();
    (0..5).for_each(|_| {
        stream.begin(Phase::Decode, 1, false);
        stream.take(LayerId::new(1), &ids(3..7), &mut |_, _| {}).unwrap();
    });
    *gate.is_open.lock().unwrap() = false;
    stream.demand(LayerId::new(2), &ids(0..16));
    // Every slot waits for its read.
    assert_eq!(stream.pin(4), 0);
    gate.open();
}

#[test]
fn memory_given_back_stays_given_back_and_bytes_stay_right() {
    let mut random = Random(3);
    let checkpoint = open("k3-micro");
    let layout = Layout { expert_slots: 60, ..Layout::everything(checkpoint.spec()) };
    let (catalog, store) = (Arc::clone(&checkpoint.catalog), Arc::clone(&checkpoint.store));
    let stream = Stream::open(catalog, store, layout, IoMode::Auto).unwrap();
    let rig = Rig { checkpoint, stream };
    rig.pass(&mut random);
    assert_eq!(rig.stream.shrink(40), 40);
    rig.pass(&mut random);
    assert_eq!(rig.stream.shrink(50), 40, "what was lowered stays lowered");
    assert_eq!(rig.stream.shrink(0), 8, "a layer's reads keep their slots");
    (0..4).for_each(|_| rig.pass(&mut random));
    assert_eq!(rig.stream.expert_slots(), 8);
}

/// Whoever takes experts while all slots are in use would wait for ever.
#[test]
fn a_wait_that_nobody_would_end_is_an_error() {
    let checkpoint = open("k3-micro");
    let everything = Layout::everything(checkpoint.spec());
    let layout = Layout { expert_slots: 1, prefetch: Prefetch::Off, ..everything };
    let (catalog, store) = (Arc::clone(&checkpoint.catalog), Arc::clone(&checkpoint.store));
    let stream = Stream::open(catalog, store, layout, IoMode::Buffered).unwrap();
    let (layer, [one, other]) = (LayerId::new(1), [0, 1].map(ExpertId::new));
    let mut within = None;
    stream.begin(Phase::Decode, 1, false);
    let taken = stream.take(layer, &[one], &mut |_, _| {
        within.get_or_insert_with(|| stream.take(layer, &[other], &mut |_, _| ()));
    });
    let error = within.unwrap().unwrap_err();
    assert!(matches!(error, StreamError::Stuck { layer: at, slots: 1 } if at == layer), "{error}");
    assert!(error.to_string().contains("layer 1"), "{error}");
    drop(taken);
    // The next pass finds its slot.
    stream.begin(Phase::Decode, 1, false);
    let mut bytes = 0;
    stream.take(layer, &[other], &mut |_, record| bytes = record.len()).unwrap();
    assert_eq!(bytes as u64, checkpoint.catalog.expert(layer, other).record.len());
}
