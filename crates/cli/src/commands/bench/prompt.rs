//! Prompts that mean nothing: speed does not depend on sense.

use deltafin_engine::{Engine, EngineError};

use crate::prompt::too_long;

/// Ids of an engine's model, drawn from a seed; another `stream`, another prompt.
///
/// # Errors
/// When there are more than the context has positions: none is drawn then.
pub(super) fn prompt(
    engine: &Engine,
    seed: u64,
    stream: u64,
    len: usize,
) -> Result<Vec<u32>, EngineError> {
    match len > engine.context() {
        true => Err(too_long(len, engine)),
        false => Ok(drawn(seed, stream, len, engine.spec().vocab)),
    }
}

/// Ids drawn evenly over a vocabulary.
fn drawn(seed: u64, stream: u64, len: usize, vocab: usize) -> Vec<u32> {
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
        let first = drawn(1, 0, 100, 512);
        assert!(first.iter().all(|&id| id < 512));
        assert_eq!(first, drawn(1, 0, 100, 512));
        assert_ne!(first, drawn(1, 1, 100, 512));
        assert_ne!(first, drawn(2, 0, 100, 512));
    }
}
