//! Whenever the system runs short of memory the expert cache gives way, and nothing else changes.
#![allow(clippy::unwrap_used)]

use deltafin_budget::Pressure;
use deltafin_engine::{Engine, EngineOptions};
use deltafin_testkit::{Golden, open};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

const SLABS: usize = 40;
const STEPS: usize = 6;

/// Watched by nobody: the memory is promised.
fn engine() -> Engine {
    let slabs = std::num::NonZeroUsize::new(SLABS);
    let options = EngineOptions { memory: Some(256 << 20), slabs, ..EngineOptions::default() };
    Engine::open(open("k3-micro"), options).unwrap()
}

/// A machine of which so many of a hundred parts of memory are free.
fn machine(root: &Path, percent: u64) -> Pressure {
    fs::create_dir_all(root.join("proc")).unwrap();
    let text = format!("MemTotal: 1000000 kB\nMemAvailable: {percent}0000 kB\n");
    fs::write(root.join("proc/meminfo"), text).unwrap();
    Pressure::watch_at(root)
}

/// The bits of all logits, and the slots that are left.
fn run(engine: &Engine) -> (Vec<u32>, usize) {
    let mut session = engine.session();
    let prompt = &Golden::load("k3-micro").prompts[0].ids;
    session.prefill(prompt, &mut |_| ControlFlow::Continue(())).unwrap();
    let mut bits = Vec::new();
    for _ in 0..STEPS {
        bits.extend(session.logits().iter().map(|logit| logit.to_bits()));
        session.advance(session.greedy().unwrap()).unwrap();
    }
    (bits, engine.weights().stream().expert_slots())
}

#[test]
fn the_cache_gives_way_to_others_and_the_text_stays() {
    let (wanted, slots) = run(&engine());
    assert_eq!(slots, SLABS);
    let root = tempfile::tempdir().unwrap();
    for (percent, left) in [(50, SLABS), (5, SLABS - SLABS / 8), (2, SLABS / 2)] {
        let engine = engine();
        engine.weights().give_way_to(machine(root.path(), percent));
        let (got, slots) = run(&engine);
        assert!(got == wanted, "{percent} % free: other bits");
        // At the first look; what comes later depends on how long the run takes.
        let fewest = if percent == 50 { SLABS } else { 2 * engine.spec().moe.top_k };
        assert!((fewest..=left).contains(&slots), "{percent} % free: {slots} slots are left");
    }
}
