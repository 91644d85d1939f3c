//! What bytes come to: a digest, which others may have noted, and a sum, for this process alone.
//!
//! Both are made block by block, by as many threads as there are, and allocate nothing. How bytes are cut depends on
//! their number only. A sum finds every change within 64 bits that follow each other for certain, and others but for one
//! in 2⁶⁴; it is as fast as memory, where a digest takes a core a quarter of a second for a gigabyte.

use std::sync::OnceLock;

use blake3::hazmat::{ChainingValue, HasherExt as _, Mode};
use blake3::hazmat::{merge_subtrees_non_root, merge_subtrees_root};
use crc_fast::CrcAlgorithm;
use deltafin_checkpoint::pack::Digest;

/// The least that a thread is woken for: a power of two, as the tree of a digest wants it.
const LEAST_BLOCK: usize = 1 << 18;
/// Most blocks of anything.
const MOST_BLOCKS: usize = 64;

/// Runs independent tasks: calls the second with every number below the first once, and returns when all have returned.
pub type Share = dyn Fn(usize, &(dyn Fn(usize) + Sync)) + Send + Sync;

/// One task after the other.
pub(crate) fn alone(tasks: usize, task: &(dyn Fn(usize) + Sync)) {
    (0..tasks).for_each(task);
}

/// The BLAKE3 hash.
pub(crate) fn digest(bytes: &[u8], share: &Share) -> Digest {
    let block = block_bytes(bytes.len());
    if bytes.len() <= block {
        return Digest::of(bytes);
    }
    let subtrees = each_block(bytes, block, share, |number, bytes| {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset((number * block) as u64).update(bytes);
        hasher.finalize_non_root()
    });
    let count = bytes.len().div_ceil(block);
    let subtrees = &subtrees[..count];
    let (left, right) = subtrees.split_at(left_of(count));
    let root = merge_subtrees_root(&merged(left), &merged(right), Mode::Hash);
    Digest::from(*root.as_bytes())
}

/// How many of several blocks are in the left half of their tree: it is full, and the larger one.
fn left_of(blocks: usize) -> usize {
    blocks.next_power_of_two() / 2
}

fn merged(subtrees: &[OnceLock<ChainingValue>]) -> ChainingValue {
    match subtrees {
        [one] => one.get().copied().unwrap_or_default(),
        several => {
            let (left, right) = several.split_at(left_of(several.len()));
            merge_subtrees_non_root(&merged(left), &merged(right), Mode::Hash)
        }
    }
}

/// A sum; never 0.
pub(crate) fn sum(bytes: &[u8], share: &Share) -> u64 {
    let crc = |bytes: &[u8]| crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes);
    let block = block_bytes(bytes.len());
    if bytes.len() <= block {
        return crc(bytes).max(1);
    }
    let sums = each_block(bytes, block, share, |_, bytes| crc(bytes));
    let mut all = [[0; 8]; MOST_BLOCKS];
    for (sum, all) in sums.iter().zip(&mut all) {
        *all = sum.get().copied().unwrap_or_default().to_le_bytes();
    }
    crc(all.as_flattened()).max(1)
}

fn block_bytes(bytes: usize) -> usize {
    bytes.div_ceil(MOST_BLOCKS).next_power_of_two().max(LEAST_BLOCK)
}

fn each_block<T: Send + Sync>(
    bytes: &[u8],
    block: usize,
    share: &Share,
    of: impl Fn(usize, &[u8]) -> T + Sync,
) -> [OnceLock<T>; MOST_BLOCKS] {
    let found = [const { OnceLock::new() }; MOST_BLOCKS];
    share(bytes.len().div_ceil(block), &|number| {
        let bytes = &bytes[number * block..];
        found[number].get_or_init(|| of(number, &bytes[..bytes.len().min(block)]));
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As two threads that are never in the order of the blocks.
    fn shuffled(tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            scope.spawn(|| (0..tasks).step_by(2).for_each(task));
            (0..tasks).rev().filter(|number| number % 2 == 1).for_each(task);
        });
    }

    fn bytes(count: usize) -> Vec<u8> {
        (0..count as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
    }

    #[test]
    fn a_digest_made_block_by_block_is_that_of_the_whole() {
        const B: usize = LEAST_BLOCK;
        let around = |count: usize| [count - 1, count, count + 1];
        let counts = [1, 2, 3, 4, 5, 7, 8, 64, 65].map(|blocks| around(blocks * B));
        for count in [0, 1, 1023].into_iter().chain(counts.into_iter().flatten()) {
            let bytes = bytes(count);
            assert_eq!(digest(&bytes, &shuffled), Digest::of(&bytes), "{count}");
        }
    }

    #[test]
    fn a_sum_depends_on_every_bit_and_not_on_who_makes_it() {
        for count in [1, 1000, LEAST_BLOCK, 3 * LEAST_BLOCK + 5] {
            let mut bytes = bytes(count);
            let wanted = sum(&bytes, &alone);
            assert_eq!(sum(&bytes, &shuffled), wanted);
            for bit in (0..8 * count).step_by(count.div_ceil(40) * 8 + 3) {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(sum(&bytes, &alone), wanted, "bit {bit} of {count} bytes");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            bytes.rotate_left(count / 2);
            assert!(count == 1 || sum(&bytes, &alone) != wanted);
        }
        assert_ne!(sum(&[], &alone), 0);
    }
}
