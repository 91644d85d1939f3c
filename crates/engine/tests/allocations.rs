//! The decode loop allocates nothing once it is warm.
#![allow(clippy::unwrap_used)]

use deltafin_engine::{Engine, EngineOptions};
use deltafin_testkit::{DemoGolden, Golden, open};
use std::alloc::{GlobalAlloc, Layout, System};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what it hands out, on all threads.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the system's.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is the system's.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Ids decoded before counting begins: buffers have then grown to their sizes.
const WARM_UP: usize = 2;

fn allocations_while_decoding(checkpoint: &str, prompt: &[u32], threads: usize) -> usize {
    let options = EngineOptions { threads: NonZeroUsize::new(threads), ..Default::default() };
    let engine = Engine::open(open(checkpoint), options).unwrap();
    let mut session = engine.session();
    session.prefill(prompt, &mut |_| ControlFlow::Continue(())).unwrap();
    let mut decode = |ids: usize| {
        for _ in 0..ids {
            let id = session.greedy().unwrap();
            session.advance(id).unwrap();
        }
    };
    decode(WARM_UP);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    decode(64);
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

// One test: another one running beside it would be counted too.
#[test]
fn the_decode_loop_allocates_nothing() {
    let demo = &DemoGolden::load().prompts[0].ids;
    let micro = &Golden::load("k3-micro").prompts[0].ids;
    for threads in [1, 2, 3] {
        assert_eq!(allocations_while_decoding("demo", demo, threads), 0, "{threads} threads");
        assert_eq!(allocations_while_decoding("k3-micro", micro, threads), 0, "{threads} threads");
    }
}
