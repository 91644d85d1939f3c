//! A drive whose chunks are read by threads, each with one positional read at a time.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use super::Landing;
use super::direct::read_run;
use super::layout::Run;
use super::queue::{Chunk, Queue};
use crate::{Store, StoreError, arena};

/// What the standard library gives a thread.
const STACK_BYTES: usize = 2 << 20;

/// What the threads of a drive, and who asks, have in common.
pub(super) struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    /// What else to call when something changed.
    bell: Option<Box<dyn Fn() + Send + Sync>>,
    pub(super) store: Arc<dyn Store>,
    pub(super) landing: Arc<dyn Landing>,
}

impl Shared {
    pub(super) fn new(queue: Queue, store: Arc<dyn Store>, landing: Arc<dyn Landing>) -> Shared {
        Shared { queue: Mutex::new(queue), wake: Condvar::new(), bell: None, store, landing }
    }

    /// For threads that wait for something else than [`Shared::wait`].
    #[cfg(target_os = "linux")]
    pub(super) fn with_bell(self, bell: impl Fn() + Send + Sync + 'static) -> Shared {
        Shared { bell: Some(Box::new(bell)), ..self }
    }

    /// A thread that panicked cannot have left the queue half changed.
    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wait<'q>(&self, queue: MutexGuard<'q, Queue>) -> MutexGuard<'q, Queue> {
        self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }

    /// Something changed that a thread may wait for.
    pub(super) fn wake(&self) {
        self.wake.notify_all();
        if let Some(ring) = &self.bell {
            ring();
        }
    }
}

/// How a thread reads a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Direct,
    Buffered,
}

/// Starts `count` threads, or as many as the system grants if that is at least one, and returns once they run:
/// what a starting thread allocates, and the addresses that the allocator sets aside for it, are then behind them.
pub(super) fn start(
    shared: &Arc<Shared>,
    way: Way,
    count: usize,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::with_capacity(count);
    let (up, ups) = mpsc::channel();
    for number in 0..count.max(1) {
        let (shared, up) = (Arc::clone(shared), up.clone());
        let builder = thread::Builder::new().name(format!("drive-{number}"));
        let run = move || {
            let _ = up.send(());
            drop(up);
            work(&shared, way);
        };
        match begin(builder, run) {
            Ok(thread) => threads.push(thread),
            Err(error) if threads.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    drop(up);
    ups.iter().for_each(drop);
    Ok(threads)
}

/// Starts a thread, unless the system refuses. One that lacks addresses after it has its stack would end the process, so
/// where there are too few it is refused before.
pub(super) fn begin(
    builder: thread::Builder,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    // With what it is aligned by twice a stack: others may be about to begin.
    if !arena::has_addresses(STACK_BYTES) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    builder.spawn(run)
}

fn work(shared: &Shared, way: Way) {
    let mut queue = shared.lock();
    loop {
        if let Some(over) = queue.take_over() {
            drop(queue);
            over.tell(&*shared.landing);
            queue = shared.lock();
        } else if let Some(mut chunk) = queue.next() {
            drop(queue);
            let (outcome, again) = read(shared, way, &mut chunk);
            queue = shared.lock();
            if again {
                queue.count_retry();
            }
            queue.done(chunk, outcome);
        } else if queue.is_stopped() {
            return;
        } else {
            queue = shared.wait(queue);
        }
    }
}

fn read(shared: &Shared, way: Way, chunk: &mut Chunk) -> (Result<usize, StoreError>, bool) {
    let run = chunk.run;
    let file = match way {
        Way::Direct => shared.store.file(run.piece.shard()),
        Way::Buffered => None,
    };
    match file {
        Some(file) => read_run(file, run, chunk.part.bytes_mut()),
        None => (read_buffered(&*shared.store, run, chunk.part.bytes_mut()), false),
    }
}

/// The store tries again by itself where that makes sense.
fn read_buffered(store: &dyn Store, run: Run, buf: &mut [u8]) -> Result<usize, StoreError> {
    let skip = run.at - run.piece.offset();
    let part = run.piece.part(skip, run.len as u64).expect("a chunk lies in its piece");
    store.read_exact(part, buf).map(|()| run.len).map_err(|error| match error {
        StoreError::EndOfFile { file, got, .. } => StoreError::EndOfFile {
            file,
            offset: run.piece.offset(),
            wanted: run.piece.len(),
            got: skip + got,
        },
        other => other,
    })
}
