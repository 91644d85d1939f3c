//! Bytes that are held for good, or in a buffer that goes back to be used again.

use std::ops::Deref;
use std::sync::Mutex;

/// Weights' bytes.
pub(super) enum Bytes<'a> {
    /// Held in memory for good.
    Held(&'a [u8]),
    /// Read for this use.
    Read(Buffer<'a>),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Held(bytes) => bytes,
            Bytes::Read(buffer) => &buffer.bytes[..buffer.len],
        }
    }
}

/// Buffers that are not in use. There are never more than are in use at once: a spine, the output
/// end's four parts, an expert.
#[derive(Default)]
pub(super) struct Recycler {
    free: Mutex<Vec<Vec<u8>>>,
}

impl Recycler {
    /// A buffer of `len` bytes: the smallest free one that is large enough, else a new one.
    pub(super) fn take(&self, len: usize) -> Buffer<'_> {
        let mut free = self.lock();
        let fitting =
            (0..free.len()).filter(|&i| free[i].len() >= len).min_by_key(|&i| free[i].len());
        let bytes = fitting.map(|i| free.swap_remove(i)).unwrap_or_else(|| vec![0; len]);
        Buffer { bytes, len, home: self }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A buffer that returns to its [`Recycler`] when dropped.
pub(super) struct Buffer<'a> {
    bytes: Vec<u8>,
    len: usize,
    home: &'a Recycler,
}

impl Buffer<'_> {
    pub(super) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        self.home.lock().push(std::mem::take(&mut self.bytes));
    }
}
