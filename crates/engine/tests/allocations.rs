//! The decode loop allocates nothing once it is warm, and a session allocates what is planned for it.
#![allow(clippy::unwrap_used)]

use deltafin_budget::{BudgetError, PlanError, Workspace};
use deltafin_engine::{Engine, EngineError, EngineOptions, Flow, IoMode, Profile, Silent};
use deltafin_model::State;
use deltafin_testkit::{DemoGolden, Golden, open};
use std::alloc::{GlobalAlloc, Layout, System};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Counts what it hands out, on all threads.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
/// Bytes that are handed out, and the most there ever were since it was last set.
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// One test at a time: another one running beside it would be counted too.
static ALONE: Mutex<()> = Mutex::new(());

fn take(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

fn give(bytes: usize) {
    LIVE.fetch_sub(bytes, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator unchanged.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        take(layout.size());
        // SAFETY: the caller's promise is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        give(layout.size());
        // SAFETY: the caller's promise is the system's.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // Large blocks are moved by mapping their pages elsewhere, not by copying.
        give(layout.size());
        take(new_size);
        // SAFETY: the caller's promise is the system's.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Ids decoded before counting begins: buffers have then grown to their sizes.
const WARM_UP: usize = 2;

/// With a profile watching, for that must not cost one either.
fn allocations_while_decoding(checkpoint: &str, prompt: &[u32], options: EngineOptions) -> usize {
    let engine = Engine::open(open(checkpoint), options).unwrap();
    let mut session = engine.session();
    session.watch(Box::new(Profile::new(engine.spec(), Some(engine.weights().stream()))));
    session.prefill(prompt, &mut |_| ControlFlow::Continue(())).unwrap();
    let mut decode = |ids: usize| {
        for _ in 0..ids {
            let id = session.greedy().unwrap();
            session.advance(id).unwrap();
        }
    };
    decode(WARM_UP);
    let read_before = read_bytes(&engine);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    decode(64);
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    let reads = read_bytes(&engine) > read_before;
    assert!(reads || options.memory.is_none(), "weights are read where memory is short");
    allocations
}

fn read_bytes(engine: &Engine) -> u64 {
    let decode = engine.weights().stream().counters().decode;
    decode.spine_bytes + decode.missed_bytes + decode.guessed_bytes
}

#[test]
fn the_decode_loop_allocates_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let demo = &DemoGolden::load().prompts[0].ids;
    let micro = &Golden::load("k3-micro").prompts[0].ids;
    for threads in [1, 2, 3] {
        let options = EngineOptions { threads: NonZeroUsize::new(threads), ..Default::default() };
        assert_eq!(allocations_while_decoding("demo", demo, options), 0, "{threads} threads");
        assert_eq!(allocations_while_decoding("k3-micro", micro, options), 0, "{threads} threads");
    }
}

/// The least budget of a checkpoint, as its refusal names it.
fn least_memory(checkpoint: &str) -> u64 {
    let options = EngineOptions { memory: Some(1), ..Default::default() };
    match Engine::open(open(checkpoint), options).map(|_| ()) {
        Err(EngineError::Budget(BudgetError::Plan(PlanError::TooSmall { smallest, .. }))) => {
            smallest
        }
        other => panic!("a byte of memory: {other:?}"),
    }
}

/// With the least memory nearly every weight is read for every token, in every way there is to read.
#[test]
fn the_decode_loop_allocates_nothing_while_weights_stream() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let prompt = &Golden::load("k3-micro").prompts[0].ids;
    let memory = Some(least_memory("k3-micro"));
    for io in [IoMode::Auto, IoMode::Direct, IoMode::Buffered] {
        let options =
            EngineOptions { memory, io, threads: NonZeroUsize::new(2), ..Default::default() };
        let allocations = allocations_while_decoding("k3-micro", prompt, options);
        assert_eq!(allocations, 0, "{io:?}");
    }
}

/// The most that a session of `rows` positions has allocated when all went in at once and the logits
/// of all were asked for.
fn peak_of_a_session(checkpoint: &str, rows: usize) -> (usize, u64) {
    let rows_asked = NonZeroUsize::new(rows);
    let options = EngineOptions { chunk: rows_asked, context: rows_asked, ..Default::default() };
    let engine = Engine::open(open(checkpoint), options).unwrap();
    // Rows that are alike go to the same experts, which is what takes most room.
    let ids = vec![7; rows];
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let mut session = engine.session();
    let flow = session.evaluate(&ids, &mut Silent, &mut |_| {}, &mut |_, _| {}).unwrap();
    assert_eq!(flow, Flow::Done);
    let planned = State::bytes(engine.spec(), rows) + Workspace::of(engine.spec()).bytes(rows);
    (PEAK.load(Ordering::Relaxed) - before, planned)
}

#[test]
fn a_session_allocates_what_is_planned_for_it() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for checkpoint in ["k3-micro", "k3-calm", "demo"] {
        for rows in [1, 5, 100, 128, 300, 1000] {
            let (peak, planned) = peak_of_a_session(checkpoint, rows);
            let peak = peak as u64;
            assert!(
                peak <= planned,
                "{checkpoint}, {rows} rows: {peak} allocated, {planned} planned"
            );
            // What does not depend on the model is a small part of a real one.
            let most = peak + peak / 4 + (256 << 10);
            assert!(planned <= most, "{checkpoint}, {rows} rows: {planned} planned for {peak}");
        }
    }
}
