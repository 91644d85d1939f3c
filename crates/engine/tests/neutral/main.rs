//! Switches that may change time and nothing else: bit-equal logits and identical ids.
//!
//! Whoever adds a switch adds it to this table: one that changes how it is computed here, one that
//! changes how bytes move to [`memory`].
#![allow(clippy::unwrap_used)]

mod memory;
mod network;

use deltafin_engine::{
    Engine, EngineOptions, IoMode, IsaKind, Layout, Mark, ModelSpec, Profile, Recipe, RouteLines,
    Session, Several, SnapshotMemory, Stream, StreamedWeights, Trace,
};
use deltafin_kernels::Isa;
use deltafin_model::Weights;
use deltafin_store::Checkpoint;
use deltafin_testkit::{DemoGolden, Golden, Shuffled, open, open_as, open_packed};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

/// How a prompt is handed over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Feed {
    /// In one piece.
    Whole,
    /// In passes of so many rows.
    Chunks(usize),
    /// Like generated ids.
    TokenByToken,
}

/// One setting of every switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    isa: IsaKind,
    threads: usize,
    feed: Feed,
    shuffle: bool,
    /// Whether a profile, a trace and the routes are written.
    watched: bool,
    /// Whether most of the prompt was taken in before, in another conversation, and is gone on from.
    resumed: bool,
}

/// The logits' bits after the prompt and after every generated id, and the ids.
#[derive(PartialEq)]
pub(crate) struct Text {
    bits: Vec<Vec<u32>>,
    ids: Vec<u32>,
}

const NEW_IDS: usize = 8;
const CONTEXT: usize = 512;

pub(crate) fn trace<W: Weights>(session: &mut Session<'_, W>, prompt: &[u32], feed: Feed) -> Text {
    match feed {
        Feed::TokenByToken => prompt.iter().for_each(|&id| session.advance(id).unwrap()),
        _ => {
            session.prefill(prompt, &mut |_| ControlFlow::Continue(())).unwrap();
        }
    }
    let mut text = Text { bits: Vec::new(), ids: Vec::new() };
    for step in 0..NEW_IDS {
        text.bits.push(session.logits().iter().map(|l| l.to_bits()).collect());
        let id = session.greedy().unwrap();
        text.ids.push(id);
        if step + 1 < NEW_IDS {
            session.advance(id).unwrap();
        }
    }
    text
}

/// Takes in most of `prompt` and something else after it, then something unrelated, and comes back. Returns
/// how many ids of the prompt are taken in.
pub(crate) fn come_back<W: Weights>(session: &mut Session<'_, W>, prompt: &[u32]) -> usize {
    let cut = prompt.len() * 2 / 3 + 1;
    let other = [&prompt[..cut + 2], &[prompt[0]; 5]].concat();
    let unrelated: Vec<u32> = prompt.iter().rev().copied().collect();
    session.mark(&[cut, cut / 2].map(|position| Mark { position, lasting: true }));
    for ids in [other, unrelated] {
        let reused = session.reuse(&ids);
        session.prefill(&ids[reused..], &mut |_| ControlFlow::Continue(())).unwrap();
        session.keep();
    }
    let reused = session.reuse(prompt);
    assert_eq!(reused, cut);
    reused
}

/// An opened checkpoint with its weights, for several settings to share.
pub(crate) struct Model {
    spec: ModelSpec,
    weights: StreamedWeights,
}

/// With everything in memory.
pub(crate) fn load(checkpoint: Checkpoint) -> Model {
    let layout = Layout::everything(checkpoint.spec());
    load_as(checkpoint, layout, IoMode::Auto)
}

pub(crate) fn load_as(checkpoint: Checkpoint, layout: Layout, mode: IoMode) -> Model {
    let spec = checkpoint.spec().clone();
    Model { spec, weights: StreamedWeights::open(checkpoint, layout, mode).unwrap() }
}

/// Everything that can watch a session, writing to nowhere.
fn watch<'e, W: Weights>(session: &mut Session<'e, W>, spec: &ModelSpec, stream: &'e Stream) {
    let mut all = Several::default();
    all.add(Box::new(Profile::new(spec, Some(stream))));
    all.add(Box::new(Trace::new(std::io::sink(), spec, Some(stream))));
    all.add(Box::new(RouteLines::new(std::io::sink(), spec)));
    session.watch(Box::new(all));
}

pub(crate) fn run(model: &Model, prompt: &[u32], setting: Setting) -> Text {
    let options = EngineOptions {
        isa: Some(setting.isa),
        threads: NonZeroUsize::new(setting.threads),
        chunk: match setting.feed {
            Feed::Chunks(rows) => NonZeroUsize::new(rows),
            _ => NonZeroUsize::new(CONTEXT),
        },
        context: NonZeroUsize::new(CONTEXT),
        snapshots: SnapshotMemory::Bytes(if setting.resumed { 64 << 20 } else { 0 }),
        ..EngineOptions::default()
    };
    let (spec, weights) = (model.spec.clone(), &model.weights);
    if setting.shuffle {
        let weights = Shuffled::new(weights, 7);
        let engine = Engine::with_weights(spec, weights, Vec::new(), options).unwrap();
        text(&engine, model, prompt, setting)
    } else {
        let engine = Engine::with_weights(spec, weights, Vec::new(), options).unwrap();
        text(&engine, model, prompt, setting)
    }
}

fn text<W: Weights>(engine: &Engine<W>, model: &Model, prompt: &[u32], setting: Setting) -> Text {
    let mut session = engine.session();
    if setting.watched {
        watch(&mut session, &model.spec, model.weights.stream());
    }
    let reused = if setting.resumed { come_back(&mut session, prompt) } else { 0 };
    trace(&mut session, &prompt[reused..], setting.feed)
}

/// Every setting; those that differ from the reference in one switch come with all others varied.
fn settings() -> Vec<Setting> {
    let mut all = Vec::new();
    for isa in Isa::available().map(Isa::kind) {
        for threads in [1, 2, 3, 7] {
            for feed in [
                Feed::Whole,
                Feed::Chunks(1),
                Feed::Chunks(3),
                Feed::Chunks(64),
                Feed::TokenByToken,
            ] {
                // Each choice of every other switch with and without; five ways to feed take turns.
                let resumed = all.len() % 4 < 2;
                for shuffle in [false, true] {
                    // Half of the thread counts, to have no more runs than without it.
                    let watched = [2, 7].contains(&threads);
                    all.push(Setting { isa, threads, feed, shuffle, watched, resumed });
                }
            }
        }
    }
    all
}

const REFERENCE: Setting = Setting {
    isa: IsaKind::Scalar,
    threads: 1,
    feed: Feed::Whole,
    shuffle: false,
    watched: false,
    resumed: false,
};

/// Every setting, or one of so many. A number that shares no factor with the table's rows of ten meets
/// every way to feed, shuffled and not, and every thread count with every instruction set.
const ALL: usize = 1;
const ONE_OF_THREE: usize = 3;
const ONE_OF_SEVEN: usize = 7;

/// Within each recipe all settings agree; between recipes the text may differ. They differ in a product's
/// kernel alone, so the second one gets by with fewer.
fn check(name: &str, prompt: &[u32], every: usize) {
    check_as(name, load(open(name)), prompt, every);
    let int8 = load(open_as(name, Recipe::Int8));
    check_as(&format!("{name} as int8"), int8, prompt, every.max(ONE_OF_THREE));
}

fn check_as(name: &str, model: Model, prompt: &[u32], every: usize) {
    let wanted = run(&model, prompt, REFERENCE);
    for setting in settings().into_iter().step_by(every) {
        let got = run(&model, prompt, setting);
        assert_eq!(got.ids, wanted.ids, "{name} {setting:?}");
        assert!(got == wanted, "{name} {setting:?}: logits differ in their bits");
    }
}

/// Long enough to cross blocks of 64 positions twice.
pub(crate) fn long_prompt(golden: &Golden) -> Vec<u32> {
    golden.prompts.iter().find(|p| p.name == "long").unwrap().ids.clone()
}

#[test]
fn k3_micro_is_one_text() {
    check("k3-micro", &long_prompt(&Golden::load("k3-micro")), ALL);
}

#[test]
fn k3_calm_is_one_text() {
    check("k3-calm", &long_prompt(&Golden::load("k3-calm")), ALL);
}

/// The table is for the two above; this one shows that it holds for weights that were trained.
#[test]
fn the_demo_model_is_one_text() {
    let golden = DemoGolden::load();
    let longest = golden.prompts.iter().max_by_key(|p| p.ids.len()).unwrap();
    check("demo", &longest.ids, ONE_OF_SEVEN);
}

/// A spine in files of its own, with scales beside its matrices, is streamed like any other.
#[test]
fn a_packed_spine_is_streamed_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = open_packed("k3-micro", Recipe::Int8, folder.path());
    let prompt = long_prompt(&Golden::load("k3-micro"));
    let wanted = run(&load(checkpoint.clone()), &prompt, REFERENCE);
    let largest = deltafin_stream::largest_unit_room(&checkpoint.catalog);
    for mode in [IoMode::Auto, IoMode::Direct, IoMode::Buffered] {
        for units in [1, 3] {
            let everything = Layout::everything(checkpoint.spec());
            let resident = vec![false; everything.resident.len()];
            let layout = Layout { resident, stream_bytes: units * largest, ..everything };
            let model = load_as(checkpoint.clone(), layout, mode);
            assert!(run(&model, &prompt, REFERENCE) == wanted, "{mode:?}, {units} units");
        }
    }
}

/// Packing moves bytes and changes none; quantising changes the logits, so that it is known to be in
/// use where its own tests pass.
#[test]
fn a_packed_spine_is_the_released_one_and_a_quantised_one_is_not() {
    let prompt = long_prompt(&Golden::load("k3-micro"));
    let released = run(&load(open("k3-micro")), &prompt, REFERENCE);
    let run_as = |recipe| run(&load(open_as("k3-micro", recipe)), &prompt, REFERENCE);
    assert!(run_as(Recipe::Bf16) == released);
    assert!(run_as(Recipe::Int8) != released);
}
