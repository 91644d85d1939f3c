//! What a profile found: times by section and part, drives, phases. Times are sums over all passes of a
//! phase, bytes too.

use super::critical::Critical;
use deltafin_model::Part;
use deltafin_stream::{Phase, Use};
use std::time::Duration;

/// Where in the model a part lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Section {
    /// The attention half of layers with Kimi Delta Attention.
    Kda,
    /// The attention half of layers with latent attention.
    Mla,
    /// The feed-forward half of dense layers.
    Dense,
    /// The feed-forward half of layers with experts.
    Moe,
    /// What lies before the first layer and behind the last.
    Ends,
}

impl Section {
    /// Every section, in the order of their numbers (`section as usize`).
    pub const ALL: [Section; 5] =
        [Section::Kda, Section::Mla, Section::Dense, Section::Moe, Section::Ends];
}

/// What is no arithmetic: waiting for weights, and the embedding's rows, which are read when they are wanted.
pub(super) const READING: [Part; 3] = [Part::SpineWait, Part::ExpertWait, Part::Embedding];

/// Times by section and part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times(pub(super) [[Duration; Part::ALL.len()]; Section::ALL.len()]);

impl Times {
    /// One cell.
    pub fn at(&self, section: Section, part: Part) -> Duration {
        self.0[section as usize][part as usize]
    }

    /// All sections' time for a part.
    pub fn part(&self, part: Part) -> Duration {
        self.0.iter().map(|row| row[part as usize]).sum()
    }

    /// The sum of all cells.
    pub fn total(&self) -> Duration {
        self.0.iter().flatten().sum()
    }

    /// The sum of all cells in which something was computed.
    pub fn compute(&self) -> Duration {
        self.total() - READING.map(|part| self.part(part)).iter().sum::<Duration>()
    }
}

/// What a drive did in a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveUse {
    /// A shard's file on it, or the name of a shard.
    pub file: String,
    /// How it is read.
    pub how: String,
    /// Bytes that landed.
    pub bytes: u64,
    /// Time with at least one transfer in flight.
    pub busy: Duration,
}

impl DriveUse {
    /// Bytes per second while busy; nothing for a drive that read nothing.
    pub fn rate(&self) -> Option<f64> {
        let seconds = self.busy.as_secs_f64();
        (self.bytes > 0 && seconds > 0.0).then(|| self.bytes as f64 / seconds)
    }
}

/// One phase of a session.
#[derive(Clone, Debug)]
pub struct PhaseReport {
    /// Which one.
    pub phase: Phase,
    /// Its passes.
    pub passes: u64,
    /// Rows of all passes.
    pub rows: u64,
    /// From the first pass to the end of the last, what lies between them included.
    pub elapsed: Duration,
    /// The time of the passes alone.
    pub wall: Duration,
    /// The same by what it went to.
    pub times: Times,
    /// What was used, read and waited for.
    pub used: Use,
    /// What the drives did.
    pub drives: Vec<DriveUse>,
    /// What the passes could not have been faster than.
    pub critical: Critical,
}

/// What was measured since the profile began, or since its last report.
#[derive(Clone, Debug)]
pub struct ProfileReport {
    /// The phases that there were: prefill, decode.
    pub phases: Vec<PhaseReport>,
    /// Bytes of guesses that were forgotten unused.
    pub wasted_bytes: u64,
}
