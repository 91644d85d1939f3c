//! Weights to measure with: far more than any cache holds, on huge pages where the system has them.

use std::io;

use memmap2::MmapMut;

/// Bytes of weights, unless memory is short.
const WEIGHTS: usize = 320 << 20;
/// The fewest, which hold two of the largest things that a kernel is measured with: whole experts.
const LEAST_WEIGHTS: usize = 32 << 20;
/// Weights that have one byte of scales: those of MXFP4.
const PER_SCALE: usize = 16;

/// Memory filled with harmless values.
#[derive(Debug)]
pub struct Memory {
    weights: MmapMut,
    scales: MmapMut,
}

/// Memory that could not be had.
#[derive(Debug, thiserror::Error)]
#[error(
    "the system refuses the {} MiB of memory that measuring takes: {source}; raise the limit of address \
     space (ulimit -v), or free some",
    wanted >> 20
)]
pub struct MemoryError {
    wanted: usize,
    source: io::Error,
}

fn zeroed(len: usize) -> io::Result<MmapMut> {
    let map = MmapMut::map_anon(len)?;
    // Only a wish: without it everything works, a little slower.
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    Ok(map)
}

/// Addresses for all that is allocated once threads are there; fewer than the allocator sets aside for a thread,
/// and more than what it would keep for itself when they are given back.
const SPARE: usize = 33 << 20;

/// Starts threads, which must not take the last addresses there are: an allocation that fails ends the process.
///
/// # Errors
/// When few are left.
pub(crate) fn with_room<T>(start: impl FnOnce() -> T) -> Result<T, MemoryError> {
    let held = zeroed(SPARE).map_err(|source| MemoryError { wanted: SPARE, source })?;
    let started = start();
    drop(held);
    Ok(started)
}

impl Memory {
    /// Bytes that it takes.
    pub const BYTES: u64 = (WEIGHTS + WEIGHTS / PER_SCALE) as u64;
    /// Bytes without which there is none.
    pub const LEAST_BYTES: u64 = (LEAST_WEIGHTS + LEAST_WEIGHTS / PER_SCALE) as u64;

    /// Maps and fills it, about a tenth of a second.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn new() -> Result<Memory, MemoryError> {
        Memory::within(Memory::BYTES)
    }

    /// As [`Memory::new`], of `most` bytes at most, but of [`Memory::LEAST_BYTES`] whatever is asked. The less there
    /// is, the more of it do caches hold, which are faster.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn within(most: u64) -> Result<Memory, MemoryError> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let len = (most / (PER_SCALE + 1) * PER_SCALE).clamp(LEAST_WEIGHTS, WEIGHTS) >> 20 << 20;
        let refused = |source| MemoryError { wanted: len + len / PER_SCALE, source };
        let mut weights = zeroed(len).map_err(refused)?;
        let mut scales = zeroed(len / PER_SCALE).map_err(refused)?;
        let mut state = 1u64;
        for eight in weights.chunks_exact_mut(8) {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // As floats and as bf16 these are between 2^-8 and 1 in size: nothing is subnormal or
            // overflows. Nibbles and bytes take many values.
            let bits = state & 0x83ff_83ff_83ff_83ff | 0x3c00_3c00_3c00_3c00;
            eight.copy_from_slice(&bits.to_le_bytes());
        }
        // As exponents 2^-4, as halves a little above 1.
        scales.fill(123);
        scales.as_chunks_mut::<2>().0.iter_mut().for_each(|half| half[1] = 122);
        Ok(Memory { weights, scales })
    }

    /// The weights.
    pub fn weights(&self) -> &[u8] {
        &self.weights
    }

    /// Scales for any format.
    pub fn scales(&self) -> &[u8] {
        &self.scales
    }
}
