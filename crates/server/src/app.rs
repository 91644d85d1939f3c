//! What all connections share.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

use deltafin_text::Tokenizer;
use tokio::sync::{Semaphore, watch};

use crate::backend::Backend;
use crate::control::Controls;
use crate::guide::Vocabulary;
use crate::http::ApiError;
use crate::lines::Lines;
use crate::log::Entry;
use crate::metrics::{Gauges, Metrics};
use crate::queue::Queue;
use crate::room::Room;
use crate::runs::Runs;
use crate::settings::Settings;

/// Where the server stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Requests are taken.
    Serving,
    /// What runs may finish; nothing new is taken.
    Draining,
    /// What still runs is broken off.
    Ending,
}

/// A model that is loaded.
pub(crate) struct Model {
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) backend: Box<dyn Backend>,
    /// Where requests are read.
    pub(crate) room: Room,
    vocabulary: OnceLock<Result<Arc<Vocabulary>, String>>,
}

impl Model {
    pub(crate) fn new(tokenizer: Tokenizer, backend: impl Backend, settings: &Settings) -> Model {
        let room = Room::new(backend.facts(), settings);
        let (tokenizer, backend) = (Arc::new(tokenizer), Box::new(backend));
        Model { tokenizer, backend, room, vocabulary: OnceLock::new() }
    }

    /// The vocabulary for replies that keep to a form; made for the first of them, which waits for it.
    pub(crate) fn vocabulary(&self) -> Result<Arc<Vocabulary>, ApiError> {
        let made = self.vocabulary.get_or_init(|| Vocabulary::new(&self.tokenizer).map(Arc::new));
        made.clone().map_err(|reason| ApiError::internal(&reason))
    }
}

/// A place for what happens.
pub(crate) type Log = Box<dyn Fn(&Entry) + Send + Sync>;

/// What all connections share.
pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) lines: Arc<Lines>,
    pub(crate) queue: Queue,
    pub(crate) runs: Runs,
    pub(crate) controls: Controls,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) model: OnceLock<Model>,
    pub(crate) phase: watch::Sender<Phase>,
    /// Turns to compile what replies must look like.
    pub(crate) forms: Semaphore,
    /// Bound to an address that only this machine reaches.
    pub(crate) loopback: bool,
    /// When the server began, in seconds since 1970.
    pub(crate) since: u64,
    log: Log,
    ids: (RandomState, AtomicU64),
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("model", &self.settings.model).finish_non_exhaustive()
    }
}

impl App {
    pub(crate) fn new(settings: Settings, loopback: bool, log: Log) -> App {
        let cores = available_parallelism().map_or(1, NonZero::get);
        App {
            lines: Arc::new(Lines::new(settings.connections)),
            queue: Queue::new(settings.queue),
            settings,
            runs: Runs::default(),
            controls: Controls::default(),
            metrics: Arc::default(),
            model: OnceLock::new(),
            phase: watch::Sender::new(Phase::Serving),
            forms: Semaphore::new((cores / 2).max(1)),
            loopback,
            since: now_s(),
            log,
            ids: (RandomState::new(), AtomicU64::new(0)),
        }
    }

    pub(crate) fn log(&self, entry: &Entry) {
        (self.log)(entry);
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Comes back when the server is asked to end.
    pub(crate) async fn drains(&self) {
        let mut phase = self.phase.subscribe();
        let _ = phase.wait_for(|phase| *phase > Phase::Serving).await;
    }

    /// The model, if requests may use it now.
    pub(crate) fn model(&self) -> Result<&Model, ApiError> {
        if self.phase() > Phase::Serving {
            return Err(ApiError::shutting_down());
        }
        self.model.get().ok_or_else(ApiError::loading)
    }

    pub(crate) fn gauges(&self) -> Gauges {
        Gauges {
            up: self.model.get().is_some(),
            busy: self.queue.is_busy(),
            queue_depth: self.queue.depth(),
            connections: self.lines.count(),
            moved: self.model.get().and_then(|model| model.backend.moved()),
        }
    }

    /// A name that nothing else has: 24 hexadecimal digits after a prefix.
    pub(crate) fn fresh(&self, prefix: &str) -> String {
        format!("{prefix}{:016x}{:08x}", self.fresh_number(), self.fresh_number() as u32)
    }

    /// A number that nobody can foresee.
    pub(crate) fn fresh_number(&self) -> u64 {
        let mut hasher = self.ids.0.build_hasher();
        hasher.write_u64(self.ids.1.fetch_add(1, Ordering::Relaxed));
        hasher.finish()
    }
}

pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
