//! What to measure, and within which bounds.

use deltafin_kernels::{Isa, IsaKind, UnsupportedIsa};
use thiserror::Error;

use crate::{Format, Memory, Room, TooLittle, USUAL_ROWS, default_threads};

/// The most positions at once: more than any pass of the engine is measured with.
pub const MOST_ROWS: usize = 4096;
/// The most threads: beyond the largest machines there are.
pub const MOST_THREADS: usize = 1024;
/// The longest run, an hour.
pub const MOST_SECONDS: usize = 3600;

/// The touched part of a thread's stack, with what the allocator keeps for the thread.
pub(crate) const PER_THREAD: u64 = 256 << 10;
/// Activations of a position on both sides of the widest kernel, as they are and packed.
const PER_ROW: u64 = 96 << 10;

/// What to measure. Empty lists mean everything.
#[derive(Clone, Debug)]
pub struct Options {
    /// Instruction sets; by default all this machine has, but for the scalar twin.
    pub isas: Vec<IsaKind>,
    /// Numbers of threads; by default one and as many as there are CPUs.
    pub threads: Vec<usize>,
    /// Names of kernels: `mxfp4`, `int8`, `bf16`, `f32`.
    pub names: Vec<String>,
    /// Positions computed at once; by default 1, 8 and 64.
    pub rows: Vec<usize>,
    /// About how long everything may take.
    pub seconds: f64,
    /// Memory to measure with.
    pub room: Room,
}

impl Default for Options {
    fn default() -> Self {
        let (isas, threads, names, rows) = (vec![], vec![], vec![], vec![]);
        Options { isas, threads, names, rows, seconds: 15.0, room: Room::ALL }
    }
}

/// Options that cannot be measured with.
#[derive(Clone, Debug, PartialEq, Error)]
#[allow(missing_docs)] // the messages say what the fields are
pub enum OptionsError {
    #[error("there is no kernel '{name}': the kernels are mxfp4, int8, bf16 and f32")]
    Name { name: String },
    #[error("rows are {found}, wanted 1 to {MOST_ROWS}")]
    Rows { found: usize },
    #[error("threads are {found}, wanted 1 to {MOST_THREADS}")]
    Threads { found: usize },
    #[error("seconds are {found}, wanted 0 to {MOST_SECONDS}")]
    Seconds { found: f64 },
    #[error(transparent)]
    Isa(#[from] UnsupportedIsa),
}

impl Options {
    /// Bytes of [`Memory`] to measure with, beside threads and activations.
    ///
    /// # Errors
    /// When there is no room for the least.
    pub fn memory(&self) -> Result<u64, TooLittle> {
        let most = |counts: &[usize], usual| counts.iter().copied().max().unwrap_or(usual) as u64;
        let threads = most(&self.threads, 0).max(default_threads() as u64);
        let rows = most(&self.rows, USUAL_ROWS[USUAL_ROWS.len() - 1]);
        let beside = threads.saturating_mul(2 * PER_THREAD);
        let beside = beside.saturating_add(rows.saturating_mul(PER_ROW));
        let bytes = self.room.of_at_least(beside.saturating_add(Memory::LEAST_BYTES))?;
        Ok((bytes - beside).min(Memory::BYTES))
    }

    /// Whether all of it can be measured on this machine.
    ///
    /// # Errors
    /// For the first value that is out of bounds, unknown, or of another machine.
    pub fn check(&self) -> Result<(), OptionsError> {
        let is_format = |name: &String| Format::ALL.iter().any(|format| format.name() == name);
        if let Some(name) = self.names.iter().find(|name| !is_format(name)) {
            return Err(OptionsError::Name { name: name.clone() });
        }
        if let Some(found) = outside(&self.rows, MOST_ROWS) {
            return Err(OptionsError::Rows { found });
        }
        if let Some(found) = outside(&self.threads, MOST_THREADS) {
            return Err(OptionsError::Threads { found });
        }
        // No range holds what is not a number.
        if !(0.0..=MOST_SECONDS as f64).contains(&self.seconds) {
            return Err(OptionsError::Seconds { found: self.seconds });
        }
        self.isas.iter().try_for_each(|isa| Isa::new(*isa).map(|_| ()))?;
        Ok(())
    }
}

fn outside(counts: &[usize], most: usize) -> Option<usize> {
    counts.iter().copied().find(|count| !(1..=most).contains(count))
}
