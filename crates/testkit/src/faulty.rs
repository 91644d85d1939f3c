//! A store that fails as drives and networks do, the same way every time.

mod files;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deltafin_checkpoint::{Shard, ShardId, Span};
use deltafin_store::{LocalFile, Noted, Store, StoreError};

/// What goes wrong with a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It takes up to this long, which differs from read to read: reads overtake each other.
    Late(Duration),
    /// The file ends in the middle of it.
    Short,
    /// It fails; the same read succeeds when it is asked for again.
    FailsOnce,
    /// It fails, and so does every later read of the same span.
    FailsForEver,
    /// The file is no longer there.
    Vanished,
    /// One bit is not what it was, and nothing says so. A store without digests cannot tell: what
    /// is computed from it is other than it should be. Only for tests of what does tell.
    FlippedBit,
    /// As [`Fault::FlippedBit`]; the same read is right when it is asked for again.
    FlippedOnce,
}

impl Fault {
    /// Those that a store tells of or that change time only, so that nothing wrong can be computed.
    pub const HONEST: [Fault; 5] = [
        Fault::Late(Duration::from_millis(3)),
        Fault::Short,
        Fault::FailsOnce,
        Fault::FailsForEver,
        Fault::Vanished,
    ];
}

/// Which reads a fault hits, decided by the span alone: the order of reads changes nothing.
/// About one of `every` spans is hit; with 1 all are.
#[derive(Clone, Copy, Debug)]
pub struct Hits {
    /// Another seed hits other spans.
    pub seed: u64,
    /// One of so many.
    pub every: u64,
}

/// Any store, with a fault in it. Its shards are no files, so that all reads go through it, unless it is
/// told otherwise.
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    fault: Fault,
    hits: Hits,
    shards: Range<usize>,
    in_files: bool,
    is_well: AtomicBool,
    hit_before: Mutex<HashSet<Span>>,
    struck: AtomicU64,
}

impl FaultyStore {
    /// `inner` with this fault.
    ///
    /// # Panics
    /// If `hits.every` is 0.
    pub fn new(inner: Arc<dyn Store>, fault: Fault, hits: Hits) -> FaultyStore {
        assert!(hits.every > 0, "one of no reads");
        let (is_well, hit_before, struck) = Default::default();
        let (shards, in_files) = (0..usize::MAX, false);
        FaultyStore { inner, fault, hits, shards, in_files, is_well, hit_before, struck }
    }

    /// Its shards are files where those of the store inside are, and the fault is in these: reads past the
    /// page cache meet it in the kernel, all others not at all. For the faults of [`Fault::HONEST`].
    pub fn in_files(self) -> FaultyStore {
        FaultyStore { in_files: true, ..self }
    }

    /// The fault is in reads of these shards only.
    pub fn within(self, shards: Range<usize>) -> FaultyStore {
        FaultyStore { shards, ..self }
    }

    /// From here on nothing goes wrong, as when a cable is plugged in again.
    pub fn heal(&self) {
        self.is_well.store(true, Ordering::Relaxed);
    }

    /// From here on reads go wrong again.
    pub fn fall_ill(&self) {
        self.is_well.store(false, Ordering::Relaxed);
    }

    /// How often the fault has struck, so that a test can know that it has tested something.
    pub fn struck(&self) -> u64 {
        self.struck.load(Ordering::Relaxed)
    }

    /// A number that is the span's own, whoever reads and when.
    fn lot(&self, span: Span) -> u64 {
        let words = [span.shard().index() as u64, span.offset(), span.len()];
        words.iter().fold(mix(self.hits.seed), |lot, word| mix(lot ^ word))
    }

    fn is_hit(&self, span: Span) -> bool {
        let is_meant = self.shards.contains(&span.shard().index()) && span.len() > 0;
        is_meant
            && !self.is_well.load(Ordering::Relaxed)
            && self.lot(span).is_multiple_of(self.hits.every)
    }

    fn strike(&self, span: Span, buf: &mut [u8]) -> Result<(), StoreError> {
        let lot = mix(self.lot(span).wrapping_add(1));
        match self.fault {
            Fault::Late(most) => self.sleep(span, most),
            Fault::Short => {
                self.count();
                return Err(self.end(span, lot % span.len()));
            }
            Fault::FailsOnce => {
                if self.is_first(span) {
                    self.count();
                    return Err(self.bad_sector(span));
                }
            }
            Fault::FailsForEver => {
                self.count();
                return Err(self.bad_sector(span));
            }
            Fault::Vanished => return Err(self.vanished(span)),
            Fault::FlippedBit | Fault::FlippedOnce => {}
        }
        self.inner.read_exact(span, buf)?;
        match self.fault {
            Fault::Late(_) => self.count(),
            Fault::FlippedBit => self.flip(lot, buf),
            Fault::FlippedOnce if self.is_first(span) => self.flip(lot, buf),
            _ => {}
        }
        Ok(())
    }

    fn sleep(&self, span: Span, most: Duration) {
        let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        let lot = mix(self.lot(span).wrapping_add(1));
        std::thread::sleep(Duration::from_micros(lot % most.saturating_add(1)));
    }

    fn vanished(&self, span: Span) -> StoreError {
        self.count();
        let (file, offset, wanted) = (self.file_name(span), span.offset(), span.len());
        let reason = "No such file or directory (os error 2)".to_owned();
        StoreError::Reopen { file, offset, wanted, reason }
    }

    fn flip(&self, lot: u64, buf: &mut [u8]) {
        self.count();
        buf[lot as usize / 8 % buf.len()] ^= 1 << (lot % 8);
    }

    /// Whether this span is hit for the first time.
    fn is_first(&self, span: Span) -> bool {
        self.hit_before.lock().unwrap_or_else(PoisonError::into_inner).insert(span)
    }

    fn count(&self) {
        self.struck.fetch_add(1, Ordering::Relaxed);
    }

    fn file_name(&self, span: Span) -> String {
        self.shards()[span.shard().index()].name.clone()
    }

    fn end(&self, span: Span, got: u64) -> StoreError {
        let (file, offset, wanted) = (self.file_name(span), span.offset(), span.len());
        StoreError::EndOfFile { file, offset, wanted, got }
    }

    fn bad_sector(&self, span: Span) -> StoreError {
        let (file, offset, wanted) = (self.file_name(span), span.offset(), span.len());
        StoreError::Read { file, offset, wanted, reason: "bad sector".to_owned() }
    }
}

impl Store for FaultyStore {
    fn shards(&self) -> &[Shard] {
        self.inner.shards()
    }

    fn read_exact(&self, span: Span, buf: &mut [u8]) -> Result<(), StoreError> {
        let known = span.shard().index() < self.shards().len();
        if known && !self.in_files && self.is_hit(span) {
            return self.strike(span, buf);
        }
        self.inner.read_exact(span, buf)
    }

    /// What is noted is somewhere else, and right.
    fn noted(&self, shard: ShardId, offset: u64) -> Option<Noted> {
        self.inner.noted(shard, offset)
    }

    fn file(&self, shard: ShardId) -> Option<LocalFile<'_>> {
        self.inner.file(shard).filter(|_| self.in_files)?;
        Some(LocalFile::new(self, shard.index()))
    }
}

/// Every bit of the result depends on every bit of `word` (splitmix64's finisher).
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
