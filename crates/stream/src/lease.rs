//! The right to a spine unit until dropped.

use std::ops::Deref;

use deltafin_store::drive::Filled;

use crate::Stream;

/// A unit's bytes.
pub struct SpineLease<'s> {
    pub(crate) stream: &'s Stream,
    pub(crate) unit: usize,
    /// There until dropped.
    pub(crate) filled: Option<Filled>,
    /// Whether the unit's turn in this pass ends with the lease.
    pub(crate) uses: bool,
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
            self.stream.give_back(self.unit, filled, self.uses);
        }
    }
}
