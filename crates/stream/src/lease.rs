//! The right to a part of the spine until dropped.

use std::ops::Deref;

use deltafin_store::drive::Filled;

use crate::Stream;

/// A half of a layer's spine, or the output head: its bytes.
pub struct SpineLease<'s> {
    pub(crate) stream: &'s Stream,
    pub(crate) part: usize,
    /// There until dropped.
    pub(crate) filled: Option<Filled>,
    /// Whether the part's turn in this pass ends with the lease.
    pub(crate) uses: bool,
}

impl SpineLease<'_> {
    /// The bytes are not what they should be: nobody gets them again. Tells which part has to be read anew.
    pub(crate) fn reject(mut self) -> usize {
        if let Some(filled) = self.filled.take() {
            self.stream.reject(self.part, filled);
        }
        self.part
    }
}

impl Deref for SpineLease<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.filled.as_deref().unwrap_or_default()
    }
}

impl Drop for SpineLease<'_> {
    fn drop(&mut self) {
        if let Some(filled) = self.filled.take() {
            self.stream.give_back(self.part, filled, self.uses);
        }
    }
}
