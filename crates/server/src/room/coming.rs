//! Room for bodies while they come.
//!
//! Promises: only bytes that have come take room; a small body always finds it; a body that does not come on gives
//! its room to one that does.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::{FREE_BYTES, UNIT, semaphore};
use crate::http::ApiError;

/// A body comes so fast on the whole, in bytes a second.
pub(crate) const LEAST_RATE: u64 = 64 << 10;
/// How long others take to hear that their room is wanted, and to leave it.
const LEAVING: Duration = Duration::from_secs(1);

/// The bodies that are coming, and the room they share.
#[derive(Debug)]
pub(super) struct Bodies {
    room: Arc<Semaphore>,
    /// How far one may fall behind while others want its room.
    lag: Duration,
    coming: Mutex<Vec<Arc<Body>>>,
}

/// A body as the others see it.
#[derive(Debug)]
struct Body {
    units: AtomicU32,
    /// When it has fallen behind, unless more comes.
    late_at: Mutex<Instant>,
    leaves: Notify,
}

/// The room of a body that is coming, until dropped.
#[derive(Debug)]
pub(crate) struct Coming {
    bodies: Arc<Bodies>,
    body: Arc<Body>,
    permit: Option<OwnedSemaphorePermit>,
}

/// The room of a body that has come, until dropped.
#[derive(Debug)]
pub(crate) struct Came(#[allow(dead_code)] Option<OwnedSemaphorePermit>); // held, not read

impl Bodies {
    pub(super) fn new(bytes: u64, lag: Duration) -> Arc<Bodies> {
        Arc::new(Bodies { room: semaphore(bytes), lag, coming: Mutex::default() })
    }

    /// For a body of which nothing has come.
    pub(super) fn enter(self: &Arc<Self>) -> Coming {
        let late_at = Mutex::new(Instant::now() + self.lag);
        let body = Arc::new(Body { units: AtomicU32::new(0), late_at, leaves: Notify::new() });
        self.lock().push(body.clone());
        Coming { bodies: self.clone(), body, permit: None }
    }

    async fn take(&self, units: u32) -> Result<OwnedSemaphorePermit, ApiError> {
        if let Ok(permit) = self.room.clone().try_acquire_many_owned(units) {
            return Ok(permit);
        }
        if !self.clear(units) {
            return Err(ApiError::no_room());
        }
        match timeout(LEAVING, self.room.clone().acquire_many_owned(units)).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(ApiError::no_room()),
        }
    }

    /// Has those leave that fell behind, the first of them first, where that gives so much room.
    fn clear(&self, units: u32) -> bool {
        let now = Instant::now();
        let mut free = self.room.available_permits();
        let mut behind: Vec<_> =
            self.lock().iter().map(|body| (body.late_at(), body.clone())).collect();
        behind.retain(|(late_at, _)| *late_at <= now);
        behind.sort_by_key(|(late_at, _)| *late_at);
        let mut leaving = behind.into_iter();
        let mut asked = Vec::new();
        while free < units as usize {
            let Some((_, body)) = leaving.next() else { return false };
            free += body.units.load(Ordering::Relaxed) as usize;
            asked.push(body);
        }
        asked.iter().for_each(|body| body.leaves.notify_one());
        true
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Body>>> {
        self.coming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Body {
    fn late_at(&self) -> Instant {
        *self.late_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So much later, and at most so long from now.
    fn earns(&self, time: Duration, most: Duration) {
        let mut late_at = self.late_at.lock().unwrap_or_else(PoisonError::into_inner);
        *late_at = (*late_at + time).min(Instant::now() + most);
    }
}

impl Coming {
    /// Room for so many bytes in all, of which so many have just come.
    pub(crate) async fn grow(&mut self, bytes: usize, more: usize) -> Result<(), ApiError> {
        self.body.earns(earned(more as u64), self.bodies.lag);
        let wanted = (bytes.saturating_sub(FREE_BYTES) as u64).div_ceil(UNIT);
        let has = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits) as u64;
        let units = u32::try_from(wanted.saturating_sub(has)).map_err(|_| ApiError::no_room())?;
        if units == 0 {
            return Ok(());
        }
        let began = Instant::now();
        let permit = self.bodies.take(units).await?;
        // That it waited is not the client's fault.
        self.body.earns(began.elapsed(), self.bodies.lag);
        self.body.units.fetch_add(units, Ordering::Relaxed);
        match &mut self.permit {
            Some(held) => held.merge(permit),
            None => self.permit = Some(permit),
        }
        Ok(())
    }

    /// Comes back when it fell behind and others want its room.
    pub(crate) async fn displaced(&self) {
        self.body.leaves.notified().await;
    }

    /// All of it has come: nobody can take its room any more.
    pub(crate) fn came(mut self) -> Came {
        Came(self.permit.take())
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.bodies.lock().retain(|body| !Arc::ptr_eq(body, &self.body));
    }
}

/// The time that so many bytes may take.
pub(crate) fn earned(bytes: u64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / LEAST_RATE as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test]
    async fn bodies_take_room_as_they_come_and_give_it_back() {
        let bodies = Bodies::new(2 << 20, Duration::from_secs(60));
        let [mut first, mut second, mut third] = [(); 3].map(|()| bodies.enter());
        first.grow(MIB, 1).await.unwrap();
        second.grow(MIB, 1).await.unwrap();
        assert!(third.grow(FREE_BYTES, 1).await.is_ok());
        assert_eq!(third.grow(MIB, 1).await, Err(ApiError::no_room()));
        let first = first.came();
        assert_eq!(third.grow(MIB, 1).await, Err(ApiError::no_room()));
        drop(first);
        assert!(third.grow(MIB, 1).await.is_ok());
    }

    #[tokio::test]
    async fn who_falls_behind_leaves_for_who_does_not() {
        let lag = Duration::from_millis(50);
        let bodies = Bodies::new(2 << 20, lag);
        let [mut still, mut comes, mut newcomer] = [(); 3].map(|()| bodies.enter());
        still.grow(MIB, MIB).await.unwrap();
        comes.grow(MIB, MIB).await.unwrap();
        // Nobody is behind yet, and what came at once does not count for longer.
        assert_eq!(newcomer.grow(MIB, 1).await, Err(ApiError::no_room()));
        tokio::time::sleep(lag).await;
        comes.grow(MIB, MIB).await.unwrap();
        let leaves = async {
            still.displaced().await;
            drop(still);
        };
        let (took, ()) = tokio::join!(newcomer.grow(MIB, MIB), leaves);
        assert_eq!(took, Ok(()));
        // Those that remain are not behind.
        let mut last = bodies.enter();
        assert_eq!(last.grow(MIB, 1).await, Err(ApiError::no_room()));
    }
}
