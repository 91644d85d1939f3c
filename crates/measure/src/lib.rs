//! Measures memory bandwidth, multiply-add peak and kernel speed of this machine.
//!
//! Yardsticks and kernels are measured in one run and the same way: the best of several passes, each
//! over memory that no cache still holds. Other work on the machine can only make a figure worse.
#![forbid(unsafe_code)]

mod cases;
mod machine;
mod memory;
mod options;

pub use cases::{Case, Format};
pub use machine::{multiply_add_peak, read_bandwidth};
pub use memory::Memory;
pub use options::{MOST_ROWS, MOST_SECONDS, MOST_THREADS, Options, OptionsError};

use deltafin_kernels::{Isa, IsaKind, Kernels, Parallel, Scratch};
use deltafin_pool::Pool;
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The machine's yardsticks and how the kernels compare.
#[derive(Clone, Debug, Serialize)]
pub struct KernelReport {
    /// Read bandwidth of all threads together, in 10^9 bytes per second.
    pub read_gbps: f64,
    /// Fused multiply-adds of one core with the fastest instruction set measured, in 10^9 per second.
    pub fma_gmacs_per_core: f64,
    /// One line per kernel, rows, instruction set and number of threads.
    pub kernels: Vec<KernelLine>,
}

/// One measured kernel.
#[derive(Clone, Debug, Serialize)]
pub struct KernelLine {
    /// `mxfp4` (whole experts), `int8`, `bf16` or `f32`.
    pub name: &'static str,
    /// Positions computed at once.
    pub rows: usize,
    /// Instruction set.
    pub isa: &'static str,
    /// Threads.
    pub threads: usize,
    /// Bytes of weights used per second, each counted once, in 10^9.
    pub gbps: f64,
    /// Of the read bandwidth of all threads.
    pub ratio_to_read: f64,
    /// Of the multiply-add peak of this instruction set on this many cores.
    pub ratio_to_fma: f64,
}

/// Measures what `options` ask for and calls `progress` after each line.
///
/// Other guests of a machine take part of its bandwidth for seconds at a time, so it is measured
/// anew for each instruction set and number of threads. The report compares with the best reading of
/// the whole run, `progress` with the best so far.
///
/// # Errors
/// When the options ask for what cannot be measured; nothing is measured then.
pub fn kernels(
    options: &Options,
    progress: &mut dyn FnMut(&KernelLine),
) -> Result<KernelReport, OptionsError> {
    options.check()?;
    let memory = Memory::new();
    let every_core = Pool::new(Pool::default_threads());
    let isas = chosen_isas(options);
    let one_and_all = if every_core.width() > 1 { vec![1, every_core.width()] } else { vec![1] };
    let threads = or_default(&options.threads, &one_and_all);
    let rows = or_default(&options.rows, &[1, 8, 64]);
    let formats = Format::ALL.into_iter().filter(|f| f.is_in(&options.names));
    let cases: Vec<Case> =
        formats.flat_map(|format| rows.iter().map(move |&rows| Case { format, rows })).collect();

    // A third goes to the yardsticks.
    let lines = isas.len() * threads.len() * cases.len();
    let share = Duration::from_secs_f64(options.seconds * 0.66 / lines.max(1) as f64);
    let peaks: Vec<f64> = isas.iter().map(|isa| multiply_add_peak(*isa)).collect();
    let mut report = KernelReport {
        read_gbps: 0.0,
        fma_gmacs_per_core: peaks.iter().copied().fold(0.0, f64::max),
        kernels: Vec::with_capacity(lines),
    };
    for &threads in &threads {
        let pool = Arc::new(Pool::new(threads));
        for (isa, peak) in isas.iter().zip(&peaks) {
            let read_gbps = read_bandwidth(&memory, Isa::best(), &every_core);
            report.read_gbps = report.read_gbps.max(read_gbps);
            let kernels = Kernels::new(*isa, pool.clone());
            for case in &cases {
                let gbps = best_gbps(case, &kernels, &memory, share);
                let peak = peak * threads as f64;
                let line = line(case, *isa, threads, gbps, report.read_gbps, peak);
                progress(&line);
                report.kernels.push(line);
            }
        }
    }
    for line in &mut report.kernels {
        line.ratio_to_read = line.gbps / report.read_gbps;
    }
    Ok(report)
}

fn line(
    case: &Case,
    isa: Isa,
    threads: usize,
    gbps: f64,
    read_gbps: f64,
    peak_gmacs: f64,
) -> KernelLine {
    let gmacs = gbps / case.format.bytes_per_weight() * case.rows as f64;
    KernelLine {
        name: case.format.name(),
        rows: case.rows,
        isa: isa.kind().name(),
        threads,
        gbps,
        ratio_to_read: gbps / read_gbps,
        ratio_to_fma: gmacs / peak_gmacs,
    }
}

fn chosen_isas(options: &Options) -> Vec<Isa> {
    let wanted = |isa: &Isa| match options.isas.is_empty() {
        true => isa.kind() != IsaKind::Scalar || Isa::best() == Isa::SCALAR,
        false => options.isas.contains(&isa.kind()),
    };
    Isa::available().filter(wanted).collect()
}

fn or_default(chosen: &[usize], default: &[usize]) -> Vec<usize> {
    if chosen.is_empty() { default.to_vec() } else { chosen.to_vec() }
}

/// Weights per second of the best pass, in 10^9 bytes. At least three passes are made.
fn best_gbps(case: &Case, kernels: &Kernels, memory: &Memory, budget: Duration) -> f64 {
    let mut scratch = Scratch::default();
    let start = Instant::now();
    let (mut best, mut pass) = (0f64, 0);
    while pass < 3 || start.elapsed() < budget {
        let begin = Instant::now();
        let bytes = case.run(kernels, &mut scratch, memory, pass);
        best = best.max(bytes as f64 / begin.elapsed().as_secs_f64() / 1e9);
        pass += 1;
    }
    best
}

#[cfg(test)]
mod tests;
