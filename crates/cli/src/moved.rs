//! How memory was divided, how the drives were read, and what that came to: a part of `--stats`.

use std::fmt::Write as _;

use deltafin_engine::{Counters, Engine, Use};
use deltafin_store::Asked;
use deltafin_store::drive::Traffic;
use serde::Serialize;

use crate::stats::{bytes, seconds};
use crate::terminal;

/// Where weights were and what was read of them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Moved {
    plan: Memory,
    drives: Vec<Drive>,
    reads: Reads,
    /// Experts that came over the network, where they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    fetched: Option<Fetched>,
}

/// What came over the network since the engine was opened.
#[derive(Clone, Debug, Serialize)]
struct Fetched {
    experts: u64,
    bytes: u64,
    /// Experts that made room for these on the drive.
    evicted: u64,
    evicted_bytes: u64,
    /// Requests that were sent, and how often nothing came of one.
    requests: u64,
    waits: u64,
}

impl Fetched {
    fn words(&self) -> String {
        let Fetched { experts, bytes: fetched, evicted, evicted_bytes, requests, waits } = self;
        let fetched = bytes(*fetched);
        let mut words = format!(
            "\nnetwork      {experts} experts fetched, {fetched}; {requests} requests, {waits} in vain"
        );
        if *evicted > 0 {
            let room = bytes(*evicted_bytes);
            let _ = write!(words, "; {evicted} others made room, {room}");
        }
        words
    }
}

/// How memory was divided.
#[derive(Clone, Debug, Serialize)]
struct Memory {
    /// The most that is ever resident.
    budget_bytes: Option<u64>,
    /// Of the spine, what stays, and the area that the rest streams through.
    spine_resident_bytes: Option<u64>,
    spine_stream_bytes: usize,
    /// Experts that have room at the same time, of so many.
    expert_slots: usize,
    experts: Option<usize>,
    /// Of those, what may be kept for good.
    pinned: Option<usize>,
    snapshot_bytes: Option<u64>,
    chunk: usize,
}

/// How a drive was read.
#[derive(Clone, Debug, Serialize)]
struct Drive {
    file: String,
    mode: String,
    /// Why that is not the fastest mode.
    notice: Option<String>,
}

/// What was used and read, by phase.
#[derive(Clone, Debug, Serialize)]
struct Reads {
    prefill: PhaseReads,
    decode: PhaseReads,
    /// Of experts that were read on a guess and forgotten unused.
    wasted_bytes: u64,
}

/// What one phase used and read. Every expert that a layer needs in a pass counts once: as a hit, as
/// late, or as a miss.
#[derive(Clone, Debug, Serialize)]
struct PhaseReads {
    passes: u64,
    hits: u64,
    late: u64,
    misses: u64,
    missed_bytes: u64,
    guesses: u64,
    guesses_used: u64,
    guessed_bytes: u64,
    spine_bytes: u64,
    spine_wait_seconds: f64,
    expert_wait_seconds: f64,
}

impl Moved {
    /// What moved since the counts stood at `earlier`.
    pub(crate) fn since(earlier: &Counters, engine: &Engine) -> Moved {
        let stream = engine.weights().stream();
        let counted = stream.counters().since(earlier);
        let plan = engine.plan();
        let report = stream.report();
        let is_distant = engine.weights().is_distant();
        let Traffic { reads: experts, bytes } = report.brought;
        let Traffic { reads: evicted, bytes: evicted_bytes } = report.evicted;
        let Asked { requests, waits } = report.asked;
        let fetched = Fetched { experts, bytes, evicted, evicted_bytes, requests, waits };
        let drives = report.drives.into_iter();
        Moved {
            plan: Memory {
                budget_bytes: plan.map(|plan| plan.budget),
                spine_resident_bytes: plan.map(|plan| plan.spine_resident_bytes),
                spine_stream_bytes: stream.layout().stream_bytes,
                expert_slots: stream.expert_slots(),
                experts: plan.map(|plan| plan.experts),
                pinned: plan.map(|plan| plan.pinned),
                snapshot_bytes: plan.map(|plan| plan.snapshots),
                chunk: engine.chunk(),
            },
            drives: drives
                .map(|drive| Drive { file: drive.file, mode: drive.how, notice: drive.notice })
                .collect(),
            reads: Reads {
                prefill: PhaseReads::of(&counted.prefill),
                decode: PhaseReads::of(&counted.decode),
                wasted_bytes: counted.wasted_bytes,
            },
            fetched: is_distant.then_some(fetched),
        }
    }

    /// The same in words, several lines.
    pub(crate) fn words(&self) -> String {
        let mut words = self.plan.words();
        for Drive { file, mode, .. } in &self.drives {
            let _ = write!(words, "\ndrive        {mode}: {}", terminal::one_line(file));
        }
        let Reads { prefill, decode, wasted_bytes } = &self.reads;
        for (label, phase) in [("prompt used", prefill), ("decode used", decode)] {
            if phase.passes > 0 {
                let _ = write!(words, "\n{label:<12} {}", phase.words());
            }
        }
        if let Some(fetched) = &self.fetched {
            words.push_str(&fetched.words());
        }
        if *wasted_bytes > 0 {
            let _ = write!(words, "\nwasted       {} of guesses", bytes(*wasted_bytes));
        }
        words
    }
}

impl Memory {
    fn words(&self) -> String {
        let known = |amount: Option<u64>| amount.map_or_else(|| "unknown".to_owned(), bytes);
        let of = self.experts.map_or_else(String::new, |all| format!(" of {all}"));
        format!(
            "plan         {} at most, {} of spine stay, {} for the rest, {}{of} experts fit",
            known(self.budget_bytes),
            known(self.spine_resident_bytes),
            bytes(self.spine_stream_bytes as u64),
            self.expert_slots,
        )
    }
}

impl PhaseReads {
    fn of(used: &Use) -> PhaseReads {
        PhaseReads {
            passes: used.passes,
            hits: used.hits,
            late: used.late,
            misses: used.misses,
            missed_bytes: used.missed_bytes,
            guesses: used.guesses,
            guesses_used: used.guesses_used,
            guessed_bytes: used.guessed_bytes,
            spine_bytes: used.spine_bytes,
            spine_wait_seconds: used.spine_wait.as_secs_f64(),
            expert_wait_seconds: used.expert_wait.as_secs_f64(),
        }
    }

    fn words(&self) -> String {
        format!(
            "{} experts in memory, {} on their way, {} read ({}); {} guesses, {} of them used ({}); \
             {} of spine; waited {} for experts, {} for spine",
            self.hits,
            self.late,
            self.misses,
            bytes(self.missed_bytes),
            self.guesses,
            self.guesses_used,
            bytes(self.guessed_bytes),
            bytes(self.spine_bytes),
            seconds(self.expert_wait_seconds),
            seconds(self.spine_wait_seconds),
        )
    }
}

/// Says why drives are not read in the fastest way, where they are read again and again: one line for
/// each drive.
pub(crate) fn say_how_drives_are_read(engine: &Engine) {
    if engine.weights_in() == "memory" {
        return;
    }
    for drive in engine.weights().stream().report().drives {
        if let Some(notice) = drive.notice {
            let file = terminal::one_line(&drive.file);
            terminal::say(&format!("{file}: {notice}; read with {}", drive.how));
        }
    }
}
