//! Whether the system runs short of memory while we hold some of it.
//!
//! Looked at once a second at most, by reading a few small files into memory that is there already: no
//! allocation, some ten microseconds. Signs, the worst of which counts:
//!
//! | | tight | critical |
//! |---|---|---|
//! | memory that is free, of the machine's | below 1/16 | below 1/32 |
//! | time in which somebody waited for memory | above 10 % | all waited above 10 % |
//! | events of our control group (version 2) | held back by its limit | out of memory |
//!
//! Waiting is told for our control group where it keeps such a count, else for the machine. On macOS the
//! kernel's own level counts, asked for every five seconds through its own program.

use crate::{group, limits};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How short memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// There is enough, or nothing new is known.
    #[default]
    Calm,
    /// Others begin to wait.
    Tight,
    /// The system is about to take memory by force.
    Critical,
}

impl Level {
    /// How many records a cache of `cache` keeps at this level: an eighth less when memory is tight, half
    /// when it is critical. A cache that was lowered stays lowered: whatever took the memory is likely to
    /// want it again.
    pub fn give_way(self, cache: usize) -> usize {
        match self {
            Level::Calm => cache,
            Level::Tight => cache - cache.div_ceil(8),
            Level::Critical => cache / 2,
        }
    }
}

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(if cfg!(target_os = "macos") { 5 } else { 1 });
/// Waiting beyond this share of the time counts.
const WAITING: f64 = 0.10;
/// Less free than the machine's memory divided by these.
const TIGHT_PART: u64 = 16;
const CRITICAL_PART: u64 = 32;
/// The files are far shorter, or begin with what is wanted.
const BUFFER: usize = 1024;

/// Watches. Keeps its files open.
#[derive(Debug)]
pub struct Pressure {
    meminfo: Option<File>,
    waiting: Option<File>,
    events: Option<File>,
    seen: Seen,
    looked: Option<Instant>,
}

/// Counters at the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Microseconds in which some, and in which all, waited for memory.
    waited: [Option<u64>; 2],
    /// Times the group was held back, and times it was out of memory.
    events: [Option<u64>; 2],
}

impl Pressure {
    /// Watches this machine.
    pub fn watch() -> Pressure {
        Pressure::watch_at(Path::new("/"))
    }

    /// Watches what the system's files below `root` tell. Files that are not there tell nothing.
    pub fn watch_at(root: &Path) -> Pressure {
        let own = group::own(root).map(|folder| group::inside(root, &folder));
        let open = |path: &Path| File::open(path).ok();
        let of_group = |name: &str| own.as_ref().and_then(|own| open(&own.join(name)));
        Pressure {
            meminfo: open(&root.join("proc/meminfo")),
            waiting: of_group("memory.pressure")
                .or_else(|| open(&root.join("proc/pressure/memory"))),
            events: of_group("memory.events"),
            seen: Seen::default(),
            looked: None,
        }
    }

    /// The level; [`Level::Calm`] when the last look was less than a second ago, so that whoever gives
    /// way does it once for each look.
    pub fn poll(&mut self) -> Level {
        self.poll_at(Instant::now())
    }

    fn poll_at(&mut self, now: Instant) -> Level {
        let since = self.looked.map(|last| now.saturating_duration_since(last));
        if since.is_some_and(|since| since < INTERVAL) {
            return Level::Calm;
        }
        self.looked = Some(now);
        let seen = self.look();
        let before = std::mem::replace(&mut self.seen, seen);
        let level = self.free_level().max(self.seen.level_since(&before, since));
        if cfg!(target_os = "macos") { level.max(limits::mac_pressure()) } else { level }
    }

    fn look(&self) -> Seen {
        let mut seen = Seen::default();
        read(self.waiting.as_ref(), |text| {
            seen.waited = ["some ", "full "].map(|kind| waited(text, kind));
        });
        read(self.events.as_ref(), |text| {
            let held_back = number(text, "high ").zip(number(text, "max ")).map(|(a, b)| a + b);
            seen.events = [held_back, number(text, "oom ")];
        });
        seen
    }

    fn free_level(&self) -> Level {
        let mut level = Level::Calm;
        read(self.meminfo.as_ref(), |text| {
            let sizes = number(text, "MemTotal:").zip(number(text, "MemAvailable:"));
            level = match sizes {
                Some((all, free)) if free < all / CRITICAL_PART => Level::Critical,
                Some((all, free)) if free < all / TIGHT_PART => Level::Tight,
                _ => Level::Calm,
            };
        });
        level
    }
}

impl Seen {
    /// What happened since `before`; nothing at the first look.
    fn level_since(&self, before: &Seen, since: Option<Duration>) -> Level {
        let more = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
        let micros = since.map_or(f64::INFINITY, |since| since.as_secs_f64() * 1e6);
        let waited = |kind: usize| {
            more(self.waited[kind], before.waited[kind]).unwrap_or(0) as f64 > WAITING * micros
        };
        let events = |kind: usize| more(self.events[kind], before.events[kind]).unwrap_or(0) > 0;
        if waited(1) || events(1) {
            Level::Critical
        } else if waited(0) || events(0) {
            Level::Tight
        } else {
            Level::Calm
        }
    }
}

/// Hands the beginning of a small file to `see`, read afresh.
fn read(file: Option<&File>, see: impl FnOnce(&str)) {
    let mut buffer = [0u8; BUFFER];
    let Some(Ok(len)) = file.map(|file| file.read_at(&mut buffer, 0)) else { return };
    // The files are ASCII; what was cut at the end is of no interest.
    if let Ok(text) = std::str::from_utf8(&buffer[..len]) {
        see(text);
    }
}

/// The first number of the line that begins with `label`.
fn number(text: &str, label: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(label))?;
    rest.trim_start().split(' ').next()?.parse().ok()
}

/// Microseconds that were waited in all, from `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn waited(text: &str, kind: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
    line.split(' ').find_map(|field| field.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests;
