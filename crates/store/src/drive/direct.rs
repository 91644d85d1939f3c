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
        file.forget();
    };
    let read = twice(|| file.direct(), forget, |open| read_pages(open, buf, run.enough, run.at));
    let outcome = read.and_then(|got| match got {
        Ok(got) if got >= run.enough => Ok(got),
        Ok(got) => Err(ended(file, run, got)),
        Err(error) => Err(failed(file, run, &error)),
    });
    (outcome, again)
}

/// Reads whole pages until `enough` bytes are there or the file ends; gives the bytes read. Only
/// at its end does a file give part of a page, so a read goes on at the last page border and the
/// file has ended when that brings nothing new.
fn read_pages(file: &impl ReadAt, buf: &mut [u8], enough: usize, offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < enough {
        let from = done / PAGE_BYTES * PAGE_BYTES;
        match file.read_at(&mut buf[from..], offset + from as u64) {
            Ok(got) if from + got <= done => break,
            Ok(got) => done = from + got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
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
