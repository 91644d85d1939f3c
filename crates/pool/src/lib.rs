//! A fixed set of threads that share out row ranges.
//!
//! **Promise.** [`Pool::run`](deltafin_kernels::Parallel::run) calls every task once and returns when all have returned. It
//! allocates nothing. A panic in a task reaches the caller after the other tasks have ended. Called
//! from inside a task, or by two threads at once, it runs the tasks on the calling thread.
//!
//! Threads claim tasks one at a time, so a thread that is put aside delays only the task it holds.
//! Between runs a thread spins for some tens of microseconds, the usual pause between two products of
//! a layer, and then sleeps.

mod addresses;
mod gate;
mod worker;

use deltafin_kernels::Parallel;
use gate::{Gate, Task};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use worker::Worker;

/// Threads that wait for tasks.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
}

/// What the threads have in common.
struct Shared {
    gate: Gate,
    /// The next task to claim.
    next: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    stop: AtomicBool,
}

impl Pool {
    /// A pool that runs `threads` tasks at once: the caller's thread and `threads - 1` of its own.
    ///
    /// Where the system refuses a thread the pool has as many as there are.
    pub fn new(threads: usize) -> Pool {
        let shared = Arc::new(Shared {
            gate: Gate::new(),
            next: AtomicUsize::new(0),
            panic: Mutex::new(None),
            stop: AtomicBool::new(false),
        });
        let workers = (1..threads).map_while(|i| Worker::start(i, &shared)).collect();
        Pool { shared, workers }
    }

    /// The CPUs this process may use, by affinity and quota.
    pub fn default_threads() -> usize {
        std::thread::available_parallelism().map_or(1, |n| n.get())
    }
}

impl Parallel for Pool {
    fn width(&self) -> usize {
        self.workers.len() + 1
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let helpers = self.workers.len().min(tasks.saturating_sub(1));
        if helpers == 0 || !self.shared.run(tasks, task, &self.workers[..helpers]) {
            (0..tasks).for_each(task);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.workers.iter_mut().for_each(Worker::join);
    }
}

impl Shared {
    /// Runs the tasks together with `helpers`, or refuses because a run is already going on.
    fn run(&self, count: usize, call: &(dyn Fn(usize) + Sync), helpers: &[Worker]) -> bool {
        let task = Task { call, count };
        let own = Task { call, count };
        // Whoever lends is alone, so the counter is reset between two runs, before the gate opens.
        let ran = self.gate.lend(task, &self.next, || {
            helpers.iter().for_each(Worker::wake);
            self.claim(&own);
        });
        if ran {
            let panic = self.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(payload) = panic {
                resume_unwind(payload);
            }
        }
        ran
    }

    /// Runs tasks until none is left. After a panic none is.
    fn claim(&self, task: &Task<'_>) {
        loop {
            let i = self.next.fetch_add(1, Ordering::Relaxed);
            if i >= task.count {
                return;
            }
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (task.call)(i))) {
                self.next.store(task.count, Ordering::Relaxed);
                self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
            }
        }
    }
}

#[cfg(test)]
mod tests;
