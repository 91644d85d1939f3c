//! One chunk, by positional reads past the page cache.

use std::io;

use super::layout::Run;
use crate::arena::PAGE_BYTES;
use crate::local::read::{ReadAt, twice};
use crate::{LocalFile, StoreError};

/// Reads the run until all that is wanted of it is there; gives the bytes read and whether it
/// took a second try.
pub(super) fn read_run(
    file: LocalFile<'_>,
    run: Run,
    buf: &mut [u8],
) -> (Result<usize, StoreError>, bool) {
    let mut again = false;
    let forget = || {
        again = true;
        file.forget(run.wanted());
    };
    let read = twice(
        || file.direct(run.wanted()),
        forget,
        |open| read_pages(open, buf, run.enough, begin(file, run)),
    );
    let outcome = read.and_then(|got| match got {
        Ok(got) if got >= run.enough => Ok(got),
        Ok(got) => Err(ended(file, run, got)),
        Err(error) => Err(failed(file, run, &error)),
    });
    (outcome, again)
}

/// Where in its file a run begins.
pub(super) fn begin(file: LocalFile<'_>, run: Run) -> u64 {
    file.place(run.wanted()) - run.lead as u64
}

/// Reads whole pages until `enough` bytes are there or the file ends; gives the bytes read.
fn read_pages(file: &impl ReadAt, buf: &mut [u8], enough: usize, offset: u64) -> io::Result<usize> {
    let mut progress = Progress::default();
    while !progress.is_over(enough) {
        let from = progress.resume();
        match file.read_at(&mut buf[from..], offset + from as u64) {
            Ok(got) => progress.add(got),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(progress.done)
}

/// How far a run has come. Only at its end does a file give part of a page, so a read goes on at
/// the last page border, and the file has ended when that brings nothing new.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    pub(super) done: usize,
    at_end: bool,
}

impl Progress {
    /// Where in the run the next transfer begins.
    pub(super) fn resume(self) -> usize {
        self.done / PAGE_BYTES * PAGE_BYTES
    }

    /// A transfer that began there brought so many bytes.
    pub(super) fn add(&mut self, got: usize) {
        let reached = self.resume() + got;
        self.at_end = reached <= self.done;
        self.done = self.done.max(reached);
    }

    /// Whether no further transfer is wanted.
    pub(super) fn is_over(self, enough: usize) -> bool {
        self.done >= enough || self.at_end
    }
}

/// The file ends `got` bytes into the run.
pub(super) fn ended(file: LocalFile<'_>, run: Run, got: usize) -> StoreError {
    StoreError::EndOfFile {
        file: file.path().display().to_string(),
        offset: run.piece.offset(),
        wanted: run.piece.len(),
        got: (run.at + got as u64).saturating_sub(run.piece.offset()),
    }
}

/// The run failed for the second time.
pub(super) fn failed(file: LocalFile<'_>, run: Run, error: &io::Error) -> StoreError {
    StoreError::Read {
        file: file.path().display().to_string(),
        offset: run.at,
        wanted: run.len as u64,
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A file that gives at most two pages at a time and is interrupted before each.
    struct Grudging {
        bytes: Vec<u8>,
        interrupted: Cell<bool>,
    }

    impl ReadAt for Grudging {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            assert!(offset.is_multiple_of(PAGE_BYTES as u64), "not aligned: {offset}");
            if !self.interrupted.replace(true) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            self.interrupted.replace(false);
            let rest = &self.bytes[(offset as usize).min(self.bytes.len())..];
            let got = rest.len().min(buf.len()).min(2 * PAGE_BYTES);
            buf[..got].copy_from_slice(&rest[..got]);
            Ok(got)
        }
    }

    #[test]
    fn short_reads_are_read_on_at_page_borders() {
        let bytes: Vec<u8> = (0..5 * PAGE_BYTES + 100).map(|at| (at % 251) as u8).collect();
        let file = Grudging { bytes: bytes.clone(), interrupted: Cell::new(false) };
        let mut buf = vec![0; 6 * PAGE_BYTES];
        for (enough, got) in [(1, 2 * PAGE_BYTES), (3 * PAGE_BYTES, 4 * PAGE_BYTES)] {
            assert_eq!(read_pages(&file, &mut buf, enough, 0).unwrap(), got);
            assert_eq!(buf[..got], bytes[..got]);
        }
        for enough in [bytes.len(), bytes.len() + 1, buf.len()] {
            assert_eq!(read_pages(&file, &mut buf, enough, 0).unwrap(), bytes.len());
            assert_eq!(buf[..bytes.len()], bytes);
        }
        let beyond = 8 * PAGE_BYTES as u64;
        assert_eq!(read_pages(&file, &mut buf, 1, beyond).unwrap(), 0);
    }
}
