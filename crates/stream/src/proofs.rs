//! Bytes that were read are those that were written.
//!
//! The first time that bytes of a drive are used in a process they are held against what is noted of them: a pack's
//! digests, a released shard's where somebody brought or adopted it and left some ([`Store::noted`]). What they came to
//! is remembered as a sum, and every later read has to come to the same. Where nothing is noted the first read counts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use deltafin_checkpoint::{Catalog, Record, Span};
use deltafin_spec::{ExpertId, LayerId};
use deltafin_store::{Store, StoreError, damaged, pieces_of, prove};

use crate::parts::{half_at, parts_of};
use crate::rows::Rows;
use crate::slots::Key;
use crate::sums::{Share, alone, digest, sum};

pub(crate) struct Proofs {
    catalog: Arc<Catalog>,
    store: Arc<dyn Store>,
    share: OnceLock<Box<Share>>,
    /// By unit: whether its bytes were once what they should be, or nobody knows what that is.
    intact: Box<[AtomicBool]>,
    /// By part and by expert: what its bytes come to; 0 before they were used.
    parts: Box<[AtomicU64]>,
    experts: Box<[AtomicU64]>,
    rows: Rows,
}

impl Proofs {
    pub(crate) fn new(catalog: Arc<Catalog>, store: Arc<dyn Store>) -> Proofs {
        let spec = catalog.spec();
        let layers = spec.layers.len();
        let unknown = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        let (parts, experts) =
            (unknown(parts_of(layers, layers).end), unknown(layers * spec.moe.experts));
        let (share, rows) = (OnceLock::new(), Rows::of(catalog.globals().embed));
        let mut proofs =
            Proofs { catalog, store, share, intact: Box::default(), parts, experts, rows };
        let is_intact = |unit| AtomicBool::new(!proofs.can_tell(unit));
        proofs.intact = (0..=layers).map(is_intact).collect();
        proofs
    }

    /// Lets others help.
    pub(crate) fn share_with(&self, share: Box<Share>) {
        let _ = self.share.set(share);
    }

    pub(crate) fn share(&self) -> &Share {
        self.share.get().map_or(&alone, |share| &**share)
    }

    /// Whether anybody noted what a unit should be.
    fn can_tell(&self, unit: usize) -> bool {
        let is_noted = |span: &Span| pieces_of(&*self.store, *span).next().is_some();
        let layers = self.catalog.spec().layers.len();
        self.catalog.seals().get(unit).is_some()
            || parts_of(unit, layers).any(|part| self.part(part).pieces().iter().any(is_noted))
    }

    /// What is read of a part.
    fn part(&self, part: usize) -> Record<'_> {
        match half_at(part, self.catalog.spec().layers.len()) {
            Some((layer, half)) => self.catalog.spine(layer).half(half).record(),
            None => self.catalog.globals().head.tensor().record(),
        }
    }

    /// Whether a unit's digests have nothing more to say.
    pub(crate) fn is_settled(&self, unit: usize) -> bool {
        self.intact[unit].load(Ordering::Relaxed)
    }

    /// Fails if the bytes of a unit's parts are not those that were written.
    pub(crate) fn settle(&self, unit: usize, bytes: &[&[u8]]) -> Result<(), StoreError> {
        let parts = parts_of(unit, self.catalog.spec().layers.len());
        match self.catalog.seals().get(unit) {
            Some(seal) => {
                let front = seal.front().map_or(Ok(Vec::new()), |span| self.read(span))?;
                if let Some(chunk) =
                    seal.broken(&front, bytes, &|bytes| digest(bytes, self.share()))
                {
                    return Err(damaged(&*self.store, chunk));
                }
            }
            None => {
                let read = parts.clone().zip(bytes);
                let read = read.flat_map(|(part, bytes)| pieces(self.part(part), bytes));
                self.prove(&read.collect::<Vec<_>>())?;
            }
        }
        for (part, bytes) in parts.zip(bytes) {
            self.parts[part].store(sum(bytes, self.share()), Ordering::Relaxed);
        }
        self.intact[unit].store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Fails if the bytes of a part of a settled unit are not what they were before.
    pub(crate) fn check_part(&self, part: usize, bytes: &[u8]) -> Result<(), StoreError> {
        self.check(&self.parts[part], self.part(part), bytes)
    }

    /// Fails if the bytes of an expert are not what they should be.
    pub(crate) fn check_expert(
        &self,
        key: Key,
        (layer, expert): (LayerId, ExpertId),
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let (known, record) =
            (&self.experts[key.0 as usize], self.catalog.expert(layer, expert).record);
        if known.load(Ordering::Relaxed) == 0 {
            self.prove_record(record, bytes)?;
        }
        self.check(known, record, bytes)
    }

    /// Reads a row of the embedding that is what it should be.
    pub(crate) fn row(&self, row: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.rows.read(&*self.store, row, buf)
    }

    fn check(&self, known: &AtomicU64, record: Record<'_>, bytes: &[u8]) -> Result<(), StoreError> {
        let found = sum(bytes, self.share());
        let wanted = known.load(Ordering::Relaxed);
        if wanted == found {
            return Ok(());
        }
        if wanted == 0 {
            known.store(found, Ordering::Relaxed);
            return Ok(());
        }
        // Where a digest can tell, it says more exactly which bytes they are.
        self.prove_record(record, bytes)?;
        Err(damaged(&*self.store, hull(record)))
    }

    fn prove_record(&self, record: Record<'_>, bytes: &[u8]) -> Result<(), StoreError> {
        match record.pieces() {
            [piece] => self.prove(&[(*piece, bytes)]),
            _ => self.prove(&pieces(record, bytes).collect::<Vec<_>>()),
        }
    }

    fn prove(&self, read: &[(Span, &[u8])]) -> Result<(), StoreError> {
        prove(&*self.store, read, &|bytes| digest(bytes, self.share()))
    }

    fn read(&self, span: Span) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; span.len() as usize];
        self.store.read_exact(span, &mut bytes).map(|()| bytes)
    }
}

/// The pieces of a record, and the bytes of each.
fn pieces<'a>(record: Record<'a>, mut bytes: &'a [u8]) -> impl Iterator<Item = (Span, &'a [u8])> {
    record.pieces().iter().map(move |piece| {
        let (front, rest) = bytes.split_at(piece.len() as usize);
        bytes = rest;
        (*piece, front)
    })
}

/// The bytes of the shard of a record's first piece that all its pieces there lie in.
fn hull(record: Record<'_>) -> Span {
    let first = record.pieces()[0];
    let there = record.pieces().iter().filter(|piece| piece.shard() == first.shard());
    let (from, to) = there.fold((first.offset(), first.end()), |(from, to), piece| {
        (from.min(piece.offset()), to.max(piece.end()))
    });
    Span::new(first.shard(), from, to - from).unwrap_or(first)
}
