//! The thread that writes snapshots, so that nobody waits for a drive.

use crate::folder::Folder;
use crate::page::Snapshot;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Snapshots that may wait. They hold memory; when a drive cannot keep up, the oldest is given up.
const WAITING_MAX: usize = 4;

/// Writes one snapshot after the other. Dropping it writes what waits.
pub(crate) struct Writer {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

/// What a `Writer` still has to do, for whoever ends the program.
#[derive(Clone)]
pub struct Writes(Arc<Queue>);

#[derive(Default)]
struct Queue {
    line: Mutex<Line>,
    changed: Condvar,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Arc<Snapshot>>,
    is_writing: bool,
    is_closed: bool,
}

impl Writer {
    pub(crate) fn start(folder: Arc<Folder>) -> io::Result<Writer> {
        let queue = Arc::new(Queue::default());
        let own = queue.clone();
        let thread = thread::Builder::new().name("snapshots".to_owned());
        let thread = thread.spawn(move || {
            while let Some(snapshot) = own.next() {
                folder.save(&snapshot);
                drop(snapshot);
                own.written();
            }
        })?;
        Ok(Writer { queue, thread: Some(thread) })
    }

    pub(crate) fn write(&self, snapshot: Arc<Snapshot>) {
        let mut line = self.queue.lock();
        if line.waiting.iter().any(|waiting| Arc::ptr_eq(waiting, &snapshot)) {
            return;
        }
        if line.waiting.len() == WAITING_MAX {
            line.waiting.pop_front();
        }
        line.waiting.push_back(snapshot);
        self.queue.changed.notify_all();
    }

    pub(crate) fn writes(&self) -> Writes {
        Writes(self.queue.clone())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic in there was its own; what it wrote is whole or has no name.
            let _ = thread.join();
        }
    }
}

impl Writes {
    /// Waits until everything is written; false if that takes longer.
    pub fn finish_within(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let mut line = self.0.lock();
        while line.is_writing || !line.waiting.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.0.changed.wait_timeout(line, left);
            line = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Queue {
    fn next(&self) -> Option<Arc<Snapshot>> {
        let mut line = self.lock();
        loop {
            if let Some(snapshot) = line.waiting.pop_front() {
                line.is_writing = true;
                return Some(snapshot);
            }
            if line.is_closed {
                return None;
            }
            line = self.changed.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn written(&self) {
        self.lock().is_writing = false;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
