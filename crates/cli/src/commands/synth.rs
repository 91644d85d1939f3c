//! `synth`: writes a checkpoint to measure with.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::Instant;

use deltafin_spec::SpecError;
use deltafin_synth::{Ended, Plan, Progress};

use crate::args::Synth;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::stats;
use crate::terminal::{self, ProgressLine, Terminal, one_line};

/// Does it.
pub(crate) fn synth(asked: &Synth) -> Result<(), Failure> {
    let plan = Plan::new(&asked.dimensions, asked.routing, asked.seed).map_err(|e| refused(&e))?;
    let interrupts = Interrupts::install()?.and_terminations()?;
    let began = Instant::now();
    let mut line = ProgressLine::new(Terminal::detect());
    let interrupted = interrupts.begin();
    let ended = plan.write(&asked.out, asked.content, &mut |at| {
        line.update(|| words(at, began.elapsed().as_secs_f64()));
        match interrupted.load(Ordering::SeqCst) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    drop(line);
    interrupts.end();
    match ended? {
        Ended::Stopped => Err(Failure::Interrupted),
        Ended::Complete => terminal::print_line(&format!(
            "{}: {} shards, {}, seed {}",
            one_line(&asked.out.display().to_string()),
            plan.shards().len(),
            stats::bytes(plan.bytes()),
            asked.seed,
        )),
    }
}

/// A refused dimension with the flag that set it.
fn refused(error: &SpecError) -> Failure {
    let flag = match error.field {
        "num_hidden_layers" | "attn_res_block_size" => "--layers",
        "num_experts" => "--experts",
        "num_experts_per_token" => "--top-k",
        "vocab_size" => "--vocab",
        "intermediate_size" => "--dense-width",
        _ => return Failure::new(error.to_string()),
    };
    Failure::new(format!("{flag}: {error}"))
}

fn words(at: Progress, seconds: f64) -> String {
    let Progress { shards_done, shards, bytes_done, bytes } = at;
    let shard = shards.min(shards_done + 1);
    let rate = bytes_done as f64 / seconds.max(1e-3);
    let left = (bytes - bytes_done) as f64 / rate.max(1.0);
    format!(
        "shard {shard} of {shards}, {} of {}, {}/s, {} left",
        stats::bytes(bytes_done),
        stats::bytes(bytes),
        stats::bytes(rate as u64),
        stats::seconds(left),
    )
}
