//! The yardsticks: how fast memory is read and how many multiply-adds a core does.
//!
//! A sample takes milliseconds, so that there can be one before and one after each run of a kernel.

use crate::Memory;
use deltafin_kernels::{Isa, Parallel, probe};
use std::hint::black_box;
use std::time::Instant;

/// Bytes ahead to ask for. Which is best differs between machines; 0 leaves it to the hardware.
const AHEAD: [usize; 4] = [0, 2048, 4096, 8192];

/// Tries of each before the best is chosen.
const TRIES: usize = 3;

/// Bytes of a task: pieces are claimed like the kernels' rows.
const PIECE: usize = 1 << 20;

/// Reads memory with all threads of a pool, in the way that is fastest on this machine.
pub(crate) struct Reader<'a> {
    memory: &'a Memory,
    pool: &'a dyn Parallel,
    isa: Isa,
    ahead: usize,
}

impl<'a> Reader<'a> {
    /// Finds the fastest way, in some twelve passes over the memory.
    pub(crate) fn new(memory: &'a Memory, isa: Isa, pool: &'a dyn Parallel) -> Reader<'a> {
        let mut reader = Reader { memory, pool, isa, ahead: 0 };
        let (mut best, mut fastest) = (0.0, 0);
        for ahead in AHEAD.into_iter().cycle().take(TRIES * AHEAD.len()) {
            reader.ahead = ahead;
            let gbps = reader.gbps();
            if gbps > best {
                (best, fastest) = (gbps, ahead);
            }
        }
        Reader { ahead: fastest, ..reader }
    }

    /// Reads all of the memory once and returns how fast, in 10^9 bytes per second.
    pub(crate) fn gbps(&self) -> f64 {
        let bytes = self.memory.weights();
        let start = Instant::now();
        self.pool.run(bytes.len() / PIECE, &|i| {
            black_box(probe::read_all(self.isa, &bytes[i * PIECE..(i + 1) * PIECE], self.ahead));
        });
        bytes.len() as f64 / start.elapsed().as_secs_f64() / 1e9
    }
}

/// Counts the fused multiply-adds of one core with one instruction set.
pub(crate) struct Adder {
    isa: Isa,
    rounds: usize,
}

impl Adder {
    /// Finds how many take about two milliseconds.
    pub(crate) fn new(isa: Isa) -> Adder {
        let adder = Adder { isa, rounds: 10_000 };
        let rounds = (0.002 * adder.gmacs() * 1e9) as usize / probe::MACS_PER_ROUND + 1;
        Adder { rounds, ..adder }
    }

    /// Does them once and returns how many per second, in 10^9.
    pub(crate) fn gmacs(&self) -> f64 {
        let start = Instant::now();
        black_box(probe::multiply_add(self.isa, black_box(self.rounds), black_box(0.999)));
        let seconds = start.elapsed().as_secs_f64().max(1e-9);
        (self.rounds * probe::MACS_PER_ROUND) as f64 / seconds / 1e9
    }
}
