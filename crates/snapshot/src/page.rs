//! Snapshots, and the pages of latent cache that they share.

use deltafin_model::{Recurrent, State};
use std::sync::Arc;

/// Positions of a page; the last one of a snapshot may have fewer.
pub(crate) const PAGE_POSITIONS: usize = 64;

/// Some positions' ids and latent rows. What precedes them is part of what they are: a page is shared
/// only among snapshots that agree up to its end.
pub(crate) struct Page {
    pub(crate) ids: Box<[u32]>,
    /// `[positions, row]`.
    pub(crate) rows: Box<[f32]>,
}

impl Page {
    fn copy(first: usize, ids: &[u32], row_len: usize, state: &State) -> Page {
        let mut rows = vec![0.0; ids.len() * row_len].into_boxed_slice();
        state.read_latent(first..first + ids.len(), &mut rows);
        Page { ids: ids.into(), rows }
    }

    pub(crate) fn bytes(&self) -> u64 {
        page_bytes(self.ids.len(), self.rows.len())
    }
}

/// Bytes of a page, with what the allocator and its owners add.
fn page_bytes(ids: usize, values: usize) -> u64 {
    const OVERHEAD: u64 = 128;
    (ids as u64 + values as u64) * 4 + OVERHEAD
}

/// A state as it was after some tokens.
pub(crate) struct Snapshot {
    pub(crate) pages: Vec<Arc<Page>>,
    pub(crate) recurrent: Recurrent,
}

impl Snapshot {
    /// The first `ids.len()` tokens of `state`, which has those. `pages` are the first of them, taken
    /// over from a snapshot that agrees so far.
    pub(crate) fn copy(
        ids: &[u32],
        mut pages: Vec<Arc<Page>>,
        row_len: usize,
        state: &State,
        recurrent: Recurrent,
    ) -> Snapshot {
        for (index, ids) in ids.chunks(PAGE_POSITIONS).enumerate().skip(pages.len()) {
            pages.push(Arc::new(Page::copy(index * PAGE_POSITIONS, ids, row_len, state)));
        }
        Snapshot { pages, recurrent }
    }

    /// Bytes that [`Snapshot::copy`] will add for pages, when so many are shared.
    pub(crate) fn new_page_bytes(positions: usize, shared: usize, row_len: usize) -> u64 {
        let left = positions - shared * PAGE_POSITIONS;
        let (whole, last) = (left / PAGE_POSITIONS, left % PAGE_POSITIONS);
        let tail = if last > 0 { page_bytes(last, last * row_len) } else { 0 };
        whole as u64 * page_bytes(PAGE_POSITIONS, PAGE_POSITIONS * row_len) + tail
    }

    /// How many tokens it comes after.
    pub(crate) fn len(&self) -> usize {
        self.recurrent.position()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &[u32]> {
        self.pages.iter().map(|page| &*page.ids)
    }

    /// Whether `ids` begin with its tokens.
    pub(crate) fn begins(&self, ids: &[u32]) -> bool {
        let mut chunks = ids.chunks(PAGE_POSITIONS);
        let agrees = |page: &Arc<Page>| chunks.next().is_some_and(|c| c.starts_with(&page.ids));
        ids.len() >= self.len() && self.pages.iter().all(agrees)
    }

    /// Its first whole pages that have these ids.
    pub(crate) fn shared(&self, ids: &[u32]) -> &[Arc<Page>] {
        let whole = self.pages.iter().zip(ids.chunks_exact(PAGE_POSITIONS));
        let count = whole.take_while(|(page, ids)| *page.ids == **ids).count();
        &self.pages[..count]
    }

    /// Puts `state` where it was; `right` rows of latent cache are those of its tokens already.
    pub(crate) fn restore(&self, right: usize, state: &mut State) {
        let right = right / PAGE_POSITIONS;
        for (index, page) in self.pages.iter().enumerate().skip(right) {
            state.write_latent(index * PAGE_POSITIONS, &page.rows);
        }
        state.resume(&self.recurrent);
    }
}
