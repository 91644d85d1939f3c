//! Byte-pair merging of one piece.
//!
//! The neighbours whose joined bytes have the lowest rank are merged first, the leftmost on a
//! tie, until no pair is in the table. Promises: `n` bytes cost at most `3 n` table lookups and
//! as many heap operations, whatever the bytes are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::ranks::Ranks;

/// Appends the piece's ids; returns how many table lookups it took.
pub(crate) fn encode_piece(ranks: &Ranks, piece: &[u8], ids: &mut Vec<u32>) -> usize {
    if piece.len() <= ranks.longest()
        && let Some(id) = ranks.get(piece)
    {
        ids.push(id);
        return 1;
    }
    let mut merge = Merge::new(ranks, piece);
    merge.run();
    merge.collect(ids);
    merge.lookups + 1
}

/// A part is named by its first byte; `end` links each to the next, `before` back again.
struct Merge<'a> {
    ranks: &'a Ranks,
    piece: &'a [u8],
    /// End of the part that starts here; 0 where no part starts.
    end: Vec<u32>,
    /// Start of the part that ends here.
    before: Vec<u32>,
    /// Rank of the part that starts here.
    rank: Vec<u32>,
    /// Candidate pairs: lowest rank first, then leftmost; they may have gone stale.
    heap: BinaryHeap<Reverse<(u32, u32, u32)>>,
    lookups: usize,
}

impl<'a> Merge<'a> {
    fn new(ranks: &'a Ranks, piece: &'a [u8]) -> Self {
        let count = piece.len() as u32;
        let mut merge = Self {
            ranks,
            piece,
            end: (1..=count).collect(),
            before: (0..=count).map(|at| at.saturating_sub(1)).collect(),
            rank: piece.iter().map(|&byte| ranks.single(byte)).collect(),
            heap: BinaryHeap::with_capacity(piece.len()),
            lookups: 0,
        };
        (0..count).for_each(|start| merge.consider(start));
        merge
    }

    fn run(&mut self) {
        while let Some(Reverse((rank, start, end))) = self.heap.pop() {
            if self.pair_end(start) == Some(end) {
                self.join(rank, start, end);
            }
        }
    }

    /// Where the pair that begins with the part at `start` ends now. A candidate is stale
    /// exactly when this differs from the end it was found with.
    fn pair_end(&self, start: u32) -> Option<u32> {
        match self.end[start as usize] {
            0 => None,
            middle => self.end.get(middle as usize).copied(),
        }
    }

    /// Makes the pair at `start` a candidate if the table has it.
    fn consider(&mut self, start: u32) {
        let Some(end) = self.pair_end(start) else { return };
        let bytes = &self.piece[start as usize..end as usize];
        if bytes.len() > self.ranks.longest() {
            return;
        }
        self.lookups += 1;
        if let Some(rank) = self.ranks.get(bytes) {
            self.heap.push(Reverse((rank, start, end)));
        }
    }

    fn join(&mut self, rank: u32, start: u32, end: u32) {
        let middle = self.end[start as usize];
        self.end[middle as usize] = 0;
        self.end[start as usize] = end;
        self.before[end as usize] = start;
        self.rank[start as usize] = rank;
        self.consider(start);
        if start > 0 {
            self.consider(self.before[start as usize]);
        }
    }

    fn collect(&self, ids: &mut Vec<u32>) {
        let mut start = 0;
        while start < self.piece.len() {
            ids.push(self.rank[start]);
            start = self.end[start] as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    fn ranks(merged: &[&[u8]]) -> Ranks {
        let single = (0..=255u8).map(|byte| vec![byte]);
        let tokens = single.chain(merged.iter().map(|token| token.to_vec()));
        let lines: Vec<String> = tokens
            .enumerate()
            .map(|(rank, token)| format!("{} {rank}\n", STANDARD.encode(token)))
            .collect();
        Ranks::parse(lines.concat().as_bytes()).unwrap()
    }

    /// The definition, word for word: rescan for the lowest pair after every merge.
    fn naive(ranks: &Ranks, piece: &[u8]) -> Vec<u32> {
        if let Some(id) = ranks.get(piece) {
            return vec![id];
        }
        let mut parts: Vec<Vec<u8>> = piece.iter().map(|&byte| vec![byte]).collect();
        loop {
            let pair = |at: usize| Some((ranks.get(&parts[at..at + 2].concat())?, at));
            let Some((_, at)) = (0..parts.len().saturating_sub(1)).filter_map(pair).min() else {
                break;
            };
            let right = parts.remove(at + 1);
            parts[at].extend(right);
        }
        parts.iter().map(|part| ranks.get(part).unwrap()).collect()
    }

    fn doubling() -> Vec<Vec<u8>> {
        (1..=9).map(|power| vec![b'a'; 1 << power]).collect()
    }

    #[test]
    fn hostile_pieces_cost_a_bounded_number_of_lookups() {
        let doubling = doubling();
        let tables = [
            ranks(&[]),
            ranks(&doubling.iter().map(Vec::as_slice).collect::<Vec<_>>()),
            // Every merge here spoils a neighbouring candidate.
            ranks(&[b"ba", b"ab", b"aba", b"bab", b"abab", b"baba"]),
        ];
        let pieces = [vec![b'a'; 1 << 20], b"ab".repeat(1 << 19), b"aab".repeat(350_000)];
        for table in &tables {
            for piece in &pieces {
                let mut ids = Vec::new();
                let lookups = encode_piece(table, piece, &mut ids);
                assert!(lookups <= 3 * piece.len() + 1, "{lookups} for {} bytes", piece.len());
                let bytes: Vec<u8> =
                    ids.iter().flat_map(|&id| table.bytes(id).unwrap().to_vec()).collect();
                assert_eq!(&bytes, piece);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn equals_the_definition(
            piece in proptest::collection::vec(proptest::sample::select(b"abc".to_vec()), 1..60),
            merged in proptest::collection::hash_set(
                proptest::collection::vec(proptest::sample::select(b"abc".to_vec()), 2..6), 0..25),
        ) {
            let merged: Vec<&[u8]> = merged.iter().map(Vec::as_slice).collect();
            let table = ranks(&merged);
            let mut ids = Vec::new();
            encode_piece(&table, &piece, &mut ids);
            prop_assert_eq!(ids, naive(&table, &piece));
        }
    }
}
