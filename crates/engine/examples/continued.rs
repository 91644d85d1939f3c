//! Time to the first token of a conversation that goes on, beside the cost of its new tokens alone.
//!
//! ```text
//! cargo run --release -p deltafin-engine --example continued -- [HISTORY [NEW [ROUNDS]]]
//! ```
//!
//! On the built-in model: a conversation of HISTORY tokens (2000) is gone on from with NEW more (60). The
//! arms take turns: `alone` takes the new tokens in on a state that is there; `memory` first returns to
//! the conversation from another one; `drive` does so in a new engine, from a file; `cold` begins at the
//! beginning. Times end with the first new id; each ratio is the median over rounds.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use deltafin_engine::{
    Engine, EngineOptions, FolderOptions, Mark, Session, SnapshotMemory, most_likely,
};
use deltafin_testkit::open;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

const BYTES: u64 = 256 << 20;

fn engine(context: usize, folder: &Path) -> Engine {
    let options = EngineOptions {
        context: NonZeroUsize::new(context),
        snapshots: SnapshotMemory::Bytes(BYTES),
        ..EngineOptions::default()
    };
    let engine = Engine::open(open("demo"), options).unwrap();
    let folder = FolderOptions { path: folder.to_owned(), bytes: BYTES };
    engine.keep_snapshots_in(folder, |line| println!("{line}")).unwrap();
    engine
}

fn prompt(seed: u32, ids: usize, vocab: u32) -> Vec<u32> {
    (0..ids as u32).map(|at| (seed * 31 + 7 + at * (7919 + seed)) % vocab).collect()
}

fn take_in(session: &mut Session<'_>, ids: &[u32], reused: usize) {
    session.mark(&[Mark { position: ids.len() - 3, lasting: true }]);
    session.prefill(&ids[reused..], &mut |_| ControlFlow::Continue(())).unwrap();
    most_likely(session.logits()).unwrap();
}

/// The seconds of one arm. As a server does it, but for `reused` that is known already.
fn seconds(session: &mut Session<'_>, ids: &[u32], reused: Option<usize>, wanted: usize) -> f64 {
    let began = Instant::now();
    let reused = reused.unwrap_or_else(|| session.reuse(ids));
    take_in(session, ids, reused);
    let seconds = began.elapsed().as_secs_f64();
    assert_eq!(reused, wanted);
    seconds
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|arg| arg.parse::<usize>().unwrap());
    let mut number = |usual| numbers.next().unwrap_or(usual);
    let (history, new, rounds) = (number(2000), number(60), number(15));
    let folder = tempfile::tempdir().unwrap();
    let engine_of = || engine(history + new + 64, folder.path());
    let warm = engine_of();
    let vocab = warm.spec().vocab as u32;
    let mut session = warm.session();
    let talk = prompt(1, history, vocab);
    take_in(&mut session, &talk, 0);
    session.keep();
    let mut times: [Vec<f64>; 4] = Default::default();
    for round in 0..rounds as u32 {
        // Each time with new tokens of its own: those of another time would be found, too.
        let ids = |arm| [&talk[..], &prompt(2 + round * 4 + arm, new, vocab)].concat();
        let quiet = |engine: &Engine| {
            engine.snapshot_writes().unwrap().finish_within(Duration::from_secs(60))
        };
        let here = session.reuse(&ids(0));
        times[0].push(seconds(&mut session, &ids(0), Some(here), history));
        let other = prompt(1_000_000 + round, 300, vocab);
        session.reuse(&other);
        take_in(&mut session, &other, 0);
        assert!(quiet(&warm));
        times[1].push(seconds(&mut session, &ids(1), None, history));
        let fresh = engine_of();
        let mut restarted = fresh.session();
        // Weights and buffers are to be there, as they are in the other arms.
        take_in(&mut restarted, &other, 0);
        assert!(quiet(&fresh) && quiet(&warm));
        times[2].push(seconds(&mut restarted, &ids(2), None, history));
        restarted.reset();
        assert!(quiet(&fresh));
        times[3].push(seconds(&mut restarted, &ids(3), Some(0), 0));
    }
    let alone = times[0].clone();
    for (name, times) in ["alone", "memory", "drive", "cold"].iter().zip(times) {
        let ratios = times.iter().zip(&alone).map(|(time, alone)| time / alone).collect();
        let (median_ms, ratio) = (median(times) * 1e3, median(ratios));
        println!("{name:<8}{median_ms:>9.2} ms   {ratio:>6.2} x alone");
    }
}
