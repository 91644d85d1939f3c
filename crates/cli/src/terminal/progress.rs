//! One line that says how far long work is.

use std::io::stderr;
use std::time::{Duration, Instant};

use super::{ERASE_LINE, Terminal, one_line, put};

/// Silence shorter than this needs no explanation.
pub(crate) const PATIENCE: Duration = Duration::from_millis(400);
/// Between two updates of the line.
const INTERVAL: Duration = Duration::from_millis(100);

/// One line on standard error that overwrites itself, on a terminal that can.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    enabled: bool,
    shown: bool,
    next: Instant,
}

impl ProgressLine {
    /// A line that appears when the silence gets long.
    pub(crate) fn new(terminal: Terminal) -> ProgressLine {
        let next = Instant::now() + PATIENCE;
        ProgressLine { enabled: !terminal.erasing().is_empty(), shown: false, next }
    }

    /// A line that is there from the start, for work that does not report.
    pub(crate) fn standing(terminal: Terminal, words: &str) -> ProgressLine {
        let mut line = ProgressLine { next: Instant::now(), ..ProgressLine::new(terminal) };
        line.update(|| words.to_owned());
        line
    }

    /// Shows new words, unless the last ones are too fresh.
    pub(crate) fn update(&mut self, words: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.enabled && now >= self.next {
            self.next = now + INTERVAL;
            self.shown = true;
            let _ = put(&mut stderr().lock(), &format!("{ERASE_LINE}{}", one_line(&words())));
        }
    }

    /// Removes the line.
    pub(crate) fn clear(&mut self) {
        if self.shown {
            self.shown = false;
            let _ = put(&mut stderr().lock(), ERASE_LINE);
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}
