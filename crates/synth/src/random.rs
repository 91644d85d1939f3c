//! Random words by counting: word `i` of a stream depends on the seed, the stream's name and `i`
//! alone, so that tensors can be made in any order on any machine with the same bytes.

/// The increment of SplitMix64, whose finaliser [`mix`] is.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// An endless stream of words.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    counter: u64,
}

impl Words {
    /// The stream of a seed and a name.
    pub(crate) fn new(seed: u64, name: &str) -> Words {
        let absorb = |state: u64, byte: u8| mix(state.wrapping_add(STEP) ^ u64::from(byte));
        Words { counter: name.bytes().fold(mix(seed.wrapping_add(STEP)), absorb) }
    }

    /// The next word.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.counter = self.counter.wrapping_add(STEP);
        mix(self.counter)
    }
}

#[inline]
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_on_seed_and_name() {
        let first = |seed, name| Words::new(seed, name).next();
        assert_eq!(first(1, "a"), first(1, "a"));
        let all = [first(1, "a"), first(2, "a"), first(1, "b"), first(1, "ab"), first(1, "ba")];
        let different: std::collections::BTreeSet<u64> = all.into_iter().collect();
        assert_eq!(different.len(), all.len());
    }

    /// Committed values: the bytes of a seed are the same on every machine and in every version.
    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut words = Words::new(1, "language_model.model.norm.weight");
        let first = [3_625_212_399_493_584_156, 2_516_561_979_708_291_759];
        assert_eq!([words.next(), words.next()], first);
    }
}
