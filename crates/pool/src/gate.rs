//! Lends a borrowed task to threads that outlive the borrow. The crate's only unsafe code.
//!
//! **Promise.** A visitor sees the task only between [`Gate::visit`] letting it in and it leaving;
//! [`Gate::lend`] does not return, nor unwind, before the gate is shut and every visitor has left.
//! A thread that wakes too late finds the gate shut and nobody waits for it.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A function of the task's index, and how many indices there are.
pub(crate) struct Task<'a> {
    pub(crate) call: &'a (dyn Fn(usize) + Sync),
    pub(crate) count: usize,
}

/// How often the gate was opened, whether it is open, and how many visitors are inside.
pub(crate) struct Gate {
    state: AtomicU64,
    /// Written only while the gate is shut and empty, by the holder of `lender`.
    task: UnsafeCell<Option<Task<'static>>>,
    lender: Mutex<()>,
}

// SAFETY: `task` is shared only with visitors, and `Task` holds a `Sync` function.
unsafe impl Sync for Gate {}

const VISITORS: u64 = (1 << 16) - 1;
const OPEN: u64 = 1 << 16;
const OPENINGS: u64 = !(VISITORS | OPEN);
const OPENING: u64 = 1 << 17;

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate { state: AtomicU64::new(0), task: UnsafeCell::new(None), lender: Mutex::new(()) }
    }

    /// Whether the gate has been opened since `seen` was last updated.
    pub(crate) fn has_news(&self, seen: u64) -> bool {
        self.state.load(Ordering::SeqCst) & OPENINGS != seen
    }

    /// Sets `next` to zero, opens the gate to `task`, runs `meanwhile`, shuts the gate and waits until
    /// it is empty.
    ///
    /// Refuses, without running anything, while somebody else is lending.
    pub(crate) fn lend(
        &self,
        task: Task<'_>,
        next: &AtomicUsize,
        meanwhile: impl FnOnce(),
    ) -> bool {
        let Ok(_turn) = self.lender.try_lock() else { return false };
        // SAFETY: only the lifetime changes, and visitors are gone before the borrow ends: `Shut`
        // waits for them however this function is left.
        let task: Task<'static> = unsafe { std::mem::transmute(task) };
        // SAFETY: the gate is shut and empty, and this thread holds the turn.
        unsafe { *self.task.get() = Some(task) };
        next.store(0, Ordering::Relaxed);
        let openings = self.state.load(Ordering::Relaxed) & OPENINGS;
        let _shut = Shut(self);
        self.state.store(openings.wrapping_add(OPENING) | OPEN, Ordering::SeqCst);
        meanwhile();
        true
    }

    /// Runs `body` with the task if the gate is open; `seen` then knows of this opening.
    pub(crate) fn visit(&self, seen: &mut u64, body: impl FnOnce(&Task<'_>)) {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            *seen = state & OPENINGS;
            if state & OPEN == 0 {
                return;
            }
            let (ok, err) = (Ordering::Acquire, Ordering::Acquire);
            match self.state.compare_exchange_weak(state, state + 1, ok, err) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        let _leave = Leave(self);
        // SAFETY: this visitor was counted in while the gate was open, so the task stays until it
        // is counted out, which `Leave` does.
        if let Some(task) = unsafe { &*self.task.get() } {
            body(task);
        }
    }
}

/// Counts a visitor out.
struct Leave<'a>(&'a Gate);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_sub(1, Ordering::Release);
    }
}

/// Shuts the gate and waits until it is empty.
struct Shut<'a>(&'a Gate);

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.fetch_and(!OPEN, Ordering::AcqRel);
        let mut spins = 0;
        while state & VISITORS != 0 {
            // The last tasks are usually microseconds from their end; a visitor that the system put
            // aside takes longer and may need this very CPU.
            if spins < 1000 {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
            spins += 1;
            state = self.0.state.load(Ordering::Acquire);
        }
    }
}
