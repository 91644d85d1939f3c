//! Records of a plan, many at once, until all are here.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use deltafin_store::{Distant, StoreError};

use super::{Coming, Plan};

/// Between two looks at whether to stop.
const LOOK: Duration = Duration::from_millis(20);

impl Plan {
    /// Brings the records here, in their order, as many at once as the source may be asked for. `came` is told of
    /// each that is here, from any thread. Ends soon after `stop` is raised; what is here by then stays.
    ///
    /// # Errors
    /// The first record that could not be had; no further ones are begun then.
    pub fn fetch(
        &self,
        stop: &AtomicBool,
        came: &(dyn Fn(&Coming) + Sync),
    ) -> Result<(), StoreError> {
        let Some(distant) = &self.distant else { return Ok(()) };
        let work = Work {
            distant,
            coming: self.coming(),
            came,
            next: AtomicUsize::new(0),
            at_work: AtomicUsize::new(0),
            halt: AtomicBool::new(false),
            failed: Mutex::new(None),
        };
        work.all(stop);
        match work.failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) if !stop.load(Ordering::Relaxed) => Err(error),
            _ => Ok(()),
        }
    }
}

/// What the threads share.
struct Work<'p> {
    distant: &'p Arc<dyn Distant>,
    coming: &'p [Coming],
    came: &'p (dyn Fn(&Coming) + Sync),
    /// The first record that nobody has begun.
    next: AtomicUsize,
    /// Threads that have not ended.
    at_work: AtomicUsize,
    /// No more is begun, and what is on its way is dropped.
    halt: AtomicBool,
    failed: Mutex<Option<StoreError>>,
}

impl Work<'_> {
    fn all(&self, stop: &AtomicBool) {
        let lanes = self.distant.lanes().min(self.coming.len());
        thread::scope(|scope| {
            for number in 0..lanes {
                self.at_work.fetch_add(1, Ordering::SeqCst);
                let builder = thread::Builder::new().name(format!("warm-{number}"));
                if builder.spawn_scoped(scope, || self.lane()).is_err() {
                    self.at_work.fetch_sub(1, Ordering::SeqCst);
                    break;
                }
            }
            if self.at_work.load(Ordering::SeqCst) == 0 && lanes > 0 {
                // Where the system gives no thread, this one does it, and hears of a stop between two records.
                self.at_work.fetch_add(1, Ordering::SeqCst);
                return self.lane_until(stop);
            }
            while self.at_work.load(Ordering::SeqCst) > 0 {
                self.halt.fetch_or(stop.load(Ordering::Relaxed), Ordering::Relaxed);
                thread::sleep(LOOK);
            }
        });
    }

    fn lane(&self) {
        self.lane_until(&self.halt);
    }

    fn lane_until(&self, stop: &AtomicBool) {
        let _ended = Ended(&self.at_work);
        while !stop.load(Ordering::Relaxed) && !self.halt.load(Ordering::Relaxed) {
            let Some(record) = self.coming.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
                return;
            };
            match self.distant.bring(&record.pieces, &self.halt) {
                Ok(()) => (self.came)(record),
                Err(error) => {
                    self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    // What is on its way elsewhere would meet the same.
                    self.halt.store(true, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Counts a thread as ended, also where it panics.
struct Ended<'w>(&'w AtomicUsize);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
