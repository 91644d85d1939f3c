//! Memory for requests: their bodies while they come, what is made of them before a model is asked, and long answers.
//!
//! Promises: all together stay within the bytes that are set aside for them, whoever sends how much at a time, and
//! however slowly it is taken; only bytes that have come take room; a small body always finds it. One that is being
//! read comes to its end by itself, so whoever waits to be read has a turn.
//!
//! ```text
//! bytes come ─► bodies: two of the largest ─► waits ─► reading: what one of the largest becomes ─► ids ─► answer
//!                  └ none left: 503                      └ not in time: 503; it alone is too much: 413
//! ```

mod coming;
mod weight;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::backend::Facts;
use crate::http::ApiError;
use crate::lines::Lines;
use crate::settings::Settings;
use coming::Bodies;
pub(crate) use coming::{Came, Coming, earned};
pub(crate) use weight::Weight;

/// Bytes of a request's head, and of what is read of its body at a time.
pub(crate) const HEAD_BYTES: usize = 32 << 10;
/// So much of each body comes whatever else there is.
const FREE_BYTES: usize = 16 << 10;
/// The least that a body may have where memory is short, if it may have so much at all.
const LEAST_BODY_BYTES: usize = 256 << 10;
/// The largest bodies that have room at a time.
const BODIES: u64 = 2;
/// What a byte of text becomes at most while it is read, with room for what holds the text together.
const READ_BYTES: u64 = weight::TEXT_BYTES + 1;
/// How long a body waits to be read.
const PATIENCE: Duration = Duration::from_secs(30);
/// Room is given in units of so many bytes.
const UNIT: u64 = 1 << 10;

/// Memory for the requests of a server.
#[derive(Debug)]
pub(crate) struct Room {
    /// Bytes of the largest body.
    pub(crate) body_max: usize,
    bodies: Arc<Bodies>,
    reading: Arc<Semaphore>,
    reading_bytes: u64,
    /// For how long a client may take nothing of an answer while others want its room.
    lag: Duration,
}

impl Room {
    /// Within the bytes that a model leaves.
    pub(crate) fn new(facts: &Facts, settings: &Settings) -> Room {
        let body_max = settings.largest_body(facts);
        let reading_bytes = body_max as u64 * READ_BYTES;
        let lag = settings.body_lag_limit;
        let bodies = Bodies::new(body_max as u64 * BODIES, lag);
        Room { body_max, bodies, reading: semaphore(reading_bytes), reading_bytes, lag }
    }

    /// For a body of which nothing has come.
    pub(crate) fn body(&self) -> Coming {
        self.bodies.enter()
    }

    /// Waits, in order, for the room in which a text of so many bytes becomes an answer: the text, of which each
    /// byte may be no character, and twice as it is written in JSON, where six bytes may stand for one.
    pub(crate) async fn answering(&self, bytes: usize, lines: &Lines) -> Result<Lease, ApiError> {
        self.reading((bytes as u64).saturating_mul(READ_BYTES), lines).await
    }

    /// Waits, in order, for the room in which a body of this weight is read. Meanwhile lines end over which nobody
    /// takes the answer that has it.
    pub(crate) async fn reading(&self, weight: u64, lines: &Lines) -> Result<Lease, ApiError> {
        if weight > self.reading_bytes {
            return Err(ApiError::too_dense());
        }
        let units = u32::try_from(weight.div_ceil(UNIT)).map_err(|_| ApiError::too_dense())?;
        let turn = timeout(PATIENCE, self.reading.clone().acquire_many_owned(units));
        let untaken = async {
            loop {
                lines.end_untaken(self.lag);
                sleep(self.lag).await;
            }
        };
        let turn = tokio::select! {
            biased;
            turn = turn => turn,
            () = untaken => return Err(ApiError::no_room()),
        };
        match turn {
            Ok(Ok(permit)) => Ok(Lease(permit)),
            Ok(Err(_)) | Err(_) => Err(ApiError::no_room()),
        }
    }
}

fn semaphore(bytes: u64) -> Arc<Semaphore> {
    let units = usize::try_from(bytes.div_ceil(UNIT)).unwrap_or(usize::MAX);
    Arc::new(Semaphore::new(units.min(Semaphore::MAX_PERMITS)))
}

/// The room in which a request was read, for as long as something of it is there.
#[derive(Debug)]
pub(crate) struct Lease(OwnedSemaphorePermit);

impl Lease {
    /// The answer, which keeps as much of the room as it takes, until its last byte is written.
    pub(crate) fn around(mut self, text: String) -> Bytes {
        let text = text.into_bytes();
        let units = (text.capacity() as u64).div_ceil(UNIT);
        let most = self.0.num_permits();
        let kept = usize::try_from(units).unwrap_or(most).min(most);
        // The rest is free as soon as all else that was made of the request is gone.
        drop(self.0.split(most - kept));
        Bytes::from_owner(Leased { text, _lease: self })
    }
}

/// Bytes with the room they take.
struct Leased {
    text: Vec<u8>,
    _lease: Lease,
}

impl AsRef<[u8]> for Leased {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl Settings {
    /// The memory to set aside for requests, in bytes: the least that is of use, and the most.
    pub fn request_memory(&self) -> RangeInclusive<u64> {
        let bodies = |body: usize| body as u64 * (BODIES + READ_BYTES);
        let body = self.max_body_bytes;
        let fixed = self.connection_memory();
        fixed + bodies(body.min(LEAST_BODY_BYTES))..=fixed.saturating_add(bodies(body))
    }

    /// The bytes that a body may have, by the settings and by the memory that a model leaves for requests.
    pub fn largest_body(&self, facts: &Facts) -> usize {
        let Some(bytes) = facts.request_bytes else { return self.max_body_bytes };
        let prompts = self.position_memory().saturating_mul(facts.context as u64);
        let bodies = bytes.saturating_sub(self.connection_memory()).saturating_sub(prompts);
        let largest = bodies / (BODIES + READ_BYTES);
        usize::try_from(largest).unwrap_or(usize::MAX).min(self.max_body_bytes)
    }

    /// The memory to set aside for each position of the context, in bytes: the ids of prompts that run, wait or
    /// may be sent again, each of them twice.
    pub fn position_memory(&self) -> u64 {
        let prompts = self.queue as u64 + 1 + crate::runs::KEPT_MAX as u64;
        2 * size_of::<u32>() as u64 * prompts
    }

    fn connection_memory(&self) -> u64 {
        Lines::most_of(self.connections) as u64 * (HEAD_BYTES + FREE_BYTES) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(request_bytes: Option<u64>) -> Facts {
        Facts { context: 1000, fingerprint: String::new(), request_bytes }
    }

    #[test]
    fn the_largest_body_is_what_the_memory_is_for() {
        let settings = Settings::default();
        let memory = settings.request_memory();
        let prompts = settings.position_memory() * 1000;
        let largest = |memory| settings.largest_body(&facts(Some(prompts + memory)));
        assert_eq!(largest(*memory.start()), LEAST_BODY_BYTES);
        assert_eq!(largest(*memory.end()), settings.max_body_bytes);
        assert_eq!(settings.largest_body(&facts(Some(u64::MAX))), settings.max_body_bytes);
        assert_eq!(settings.largest_body(&facts(Some(0))), 0);
    }

    fn room() -> Room {
        Room::new(&facts(None), &Settings { max_body_bytes: 1 << 20, ..Settings::default() })
    }

    #[tokio::test]
    async fn who_waits_to_be_read_has_its_turn() {
        let (room, lines) = (room(), Lines::new(1));
        assert_eq!(room.reading(u64::MAX, &lines).await.unwrap_err(), ApiError::too_dense());
        let whole = room.reading(READ_BYTES << 20, &lines).await.unwrap();
        let waits = room.reading(1, &lines);
        tokio::pin!(waits);
        assert!(timeout(Duration::from_millis(1), &mut waits).await.is_err());
        drop(whole);
        assert!(waits.await.is_ok());
    }

    #[tokio::test]
    async fn an_answer_keeps_the_room_it_takes_until_it_is_gone() {
        let room = room();
        let all = room.reading.available_permits();
        let lease = room.reading(READ_BYTES << 20, &Lines::new(1)).await.unwrap();
        let answer = lease.around("x".repeat(9 << 10));
        assert_eq!(room.reading.available_permits(), all - 9);
        let part = answer.slice(..1);
        drop(answer);
        assert_eq!((room.reading.available_permits(), &part[..]), (all - 9, &b"x"[..]));
        drop(part);
        assert_eq!(room.reading.available_permits(), all);
    }
}
