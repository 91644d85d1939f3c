//! Rows of the embedding, read one by one.
//!
//! A row is a small part of a piece, and a piece is what it was or it is not. So the first row of a piece that is
//! wanted has the piece read through, which gives sums of all rows in it; from then on a row is held against its own.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use deltafin_checkpoint::pack::PartsHasher;
use deltafin_checkpoint::{RowTable, ShardId, Span};
use deltafin_store::{Noted, Store, StoreError, damaged, pieces_of};

use crate::sums::{alone, sum};

/// Bytes read at once, but for a row that is longer.
const BLOCK_BYTES: u64 = 1 << 20;

pub(crate) struct Rows {
    table: RowTable,
    /// By row: what its bytes come to; 0 before anybody knew.
    sums: Box<[AtomicU64]>,
    block: Mutex<Vec<u8>>,
}

impl Rows {
    pub(crate) fn of(table: RowTable) -> Rows {
        let sums = (0..table.rows()).map(|_| AtomicU64::new(0)).collect();
        Rows { table, sums, block: Mutex::default() }
    }

    /// Reads a row that is what it should be.
    ///
    /// # Panics
    /// If there is no such row, or `buf` is not as long as one.
    pub(crate) fn read(
        &self,
        store: &dyn Store,
        row: u64,
        buf: &mut [u8],
    ) -> Result<(), StoreError> {
        let span = self.table.row(row);
        let span = span.unwrap_or_else(|| panic!("no row {row} of {}", self.table.rows()));
        let known = &self.sums[row as usize];
        if known.load(Ordering::Relaxed) == 0 {
            self.learn_around(store, span)?;
        }
        for _ in 0..2 {
            store.read_exact(span, buf)?;
            let found = sum(buf, &alone);
            // Where nothing is noted the first read counts.
            match known.compare_exchange(0, found, Ordering::Relaxed, Ordering::Relaxed) {
                Err(wanted) if wanted != found => {}
                _ => return Ok(()),
            }
        }
        Err(damaged(store, span))
    }

    /// Takes sums of all rows in the pieces that a row is in, if these are what they should be.
    fn learn_around(&self, store: &dyn Store, row: Span) -> Result<(), StoreError> {
        let pieces: Vec<Noted> = pieces_of(store, row).collect();
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return Ok(()) };
        let bytes = first.span.offset()..last.span.end();
        let found = self.walk(store, row.shard(), bytes.clone(), &pieces);
        let found = found.or_else(|_| self.walk(store, row.shard(), bytes, &pieces))?;
        for (row, found) in found {
            self.sums[row].store(found, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reads bytes of a shard through, and holds the pieces in them against what is noted; gives the sums of the rows
    /// that lie there as a whole.
    fn walk(
        &self,
        store: &dyn Store,
        shard: ShardId,
        bytes: Range<u64>,
        pieces: &[Noted],
    ) -> Result<Vec<(usize, u64)>, StoreError> {
        let mut hashers = vec![PartsHasher::default(); pieces.len()];
        let (mut sums, mut at) = (Vec::new(), bytes.start);
        let mut block = self.block.lock().unwrap_or_else(PoisonError::into_inner);
        while at < bytes.end {
            let end = self.cut(at, bytes.end);
            let Some(span) = Span::new(shard, at, end - at) else { break };
            block.resize(span.len() as usize, 0);
            store.read_exact(span, &mut block)?;
            let part = |of: Span| inside(&block, span, of);
            for (hasher, piece) in hashers.iter_mut().zip(pieces) {
                hasher.update(part(piece.span));
            }
            let rows = self.rows_in(span);
            sums.extend(rows.map(|(row, span)| (row as usize, sum(part(span), &alone))));
            at = end;
        }
        match hashers.iter().zip(pieces).find(|(hasher, piece)| hasher.finish() != piece.digest) {
            Some((_, piece)) => Err(damaged(store, piece.span)),
            None => Ok(sums),
        }
    }

    /// Where a block that begins somewhere ends: between two rows, if it has a whole one.
    fn cut(&self, at: u64, most: u64) -> u64 {
        let (first, row) = (self.table.tensor().span.offset(), self.table.row_bytes());
        let Some(before) = at.checked_sub(first) else {
            return most.min(first).min(at + BLOCK_BYTES);
        };
        let rows = before.div_ceil(row) + (BLOCK_BYTES / row).max(1);
        most.min(first + rows * row)
    }

    /// The rows that lie in a span as a whole.
    fn rows_in(&self, span: Span) -> impl Iterator<Item = (u64, Span)> {
        let (table, row) = (self.table.tensor().span, self.table.row_bytes());
        let first = span.offset().saturating_sub(table.offset()).div_ceil(row);
        let rows = (first..).map_while(move |number| Some((number, self.table.row(number)?)));
        let is_there = span.shard() == table.shard();
        rows.take_while(move |(_, found)| is_there && found.end() <= span.end())
    }
}

/// The bytes of a block that are of another span of its shard.
fn inside(block: &[u8], at: Span, of: Span) -> &[u8] {
    let place = |offset: u64| (offset.clamp(at.offset(), at.end()) - at.offset()) as usize;
    &block[place(of.offset())..place(of.end())]
}
