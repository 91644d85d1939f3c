//! What a generation cost, in words and in numbers.

use deltafin_engine::{Counters, Engine, Stats};
use serde::Serialize;

use crate::moved::Moved;

/// The summary that `--stats` prints.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    /// Ids of the prompt, those the session already held included.
    pub(crate) prompt_tokens: usize,
    /// Ids of the prompt that the session already held.
    pub(crate) reused_tokens: usize,
    /// Ids generated, a stop token included.
    pub(crate) new_tokens: usize,
    prefill_seconds: f64,
    prefill_tokens_per_second: Option<f64>,
    decode_seconds: f64,
    decode_tokens_per_second: Option<f64>,
    first_token_seconds: Option<f64>,
    peak_memory_bytes: Option<u64>,
    weights: &'static str,
    recipe: &'static str,
    device: &'static str,
    sampling: &'static str,
    isa: &'static str,
    threads: usize,
    chunk: usize,
    context: usize,
    #[serde(flatten)]
    moved: Moved,
}

impl Summary {
    /// Puts together what was measured and what it was measured on; `earlier` is where the engine's
    /// counts stood before.
    pub(crate) fn new(
        engine: &Engine,
        reused_tokens: usize,
        stats: &Stats,
        earlier: &Counters,
    ) -> Summary {
        Summary {
            prompt_tokens: reused_tokens + stats.prompt_ids,
            reused_tokens,
            new_tokens: stats.new_ids,
            prefill_seconds: stats.prefill_seconds,
            prefill_tokens_per_second: rate(stats.prompt_ids, stats.prefill_seconds),
            decode_seconds: stats.decode_seconds,
            // The first token comes out of the prefill; the clock of the others starts with it.
            decode_tokens_per_second: rate(stats.new_ids.saturating_sub(1), stats.decode_seconds),
            first_token_seconds: (stats.new_ids > 0).then_some(stats.first_id_seconds),
            peak_memory_bytes: peak_memory_bytes(),
            weights: engine.weights_in(),
            recipe: engine.recipe().name(),
            device: "cpu",
            sampling: "greedy",
            isa: engine.isa().name(),
            threads: engine.threads(),
            chunk: engine.chunk(),
            context: engine.context(),
            moved: Moved::since(earlier, engine),
        }
    }

    /// The summary in words, several lines.
    pub(crate) fn words(&self) -> String {
        let per_second = |rate: Option<f64>| {
            rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.2} tokens/s"))
        };
        let prefilled = self.prompt_tokens - self.reused_tokens;
        let reused = match self.reused_tokens {
            0 => String::new(),
            n => format!(" ({n} more reused)"),
        };
        // The first token comes with the prefill.
        let more = self.new_tokens.saturating_sub(1);
        let tokens = if more == 1 { "token" } else { "tokens" };
        let first = self.first_token_seconds.map_or_else(|| "-".to_owned(), seconds);
        let memory = self.peak_memory_bytes.map_or_else(|| "unknown".to_owned(), bytes);
        format!(
            "prefill      {prefilled} tokens{reused} in {}, {}\n\
             decode       {more} more {tokens} in {}, {}\n\
             first token  after {first}\n\
             peak memory  {memory}, weights in {}\n\
             recipe       {}, {}, {}\n\
             machine      isa {}, threads {}, chunk {}, context {}\n\
             {}",
            seconds(self.prefill_seconds),
            per_second(self.prefill_tokens_per_second),
            seconds(self.decode_seconds),
            per_second(self.decode_tokens_per_second),
            self.weights,
            self.recipe,
            self.device,
            self.sampling,
            self.isa,
            self.threads,
            self.chunk,
            self.context,
            self.moved.words(),
        )
    }
}

/// A duration as people read it.
pub(crate) fn seconds(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

/// A size as people read it: in powers of 1024.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut amount = bytes as f64;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{amount:.2} {}", UNITS[unit]) }
}

fn rate(tokens: usize, seconds: f64) -> Option<f64> {
    (tokens > 0 && seconds > 0.0).then(|| tokens as f64 / seconds)
}

/// The most memory this process ever had resident. Linux tells it per program; the system call
/// that other systems have counts, on Linux, also what the shell held before it started us.
pub(crate) fn peak_memory_bytes() -> Option<u64> {
    deltafin_engine::peak_resident_bytes().or_else(peak_of_usage)
}

fn peak_of_usage() -> Option<u64> {
    use nix::sys::resource::{UsageWho, getrusage};
    let peak = u64::try_from(getrusage(UsageWho::RUSAGE_SELF).ok()?.max_rss()).ok()?;
    // Apple counts bytes, the others kibibytes.
    Some(if cfg!(target_vendor = "apple") { peak } else { peak * 1024 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.00 KiB");
        assert_eq!(bytes(12_833_792), "12.24 MiB");
        assert_eq!(bytes(1_560_000_000_000), "1.42 TiB");
    }

    #[test]
    fn nothing_generated_has_no_rate() {
        assert_eq!(rate(0, 1.0), None);
        assert_eq!(rate(3, 0.0), None);
        assert_eq!(rate(3, 2.0), Some(1.5));
    }
}
