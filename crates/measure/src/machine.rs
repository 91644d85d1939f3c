//! The yardsticks: how fast memory is read and how many multiply-adds a core does.

use crate::Memory;
use deltafin_kernels::{Isa, Parallel, probe};
use std::hint::black_box;
use std::time::Instant;

/// Bytes ahead to ask for. Which is best differs between machines; 0 leaves it to the hardware.
const AHEAD: [usize; 4] = [0, 2048, 4096, 8192];

/// Rounds over the memory per choice of prefetch.
const ROUNDS: usize = 2;

/// Read bandwidth of all threads of `pool` together, in 10^9 bytes per second: the best pass.
pub fn read_bandwidth(memory: &Memory, isa: Isa, pool: &dyn Parallel) -> f64 {
    let bytes = memory.weights();
    // Pieces are claimed like the kernels' rows: 1 MiB at a time.
    let piece = 1 << 20;
    let mut best = 0f64;
    for ahead in AHEAD.into_iter().cycle().take(ROUNDS * AHEAD.len()) {
        let start = Instant::now();
        pool.run(bytes.len() / piece, &|i| {
            black_box(probe::read_all(isa, &bytes[i * piece..(i + 1) * piece], ahead));
        });
        best = best.max(bytes.len() as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    best
}

/// Fused multiply-adds per second of one core with `isa`, in 10^9: the best of ten runs.
pub fn multiply_add_peak(isa: Isa) -> f64 {
    let run = |rounds: usize| {
        let start = Instant::now();
        black_box(probe::multiply_add(isa, black_box(rounds), black_box(0.999)));
        start.elapsed().as_secs_f64()
    };
    // Rounds for about ten milliseconds.
    let rounds = (10_000.0 * 0.01 / run(10_000).max(1e-6)) as usize + 1;
    let best = (0..10).map(|_| run(rounds)).fold(f64::INFINITY, f64::min);
    (rounds * probe::MACS_PER_ROUND) as f64 / best / 1e9
}
