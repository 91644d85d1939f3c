//! Memory for requests: their bodies while they come, and what is made of them before a model is asked.
//!
//! Promises: both together stay within the bytes that are set aside for them, whoever sends how much at a time;
//! only bytes that have come take room; a small body always finds it. One that is being read comes to its end by
//! itself, so whoever waits to be read has a turn.
//!
//! ```text
//! bytes come ─► bodies: two of the largest ─► waits ─► reading: what one of the largest becomes ─► ids
//!                  └ none left: 503                      └ not in time: 503; it alone is too much: 413
//! ```

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::backend::Facts;
use crate::http::ApiError;
use crate::lines::Lines;
use crate::settings::Settings;

/// Bytes of a request's head, and of what is read of its body at a time.
pub(crate) const HEAD_BYTES: usize = 32 << 10;
/// So much of each body comes whatever else there is.
const FREE_BYTES: usize = 16 << 10;
/// The least that a body may have where memory is short, if it may have so much at all.
const LEAST_BODY_BYTES: usize = 256 << 10;
/// The largest bodies that have room at a time.
const BODIES: u64 = 2;
/// What a byte of text becomes at most while it is read: copies, and ids that grow. 12.7 were measured.
const TEXT_BYTES: u64 = 14;
/// The same with room for what holds the text together.
const READ_BYTES: u64 = TEXT_BYTES + 1;
/// How long a body waits to be read.
const PATIENCE: Duration = Duration::from_secs(30);
/// Room is given in units of so many bytes.
const UNIT: u64 = 1 << 10;

/// Memory for the requests of a server.
#[derive(Debug)]
pub(crate) struct Room {
    /// Bytes of the largest body.
    pub(crate) body_max: usize,
    bodies: Arc<Semaphore>,
    reading: Arc<Semaphore>,
    reading_bytes: u64,
}

impl Room {
    /// Within the bytes that a model leaves.
    pub(crate) fn new(facts: &Facts, settings: &Settings) -> Room {
        let body_max = settings.largest_body(facts);
        let reading_bytes = body_max as u64 * READ_BYTES;
        let units = |bytes: u64| {
            let units = usize::try_from(bytes.div_ceil(UNIT)).unwrap_or(usize::MAX);
            Arc::new(Semaphore::new(units.min(Semaphore::MAX_PERMITS)))
        };
        let bodies = units(body_max as u64 * BODIES);
        Room { body_max, bodies, reading: units(reading_bytes), reading_bytes }
    }

    /// For a body of which nothing has come.
    pub(crate) fn body(&self) -> Held {
        Held { bodies: self.bodies.clone(), permit: None }
    }

    /// Waits, in order, for the room in which a body of this weight is read.
    pub(crate) async fn reading(&self, weight: u64) -> Result<OwnedSemaphorePermit, ApiError> {
        if weight > self.reading_bytes {
            return Err(ApiError::too_dense());
        }
        let units = u32::try_from(weight.div_ceil(UNIT)).map_err(|_| ApiError::too_dense())?;
        match timeout(PATIENCE, self.reading.clone().acquire_many_owned(units)).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(ApiError::no_room()),
        }
    }
}

/// The room of a body that has come, or is coming, until dropped.
#[derive(Debug)]
pub(crate) struct Held {
    bodies: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Held {
    /// Room for so many bytes in all.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        let wanted = (bytes.saturating_sub(FREE_BYTES) as u64).div_ceil(UNIT);
        let has = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits) as u64;
        let more = u32::try_from(wanted.saturating_sub(has)).map_err(|_| ApiError::no_room())?;
        if more == 0 {
            return Ok(());
        }
        let permit = self.bodies.clone().try_acquire_many_owned(more);
        let permit = permit.map_err(|_| ApiError::no_room())?;
        match &mut self.permit {
            Some(held) => held.merge(permit),
            None => self.permit = Some(permit),
        }
        Ok(())
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

/// The room in which a request was read, kept by who still has what came of it.
#[derive(Clone, Debug)]
pub(crate) struct Lease(#[allow(dead_code)] Arc<OwnedSemaphorePermit>); // held, not read

impl Lease {
    pub(crate) fn new(permit: OwnedSemaphorePermit) -> Lease {
        Lease(Arc::new(permit))
    }
}

/// What a JSON document becomes while it is read, in bytes at most, reckoned as it comes.
#[derive(Debug, Default)]
pub(crate) struct Weight {
    bytes: u64,
    is_text: bool,
    is_escaped: bool,
}

impl Weight {
    /// More of the document.
    pub(crate) fn add(&mut self, more: &[u8]) {
        self.bytes += more.len() as u64 * TEXT_BYTES;
        for byte in more {
            self.bytes += self.structure(*byte);
        }
    }

    /// What a byte outside of texts stands for: an element, a member with its name, a list, an object and what it
    /// is read as. Measured from 38 bytes for each byte of a list of ones, 44 of short messages.
    fn structure(&mut self, byte: u8) -> u64 {
        if self.is_text {
            self.is_text = byte != b'"' || self.is_escaped;
            self.is_escaped = byte == b'\\' && !self.is_escaped;
            return 0;
        }
        match byte {
            b',' | b':' => 160,
            b'[' => 160,
            b'{' => 1200,
            b'"' => {
                self.is_text = true;
                0
            }
            _ => 0,
        }
    }

    /// So far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(request_bytes: Option<u64>) -> Facts {
        Facts { context: 1000, fingerprint: String::new(), request_bytes }
    }

    fn weight(parts: &[&str]) -> u64 {
        let mut weight = Weight::default();
        parts.iter().for_each(|part| weight.add(part.as_bytes()));
        weight.bytes()
    }

    #[test]
    fn only_what_is_not_text_weighs_more_than_text() {
        assert_eq!(weight(&["\"a,b:[{\\\",\\\\\""]), 13 * TEXT_BYTES);
        assert_eq!(weight(&["[1,2]"]), 5 * TEXT_BYTES + 320);
        let whole = weight(&["{\"a\\\"\":[\",\"]}"]);
        assert_eq!(whole, weight(&["{\"a\\", "\"\":[\"", ",\"]}"]));
        assert_eq!(whole, 13 * TEXT_BYTES + 1200 + 320);
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

    #[tokio::test]
    async fn bodies_take_room_as_they_come_and_give_it_back() {
        let settings = Settings { max_body_bytes: 1 << 20, ..Settings::default() };
        let room = Room::new(&facts(None), &settings);
        let (mut first, mut second, mut third) = (room.body(), room.body(), room.body());
        first.grow(1 << 20).unwrap();
        second.grow(1 << 20).unwrap();
        assert!(third.grow(FREE_BYTES).is_ok());
        assert_eq!(third.grow(1 << 20), Err(ApiError::no_room()));
        drop(first);
        assert!(third.grow(1 << 20).is_ok());
        assert_eq!(room.reading(u64::MAX).await.unwrap_err(), ApiError::too_dense());
        let whole = room.reading(READ_BYTES << 20).await.unwrap();
        let waits = room.reading(1);
        tokio::pin!(waits);
        assert!(timeout(Duration::from_millis(1), &mut waits).await.is_err());
        drop(whole);
        assert!(waits.await.is_ok());
    }
}
