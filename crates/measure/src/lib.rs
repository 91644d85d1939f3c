//! Measures memory and drive bandwidth, multiply-add peak and kernel speed of this machine.
//!
//! **Method.** Other guests of a machine take part of its bandwidth for seconds at a time, and memory
//! itself can have more than one speed, so a kernel is compared only with what the machine did at the
//! same moment. Samples and passes of some milliseconds take turns, each over memory that no cache still
//! holds:
//!
//! ```text
//! sample  pass  sample  pass  sample ...      sample: all threads read the memory once, one core adds
//!       \______/      \______/                 pair:   a pass and the better of the samples beside it
//! ```
//!
//! A ratio is the median over all pairs. A kernel that outruns both samples beside it has shown itself
//! what memory gives, so it counts as the sample of its pair and no ratio to the bandwidth exceeds 1.
//! `read_gbps` and `fma_gmacs_per_core` are the best samples of the whole run, so that a ratio may be
//! higher than the quotient of the printed speeds, where the machine was slower at that moment.
#![forbid(unsafe_code)]

mod cases;
mod doubt;
mod drive;
mod machine;
mod memory;
mod moment;
mod options;
mod room;
mod rounds;
mod spread;

pub use cases::{Case, Format};
pub use doubt::Doubt;
pub use drive::{DriveError, DriveSpeed, Effort, drive_speed, drive_speed_at};
pub use memory::{Memory, MemoryError};
pub use moment::{Moment, Moments};
pub use options::{MOST_ROWS, MOST_SECONDS, MOST_THREADS, Options, OptionsError};
pub use room::{Room, TooLittle};

use deltafin_kernels::{Isa, IsaKind, Kernels, Parallel, Scratch};
use deltafin_pool::Pool;
use machine::{Adder, Reader};
use memory::with_room;
use rounds::{Rounds, Sample, in_turns};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// Positions computed at once, where nobody says others; ascending.
const USUAL_ROWS: [usize; 3] = [1, 8, 64];

/// Threads that the engine would compute with.
pub fn default_threads() -> usize {
    Pool::default_threads().min(MOST_THREADS)
}

/// The machine's yardsticks and how the kernels compare.
#[derive(Clone, Debug, Default, Serialize)]
pub struct KernelReport {
    /// Read bandwidth of all threads together, in 10^9 bytes per second: the best sample.
    pub read_gbps: f64,
    /// Fused multiply-adds of one core with the fastest instruction set measured, in 10^9 per second: the
    /// best sample.
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
    /// Bytes of weights used per second, each counted once, in 10^9: the median pass.
    pub gbps: f64,
    /// Of the read bandwidth of all threads at the same moment, at most 1: the median pair.
    pub ratio_to_read: f64,
    /// Of the multiply-add peak of this instruction set on this many cores at the same moment: the median
    /// pair.
    pub ratio_to_fma: f64,
}

/// Why kernels were not measured.
#[derive(Debug, thiserror::Error)]
pub enum KernelsError {
    /// That cannot be.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// It may take less memory than it must.
    #[error(transparent)]
    TooLittle(#[from] TooLittle),
    /// There is nothing to measure with.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Measures what `options` ask for and calls `progress` after each line.
///
/// # Errors
/// When the options ask for what cannot be measured, or there is not the memory to do it with; nothing is measured
/// then.
pub fn kernels(
    options: &Options,
    progress: &mut dyn FnMut(&KernelLine),
) -> Result<KernelReport, KernelsError> {
    options.check()?;
    let memory = Memory::within(options.memory()?)?;
    let started = |threads| with_room(|| Arc::new(Pool::new(threads)));
    let every_core = started(Pool::default_threads())?;
    let isas = chosen_isas(options);
    let one_and_all = if every_core.width() > 1 { vec![1, every_core.width()] } else { vec![1] };
    let threads = or_default(&options.threads, &one_and_all);
    let rows = or_default(&options.rows, &USUAL_ROWS);
    let formats = Format::ALL.into_iter().filter(|f| f.is_in(&options.names));
    let cases: Vec<Case> =
        formats.flat_map(|format| rows.iter().map(move |&rows| Case { format, rows })).collect();

    let lines = isas.len() * threads.len() * cases.len();
    let share = Duration::from_secs_f64(options.seconds / lines.max(1) as f64);
    let reader = Reader::new(&memory, Isa::best(), &*every_core);
    let mut report = KernelReport::default();
    for &threads in &threads {
        let pool = match threads == every_core.width() {
            true => every_core.clone(),
            false => started(threads)?,
        };
        for isa in &isas {
            let (kernels, adder) = (Kernels::new(*isa, pool.clone()), Adder::new(*isa));
            for case in &cases {
                let rounds = measure(case, &kernels, &memory, (&reader, &adder), share);
                report.read_gbps = report.read_gbps.max(rounds.best.read_gbps);
                report.fma_gmacs_per_core = report.fma_gmacs_per_core.max(rounds.best.gmacs);
                let line = line(case, *isa, threads, &rounds);
                progress(&line);
                report.kernels.push(line);
            }
        }
    }
    Ok(report)
}

/// One kernel in turns with both yardsticks.
fn measure(
    case: &Case,
    kernels: &Kernels,
    memory: &Memory,
    (reader, adder): (&Reader<'_>, &Adder),
    budget: Duration,
) -> Rounds {
    let mut scratch = Scratch::default();
    let mut sample = || Sample::take(reader, adder);
    in_turns(budget, &mut sample, &mut |pass| case.run(kernels, &mut scratch, memory, pass))
}

fn line(case: &Case, isa: Isa, threads: usize, rounds: &Rounds) -> KernelLine {
    let macs_per_byte = case.rows as f64 / case.format.bytes_per_weight();
    KernelLine {
        name: case.format.name(),
        rows: case.rows,
        isa: isa.kind().name(),
        threads,
        gbps: rounds.gbps,
        ratio_to_read: rounds.ratio_to_read,
        ratio_to_fma: rounds.bytes_per_mac * macs_per_byte / threads as f64,
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

#[cfg(test)]
mod tests;
