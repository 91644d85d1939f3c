//! Prompts that mean nothing: speed does not depend on sense.

/// Ids drawn from a seed, evenly over the vocabulary; another `stream`, another prompt.
pub(super) fn prompt(seed: u64, stream: u64, len: usize, vocab: usize) -> Vec<u32> {
    // SplitMix64.
    let mut state = seed ^ (stream << 32);
    let mut next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    };
    (0..len).map(|_| (next() % vocab as u64) as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_drawn_from_seed_and_stream() {
        let first = prompt(1, 0, 100, 512);
        assert!(first.iter().all(|&id| id < 512));
        assert_eq!(first, prompt(1, 0, 100, 512));
        assert_ne!(first, prompt(1, 1, 100, 512));
        assert_ne!(first, prompt(2, 0, 100, 512));
    }
}
