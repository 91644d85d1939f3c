//! The right to fetch a record, or to take it away, which one process has at a time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::folder::is_same;

/// The right, until dropped. It ends with its process, however that ends; a file that is left behind
/// then is nobody's.
#[derive(Debug)]
pub(super) struct Claim(Option<(PathBuf, File)>);

impl Claim {
    /// The right that this file stands for; nothing while somebody else has it.
    pub(super) fn take(path: &Path) -> io::Result<Option<Claim>> {
        loop {
            let lock = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // Whoever had it before may have removed the file in between: then this lock keeps nobody out.
            if is_same(&lock, path) {
                return Ok(Some(Claim(Some((path.to_owned(), lock)))));
            }
        }
    }

    /// Keeps nobody out.
    pub(super) fn none() -> Claim {
        Claim(None)
    }

    /// Whether it keeps anybody out.
    pub(super) fn keeps_others_out(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some((path, lock)) = self.0.take() {
            // While it is held: the other order would remove the file of the next one.
            let _ = fs::remove_file(path);
            drop(lock);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn one_has_it_at_a_time_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.0");
        let (holders, taken) = (AtomicU32::new(0), AtomicU32::new(0));
        let work = || {
            for _ in 0..200 {
                if let Some(claim) = Claim::take(&path).unwrap() {
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                    taken.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(holders.fetch_sub(1, Ordering::SeqCst), 1);
                    drop(claim);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(work);
            }
        });
        assert!(taken.into_inner() > 0);
        assert!(!path.exists());
        // Left behind by one that was killed.
        fs::write(&path, b"").unwrap();
        assert!(Claim::take(&path).unwrap().is_some());
    }
}
