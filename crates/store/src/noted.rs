//! What bytes of shards should be, where somebody noted that, and holding against it what was read.
//!
//! Who brought a shard noted digests of its pieces. They are not cut as records are: a piece may have bytes that
//! were not read together, or not at all. These are read then, for a piece is what it was or it is not.

use deltafin_checkpoint::Span;
use deltafin_checkpoint::pack::{Digest, PartsHasher};

use crate::{Store, StoreError};

/// Bytes read at once of what was not read.
const BLOCK_BYTES: u64 = 1 << 20;

/// A piece of a shard, and what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Where it is.
    pub span: Span,
    /// The digest of its bytes.
    pub digest: Digest,
}

/// Holds bytes that were read, each as long as its span, against what is noted of every piece that they are in, or
/// parts of them. `digest` gives the digest of bytes that follow each other. Bytes of which nothing is noted pass.
///
/// # Errors
/// [`StoreError::Damaged`] with the first piece found that is not what it should be; others where the rest of a piece
/// cannot be read.
pub fn prove(
    store: &dyn Store,
    read: &[(Span, &[u8])],
    digest: &dyn Fn(&[u8]) -> Digest,
) -> Result<(), StoreError> {
    for (number, (span, _)) in read.iter().enumerate() {
        for noted in pieces_of(store, *span) {
            let is_done = read[..number].iter().any(|(earlier, _)| meet(*earlier, noted.span));
            // What is read here is read once more, too: what the caller read may be right.
            let holds = || Ok(found(store, noted.span, read, digest)? == noted.digest);
            if !(is_done || holds()? || is_parted(noted.span, read) && holds()?) {
                return Err(damaged(store, noted.span));
            }
        }
    }
    Ok(())
}

/// As [`prove`], of bytes that nobody has read yet: all pieces that have some of them are read here.
///
/// # Errors
/// As [`prove`].
pub fn prove_at_rest(
    store: &dyn Store,
    spans: impl IntoIterator<Item = Span>,
) -> Result<(), StoreError> {
    let mut spans: Vec<Span> = spans.into_iter().collect();
    spans.sort_unstable();
    let mut last = None;
    for noted in spans.into_iter().flat_map(|span| pieces_of(store, span)) {
        let holds = || Ok(found(store, noted.span, &[], &Digest::of)? == noted.digest);
        if last.replace(noted.span) != Some(noted.span) && !(holds()? || holds()?) {
            return Err(damaged(store, noted.span));
        }
    }
    Ok(())
}

/// The pieces that have bytes of a span, of which something is noted.
pub fn pieces_of(store: &dyn Store, span: Span) -> impl Iterator<Item = Noted> {
    let mut at = span.offset();
    std::iter::from_fn(move || {
        let noted = store.noted(span.shard(), at).filter(|_| at < span.end())?;
        // Whoever notes nonsense does not stop this.
        let goes_on = noted.span.end() > at && noted.span.offset() < span.end();
        at = noted.span.end();
        goes_on.then_some(noted)
    })
}

/// What to say of bytes that were read twice and are not what they should be.
///
/// # Panics
/// If the store has no such shard.
pub fn damaged(store: &dyn Store, span: Span) -> StoreError {
    let file = store.shards()[span.shard().index()].name.clone();
    StoreError::Damaged { file, offset: span.offset(), len: span.len() }
}

fn meet(one: Span, other: Span) -> bool {
    one.shard() == other.shard() && one.offset() < other.end() && other.offset() < one.end()
}

/// Whether a piece has bytes that were not read with others of it.
fn is_parted(piece: Span, read: &[(Span, &[u8])]) -> bool {
    !read.iter().any(|(span, _)| {
        span.shard() == piece.shard()
            && span.offset() <= piece.offset()
            && piece.end() <= span.end()
    })
}

/// The digest of a piece, of what was read of it and of what is read here.
fn found(
    store: &dyn Store,
    piece: Span,
    read: &[(Span, &[u8])],
    digest: &dyn Fn(&[u8]) -> Digest,
) -> Result<Digest, StoreError> {
    let (mut hasher, mut block, mut at) = (PartsHasher::default(), Vec::new(), piece.offset());
    while at < piece.end() {
        let there = |span: &Span| span.shard() == piece.shard();
        let holds = |span: &Span| there(span) && (span.offset()..span.end()).contains(&at);
        if let Some((span, bytes)) = read.iter().find(|(span, _)| holds(span)) {
            let end = span.end().min(piece.end());
            let bytes = &bytes[(at - span.offset()) as usize..(end - span.offset()) as usize];
            if bytes.len() as u64 == piece.len() {
                return Ok(digest(bytes));
            }
            hasher.update(bytes);
            at = end;
        } else {
            let later = read.iter().map(|(span, _)| span).filter(|span| there(span));
            let next = later.map(|span| span.offset()).filter(|next| *next > at).min();
            let end = next.unwrap_or(u64::MAX).min(piece.end()).min(at + BLOCK_BYTES);
            let Some(gap) = Span::new(piece.shard(), at, end - at) else { break };
            block.resize(gap.len() as usize, 0);
            store.read_exact(gap, &mut block)?;
            hasher.update(&block);
            at = end;
        }
    }
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use deltafin_checkpoint::{Shard, ShardId};

    use super::*;
    use crate::{MemoryShards, ShardBytes};

    /// Two shards of the same bytes; of half of the first it is noted what they should be.
    struct Half(MemoryShards, Vec<Noted>);

    const BYTES: &[u8] = b"0123456789abcdefghij";

    fn span(offset: u64, len: u64) -> Span {
        Span::new(ShardId::new(0), offset, len).unwrap()
    }

    impl Store for Half {
        fn shards(&self) -> &[Shard] {
            self.0.shards()
        }

        fn read_exact(&self, span: Span, buf: &mut [u8]) -> Result<(), StoreError> {
            self.0.read_exact(span, buf)
        }

        fn noted(&self, shard: ShardId, offset: u64) -> Option<Noted> {
            let noted = self.1.iter().find(|noted| noted.span.end() > offset).copied();
            noted.filter(|_| shard == ShardId::new(0))
        }
    }

    fn store() -> Half {
        let shards = ["a", "b"].map(|name| (name.to_owned(), ShardBytes::Static(BYTES)));
        let noted = [(2, 6), (8, 4), (14, 4)].map(|(from, len)| Noted {
            span: span(from, len),
            digest: Digest::of(&BYTES[from as usize..(from + len) as usize]),
        });
        Half(MemoryShards::new(shards), noted.into())
    }

    fn outcome(spans: &[(u64, u64)], flipped: Option<u64>) -> Result<(), StoreError> {
        let mut bytes = BYTES.to_vec();
        if let Some(at) = flipped {
            bytes[at as usize] ^= 16;
        }
        let part = |(from, len): &(u64, u64)| {
            (span(*from, *len), &bytes[*from as usize..(from + len) as usize])
        };
        let read: Vec<_> = spans.iter().map(part).collect();
        prove(&store(), &read, &Digest::of)
    }

    #[test]
    fn every_piece_that_was_read_in_part_is_held_against_what_is_noted() {
        let ways: [&[(u64, u64)]; 4] = [
            &[(0, 20)],
            &[(9, 11), (0, 9)],
            &[(16, 1), (3, 2), (9, 4)],
            &[(2, 6), (8, 4), (14, 4)],
        ];
        for spans in ways {
            assert_eq!(outcome(spans, None), Ok(()), "{spans:?}");
            for at in 0..20 {
                let is_read = spans.iter().any(|(from, len)| (*from..from + len).contains(&at));
                let piece = [(2, 6), (8, 4), (14, 4)].into_iter();
                let mut piece =
                    piece.filter(|(from, len)| is_read && (*from..from + len).contains(&at));
                let wanted = piece.next().map_or(Ok(()), |(offset, len)| {
                    Err(StoreError::Damaged { file: "a".to_owned(), offset, len })
                });
                assert_eq!(outcome(spans, Some(at)), wanted, "{spans:?}, {at}");
            }
        }
    }

    #[test]
    fn bytes_at_rest_are_held_against_it_as_well() {
        let mut store = store();
        assert_eq!(prove_at_rest(&store, [span(9, 6), span(0, 3), span(18, 2)]), Ok(()));
        store.1[1].digest = Digest::of(b"");
        assert_eq!(prove_at_rest(&store, [span(12, 2), span(0, 8)]), Ok(()));
        let damage = StoreError::Damaged { file: "a".to_owned(), offset: 8, len: 4 };
        assert_eq!(prove_at_rest(&store, [span(11, 2)]), Err(damage));
    }

    #[test]
    fn bytes_of_which_nothing_is_noted_pass() {
        assert_eq!(outcome(&[(0, 2), (12, 2), (18, 2)], Some(13)), Ok(()));
        let other = Span::new(ShardId::new(1), 0, 20).unwrap();
        assert_eq!(prove(&store(), &[(other, &[0; 20])], &Digest::of), Ok(()));
    }

    #[test]
    fn what_cannot_be_read_of_a_piece_is_told() {
        let mut store = store();
        store.1 = vec![Noted { span: span(18, 9), digest: Digest::of(b"") }];
        let read = [(span(18, 1), &BYTES[18..19])];
        let error = prove(&store, &read, &Digest::of).unwrap_err();
        assert!(matches!(error, StoreError::EndOfFile { offset: 19, .. }), "{error}");
    }
}
