//! One thread of the pool: spin, sleep, work.

use crate::Shared;
use crate::addresses;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Looks for work before a thread sleeps: 30 to 40 microseconds on AMD Zen 4.
const SPINS: u32 = 2000;

/// A started thread.
pub(crate) struct Worker {
    asleep: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts thread `i` of the pool, unless the system refuses or there are no addresses for it, and returns once it
    /// runs: what a starting thread allocates is then behind it.
    pub(crate) fn start(i: usize, shared: &Arc<Shared>) -> Option<Worker> {
        if !addresses::are_enough() {
            return None;
        }
        let asleep = Arc::new(AtomicBool::new(false));
        let (shared, flag) = (Arc::clone(shared), Arc::clone(&asleep));
        let up = Arc::new(AtomicBool::new(false));
        let is_up = Arc::clone(&up);
        let thread = thread::Builder::new().name(format!("kernels-{i}"));
        let run = move || {
            is_up.store(true, Ordering::SeqCst);
            drop(is_up);
            work(&shared, &flag);
        };
        let handle = thread.spawn(run).ok()?;
        while !up.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        Some(Worker { asleep, handle: Some(handle) })
    }

    /// Ends its sleep.
    pub(crate) fn wake(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.unpark();
        }
    }

    /// Waits for its end; `Shared::stop` must be set.
    pub(crate) fn join(&mut self) {
        self.unpark();
        if let Some(handle) = self.handle.take() {
            // Panics of tasks are caught where they happen; the thread itself has none.
            let _ = handle.join();
        }
    }

    fn unpark(&self) {
        if let Some(handle) = &self.handle {
            handle.thread().unpark();
        }
    }
}

fn work(shared: &Shared, asleep: &AtomicBool) {
    let mut seen = 0;
    while !shared.stop.load(Ordering::SeqCst) {
        if shared.gate.has_news(seen) {
            shared.gate.visit(&mut seen, |task| shared.claim(task));
        } else {
            wait(shared, asleep, seen);
        }
    }
}

/// Returns at the next opening, at the stop, or for no reason.
fn wait(shared: &Shared, asleep: &AtomicBool, seen: u64) {
    for _ in 0..SPINS {
        if shared.gate.has_news(seen) {
            return;
        }
        std::hint::spin_loop();
    }
    // Say so before looking a last time: whoever opens the gate looks at the flag after opening it.
    asleep.store(true, Ordering::SeqCst);
    if !shared.gate.has_news(seen) && !shared.stop.load(Ordering::SeqCst) {
        thread::park();
    }
    asleep.store(false, Ordering::SeqCst);
}
