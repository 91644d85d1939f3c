//! What the kernel says this process has read.

use deltafin_store::kernel_count;
use serde::{Deserialize, Serialize};

/// Bytes read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BytesRead {
    /// What came from drives on behalf of this process.
    pub(super) storage: u64,
    /// By plain read calls, whoever answered them, where the system counts that.
    pub(super) calls: Option<u64>,
}

impl BytesRead {
    /// Up to this moment; nothing where the system does not count.
    pub(super) fn until_here() -> Option<BytesRead> {
        let storage = kernel_count::bytes_from_drives()?;
        Some(BytesRead { storage, calls: kernel_count::bytes_by_calls() })
    }

    /// What was read since an earlier moment.
    pub(super) fn since(self, earlier: BytesRead) -> BytesRead {
        let calls = self.calls.zip(earlier.calls).map(|(now, then)| now.saturating_sub(then));
        BytesRead { storage: self.storage.saturating_sub(earlier.storage), calls }
    }

    /// What the page cache must have answered, as far as it shows: bytes that calls returned and
    /// storage did not give.
    pub(super) fn by_page_cache(self) -> u64 {
        self.calls.unwrap_or(0).saturating_sub(self.storage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_calls_returned_and_no_drive_gave_was_in_the_page_cache() {
        let read = |storage, calls| BytesRead { storage, calls };
        let (before, after) = (read(8192, Some(4292)), read(8192, Some(10_292)));
        assert_eq!(before.by_page_cache(), 0);
        assert_eq!(after.since(before), read(0, Some(6000)));
        assert_eq!(after.since(before).by_page_cache(), 6000);
        assert_eq!(read(10, None).since(read(4, None)), read(6, None));
    }
}
