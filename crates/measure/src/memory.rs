//! Weights to measure with: far more than any cache holds, on huge pages where the system has them.

use std::io;

use memmap2::MmapMut;

/// Bytes of weights.
const WEIGHTS: usize = 320 << 20;
/// Bytes of scales: one per sixteen bytes of MXFP4 weights.
const SCALES: usize = WEIGHTS / 16;

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
    (WEIGHTS + SCALES) >> 20
)]
pub struct MemoryError {
    source: io::Error,
}

fn zeroed(len: usize) -> Result<MmapMut, MemoryError> {
    let map = MmapMut::map_anon(len).map_err(|source| MemoryError { source })?;
    // Only a wish: without it everything works, a little slower.
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    Ok(map)
}

impl Memory {
    /// Maps and fills it, about a tenth of a second.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn new() -> Result<Memory, MemoryError> {
        let (mut weights, mut scales) = (zeroed(WEIGHTS)?, zeroed(SCALES)?);
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
