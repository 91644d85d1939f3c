//! The trait that all places of bytes share.

use std::fmt;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use deltafin_checkpoint::{Record, RowTable, Shard, ShardId, Span};

use crate::drive::Traffic;
use crate::{LocalFile, Noted, StoreError};

/// A place that has the bytes of shards.
pub trait Store: Send + Sync {
    /// The shards, in the order of their ids.
    fn shards(&self) -> &[Shard];

    /// Fills `buf` with the bytes of `span`, or fails without a promise about `buf`.
    ///
    /// # Panics
    /// If `buf` is not exactly as long as the span: that is a fault of the caller.
    fn read_exact(&self, span: Span, buf: &mut [u8]) -> Result<(), StoreError>;

    /// The file of this machine that is a shard, byte for byte, for reads that go past the
    /// page cache; nothing where there is none, and then [`Store::read_exact`] is the only way.
    fn file(&self, _shard: ShardId) -> Option<LocalFile<'_>> {
        None
    }

    /// Who brings the bytes that this store does not have yet; nothing where it has all. Its files
    /// have holes at these bytes, so whoever reads past [`Store::read_exact`] asks it first, and once more
    /// afterwards.
    fn distant(&self) -> Option<Arc<dyn Distant>> {
        None
    }

    /// The first piece of a shard that ends behind this offset and of which somebody noted what it should be. Pieces
    /// follow each other, do not overlap, and may leave bytes out.
    fn noted(&self, _shard: ShardId, _offset: u64) -> Option<Noted> {
        None
    }
}

/// Bytes that are elsewhere until they are needed. What was brought stays, unless room is made for others.
///
/// Whoever reads the files themselves holds what it reads, and asks afterwards whether it was kept:
/// another process may have made room meanwhile, and there is a hole where the bytes were.
pub trait Distant: Send + Sync {
    /// Whether all bytes of these spans are here.
    fn is_here(&self, pieces: &[Span]) -> bool;

    /// The right to read these spans, if all their bytes are here. Asks no drive.
    fn hold_here(&self, pieces: &[Span]) -> Option<Hold>;

    /// Brings them here, waits until they are, and holds them; ends early, with an error, soon after
    /// `stop` is raised. Several may be brought at once. What it gives is kept until it is dropped, so
    /// that whoever reads under it makes progress.
    fn hold(&self, pieces: &[Span], stop: &AtomicBool) -> Result<Hold, StoreError>;

    /// Whether what was read of these spans since they were held is what was here.
    fn was_kept(&self, pieces: &[Span], hold: &Hold) -> bool;

    /// Brings them here, and waits until they are, as [`Distant::hold`].
    fn bring(&self, pieces: &[Span], stop: &AtomicBool) -> Result<(), StoreError> {
        self.hold(pieces, stop).map(drop)
    }

    /// How many of these calls at once are of use.
    fn lanes(&self) -> usize;

    /// Bytes of memory that what is on its way takes until it is here, at the most.
    fn coming_bytes(&self) -> u64 {
        0
    }

    /// Why what is brought does not stay; nothing where it does.
    fn unkept(&self) -> Option<String> {
        None
    }

    /// How its source was asked so far.
    fn asked(&self) -> Asked;

    /// Who knows which experts were used most, for when room has to be made.
    fn go_by(&self, _heat: Weak<dyn Heat>) {}

    /// Takes away what is more than may be here, by what is known of use so far, before anything is brought; gives
    /// what went.
    ///
    /// # Errors
    /// What the drive says where it cannot be taken away.
    fn trim(&self) -> io::Result<Traffic> {
        Ok(Traffic::default())
    }

    /// What this process took away to make room.
    fn evicted(&self) -> Traffic {
        Traffic::default()
    }
}

/// The right to read bytes that may be taken away again, until dropped.
pub struct Hold {
    mark: u64,
    keeps: Option<Box<dyn Send + Sync>>,
    bytes: Option<Vec<u8>>,
}

impl Hold {
    /// Of bytes that are never taken away.
    pub fn for_good() -> Hold {
        Hold { mark: 0, keeps: None, bytes: None }
    }

    /// Of bytes that bore this mark when it began. `keeps` is what keeps them while this lives.
    pub fn new(mark: u64, keeps: Box<dyn Send + Sync>) -> Hold {
        Hold { mark, keeps: Some(keeps), bytes: None }
    }

    /// Of bytes that are nowhere else here: all that is held, back to back.
    pub fn passing(bytes: Vec<u8>) -> Hold {
        Hold { mark: 0, keeps: None, bytes: Some(bytes) }
    }

    /// What is held, back to back, where it is nowhere else here.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }

    /// The mark of the bytes when it began.
    pub fn mark(&self) -> u64 {
        self.mark
    }

    /// Whether the bytes can not be taken away at all.
    pub fn is_for_good(&self) -> bool {
        self.keeps.is_none()
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("mark", &self.mark).finish_non_exhaustive()
    }
}

/// Knows which experts were used most.
pub trait Heat: Send + Sync {
    /// How often each expert was used lately, layer by layer and in it expert by expert, layers without
    /// experts included; and how many experts a layer has.
    fn heat(&self) -> (Vec<f32>, usize);
}

/// How the source of bytes that are elsewhere was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Requests that were sent.
    pub requests: u64,
    /// How often something else came than was asked for, or nothing, so that the source was left alone for a while.
    pub waits: u64,
}

/// Refuses spans that no read could answer; gives the shard of the others. Every store
/// begins its reads with this, so that all fail alike.
pub(crate) fn check<'s>(
    shards: &'s [Shard],
    span: Span,
    buf: &[u8],
) -> Result<&'s Shard, StoreError> {
    assert_eq!(buf.len() as u64, span.len(), "the buffer must be as long as the span");
    check_span(shards, span)
}

/// As [`check`], before there is a buffer.
pub(crate) fn check_span(shards: &[Shard], span: Span) -> Result<&Shard, StoreError> {
    let number = span.shard().index();
    let shard = shards.get(number).ok_or(StoreError::NoShard { number, shards: shards.len() })?;
    if span.end() <= shard.len {
        return Ok(shard);
    }
    Err(StoreError::EndOfFile {
        file: shard.name.clone(),
        offset: span.offset(),
        wanted: span.len(),
        got: shard.len.saturating_sub(span.offset()),
    })
}

/// Reads the pieces of a record back to back into `buf`.
///
/// # Panics
/// If `buf` is not exactly as long as the record.
pub fn read_record(
    store: &dyn Store,
    record: Record<'_>,
    buf: &mut [u8],
) -> Result<(), StoreError> {
    assert_eq!(buf.len() as u64, record.len(), "the buffer must be as long as the record");
    let mut rest = buf;
    for &piece in record.pieces() {
        let (front, back) = rest.split_at_mut(piece.len() as usize);
        store.read_exact(piece, front)?;
        rest = back;
    }
    Ok(())
}

/// Reads one row of a table, such as a token's embedding.
///
/// # Panics
/// If the table has no such row, or `buf` is not exactly as long as a row.
pub fn read_row(
    store: &dyn Store,
    table: &RowTable,
    row: u64,
    buf: &mut [u8],
) -> Result<(), StoreError> {
    let span = table.row(row);
    store.read_exact(span.unwrap_or_else(|| panic!("no row {row} of {}", table.rows())), buf)
}
