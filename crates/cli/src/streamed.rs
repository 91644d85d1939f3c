//! Models whose experts come over the network when they are needed.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deltafin_fetch::{self as fetch, Event, FetchError, Kept, Patience, Streaming, Watch};
use deltafin_store::{Checkpoint, Distant, Inspection};

use crate::args::{CacheLimit, Network};
use crate::failure::Failure;
use crate::interrupt;
use crate::logins;
use crate::stats::bytes;
use crate::terminal::{self, one_line};

/// How long a source is waited for that gives nothing.
const PATIENCE: Duration = Duration::from_secs(300);
/// Between two lines about a source that gives nothing.
const PAUSE: Duration = Duration::from_secs(5);

/// Opens the checkpoint in a folder, wherever its experts are.
pub(crate) fn open_dir(dir: &Path, network: &Network) -> Result<Checkpoint, Failure> {
    fetch::check_seen(dir)?;
    if !fetch::is_streamed(dir) {
        if let Some(CacheLimit(Some(_))) = network.cache_limit {
            terminal::say(
                "--cache-limit has no effect: no expert of this model comes over the network",
            );
        }
        return Ok(fetch::with_notes(deltafin_store::open_dir(dir)?));
    }
    let watch = Arc::new(Notices::new(patience(dir, network)?));
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
    let source = fetch::installed_from(dir).map(logins::with_login);
    let streaming = streaming(dir, network, pull, patience(dir, network)?);
    let cache_limit = cache_limit(dir, network)?;
    let streaming = Streaming { source: source.as_ref(), cache_limit, ..streaming };
    Ok(fetch::open_streamed(&streaming, watch, interrupt::flag())?)
}

/// As [`open_dir`], to list everything that is wrong.
pub(crate) fn inspect_dir(dir: &Path) -> Result<Inspection, FetchError> {
    fetch::check_seen(dir)?;
    match fetch::is_streamed(dir) {
        true => {
            let network = Network::unused();
            let streaming = streaming(dir, &network, Pull::DEMANDS, Duration::ZERO);
            fetch::inspect_streamed(&streaming, Arc::new(|_: Event<'_>| {}))
        }
        false => Ok(deltafin_store::inspect_dir(dir)),
    }
}

/// How long to wait for a source: as was said, or as setup was told, or as usual.
fn patience(dir: &Path, network: &Network) -> Result<Duration, Failure> {
    match network.patience {
        Some(patience) => Ok(patience),
        None => {
            let kept = Kept::read(dir)?.patience;
            Ok(kept.map_or(PATIENCE, |seconds| Duration::from_secs(seconds.into())))
        }
    }
}

/// How much room experts may take that come: as was said, or as setup was told.
pub(crate) fn cache_limit(dir: &Path, network: &Network) -> Result<Option<u64>, Failure> {
    match network.cache_limit {
        Some(CacheLimit(limit)) => Ok(limit),
        None => Ok(Kept::read(dir)?.cache_limit),
    }
}

/// Makes room where more experts are here than a limit allows that was lowered since they came.
pub(crate) fn trim(distant: &dyn Distant) -> io::Result<()> {
    let gone = distant.trim()?;
    if gone.reads > 0 {
        let (experts, bytes) = (gone.reads, bytes(gone.bytes));
        terminal::say(&format!(
            "cache: {experts} experts went, the coldest first, {bytes}: more was here than --cache-limit allows"
        ));
    }
    Ok(())
}

fn streaming<'n>(
    dir: &'n Path,
    network: &'n Network,
    pull: Pull,
    give_up: Duration,
) -> Streaming<'n> {
    Streaming {
        dir,
        source: None,
        endpoint: network.endpoint.as_deref(),
        jobs: pull.jobs,
        bytes_per_second: pull.bytes_per_second,
        patience: Patience::of(give_up),
        cache_limit: None,
    }
}

/// Says when a source gives nothing, and when it does again.
struct Notices {
    said: Mutex<Option<Instant>>,
    /// How long it is asked.
    patience: Duration,
}

impl Notices {
    fn new(patience: Duration) -> Notices {
        Notices { said: Mutex::new(None), patience }
    }
}

impl Watch for Notices {
    fn event(&self, event: Event<'_>) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Waiting { name, why, .. } if said.is_none_or(|last| last.elapsed() >= PAUSE) => {
                *said = Some(Instant::now());
                terminal::say(&format!(
                    "waiting for experts: {}: {}; asked again, given up after {} s (--patience)",
                    one_line(name),
                    one_line(why),
                    self.patience.as_secs()
                ));
            }
            Event::Received { .. } => *said = None,
            Event::Cramped { dir } => terminal::say(&format!(
                "{}: the drive is full, so the experts used least make room though --cache-limit allows more",
                one_line(&dir.display().to_string())
            )),
            Event::Unkept { dir, why } => terminal::say(&format!(
                "{}: nothing may be written here ({}), so experts that are not here come each time they are needed, and are \
                 not kept; let this user write to the folder and what is in it",
                one_line(&dir.display().to_string()),
                one_line(why)
            )),
            _ => {}
        }
    }
}
