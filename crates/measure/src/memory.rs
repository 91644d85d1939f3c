//! Weights to measure with: far more than any cache holds, on huge pages where the system has them.

use memmap2::MmapMut;

/// Bytes of weights.
const WEIGHTS: usize = 320 << 20;
/// Bytes of scales: one per sixteen bytes of MXFP4 weights.
const SCALES: usize = WEIGHTS / 16;

/// Memory filled with harmless values.
#[derive(Debug)]
pub struct Memory {
    weights: Vec8,
    scales: Vec8,
}

/// Bytes on huge pages, or on the heap where the system refuses to map any.
#[derive(Debug)]
enum Vec8 {
    Mapped(MmapMut),
    Heap(Vec<u8>),
}

impl Vec8 {
    fn zeroed(len: usize) -> Vec8 {
        match MmapMut::map_anon(len) {
            Ok(map) => {
                // Only a wish: without it everything works, a little slower.
                #[cfg(target_os = "linux")]
                let _ = map.advise(memmap2::Advice::HugePage);
                Vec8::Mapped(map)
            }
            Err(_) => Vec8::Heap(vec![0; len]),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Vec8::Mapped(map) => map,
            Vec8::Heap(bytes) => bytes,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Vec8::Mapped(map) => map,
            Vec8::Heap(bytes) => bytes,
        }
    }
}

impl Memory {
    /// Allocates and fills it, about a tenth of a second.
    #[allow(clippy::new_without_default)] // Nothing this large should come by default.
    pub fn new() -> Memory {
        let (mut weights, mut scales) = (Vec8::zeroed(WEIGHTS), Vec8::zeroed(SCALES));
        let mut state = 1u64;
        for eight in weights.bytes_mut().chunks_exact_mut(8) {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // As floats and as bf16 these are between 2^-8 and 1 in size: nothing is subnormal or
            // overflows. Nibbles and bytes take many values.
            let bits = state & 0x83ff_83ff_83ff_83ff | 0x3c00_3c00_3c00_3c00;
            eight.copy_from_slice(&bits.to_le_bytes());
        }
        // As exponents 2^-4, as halves a little above 1.
        scales.bytes_mut().fill(123);
        scales.bytes_mut().as_chunks_mut::<2>().0.iter_mut().for_each(|half| half[1] = 122);
        Memory { weights, scales }
    }

    /// The weights.
    pub fn weights(&self) -> &[u8] {
        self.weights.bytes()
    }

    /// Scales for any format.
    pub fn scales(&self) -> &[u8] {
        self.scales.bytes()
    }
}
