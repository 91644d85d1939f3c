//! How often records are read: once in a pass that needs them, never twice, whatever is guessed, however
//! few records fit into memory, and in whatever order and way reads end.
#![allow(clippy::unwrap_used)]

use deltafin_engine::{
    Engine, EngineOptions, IoMode, LayerId, Layout, Observer, Prefetch, Session, StreamedWeights,
};
use deltafin_spec::{ExpertId, FfnKind};
use deltafin_store::Checkpoint;
use deltafin_store::drive::Class;
use deltafin_stream::{End, ReadWatcher, Record, largest_unit_room};
use deltafin_testkit::{CountingStore, Fault, FaultyStore, Golden, Hits, all_pairs, open};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

type Expert = (LayerId, ExpertId);

/// What a session's passes need.
#[derive(Clone, Default)]
struct Needs(Rc<RefCell<BTreeSet<Expert>>>);

impl Observer for Needs {
    fn route(&mut self, layer: LayerId, _: usize, experts: &[u32], _: &[f32]) {
        self.0.borrow_mut().extend(experts.iter().map(|&id| (layer, ExpertId::new(id))));
    }
}

/// How often drives brought each expert.
#[derive(Default)]
struct Reads {
    log: Mutex<Log>,
    landed: Condvar,
}

#[derive(Default)]
struct Log {
    on_their_way: usize,
    whole: BTreeMap<Expert, u64>,
}

impl Reads {
    /// What came since this was last asked. Waits for what is on its way: it belongs to no later pass.
    fn take(&self) -> BTreeMap<Expert, u64> {
        let log = self.log.lock().unwrap();
        let mut log = self.landed.wait_while(log, |log| log.on_their_way > 0).unwrap();
        std::mem::take(&mut log.whole)
    }
}

impl ReadWatcher for Reads {
    fn asked(&self, record: Record, _: Class, _: u64) {
        if let Record::Expert(..) = record {
            self.log.lock().unwrap().on_their_way += 1;
        }
    }

    fn promoted(&self, _: Record) {}

    fn landed(&self, record: Record, end: End) {
        let Record::Expert(layer, expert) = record else { return };
        let mut log = self.log.lock().unwrap();
        log.on_their_way -= 1;
        if end == End::Whole {
            *log.whole.entry((layer, expert)).or_default() += 1;
        }
        self.landed.notify_all();
    }
}

/// How bytes come.
#[derive(Clone, Copy, Debug)]
enum Source {
    Drive(IoMode),
    /// Every other read late, so that they end in an order drawn from a seed.
    Late(u64),
}

const SOURCES: [Source; 6] = [
    Source::Drive(IoMode::Uring),
    Source::Drive(IoMode::Direct),
    Source::Drive(IoMode::Buffered),
    Source::Late(1),
    Source::Late(2),
    Source::Late(3),
];

const SLOTS: [usize; 6] = [1, 2, 3, 9, 40, usize::MAX];

const NEW_IDS: usize = 32;

/// An engine, and all that sees what it reads.
struct Rig {
    checkpoint: Checkpoint,
    store: Arc<CountingStore>,
    engine: Engine,
    reads: Arc<Reads>,
}

impl Rig {
    /// Nothing if this machine has no such drive.
    fn new(layout: Layout, source: Source) -> Option<Rig> {
        let checkpoint = open("k3-micro");
        let inner = Arc::clone(&checkpoint.store);
        let mut read = checkpoint.clone();
        let (late, every) = (Fault::Late(Duration::from_micros(300)), 2);
        let (mode, store) = match source {
            Source::Drive(mode) => (mode, Arc::new(CountingStore::new(inner))),
            Source::Late(seed) => {
                let late = FaultyStore::new(inner, late, Hits { seed, every });
                (IoMode::Auto, Arc::new(CountingStore::new(Arc::new(late))))
            }
        };
        if let Source::Late(_) | Source::Drive(IoMode::Buffered) = source {
            read.store = Arc::clone(&store) as _;
        }
        let weights = StreamedWeights::open(read, layout, mode).ok()?;
        let options = EngineOptions {
            threads: NonZeroUsize::new(2),
            chunk: NonZeroUsize::new(64),
            context: NonZeroUsize::new(128),
            ..EngineOptions::default()
        };
        let spec = checkpoint.spec().clone();
        let engine = Engine::with_weights(spec, weights, Vec::new(), options).unwrap();
        let reads = Arc::new(Reads::default());
        engine.weights().stream().watch_reads(Arc::downgrade(&reads) as _);
        Some(Rig { checkpoint, store, engine, reads })
    }

    /// What a pass read, which is nothing twice.
    fn reads_of(&self, pass: impl FnOnce()) -> BTreeSet<Expert> {
        self.store.take();
        pass();
        let reads = self.reads.take();
        assert!(reads.values().all(|times| *times == 1), "{reads:?}");
        let places = self.store.take();
        for &(layer, expert) in reads.keys().filter(|_| !places.is_empty()) {
            for piece in self.checkpoint.catalog.expert(layer, expert).record.pieces() {
                let times = places.get(&(piece.shard(), piece.offset()));
                assert_eq!(times, Some(&1), "reads of {piece} from the store");
            }
        }
        reads.into_keys().collect()
    }
}

fn layout(checkpoint: &Checkpoint, slots: usize, prefetch: Prefetch, cache: bool) -> Layout {
    let everything = Layout::everything(checkpoint.spec());
    let units = everything.resident.len();
    Layout {
        // Where the next layer's spine is not there, its router is not asked.
        resident: (0..units).map(|unit| slots % 2 == 1 || unit % 3 > 0).collect(),
        stream_bytes: largest_unit_room(&checkpoint.catalog),
        expert_slots: slots.min(everything.expert_slots),
        cache,
        prefetch,
        ..everything
    }
}

fn advance(session: &mut Session<'_>) {
    let id = session.greedy().unwrap();
    session.advance(id).unwrap();
}

/// A prompt in one pass from cold, and ids after it.
fn check(rig: &Rig, keeps_all: bool) {
    let prompts = Golden::load("k3-micro").prompts;
    let prompt = prompts.into_iter().find(|prompt| prompt.name == "long").unwrap().ids;
    let needs = Needs::default();
    let mut session = rig.engine.session();
    session.watch(Box::new(needs.clone()));
    let read = rig.reads_of(|| {
        session.prefill(&prompt[..58], &mut |_| ControlFlow::Continue(())).unwrap();
    });
    let needed = std::mem::take(&mut *needs.0.borrow_mut());
    assert!(needed.is_subset(&read), "used and not read");
    let used = rig.engine.weights().stream().counters().prefill;
    assert_eq!(used.experts(), needed.len() as u64);
    assert_eq!(used.misses + used.guesses_used, needed.len() as u64, "{used:?}");
    let mut ever = read;
    for _ in 0..NEW_IDS {
        let read = rig.reads_of(|| advance(&mut session));
        assert!(!keeps_all || read.is_disjoint(&ever), "read though it is in memory");
        ever.extend(read);
    }
    let used = rig.engine.weights().stream().counters().decode;
    let spec = rig.checkpoint.spec();
    let layers = spec.layer_ids().filter(|id| spec.layer(*id).ffn == FfnKind::Moe).count();
    assert_eq!(used.experts(), (NEW_IDS * layers * spec.moe.top_k) as u64);
}

#[test]
fn a_pass_reads_a_record_once_whatever_is_guessed_and_however_reads_end() {
    let checkpoint = open("k3-micro");
    let all = Layout::everything(checkpoint.spec()).expert_slots;
    for row in all_pairs(&[SLOTS.len(), SOURCES.len(), Prefetch::ALL.len(), 2]) {
        let (slots, source, cache) = (SLOTS[row[0]], SOURCES[row[1]], row[3] == 1);
        let layout = layout(&checkpoint, slots, Prefetch::ALL[row[2]], cache);
        println!("{source:?}, {layout:?}");
        let Some(rig) = Rig::new(layout, source) else { continue };
        check(&rig, cache && slots >= all);
    }
}
