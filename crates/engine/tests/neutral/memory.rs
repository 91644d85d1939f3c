//! How memory is divided, how drives are read, what is guessed, and in which order bytes arrive.
//!
//! All combinations would be thousands of runs: any two choices meet in at least one.

use crate::network;
use crate::{Feed, Setting, Text, come_back, load, load_as, long_prompt, run, trace};
use deltafin_budget::{Demand, Plan, Usage, whole_mib};
use deltafin_engine::{
    Division, Engine, EngineOptions, FolderOptions, IoMode, Layout, ModelSpec, Prefetch,
    SnapshotMemory, rooms,
};
use deltafin_kernels::Isa;
use deltafin_store::{Checkpoint, open_dir};
use deltafin_stream::largest_unit_room;
use deltafin_synth::{Content, Dimensions, Preset, Routing};
use deltafin_testkit::{Fault, FaultyStore, Golden, Hits, all_pairs, open};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How bytes come from the drive.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// As it can, or in one certain way.
    Drive(IoMode),
    /// Half of the reads late, so that they end in an order drawn from a seed.
    Disordered(u64),
    /// Experts come over a network when they are needed, in another order than they were asked for.
    Network,
    /// The same, where the drive has room for hardly any of them.
    Cramped,
    /// As that, on a drive whose files have no holes: in one file for each layer.
    Layered,
}

const SOURCES: [Source; 9] = [
    Source::Drive(IoMode::Auto),
    Source::Drive(IoMode::Uring),
    Source::Drive(IoMode::Direct),
    Source::Drive(IoMode::Buffered),
    Source::Disordered(1),
    Source::Disordered(2),
    Source::Network,
    Source::Cramped,
    Source::Layered,
];

/// The sources that this machine has.
fn sources(checkpoint: &Checkpoint) -> Vec<Source> {
    let is_there = |source: &Source| match source {
        Source::Drive(mode) => {
            let layout = Layout::everything(checkpoint.spec());
            let opened = deltafin_engine::StreamedWeights::open(checkpoint.clone(), layout, *mode);
            opened.is_ok()
        }
        Source::Disordered(_) | Source::Network | Source::Cramped | Source::Layered => true,
    };
    let there: Vec<Source> = SOURCES.into_iter().filter(is_there).collect();
    assert!(there.iter().any(|s| matches!(s, Source::Drive(IoMode::Buffered))));
    there
}

impl Source {
    /// The checkpoint read from here, the mode to ask for, and what has to stay as long as it is used.
    fn of(self, checkpoint: &Checkpoint) -> (Checkpoint, IoMode, Option<network::Place>) {
        let mut checkpoint = checkpoint.clone();
        match self {
            Source::Drive(mode) => (checkpoint, mode, None),
            Source::Disordered(seed) => {
                let (late, hits) = (Fault::Late(Duration::from_millis(1)), Hits { seed, every: 2 });
                checkpoint.store = Arc::new(FaultyStore::new(checkpoint.store, late, hits));
                (checkpoint, IoMode::Auto, None)
            }
            Source::Network | Source::Cramped | Source::Layered => {
                let is_cramped = matches!(self, Source::Cramped | Source::Layered);
                let layout = match self {
                    Source::Layered => deltafin_fetch::Layout::Layers,
                    _ => deltafin_fetch::Layout::Auto,
                };
                let (checkpoint, place) = network::streamed(&checkpoint, layout, is_cramped);
                (checkpoint, IoMode::Auto, Some(place))
            }
        }
    }
}

/// How memory is divided: from the least that works to everything.
fn layouts(spec: &ModelSpec, largest_unit: usize) -> Vec<Layout> {
    let everything = Layout::everything(spec);
    let units = everything.resident.len();
    let parts = [(0, 1), (0, 2), (0, spec.moe.top_k), (2, 7), (3, 40), (1, usize::MAX)];
    let layout = |(resident, slots): (usize, usize)| Layout {
        // Every `resident`-th unit stays.
        resident: (0..units).map(|u| resident > 0 && u % resident == 0).collect(),
        stream_bytes: largest_unit * (1 + slots % 3),
        expert_slots: slots.min(everything.expert_slots),
        ..everything.clone()
    };
    parts.into_iter().map(layout).collect()
}

/// Divisions of memory that no budget need lead to.
fn check_layouts(name: &str) {
    let prompt = long_prompt(&Golden::load(name));
    let (isa, threads, feed) = (Isa::best().kind(), 2, Feed::Chunks(48));
    let reference = Setting { isa, threads, feed, shuffle: false, watched: false, resumed: false };
    let wanted = run(&load(open(name)), &prompt, reference);
    let checkpoint = open(name);
    let layouts = layouts(checkpoint.spec(), largest_unit_room(&checkpoint.catalog));
    let sources = sources(&checkpoint);
    for row in all_pairs(&[layouts.len(), sources.len(), Prefetch::ALL.len(), 2, 2, 2]) {
        let (source, cache) = (sources[row[1]], row[3] == 1);
        let (shuffle, watched) = (row[4] == 1, row[5] == 1);
        let layout = Layout { prefetch: Prefetch::ALL[row[2]], cache, ..layouts[row[0]].clone() };
        let at = format!("{name} {layout:?} {source:?} shuffle {shuffle} watched {watched}");
        let (checkpoint, mode, _place) = source.of(&checkpoint);
        let model = load_as(checkpoint, layout, mode);
        let got = run(&model, &prompt, Setting { shuffle, watched, ..reference });
        assert_eq!(got.ids, wanted.ids, "{at}");
        assert!(got == wanted, "{at}: logits differ in their bits");
    }
}

#[test]
fn memory_drives_and_guesses_are_neutral_on_k3_micro() {
    check_layouts("k3-micro");
}

#[test]
fn memory_drives_and_guesses_are_neutral_on_k3_calm() {
    check_layouts("k3-calm");
}

const CONTEXT: usize = 256;
const CHUNK: usize = 24;
const THREADS: usize = 3;

const SNAPSHOTS: u64 = 8 << 20;

/// What the caller takes for itself, so that the smallest plan fills its budget, which is one of whole MiB.
fn besides(checkpoint: &Checkpoint) -> u64 {
    let smallest = Plan::smallest(&demand(checkpoint));
    whole_mib(smallest) - smallest
}

fn demand(checkpoint: &Checkpoint) -> Demand {
    let usage = Usage { context: CONTEXT, chunk: CHUNK, threads: THREADS };
    let demand = Demand::new(checkpoint.spec(), &rooms(&checkpoint.catalog), usage);
    Demand { snapshots: SNAPSHOTS, ..demand }
}

/// From the smallest possible to everything resident.
fn budgets(checkpoint: &Checkpoint) -> Vec<u64> {
    let demand = Demand { besides: besides(checkpoint), ..demand(checkpoint) };
    let [least, most] = [Plan::smallest(&demand), Plan::largest(&demand)];
    [0, 5, 20, 50, 80, 100].into_iter().map(|share| least + (most - least) * share / 100).collect()
}

fn tiny(dir: &Path) -> Checkpoint {
    let plan = deltafin_synth::Plan::new(&Dimensions::of(Preset::Tiny), Routing::EVEN, 11).unwrap();
    plan.write(dir, Content::Weights, &mut |_| ControlFlow::Continue(())).unwrap();
    open_dir(dir).unwrap()
}

fn prompt(vocab: usize) -> Vec<u32> {
    (0..70u32).map(|position| (position * 7919 + 13) % vocab as u32).collect()
}

/// Where the state of most of the prompt comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Past {
    None,
    Memory,
    /// An engine that is gone left it in a folder.
    Drive,
}

const PASTS: [Past; 3] = [Past::None, Past::Memory, Past::Drive];

fn open_and_trace(checkpoint: Checkpoint, options: EngineOptions, past: Past) -> (Plan, Text) {
    let prompt = prompt(checkpoint.spec().vocab);
    let folder = tempfile::tempdir().unwrap();
    let folder = FolderOptions { path: folder.path().to_owned(), bytes: 64 << 20 };
    let open = || {
        let engine = Engine::open(checkpoint.clone(), options).unwrap();
        if past == Past::Drive {
            engine.keep_snapshots_in(folder.clone(), |line| panic!("{line}")).unwrap();
        }
        engine
    };
    let (mut engine, mut reused) = (open(), 0);
    if past != Past::None {
        reused = come_back(&mut engine.session(), &prompt);
    }
    if past == Past::Drive {
        drop(engine);
        engine = open();
    }
    let mut session = engine.session();
    assert_eq!(session.reuse(&prompt), reused, "{past:?}");
    let trace = trace(&mut session, &prompt[reused..], Feed::Whole);
    (engine.plan().unwrap().clone(), trace)
}

/// As users set them.
#[test]
fn memory_budgets_and_all_flags_about_reads_are_neutral() {
    // On the drive that the build is on: a folder in memory has no direct reads.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let checkpoint = tiny(dir.path());
    let (budgets, sources) = (budgets(&checkpoint), sources(&checkpoint));
    let slabs = [None, NonZeroUsize::new(1), NonZeroUsize::new(9), NonZeroUsize::new(100)];
    let usual = EngineOptions {
        context: NonZeroUsize::new(CONTEXT),
        chunk: NonZeroUsize::new(CHUNK),
        threads: NonZeroUsize::new(THREADS),
        snapshots: SnapshotMemory::Bytes(SNAPSHOTS),
        besides: besides(&checkpoint),
        ..EngineOptions::default()
    };
    let (_, wanted) = open_and_trace(checkpoint.clone(), usual, Past::None);
    let mut plans = Vec::new();
    let choices = [budgets.len(), sources.len(), Prefetch::ALL.len(), slabs.len(), 2, PASTS.len()];
    for row in all_pairs(&choices) {
        let past = PASTS[row[5]];
        let source = sources[row[1]];
        let (prefetch, slabs, cache) = (Prefetch::ALL[row[2]], slabs[row[3]], row[4] == 1);
        let (checkpoint, io, _place) = source.of(&checkpoint);
        // So that what is left for all else is the same.
        let coming = checkpoint.store.distant().map_or(0, |distant| distant.coming_bytes());
        let memory = Some(budgets[row[0]] + whole_mib(coming));
        let options = EngineOptions { memory, io, prefetch, slabs, cache, ..usual };
        let (plan, got) = open_and_trace(checkpoint, options, past);
        assert_eq!(got.ids, wanted.ids, "{source:?} {past:?} {options:?}");
        assert!(got == wanted, "{source:?} {past:?} {options:?}: logits differ in their bits");
        plans.push(plan.spine_resident);
    }
    assert!(plans.iter().any(|plan| plan.iter().all(|stays| !stays)), "nothing stays");
    assert!(plans.iter().any(|plan| plan.iter().all(|stays| *stays)), "all stays");
    let rooms = rooms(&checkpoint.catalog);
    let bought = budgets.iter().map(|budget| {
        let plan = Division::of(checkpoint.spec(), &rooms, &usual, *budget).unwrap().plan;
        (plan.spine_resident, plan.chunk_rows, plan.expert_slabs)
    });
    assert_eq!(
        bought.collect::<BTreeSet<_>>().len(),
        budgets.len(),
        "every budget buys something else"
    );
}
