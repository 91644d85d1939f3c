//! Switches that may change time and nothing else: bit-equal logits and identical ids.
//!
//! Whoever adds a switch adds it to this table.
#![allow(clippy::unwrap_used)]

use deltafin_engine::{
    Engine, EngineOptions, IoMode, IsaKind, Layout, ModelSpec, Prefetch, Session, StreamedWeights,
};
use deltafin_kernels::Isa;
use deltafin_model::Weights;
use deltafin_store::Checkpoint;
use deltafin_testkit::{DemoGolden, Golden, Shuffled, open};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

/// How a prompt is handed over.
#[derive(Clone, Copy, Debug)]
enum Feed {
    /// In one piece.
    Whole,
    /// In passes of so many rows.
    Chunks(usize),
    /// Like generated ids.
    TokenByToken,
}

/// One setting of every switch.
#[derive(Clone, Copy, Debug)]
struct Setting {
    isa: IsaKind,
    threads: usize,
    feed: Feed,
    shuffle: bool,
}

/// The logits' bits after the prompt and after every generated id, and the ids.
#[derive(PartialEq)]
struct Trace {
    bits: Vec<Vec<u32>>,
    ids: Vec<u32>,
}

const NEW_IDS: usize = 8;
const CONTEXT: usize = 512;

fn trace<W: Weights>(session: &mut Session<'_, W>, prompt: &[u32], feed: Feed) -> Trace {
    match feed {
        Feed::TokenByToken => prompt.iter().for_each(|&id| session.advance(id).unwrap()),
        _ => {
            session.prefill(prompt, &mut |_| ControlFlow::Continue(())).unwrap();
        }
    }
    let mut trace = Trace { bits: Vec::new(), ids: Vec::new() };
    for step in 0..NEW_IDS {
        trace.bits.push(session.logits().iter().map(|l| l.to_bits()).collect());
        let id = session.greedy().unwrap();
        trace.ids.push(id);
        if step + 1 < NEW_IDS {
            session.advance(id).unwrap();
        }
    }
    trace
}

/// An opened checkpoint with its weights, for several settings to share.
struct Model {
    spec: ModelSpec,
    weights: StreamedWeights,
}

/// With everything in memory.
fn load(checkpoint: &str) -> Model {
    let checkpoint = open(checkpoint);
    let layout = Layout::everything(checkpoint.spec());
    load_as(checkpoint, layout, IoMode::Auto)
}

fn load_as(checkpoint: Checkpoint, layout: Layout, mode: IoMode) -> Model {
    let spec = checkpoint.spec().clone();
    Model { spec, weights: StreamedWeights::open(checkpoint, layout, mode).unwrap() }
}

fn run(model: &Model, prompt: &[u32], setting: Setting) -> Trace {
    let options = EngineOptions {
        isa: Some(setting.isa),
        threads: NonZeroUsize::new(setting.threads),
        chunk: match setting.feed {
            Feed::Chunks(rows) => NonZeroUsize::new(rows),
            _ => NonZeroUsize::new(CONTEXT),
        },
        context: NonZeroUsize::new(CONTEXT),
        ..EngineOptions::default()
    };
    let (spec, weights) = (model.spec.clone(), &model.weights);
    if setting.shuffle {
        let weights = Shuffled::new(weights, 7);
        let engine = Engine::with_weights(spec, weights, Vec::new(), options).unwrap();
        trace(&mut engine.session(), prompt, setting.feed)
    } else {
        let engine = Engine::with_weights(spec, weights, Vec::new(), options).unwrap();
        trace(&mut engine.session(), prompt, setting.feed)
    }
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
                for shuffle in [false, true] {
                    all.push(Setting { isa, threads, feed, shuffle });
                }
            }
        }
    }
    all
}

fn check(checkpoint: &str, prompt: &[u32]) {
    let model = load(checkpoint);
    let reference = Setting { isa: IsaKind::Scalar, threads: 1, feed: Feed::Whole, shuffle: false };
    let wanted = run(&model, prompt, reference);
    for setting in settings() {
        let got = run(&model, prompt, setting);
        assert_eq!(got.ids, wanted.ids, "{checkpoint} {setting:?}");
        assert!(got == wanted, "{checkpoint} {setting:?}: logits differ in their bits");
    }
}

/// Long enough to cross blocks of 64 positions twice.
fn long_prompt(golden: &Golden) -> Vec<u32> {
    golden.prompts.iter().find(|p| p.name == "long").unwrap().ids.clone()
}

#[test]
fn k3_micro_is_one_text() {
    check("k3-micro", &long_prompt(&Golden::load("k3-micro")));
}

#[test]
fn k3_calm_is_one_text() {
    check("k3-calm", &long_prompt(&Golden::load("k3-calm")));
}

#[test]
fn the_demo_model_is_one_text() {
    let golden = DemoGolden::load();
    let longest = golden.prompts.iter().max_by_key(|p| p.ids.len()).unwrap();
    check("demo", &longest.ids);
}

/// How memory is divided: from the least that works to everything.
fn layouts(spec: &ModelSpec, largest_unit: usize) -> Vec<Layout> {
    let everything = Layout::everything(spec);
    let units = everything.resident.len();
    let mut all = Vec::new();
    for (resident, slots) in [(0, 1), (0, spec.moe.top_k), (2, 7), (3, 40), (1, usize::MAX)] {
        for cache in [false, true] {
            all.push(Layout {
                // Every `resident`-th unit stays.
                resident: (0..units).map(|u| resident > 0 && u % resident == 0).collect(),
                stream_bytes: largest_unit * (1 + slots % 3),
                expert_slots: slots.min(everything.expert_slots),
                cache,
                prefetch: Prefetch::Off,
            });
        }
    }
    all.push(everything);
    all
}

fn check_memory(name: &str, prompt: &[u32]) {
    let setting =
        Setting { isa: Isa::best().kind(), threads: 2, feed: Feed::Chunks(48), shuffle: false };
    let wanted = run(&load(name), prompt, setting);
    let checkpoint = open(name);
    let largest_unit = deltafin_stream::largest_unit_room(&checkpoint.catalog);
    for layout in layouts(checkpoint.spec(), largest_unit) {
        for prefetch in Prefetch::ALL {
            for mode in [IoMode::Auto, IoMode::Direct, IoMode::Buffered] {
                let layout = Layout { prefetch, ..layout.clone() };
                let at = format!("{name} {layout:?} {mode:?}");
                let model = load_as(checkpoint.clone(), layout, mode);
                for shuffle in [false, true] {
                    let got = run(&model, prompt, Setting { shuffle, ..setting });
                    assert!(got == wanted, "{at} shuffle {shuffle}");
                }
            }
        }
    }
}

#[test]
fn memory_drives_and_guesses_are_neutral_on_k3_micro() {
    check_memory("k3-micro", &long_prompt(&Golden::load("k3-micro")));
}

#[test]
fn memory_drives_and_guesses_are_neutral_on_k3_calm() {
    check_memory("k3-calm", &long_prompt(&Golden::load("k3-calm")));
}
