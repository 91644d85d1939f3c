//! What a plan costs in time: bytes by cause, seconds, and what limits them.
//!
//! **Promise.** A pure function of the plan, the model's sizes and the rates of a machine. It counts what
//! cannot be avoided and assumes that everything else overlaps:
//!
//! ```text
//! token   the larger of   every byte read ÷ drive                      spine streamed
//!                         Σ layers: spine work + max(expert reads ÷ drive, expert work)
//!                                   + one expert's work                experts known only by the route;
//!                                                                      what was guessed comes sooner
//! prompt  per pass, the larger of   every byte read ÷ drive,   rows × multiply-adds ÷ their rate
//! ```
//!
//! Reads of streamed spine fill the drive whenever it is idle, so with much of it the first term rules;
//! with none, the second is what no queue can hide.

use crate::{Plan, SpineFormat, demand};
use deltafin_spec::{FfnKind, ModelSpec};
use serde::Serialize;

/// What a machine gives, in 10^9 per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Bytes that all threads together read from memory.
    pub memory_gbps: f64,
    /// Bytes that the drive gives for direct reads as long as an expert.
    pub drive_gbps: f64,
    /// Bytes of spine multiplied for one row.
    pub spine_gbps: f64,
    /// Bytes of experts multiplied for one row.
    pub expert_gbps: f64,
    /// Multiply-adds for many rows.
    pub prompt_gmacs: f64,
}

/// What a token touches. Bytes are those of the weights, without alignment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Touched {
    /// Bytes of the spine's units in the order of use.
    pub spine: Vec<u64>,
    /// Bytes of one expert.
    pub expert: u64,
    /// Experts of one layer, and those chosen of them.
    pub experts: usize,
    /// Experts that a token needs of one layer.
    pub top_k: usize,
    /// Layers with experts.
    pub moe_layers: usize,
    /// Bytes of state read and written.
    pub state: u64,
    /// Multiply-adds of one prompt row, the head apart.
    pub row_macs: u64,
}

/// What a plan costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Spine that is read for every token, in bytes.
    pub spine_read_bytes: u64,
    /// Experts that are read for a token because the cache lacks them, in bytes.
    pub expert_read_bytes: u64,
    /// The share of a token's experts that the cache is expected to have.
    pub hit_rate: f64,
    /// The drive's part of a token.
    pub read_seconds: f64,
    /// The processor's part of a token.
    pub compute_seconds: f64,
    /// A token, after the prompt.
    pub token_seconds: f64,
    /// Rows of the prompt that is reckoned with.
    pub prompt_rows: usize,
    /// Bytes that are read for it.
    pub prompt_read_bytes: u64,
    /// That prompt.
    pub prompt_seconds: f64,
    /// What a token waits for.
    pub limit: Limit,
    /// What that prompt waits for.
    pub prompt_limit: Limit,
}

/// What there is too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// The drive's bandwidth.
    Drive,
    /// The memory's bandwidth.
    Memory,
    /// Multiply-adds.
    Compute,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Limit::Drive => "the drive",
            Limit::Memory => "memory bandwidth",
            Limit::Compute => "the processor",
        })
    }
}

/// Rows of the prompt that estimates are made for.
pub const PROMPT_ROWS: usize = 512;

/// A kernel that reaches this share of the memory's bandwidth is limited by it.
const NEAR_MEMORY: f64 = 0.75;

/// Distinct experts grow with the rows' number to this power, as long as few are taken: published for
/// the released model are 1.7 tokens' worth for two rows and 4.3 for eight.
const UNION_POWER: f64 = 0.72;

/// Of the experts that have to be read, the share that a guess has begun to read before the route is
/// known: 0.16 to 0.21 were measured, on random weights.
pub const GUESSED: f64 = 1.0 / 6.0;

impl Touched {
    /// What a token of this model touches, its spine in this format, `position` tokens into a sequence.
    pub fn of(spec: &ModelSpec, format: SpineFormat, position: usize) -> Touched {
        let layers = spec.layer_ids().map(|layer| demand::spine_layer_bytes(spec, layer, format));
        let moe_layers = spec.count_ffn(FfnKind::Moe);
        // Two bytes of bf16 are one multiply-add, 17 bytes of MXFP4 are 32.
        let spine_macs = spec.all_spines_bytes() / 2;
        let expert_macs = spec.token_expert_bytes() / 17 * 32;
        let cache = spec.mla_cache_values() * position as u64 * 4;
        Touched {
            spine: layers.chain([demand::head_bytes(spec, format)]).collect(),
            expert: spec.expert_bytes(),
            experts: spec.moe.experts,
            top_k: spec.moe.top_k,
            moe_layers,
            state: 2 * spec.kda_state_bytes() + cache,
            row_macs: spine_macs + expert_macs,
        }
    }

    /// Bytes of the whole spine, the head among it.
    pub fn spine_bytes(&self) -> u64 {
        self.spine.iter().sum()
    }

    fn streamed(&self, plan: &Plan) -> u64 {
        let units = self.spine.iter().zip(&plan.spine_resident);
        units.filter(|(_, stays)| !**stays).map(|(bytes, _)| bytes).sum()
    }

    /// Bytes of the experts of one token.
    pub fn token_experts(&self) -> u64 {
        (self.top_k * self.moe_layers) as u64 * self.expert
    }
}

impl Estimate {
    /// What `plan` costs on a machine with these rates. `hit_rate` is the share of a token's experts that
    /// are in memory, as [`crate::expected_hits`] has it; `guessed` of the others are begun to be read before
    /// the route is known, such as [`GUESSED`].
    pub fn of(
        plan: &Plan,
        touched: &Touched,
        rates: &Rates,
        hit_rate: f64,
        guessed: f64,
    ) -> Estimate {
        let streamed = touched.streamed(plan);
        let missed = touched.token_experts() as f64 * (1.0 - hit_rate);
        let drive = rates.drive_gbps * 1e9;
        let read = (streamed as f64 + missed) / drive;

        let state = touched.state as f64 / (rates.memory_gbps * 1e9);
        let spine = touched.spine_bytes() as f64 / (rates.spine_gbps * 1e9) + state;
        let experts = touched.token_experts() as f64 / (rates.expert_gbps * 1e9);
        // The last expert that arrives is computed after its read.
        let last = if missed > 0.0 { experts / touched.top_k.max(1) as f64 } else { 0.0 };
        // A guess is read while the spine is worked through.
        let early = (guessed * missed / drive).min(spine);
        let path = spine + (missed / drive - early).max(experts) + last;
        let compute = spine + experts;
        let prompt = Prompt::of(plan, touched, rates);
        Estimate {
            spine_read_bytes: streamed,
            expert_read_bytes: missed as u64,
            hit_rate,
            read_seconds: read,
            compute_seconds: compute,
            token_seconds: read.max(path),
            prompt_rows: PROMPT_ROWS,
            prompt_read_bytes: prompt.read_bytes,
            prompt_seconds: prompt.seconds,
            limit: match read > compute {
                true => Limit::Drive,
                false => kernel_limit(touched, rates),
            },
            prompt_limit: if prompt.waits_for_reads { Limit::Drive } else { Limit::Compute },
        }
    }
}

/// Which of memory and processor holds the kernels back, by the part that takes longer.
fn kernel_limit(touched: &Touched, rates: &Rates) -> Limit {
    let spine = touched.spine_bytes() as f64 / rates.spine_gbps;
    let experts = touched.token_experts() as f64 / rates.expert_gbps;
    let slower = if spine > experts { rates.spine_gbps } else { rates.expert_gbps };
    if slower >= NEAR_MEMORY * rates.memory_gbps { Limit::Memory } else { Limit::Compute }
}

/// A prompt of [`PROMPT_ROWS`], in passes of the plan's chunk.
struct Prompt {
    read_bytes: u64,
    seconds: f64,
    waits_for_reads: bool,
}

impl Prompt {
    fn of(plan: &Plan, touched: &Touched, rates: &Rates) -> Prompt {
        let rows = plan.chunk_rows.clamp(1, PROMPT_ROWS);
        let passes = PROMPT_ROWS.div_ceil(rows) as f64;
        let all = (touched.experts * touched.moe_layers) as f64;
        let kept = if plan.experts == 0 { 0.0 } else { plan.cache as f64 / plan.experts as f64 };
        let needed = all * union(touched, rows) * (1.0 - kept);
        let bytes = passes * (touched.streamed(plan) as f64 + needed * touched.expert as f64);
        let read = bytes / (rates.drive_gbps * 1e9);
        let compute = PROMPT_ROWS as f64 * touched.row_macs as f64 / (rates.prompt_gmacs * 1e9);
        Prompt {
            read_bytes: bytes as u64,
            seconds: read.max(compute),
            waits_for_reads: read > compute,
        }
    }
}

/// The share of a layer's experts that `rows` rows of text need.
fn union(touched: &Touched, rows: usize) -> f64 {
    let one = touched.top_k as f64 / touched.experts.max(1) as f64;
    1.0 - (1.0 - one).max(0.0).powf((rows as f64).powf(UNION_POWER))
}

#[cfg(test)]
mod tests;
