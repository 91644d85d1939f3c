//! Which runs of a region are free.

use std::ops::Range;

/// Free runs, ascending, with something taken between any two.
#[derive(Debug)]
pub(super) struct FreeList {
    runs: Vec<Range<usize>>,
    bytes: usize,
}

impl FreeList {
    /// A region that is all free.
    pub(super) fn new(len: usize) -> FreeList {
        let mut runs = Vec::with_capacity(256);
        runs.push(0..len);
        FreeList { runs, bytes: len }
    }

    /// Takes `len` bytes, at least one, from the lowest run that has them; gives where they begin.
    pub(super) fn take(&mut self, len: usize) -> Option<usize> {
        let at = self.runs.iter().position(|run| run.len() >= len)?;
        let start = self.runs[at].start;
        self.runs[at].start += len;
        if self.runs[at].is_empty() {
            self.runs.remove(at);
        }
        self.bytes -= len;
        Some(start)
    }

    /// Takes back what [`FreeList::take`] gave.
    ///
    /// # Panics
    /// If a part of it is free already.
    pub(super) fn give(&mut self, range: Range<usize>) {
        let at = self.runs.partition_point(|run| run.start < range.start);
        assert!(at == 0 || self.runs[at - 1].end <= range.start, "{range:?} given back twice");
        assert!(
            self.runs.get(at).is_none_or(|next| range.end <= next.start),
            "{range:?} given back twice"
        );
        self.bytes += range.len();
        let joins_left = at > 0 && self.runs[at - 1].end == range.start;
        let joins_right = self.runs.get(at).is_some_and(|next| next.start == range.end);
        match (joins_left, joins_right) {
            (true, true) => self.runs[at - 1].end = self.runs.remove(at).end,
            (true, false) => self.runs[at - 1].end = range.end,
            (false, true) => self.runs[at].start = range.start,
            (false, false) => self.runs.insert(at, range),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn runs(&self) -> &[Range<usize>] {
        &self.runs
    }
}
