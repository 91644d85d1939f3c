//! Counters in Prometheus' text form. Only what is counted is told: no name stands for a zero
//! that nobody measured. What this engine never does is counted by that.

mod moved;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::backend::Moved;
use crate::lines::Count;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds in seconds: from a small model's token to a full-size reply.
const BOUNDS_S: [f64; 12] =
    [0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1200.0, 3600.0, 14400.0];

/// Of tokens that nobody guesses here, by names that dashboards for servers that do are built on.
const GUESSES: [(&str, &str); 2] = [
    ("deltafin_speculated_tokens_total", "Tokens guessed before the model was asked"),
    ("deltafin_accepted_tokens_total", "Guesses that the model agreed with"),
];

/// How often something took how long.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BOUNDS_S.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Histogram {
    pub(crate) fn record(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        if let Some(at) = BOUNDS_S.iter().position(|bound| seconds <= *bound) {
            self.buckets[at].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(duration.as_micros() as u64, Ordering::Relaxed);
    }

    fn write(&self, name: &str, help: &str, out: &mut String) {
        head(name, "histogram", help, out);
        let mut below = 0;
        for (bound, bucket) in BOUNDS_S.iter().zip(&self.buckets) {
            below += bucket.load(Ordering::Relaxed);
            let _ = writeln!(out, "{name}_bucket{{le=\"{bound}\"}} {below}");
        }
        let count = self.count.load(Ordering::Relaxed).max(below);
        let sum = self.micros.load(Ordering::Relaxed) as f64 / 1e6;
        let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "{name}_sum {sum}\n{name}_count {count}");
    }
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    cancelled: Mutex<BTreeMap<&'static str, u64>>,
    pub(crate) request_seconds: Histogram,
    pub(crate) token_seconds: Histogram,
    pub(crate) first_token_seconds: Histogram,
    pub(crate) prompt_tokens: Counter,
    pub(crate) cached_tokens: Counter,
    pub(crate) generated_tokens: Counter,
    /// Of the prompt that is being taken in, or was last.
    pub(crate) prefill: Prefill,
}

/// How far a prompt has come, in tokens.
#[derive(Debug, Default)]
pub(crate) struct Prefill {
    done: AtomicU64,
    total: AtomicU64,
}

impl Prefill {
    pub(crate) fn set(&self, done: usize, total: usize) {
        self.done.store(done as u64, Ordering::Relaxed);
        self.total.store(total as u64, Ordering::Relaxed);
    }

    /// Tokens done, and all of them.
    pub(crate) fn get(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }
}

/// What changes up and down and is known elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Gauges {
    pub(crate) up: bool,
    pub(crate) busy: bool,
    pub(crate) queue_depth: usize,
    pub(crate) connections: Count,
    /// Counted by the backend, where it counts.
    pub(crate) moved: Option<Moved>,
}

impl Metrics {
    pub(crate) fn answered(&self, endpoint: &'static str, status: u16) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((endpoint, status)).or_default() += 1;
    }

    pub(crate) fn cancelled(&self, reason: &'static str) {
        let mut cancelled = self.cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        *cancelled.entry(reason).or_default() += 1;
    }

    /// The page.
    pub(crate) fn text(&self, gauges: Gauges) -> String {
        let mut out = String::new();
        let Gauges { up, busy, queue_depth, connections, moved } = gauges;
        value("deltafin_up", "gauge", "Whether the model is loaded", u64::from(up), &mut out);
        value("deltafin_busy", "gauge", "Whether it generates", u64::from(busy), &mut out);
        value("deltafin_queue_depth", "gauge", "Requests that wait", queue_depth as u64, &mut out);
        write_connections(connections, &mut out);
        let (done, total) = self.prefill.get();
        value("deltafin_prefill_tokens", "gauge", "Tokens of the last prompt", total, &mut out);
        value("deltafin_prefill_done_tokens", "gauge", "Of them, taken in", done, &mut out);
        self.labelled(&mut out);
        for (name, help, counter) in [
            ("deltafin_prompt_tokens_total", "Prompt tokens of requests", &self.prompt_tokens),
            (
                "deltafin_cached_prompt_tokens_total",
                "Prompt tokens whose state was reused",
                &self.cached_tokens,
            ),
            ("deltafin_generated_tokens_total", "Tokens generated", &self.generated_tokens),
        ] {
            value(name, "counter", help, counter.get(), &mut out);
        }
        GUESSES.iter().for_each(|(name, help)| value(name, "counter", help, 0, &mut out));
        moved.iter().for_each(|moved| moved::write(moved, &mut out));
        for (name, help, histogram) in [
            ("deltafin_request_seconds", "Generations, waiting included", &self.request_seconds),
            ("deltafin_token_seconds", "From one token to the next", &self.token_seconds),
            (
                "deltafin_time_to_first_token_seconds",
                "From the slot to the first token",
                &self.first_token_seconds,
            ),
        ] {
            histogram.write(name, help, &mut out);
        }
        out
    }

    fn labelled(&self, out: &mut String) {
        head("deltafin_requests_total", "counter", "Requests answered", out);
        for ((endpoint, status), count) in
            &*self.requests.lock().unwrap_or_else(PoisonError::into_inner)
        {
            let labels = format!("endpoint=\"{endpoint}\",status=\"{status}\"");
            let _ = writeln!(out, "deltafin_requests_total{{{labels}}} {count}");
        }
        head("deltafin_cancelled_total", "counter", "Generations broken off", out);
        for (reason, count) in &*self.cancelled.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = writeln!(out, "deltafin_cancelled_total{{reason=\"{reason}\"}} {count}");
        }
    }
}

fn write_connections(count: Count, out: &mut String) {
    let name = "deltafin_connections";
    head(name, "gauge", "Connections, by what they do", out);
    for (state, count) in
        [("idle", count.idle), ("asking", count.asking), ("answered", count.answered)]
    {
        let _ = writeln!(out, "{name}{{state=\"{state}\"}} {count}");
    }
    let (name, help) = ("deltafin_connections_displaced_total", "Connections ended for others");
    value(name, "counter", help, count.displaced, out);
}

fn head(name: &str, kind: &str, help: &str, out: &mut String) {
    let _ = writeln!(out, "# HELP {name} {help}.\n# TYPE {name} {kind}");
}

fn value(name: &str, kind: &str, help: &str, value: u64, out: &mut String) {
    head(name, kind, help, out);
    let _ = writeln!(out, "{name} {value}");
}
