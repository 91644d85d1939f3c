//! A line for whoever waits at a terminal: which layer a pass has come to, what was read, how fast, and how
//! long it will take.
//!
//! A thread of its own writes it, because one layer of a streamed model can take longer than anybody waits for a
//! sign of life. The pass only notes where it is; elsewhere than on a terminal it does not even that.
//!
//! Text that is streaming stands in the same terminal, most often in the middle of a line. The status then
//! has the row below, and the cursor goes back to the text:
//!
//! ```text
//! Paris. The Eiffel Tower is█
//! token 7: layer 40/93, 31 s, 41 s left, 61.20 GiB, 1.93 GiB/s
//! ```

mod screen;
mod words;

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use deltafin_engine::{Progress, Stream};

use self::screen::Screen;
use crate::column::Column;
use crate::interrupt::heard;
use crate::terminal::{self, PATIENCE, Terminal};

/// Silence of a token that needs no explanation.
const TOKEN_PATIENCE: Duration = Duration::from_millis(1500);
/// Between two looks at where the pass is.
const INTERVAL: Duration = Duration::from_millis(200);

/// Where a pass is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Not in one that anybody waits for.
    Nowhere,
    /// In a prompt.
    Prompt(Progress),
    /// In the pass that leads to the token of this number, counted from 1.
    Token { number: usize, layer: usize, layers: usize },
}

/// What is being waited for, since when, and what of it is shown.
struct Wait {
    at: At,
    since: Instant,
    /// What had been read at a first look, and when that was. Whoever waits only for a moment has none.
    read_before: Option<(u64, Instant)>,
    screen: Screen,
}

impl Wait {
    /// What was read meanwhile, and in what time.
    fn read(&mut self, stream: &Stream) -> (u64, Duration) {
        let now = read_bytes(stream);
        let (before, since) = *self.read_before.get_or_insert_with(|| (now, Instant::now()));
        (now.saturating_sub(before), since.elapsed())
    }
}

/// The line.
pub(crate) struct Status<'e> {
    /// Nothing where there is no terminal to show it on.
    wait: Option<Mutex<Wait>>,
    stream: &'e Stream,
}

impl<'e> Status<'e> {
    /// Of passes whose weights come through this stream.
    pub(crate) fn new(terminal: Terminal, stream: &'e Stream) -> Status<'e> {
        let wait = Wait {
            at: At::Nowhere,
            since: Instant::now(),
            read_before: None,
            screen: Screen::default(),
        };
        let is_shown = !terminal.erasing().is_empty();
        Status { wait: is_shown.then(|| Mutex::new(wait)), stream }
    }

    /// Does `work`, which tells where it is, and shows that meanwhile.
    pub(crate) fn beside<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.wait.is_none() {
            return work();
        }
        let (working, ended) = mpsc::channel::<()>();
        let result = thread::scope(|scope| {
            let show = move || {
                while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    self.show();
                }
            };
            // Without a thread nothing is shown.
            let _ = thread::Builder::new().spawn_scoped(scope, show);
            let result = work();
            drop(working);
            result
        });
        self.clear();
        result
    }

    /// The prompt has come this far.
    pub(crate) fn prompt(&self, progress: Progress) {
        if let Some(mut wait) = self.lock() {
            wait.at = At::Prompt(progress);
        }
    }

    /// The pass for the token of this number, counted from 1, comes to a layer.
    pub(crate) fn token(&self, number: usize, layer: usize, layers: usize) {
        if let Some(mut wait) = self.lock() {
            wait.at = At::Token { number, layer, layers };
        }
    }

    /// Makes way for text.
    pub(crate) fn clear(&self) {
        if let Some(mut wait) = self.lock() {
            wait.screen.clear();
            wait.at = At::Nowhere;
        }
    }

    /// From here on another token is waited for, behind text that ends in this column.
    pub(crate) fn next(&self, column: Column) {
        if let Some(mut wait) = self.lock() {
            wait.since = Instant::now();
            wait.read_before = None;
            wait.screen.text_ends(column);
        }
    }

    /// Says that an interrupt was heard, on a row of its own, and when the work will stop.
    pub(crate) fn hear_interrupt(&self) {
        let Some(mut wait) = self.lock() else {
            return terminal::note(&heard("layer of a prompt, or the current token"));
        };
        let part = if matches!(wait.at, At::Prompt(_)) { "layer" } else { "token" };
        wait.screen.note(&heard(part));
    }

    fn show(&self) {
        let Some(mut wait) = self.lock() else { return };
        let Wait { at, since, .. } = *wait;
        if at == At::Nowhere {
            return;
        }
        let so_far = wait.read(self.stream);
        let waited = since.elapsed();
        let words = match at {
            At::Prompt(progress) if waited >= PATIENCE => words::prompt(progress, so_far, waited),
            At::Token { number, layer, layers } if waited >= TOKEN_PATIENCE => {
                words::token(number, layer, layers, so_far, waited)
            }
            _ => return,
        };
        wait.screen.show(&words);
    }

    fn lock(&self) -> Option<MutexGuard<'_, Wait>> {
        let wait = self.wait.as_ref()?;
        Some(wait.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What drives gave so far, or memory that stands in for one.
fn read_bytes(stream: &Stream) -> u64 {
    let landed = stream.report().drives.into_iter().flat_map(|drive| drive.landed);
    landed.map(|traffic| traffic.bytes).sum()
}
