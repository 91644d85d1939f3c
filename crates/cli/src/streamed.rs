//! Models whose experts come over the network when they are needed.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deltafin_fetch::{self as fetch, Event, FetchError, Patience, Streaming, Watch};
use deltafin_store::{Checkpoint, Inspection};

use crate::args::Network;
use crate::failure::Failure;
use crate::interrupt;
use crate::terminal::{self, one_line};

/// Between two lines about a source that gives nothing.
const PAUSE: Duration = Duration::from_secs(5);

/// Opens the checkpoint in a folder, wherever its experts are.
pub(crate) fn open_dir(dir: &Path, network: &Network) -> Result<Checkpoint, Failure> {
    if !fetch::is_streamed(dir) {
        return Ok(deltafin_store::open_dir(dir)?);
    }
    let watch = Arc::new(Notices::default());
    open_to_pull(dir, network, Pull::DEMANDS, watch)
}

/// How much is asked for at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pull {
    /// Requests on their way.
    pub(crate) jobs: usize,
    /// Bytes a second, if they are bounded.
    pub(crate) bytes_per_second: Option<u64>,
}

impl Pull {
    /// For experts that somebody waits for.
    const DEMANDS: Pull = Pull { jobs: 8, bytes_per_second: None };
}

/// Opens a checkpoint whose experts come over the network; `watch` is told how.
pub(crate) fn open_to_pull(
    dir: &Path,
    network: &Network,
    pull: Pull,
    watch: Arc<dyn Watch>,
) -> Result<Checkpoint, Failure> {
    Ok(fetch::open_streamed(&streaming(dir, network, pull), watch, interrupt::flag())?)
}

/// As [`open_dir`], to list everything that is wrong.
pub(crate) fn inspect_dir(dir: &Path) -> Result<Inspection, FetchError> {
    match fetch::is_streamed(dir) {
        true => {
            let network = Network::unused();
            let streaming = streaming(dir, &network, Pull::DEMANDS);
            fetch::inspect_streamed(&streaming, Arc::new(Notices::default()))
        }
        false => Ok(deltafin_store::inspect_dir(dir)),
    }
}

fn streaming<'n>(dir: &'n Path, network: &'n Network, pull: Pull) -> Streaming<'n> {
    Streaming {
        dir,
        endpoint: network.endpoint.as_deref(),
        jobs: pull.jobs,
        bytes_per_second: pull.bytes_per_second,
        patience: Patience { give_up: network.patience, attempts: 4, ..Patience::default() },
    }
}

/// Says when a source gives nothing, and when it does again.
#[derive(Default)]
struct Notices(Mutex<Option<Instant>>);

impl Watch for Notices {
    fn event(&self, event: Event<'_>) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Waiting { name, why, .. } if said.is_none_or(|last| last.elapsed() >= PAUSE) => {
                *said = Some(Instant::now());
                terminal::say(&format!(
                    "waiting for experts: {}: {}; asked again until it comes",
                    one_line(name),
                    one_line(why)
                ));
            }
            Event::Received { .. } => *said = None,
            _ => {}
        }
    }
}
