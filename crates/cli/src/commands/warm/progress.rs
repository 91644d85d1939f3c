//! How far experts have come: a bar for people who watch, now and then a line for logs, events for programs.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use deltafin_fetch::{Amount, Event, Watch};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::commands::transfer::{bar, event, waiting};
use crate::stats::bytes;
use crate::terminal::{self, Terminal};

/// Between two events for programs, or two lines about a source that gives nothing.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two lines in a log.
const LOG_PAUSE: Duration = Duration::from_secs(10);

/// Tells it to whoever looks.
pub(super) struct Progress {
    json: bool,
    is_watched: bool,
    bar: ProgressBar,
    state: Mutex<State>,
}

struct State {
    wanted: Amount,
    here: Amount,
    /// Bytes that came over the network, those on their way included.
    received: u64,
    began: Instant,
    told: Instant,
    waiting: Option<Instant>,
}

impl Progress {
    /// Nothing is known yet.
    pub(super) fn new(json: bool) -> Progress {
        let is_watched = !json && Terminal::detect().stderr;
        let now = Instant::now();
        let state = State {
            wanted: Amount::default(),
            here: Amount::default(),
            received: 0,
            began: now,
            told: now,
            waiting: None,
        };
        Progress { json, is_watched, bar: bar(is_watched), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So much is to come.
    pub(super) fn begin(&self, wanted: Amount) {
        let now = Instant::now();
        let mut state = self.state();
        (state.wanted, state.began, state.told, state.received) = (wanted, now, now, 0);
        self.bar.set_length(wanted.bytes);
        self.bar.reset();
    }

    /// A record is here, whoever brought it.
    pub(super) fn came(&self, bytes: u64) {
        let mut state = self.state();
        state.here.records += 1;
        state.here.bytes += bytes;
        self.bar.set_message(format!("{} of {} experts", state.here.records, state.wanted.records));
        self.moved(&mut state);
    }

    /// Removes the bar. Gives what is here by now, bytes that came over the network, and how long it took.
    pub(super) fn end(&self) -> (Amount, u64, f64) {
        self.bar.finish_and_clear();
        let state = self.state();
        (state.here, state.received, state.began.elapsed().as_secs_f64())
    }

    fn moved(&self, state: &mut State) {
        let done = state.received.max(state.here.bytes).min(state.wanted.bytes);
        self.bar.set_position(done);
        let pause = if self.json { PAUSE } else { LOG_PAUSE };
        if self.is_watched || state.told.elapsed() < pause {
            return;
        }
        state.told = Instant::now();
        let rate = done as f64 / state.began.elapsed().as_secs_f64().max(1e-3);
        let left = (state.wanted.bytes - done) as f64 / rate.max(1.0);
        let (here, wanted) = (state.here.records, state.wanted);
        let words = format!(
            "{here} of {} experts, {} of {}, {}/s, {left:.0} s left",
            wanted.records,
            bytes(done),
            bytes(wanted.bytes),
            bytes(rate as u64)
        );
        let more = json!({
            "records": here, "of_records": wanted.records, "here": done, "bytes": wanted.bytes,
            "bytes_per_second": rate as u64, "seconds_left": left,
        });
        self.say("progress", &words, more);
    }

    fn say(&self, name: &str, words: &str, more: Value) {
        if self.json {
            // Whoever reads no more is noticed at the end.
            let _ = terminal::print_line(&event(name, more));
        } else {
            self.bar.suspend(|| terminal::say(words));
        }
    }
}

impl Watch for Progress {
    fn event(&self, event: Event<'_>) {
        let mut state = self.state();
        match event {
            Event::Received { bytes } => {
                state.received += bytes;
                self.moved(&mut state);
            }
            Event::Waiting { name, why, wait }
                if state.waiting.is_none_or(|last| last.elapsed() >= PAUSE) =>
            {
                state.waiting = Some(Instant::now());
                let (words, more) = waiting(name, why, wait);
                self.say("waiting", &words, more);
            }
            _ => {}
        }
    }
}
