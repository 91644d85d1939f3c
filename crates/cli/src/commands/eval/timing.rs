//! What an evaluation cost, in words and in numbers.

use std::time::Instant;

use deltafin_engine::Counters;
use serde::Serialize;

use crate::load::Loaded;
use crate::moved::Moved;
use crate::stats::{bytes, peak_memory_bytes, seconds};

/// The summary that `--stats` prints.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Timing {
    seconds: f64,
    tokens_per_second: f64,
    peak_memory_bytes: Option<u64>,
    weights: &'static str,
    recipe: &'static str,
    device: &'static str,
    isa: &'static str,
    threads: usize,
    chunk: usize,
    #[serde(flatten)]
    moved: Moved,
}

impl Timing {
    /// The time since `began`, in which so many tokens passed through.
    pub(super) fn new(loaded: &Loaded, tokens: usize, began: Instant) -> Timing {
        let seconds = began.elapsed().as_secs_f64();
        Timing {
            seconds,
            tokens_per_second: tokens as f64 / seconds,
            peak_memory_bytes: peak_memory_bytes(),
            weights: loaded.engine.weights_in(),
            recipe: loaded.engine.recipe().name(),
            device: "cpu",
            isa: loaded.engine.isa().name(),
            threads: loaded.engine.threads(),
            chunk: loaded.engine.chunk(),
            moved: Moved::since(&Counters::default(), &loaded.engine),
        }
    }

    /// The summary in words, several lines.
    pub(super) fn words(&self) -> String {
        let memory = self.peak_memory_bytes.map_or_else(|| "unknown".to_owned(), bytes);
        format!(
            "evaluation   {}, {:.2} tokens/s\n\
             peak memory  {memory}, weights in {}\n\
             recipe       {}, {}\n\
             machine      isa {}, threads {}, chunk {}\n\
             {}",
            seconds(self.seconds),
            self.tokens_per_second,
            self.weights,
            self.recipe,
            self.device,
            self.isa,
            self.threads,
            self.chunk,
            self.moved.words(),
        )
    }
}
