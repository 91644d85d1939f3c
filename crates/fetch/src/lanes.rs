//! How many requests are on their way at once, and how fast bytes may come.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

/// A bounded number of requests. It halves when a server is crowded, and grows back one by one.
#[derive(Debug)]
pub(crate) struct Lanes {
    free: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// How many may be on their way.
    limit: usize,
    most: usize,
    /// Lanes that close as soon as whoever is on them leaves.
    closing: usize,
    /// Requests that went well since the limit changed.
    good: usize,
    paused_until: Instant,
}

/// The right to one request, until dropped.
pub(crate) struct Lane<'l> {
    lanes: &'l Lanes,
    permit: Option<SemaphorePermit<'l>>,
}

impl Lanes {
    /// At most so many.
    pub(crate) fn new(most: usize) -> Lanes {
        let most = most.max(1);
        let paused_until = Instant::now();
        let state = State { limit: most, most, closing: 0, good: 0, paused_until };
        Lanes { free: Semaphore::new(most), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a lane, and for the end of a pause.
    pub(crate) async fn enter(&self) -> Lane<'_> {
        let permit = self.free.acquire().await.ok(); // it is never closed
        loop {
            let until = self.state().paused_until;
            if until <= Instant::now() {
                return Lane { lanes: self, permit };
            }
            sleep_until(until).await;
        }
    }

    /// A server said that there are too many requests, and perhaps for how long.
    pub(crate) fn crowded(&self, pause: Duration) {
        let mut state = self.state();
        let fewer = state.limit - state.limit.div_ceil(2);
        state.limit -= fewer;
        state.good = 0;
        state.closing += fewer - self.free.forget_permits(fewer);
        state.paused_until = state.paused_until.max(Instant::now() + pause);
    }

    /// A request went well.
    pub(crate) fn went_well(&self) {
        let mut state = self.state();
        state.good += 1;
        if state.limit < state.most && state.good >= 2 * state.limit {
            state.limit += 1;
            state.good = 0;
            match state.closing {
                0 => self.free.add_permits(1),
                _ => state.closing -= 1,
            }
        }
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        let mut state = self.lanes.state();
        if state.closing > 0
            && let Some(permit) = self.permit.take()
        {
            state.closing -= 1;
            permit.forget();
        }
    }
}

/// Bytes a second, if they are bounded.
#[derive(Debug)]
pub(crate) struct Pace {
    bytes_per_second: Option<u64>,
    next: Mutex<Instant>,
}

impl Pace {
    /// At most so many bytes a second.
    pub(crate) fn new(bytes_per_second: Option<u64>) -> Pace {
        Pace { bytes_per_second, next: Mutex::new(Instant::now()) }
    }

    /// Waits until so many bytes may have come.
    pub(crate) async fn take(&self, bytes: usize) {
        let Some(rate) = self.bytes_per_second else { return };
        let until = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let took = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
            *next = (*next).max(Instant::now()) + took;
            *next
        };
        sleep_until(until).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit, lanes that are free, and lanes that are to close.
    fn counts(lanes: &Lanes) -> (usize, usize, usize) {
        let state = lanes.state();
        (state.limit, lanes.free.available_permits(), state.closing)
    }

    #[tokio::test]
    async fn crowding_halves_and_success_restores() {
        let lanes = Lanes::new(8);
        let mut held = Vec::new();
        for _ in 0..8 {
            held.push(lanes.enter().await);
        }
        lanes.crowded(Duration::ZERO);
        lanes.crowded(Duration::ZERO);
        assert_eq!(counts(&lanes), (2, 0, 6));
        held.clear();
        assert_eq!(counts(&lanes), (2, 2, 0));
        for _ in 0..200 {
            lanes.went_well();
        }
        assert_eq!(counts(&lanes), (8, 8, 0));
        for _ in 0..9 {
            lanes.crowded(Duration::ZERO);
        }
        assert_eq!(counts(&lanes), (1, 1, 0));
    }
}
