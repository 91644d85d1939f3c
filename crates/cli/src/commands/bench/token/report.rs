//! What `bench token` says.

use deltafin_budget::{SpineFormat, Touched};
use deltafin_checkpoint::Recipe;
use deltafin_engine::Engine;
use deltafin_measure::Moment;
use serde::Serialize;

use super::Round;
use crate::args::BenchToken;
use crate::commands::bench::report::Spread;

/// What is printed.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    recipe: String,
    isa: &'static str,
    threads: usize,
    tokens: usize,
    bytes_touched_per_token: u64,
    seconds_per_token: Spread,
    read_gbps: Spread,
    spine_kernel_gbps: Spread,
    expert_kernel_gbps: Spread,
    ratio_to_memory: Spread,
    ratio_to_kernels: Spread,
}

fn spine_format(recipe: Recipe) -> SpineFormat {
    match recipe {
        Recipe::Bf16 => SpineFormat::Bf16,
        Recipe::Int8 => SpineFormat::Int8,
    }
}

impl Report {
    /// Of rounds that began with `position` ids behind them.
    pub(super) fn new(
        asked: &BenchToken,
        engine: &Engine,
        position: usize,
        rounds: &[Round],
    ) -> Report {
        let touched = Touched::of(engine.spec(), spine_format(engine.recipe()), position);
        let [spine, experts, state] =
            [touched.spine_bytes(), touched.token_experts(), touched.state].map(|b| b as f64 / 1e9);
        let spread = |number: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(number));
        Report {
            recipe: engine.recipe().name().to_owned(),
            isa: engine.isa().name(),
            threads: engine.threads(),
            tokens: asked.rounds.saturating_mul(asked.tokens),
            bytes_touched_per_token: ((spine + experts + state) * 1e9) as u64,
            seconds_per_token: spread(&|round| round.seconds),
            read_gbps: spread(&|round| round.around.read_gbps),
            spine_kernel_gbps: spread(&|round| round.around.spine_gbps),
            expert_kernel_gbps: spread(&|round| round.around.expert_gbps),
            ratio_to_memory: spread(&|round| {
                (spine + experts + state) / round.around.read_gbps / round.seconds
            }),
            ratio_to_kernels: spread(&|round| {
                let Moment { read_gbps, spine_gbps, expert_gbps } = round.around;
                (spine / spine_gbps + experts / expert_gbps + state / read_gbps) / round.seconds
            }),
        }
    }

    /// As a table.
    pub(super) fn words(&self) -> String {
        let Report { recipe, isa, threads, tokens, .. } = self;
        let bytes = self.bytes_touched_per_token as f64 / 1e9;
        let lines = [
            ("seconds a token", self.seconds_per_token, 1.0),
            ("memory, GB/s", self.read_gbps, 1.0),
            ("spine's kernel, GB/s", self.spine_kernel_gbps, 1.0),
            ("experts' kernels, GB/s", self.expert_kernel_gbps, 1.0),
            ("of what memory gives, %", self.ratio_to_memory, 100.0),
            ("of what the kernels give, %", self.ratio_to_kernels, 100.0),
        ];
        let mut text = format!(
            "{tokens} tokens, spine {recipe}, {isa}, threads {threads}, {bytes:.2} GB touched a token\n\n\
             {:<28}  median    lowest   highest",
            ""
        );
        for (what, Spread { median, min, max }, times) in lines {
            let [median, min, max] = [median, min, max].map(|value| value * times);
            text += &format!("\n{what:<28}{median:>8.3}  {min:>8.3}  {max:>8.3}");
        }
        text
    }
}
