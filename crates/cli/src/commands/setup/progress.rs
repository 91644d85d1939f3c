//! How far an installation is: a bar for people who watch, lines for logs, events for programs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use deltafin_fetch::{Event, Watch};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::commands::transfer::{bar, event, waiting};
use crate::stats::bytes;
use crate::terminal::{self, Terminal, one_line};

/// Between two lines of the same kind.
const PAUSE: Duration = Duration::from_secs(1);

/// Tells it to whoever looks.
pub(super) struct Progress {
    json: bool,
    bar: ProgressBar,
    is_watched: bool,
    here: AtomicU64,
    said: Mutex<Said>,
}

/// What was said, and when.
struct Said {
    files: usize,
    done: usize,
    bytes: u64,
    waiting: Option<Instant>,
    progress: Instant,
}

impl Progress {
    /// Nothing is known yet.
    pub(super) fn new(json: bool) -> Progress {
        let is_watched = !json && Terminal::detect().stderr;
        let bar = bar(is_watched);
        let progress = Instant::now();
        let said = Said { files: 0, done: 0, bytes: 0, waiting: None, progress };
        Progress { json, bar, is_watched, here: AtomicU64::new(0), said: Mutex::new(said) }
    }

    /// Removes the bar.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn say(&self, name: &str, words: &str, more: Value) {
        if self.json {
            // Whoever reads no more is noticed at the end.
            let _ = terminal::print_line(&event(name, more));
        } else {
            self.bar.suspend(|| terminal::say(words));
        }
    }

    fn moved(&self) {
        let here = self.here.load(Ordering::Relaxed);
        self.bar.set_position(here);
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if self.json && said.progress.elapsed() >= PAUSE {
            said.progress = Instant::now();
            self.say("progress", "", json!({"here": here, "bytes": said.bytes}));
        }
    }

    fn done(&self, name: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.done += 1;
        let (done, files) = (said.done, said.files);
        self.bar.set_message(format!("{done} of {files} files"));
        if !self.is_watched {
            let words = format!("{} ({done} of {files})", one_line(name));
            self.say("file", &words, json!({"name": name, "done": done, "files": files}));
        }
    }

    fn waiting(&self, name: &str, why: &str, wait: Duration) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.waiting.is_some_and(|last| last.elapsed() < PAUSE) {
            return;
        }
        said.waiting = Some(Instant::now());
        let (words, more) = waiting(name, why, wait);
        self.say("waiting", &words, more);
    }
}

impl Watch for Progress {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Plan { source, files, bytes: total } => {
                self.bar.set_length(total);
                let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
                (said.files, said.bytes) = (files, total);
                let words = format!("{}: {files} files, {}", one_line(source), bytes(total));
                self.say("plan", &words, json!({"source": source, "files": files, "bytes": total}));
            }
            Event::Kept { bytes } | Event::Received { bytes } => {
                self.here.fetch_add(bytes, Ordering::Relaxed);
                self.moved();
            }
            Event::Lost { bytes } => {
                self.here.fetch_sub(bytes, Ordering::Relaxed);
                self.moved();
            }
            Event::Streams { needed, free } => {
                let words = format!(
                    "all of it takes {} and there is room for {}: experts will come when they are needed; --full says otherwise",
                    bytes(needed),
                    bytes(free)
                );
                self.say("streams", &words, json!({"needed": needed, "free": free}));
            }
            Event::LayersLater => {
                let words = "experts lie in one file for each layer here: all but them comes first, then those of the \
                             layers that were asked for; the rest comes when it is needed";
                self.say("layers_later", words, json!({}));
            }
            Event::Keeps => {
                let words = "this drive takes no part of a file back: the released spine stays beside the int8 one";
                self.say("keeps", words, json!({}));
            }
            Event::Packing { name } => {
                self.bar.set_message(format!("packing the spine of {}", one_line(name)));
            }
            Event::Anew { name, why } => {
                let words =
                    format!("{}: replaced at its source: {why}; it comes anew", one_line(name));
                self.say("anew", &words, json!({"name": name, "why": why}));
            }
            // The last two are of models that run.
            Event::Began { .. } | Event::Cramped { .. } | Event::Unkept { .. } => {}
            Event::Proving { name } => self.bar.set_message(format!("proving {}", one_line(name))),
            Event::Done { name } => self.done(name),
            Event::Waiting { name, why, wait } => self.waiting(name, why, wait),
        }
    }
}
