//! Which experts make room for others, and how they go.

use std::io;
use std::sync::{Arc, PoisonError, Weak};

use super::super::claim::Claim;
use super::super::shelf::Shelf;
use super::{Cache, Filtered as _, experts};
use crate::cut::Owner;

/// An expert that could go, and why it is the one.
pub(super) struct Candidate {
    heat: f32,
    used: u64,
    pub(super) shelf: Arc<Shelf>,
    pub(super) numbers: Vec<usize>,
}

impl Cache {
    /// Takes the coldest experts away until so many bytes are free; says whether they are.
    pub(super) fn evict(&self, over: u64) -> io::Result<bool> {
        if over == 0 {
            return Ok(true);
        }
        let (mut left, mut full) = (over, None);
        for Candidate { shelf, numbers, .. } in self.candidates() {
            match self.take_away(&shelf, &[numbers]) {
                Ok(bytes) => left = left.saturating_sub(bytes),
                // A map may lack room for one more line: then one goes whose map has it.
                Err(error) if is_full(&error) => full = Some(error),
                Err(error) => return Err(error),
            }
            if left == 0 {
                return Ok(true);
            }
        }
        full.map_or(Ok(false), Err)
    }

    /// How much experts are used at this moment.
    pub(super) fn heat_of(&self) -> impl Fn(Owner) -> f32 + use<> {
        let heat = self.heat.get().and_then(Weak::upgrade).map(|heat| heat.heat());
        move |owner: Owner| match (owner, &heat) {
            (Owner::Expert(layer, expert), Some((counts, per_layer))) => {
                let at = layer as usize * per_layer + expert as usize;
                counts.get(at).copied().unwrap_or(0.0)
            }
            _ => 0.0,
        }
    }

    /// Every expert that is here and that this process does not read, the coldest first and of equals the one that
    /// was used longest ago.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let heat_of = self.heat_of();
        let candidate = |(shelf, numbers): (Arc<Shelf>, Vec<usize>)| {
            let numbers = numbers.filtered(|number| shelf.is_here(number));
            let used = numbers.iter().map(|number| shelf.used(*number)).max()?;
            let is_read = numbers.iter().any(|number| shelf.is_read(*number));
            let heat = heat_of(shelf.piece(numbers[0]).owner);
            (!is_read).then_some(Candidate { heat, used, shelf, numbers })
        };
        let all = self.shelves.iter().flat_map(experts);
        let mut candidates: Vec<Candidate> = all.filter_map(candidate).collect();
        candidates.sort_by(|a, b| a.heat.total_cmp(&b.heat).then(a.used.cmp(&b.used)));
        candidates
    }

    /// Takes experts of a shelf away, each of which is these pieces; gives how many bytes that are. Those of which
    /// somebody has one in hand stay.
    pub(super) fn take_away(&self, shelf: &Arc<Shelf>, going: &[Vec<usize>]) -> io::Result<u64> {
        let (mut claimed, mut gone) = (Vec::new(), 0);
        for numbers in going {
            if let Some(claims) = self.claim_to_go(shelf, numbers)? {
                claimed.extend(numbers.iter().copied().zip(claims));
                gone += 1;
            }
        }
        if claimed.is_empty() {
            return Ok(0);
        }
        let numbers: Vec<usize> = claimed.iter().map(|(number, _)| *number).collect();
        shelf.withdraw(&numbers)?;
        self.free(shelf, claimed)?;
        let mut evicted = self.evicted.lock().unwrap_or_else(PoisonError::into_inner);
        evicted.reads += gone;
        evicted.bytes += numbers.iter().map(|number| shelf.piece(*number).bytes).sum::<u64>();
        Ok(self.charges(shelf, &numbers))
    }

    /// The right to take all pieces of an expert away; nothing where somebody has one in hand.
    fn claim_to_go(&self, shelf: &Shelf, numbers: &[usize]) -> io::Result<Option<Vec<Claim>>> {
        let claims = numbers.iter().map(|number| self.claim(shelf, *number));
        let claims = claims.collect::<io::Result<Option<Vec<Claim>>>>()?;
        Ok(claims.filter(|_| !numbers.iter().any(|number| shelf.is_read(*number))))
    }
}

/// Whether a drive has no room for something.
pub(in crate::streamed) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
