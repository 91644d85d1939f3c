//! The same faults in what files give to reads past the page cache: the system's own refusals and ends
//! of files, as a ring or a thread hears of them.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::Arc;

use deltafin_checkpoint::{ShardId, Span};
use deltafin_store::{Files, LocalFile, StoreError};

use super::{Fault, FaultyStore, mix};

impl FaultyStore {
    fn file_of(&self, number: usize) -> LocalFile<'_> {
        self.inner.file(ShardId::new(number as u32)).unwrap()
    }

    /// A file in which a read ends before it has all that is wanted.
    fn ending(&self, wanted: Span) -> Arc<File> {
        self.count();
        let file = tempfile::tempfile().unwrap();
        let got = mix(self.lot(wanted)) % wanted.len();
        file.set_len(wanted.offset() + got).unwrap();
        Arc::new(file)
    }

    /// A file that the system reads nothing from.
    fn unreadable(&self) -> Arc<File> {
        self.count();
        Arc::new(OpenOptions::new().write(true).open("/dev/null").unwrap())
    }
}

impl Files for FaultyStore {
    fn path(&self, number: usize) -> &Path {
        self.file_of(number).path()
    }

    fn device(&self, number: usize) -> u64 {
        self.file_of(number).device()
    }

    fn direct(&self, number: usize, wanted: Span) -> Result<Arc<File>, StoreError> {
        let healthy = || self.file_of(number).direct(wanted);
        if !self.is_hit(wanted) {
            return healthy();
        }
        match self.fault {
            Fault::Late(most) => {
                self.sleep(wanted, most);
                self.count();
                healthy()
            }
            Fault::Short => Ok(self.ending(wanted)),
            Fault::FailsOnce if !self.is_first(wanted) => healthy(),
            Fault::FailsOnce | Fault::FailsForEver => Ok(self.unreadable()),
            Fault::Vanished => Err(self.vanished(wanted)),
            Fault::FlippedBit | Fault::FlippedOnce => healthy(),
        }
    }

    fn place(&self, number: usize, wanted: Span) -> u64 {
        self.file_of(number).place(wanted)
    }

    fn forget(&self, number: usize, wanted: Span) {
        self.file_of(number).forget(wanted);
    }
}
