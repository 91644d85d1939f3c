//! What was used, read and waited for.

use std::time::Duration;

/// What a pass is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// It takes in a prompt, or a part of one.
    #[default]
    Prefill,
    /// It takes in what was generated.
    Decode,
}

/// Counts of one phase. An expert of a layer that a pass uses counts once, however many rows use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Passes.
    pub passes: u64,
    /// Experts that were in memory when they were asked for.
    pub hits: u64,
    /// Those of them that a guess had read.
    pub guessed: u64,
    /// Experts that a guess was reading when they were asked for.
    pub late: u64,
    /// Experts that had to be read.
    pub misses: u64,
    /// Bytes of `misses`.
    pub missed_bytes: u64,
    /// Experts that were read on a guess.
    pub guesses: u64,
    /// Experts that were read on a guess and then used.
    pub guesses_used: u64,
    /// Bytes of `guesses_used`.
    pub guessed_bytes: u64,
    /// Bytes of spine units that were read.
    pub spine_bytes: u64,
    /// Time that the forward pass stood still for a spine.
    pub spine_wait: Duration,
    /// Time that the forward pass stood still for experts.
    pub expert_wait: Duration,
}

impl Use {
    /// Experts that were asked for.
    pub fn experts(&self) -> u64 {
        self.hits + self.late + self.misses
    }

    /// What was added since `earlier`, a count of the same phase.
    #[must_use]
    pub fn since(&self, earlier: &Use) -> Use {
        Use {
            passes: self.passes - earlier.passes,
            hits: self.hits - earlier.hits,
            guessed: self.guessed - earlier.guessed,
            late: self.late - earlier.late,
            misses: self.misses - earlier.misses,
            missed_bytes: self.missed_bytes - earlier.missed_bytes,
            guesses: self.guesses - earlier.guesses,
            guesses_used: self.guesses_used - earlier.guesses_used,
            guessed_bytes: self.guessed_bytes - earlier.guessed_bytes,
            spine_bytes: self.spine_bytes - earlier.spine_bytes,
            spine_wait: self.spine_wait - earlier.spine_wait,
            expert_wait: self.expert_wait - earlier.expert_wait,
        }
    }
}

/// All counts since the stream was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Passes of prompts.
    pub prefill: Use,
    /// Passes of replies.
    pub decode: Use,
    /// Bytes of guesses that were forgotten unused.
    pub wasted_bytes: u64,
}

impl Counters {
    /// What was added since `earlier`, counts of the same stream.
    #[must_use]
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            prefill: self.prefill.since(&earlier.prefill),
            decode: self.decode.since(&earlier.decode),
            wasted_bytes: self.wasted_bytes - earlier.wasted_bytes,
        }
    }

    pub(crate) fn of(&mut self, phase: Phase) -> &mut Use {
        match phase {
            Phase::Prefill => &mut self.prefill,
            Phase::Decode => &mut self.decode,
        }
    }
}
