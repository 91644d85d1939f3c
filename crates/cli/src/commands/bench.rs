//! `bench`: kernels beside what this machine can do, and engines beside each other.

mod arms;
mod counters;
mod measured;
mod once;
mod oracle;
mod page_cache;
mod prompt;
mod report;
mod routes;
mod token;

use deltafin_budget::{Limits, Size};
use deltafin_measure::{KernelLine, KernelReport, Memory, Options};

pub(crate) use self::arms::arms;
pub(crate) use self::once::once;
pub(crate) use self::routes::routes;
pub(crate) use self::token::token;
use super::measuring;
use crate::args::BenchKernels;
use crate::failure::Failure;
use crate::terminal::{self, ProgressLine, Terminal};

/// Measures the kernels.
pub(crate) fn kernels(asked: &BenchKernels) -> Result<(), Failure> {
    for flag in asked.engine.idle_without_model() {
        terminal::note(&format!("deltafin: {flag} has no effect here: no model is loaded"));
    }
    let limits = Limits::read();
    let options = Options {
        // Measuring something else than what was asked for would mislead: what this machine lacks
        // is refused.
        isas: asked.engine.isa().into_iter().collect(),
        threads: asked.engine.threads().into_iter().map(usize::from).collect(),
        names: asked.names.clone(),
        rows: asked.rows.clone(),
        seconds: asked.seconds,
        room: measuring::room(&limits),
    };
    options.check()?;
    let memory = options.memory().map_err(|refused| measuring::too_little(&limits, refused))?;
    let mut progress = ProgressLine::new(Terminal::detect());
    let report = deltafin_measure::kernels(&options, &mut |line| {
        progress.update(|| format!("measured {}, {} rows, {}", line.name, line.rows, line.isa));
    })?;
    drop(progress);
    if memory < Memory::BYTES {
        terminal::note(&format!(
            "deltafin: measured with {}, for memory is short: caches hold a part of that, and are faster",
            Size(memory)
        ));
    }
    if asked.engine.json {
        return terminal::print_line(&serde_json::to_string(&report)?);
    }
    terminal::print_line(&words(&report))
}

fn words(report: &KernelReport) -> String {
    let mut text = format!(
        "read bandwidth  {:8.1} GB/s\nmultiply-add    {:8.1} G/s per core\n\n",
        report.read_gbps, report.fma_gmacs_per_core
    );
    text += "kernel  rows  isa     threads      GB/s  of read   of fma\n";
    report.kernels.iter().for_each(|line| text += &row(line));
    text
}

fn row(line: &KernelLine) -> String {
    let KernelLine { name, rows, isa, threads, gbps, ratio_to_read, ratio_to_fma } = line;
    let (read, fma) = (100.0 * ratio_to_read, 100.0 * ratio_to_fma);
    format!(
        "{name:<6}  {rows:>4}  {isa:<6}  {threads:>7}  {gbps:>8.2}  {read:>5.1} %  {fma:>5.1} %\n"
    )
}
