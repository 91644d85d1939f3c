//! What the kernels ask of a thread pool, and the handle they are called through.

use crate::Isa;
use std::sync::Arc;

/// Runs independent tasks. Kernels split output rows over tasks and never a sum, so how many threads
/// answer, and in which order, cannot change a bit.
pub trait Parallel: Send + Sync {
    /// How many tasks can run at once, at least 1.
    fn width(&self) -> usize;

    /// Calls `task(i)` once for every `i` in `0..tasks`, returns when all have returned.
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync));
}

/// Everything on the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Parallel for Serial {
    fn width(&self) -> usize {
        1
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(task);
    }
}

/// An instruction set and the threads to use it on.
#[derive(Clone)]
pub struct Kernels {
    isa: Isa,
    pool: Arc<dyn Parallel>,
}

impl Kernels {
    /// Kernels for `isa` whose rows are shared out over `pool`.
    pub fn new(isa: Isa, pool: Arc<dyn Parallel>) -> Kernels {
        Kernels { isa, pool }
    }

    /// The portable reference on the calling thread.
    pub fn reference() -> Kernels {
        Kernels::new(Isa::SCALAR, Arc::new(Serial))
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The threads in use.
    pub fn pool(&self) -> &dyn Parallel {
        &*self.pool
    }
}
