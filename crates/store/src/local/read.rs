//! Positional reads that go on until all bytes are there.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The most that is asked of the system at once; some refuse 2 GiB and more.
const CHUNK_BYTES: usize = 1 << 30;

/// One positional read, which may give fewer bytes than asked. Tests put faults behind it.
pub(crate) trait ReadAt {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buf, offset)
    }
}

impl<T: ReadAt> ReadAt for Arc<T> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buf, offset)
    }
}

/// Reads as [`read_full`] from the file that `open` gives. After a failure the file is
/// forgotten, opened afresh and read once more: a drive or a network mount that hiccuped
/// costs time only.
pub(super) fn read_twice<F: ReadAt, E>(
    open: impl Fn() -> Result<F, E>,
    forget: impl FnOnce(),
    buf: &mut [u8],
    offset: u64,
) -> Result<io::Result<usize>, E> {
    twice(open, forget, |file| read_full(file, buf, offset))
}

/// Reads from the file that `open` gives, and after a failure once more from one opened afresh.
pub(crate) fn twice<F, E>(
    open: impl Fn() -> Result<F, E>,
    forget: impl FnOnce(),
    mut read: impl FnMut(&F) -> io::Result<usize>,
) -> Result<io::Result<usize>, E> {
    let first = read(&open()?);
    if first.is_ok() {
        return Ok(first);
    }
    forget();
    Ok(read(&open()?))
}

/// Reads until `buf` is full or the file ends; gives the bytes read.
fn read_full(file: &impl ReadAt, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        let end = buf.len().min(done + CHUNK_BYTES);
        match file.read_at(&mut buf[done..end], offset + done as u64) {
            Ok(0) => break,
            Ok(got) => done += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// A file that gives at most 3 bytes at a time and is interrupted before each.
    struct Grudging {
        bytes: Vec<u8>,
        interrupted: RefCell<bool>,
    }

    impl ReadAt for Grudging {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            if !self.interrupted.replace(true) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            self.interrupted.replace(false);
            let rest = &self.bytes[(offset as usize).min(self.bytes.len())..];
            let got = rest.len().min(buf.len()).min(3);
            buf[..got].copy_from_slice(&rest[..got]);
            Ok(got)
        }
    }

    #[test]
    fn short_reads_are_read_on() {
        let file = Grudging { bytes: (0..20).collect(), interrupted: RefCell::new(false) };
        let mut buf = [0; 10];
        assert_eq!(read_full(&file, &mut buf, 4).unwrap(), 10);
        assert_eq!(buf.to_vec(), (4..14).collect::<Vec<u8>>());
        assert_eq!(read_full(&file, &mut buf, 15).unwrap(), 5);
        assert_eq!(read_full(&file, &mut buf, 99).unwrap(), 0);
    }

    /// A file whose first reads fail.
    struct Failing(Cell<u32>);

    impl ReadAt for &Failing {
        fn read_at(&self, buf: &mut [u8], _: u64) -> io::Result<usize> {
            if self.0.get() > 0 {
                self.0.set(self.0.get() - 1);
                return Err(io::Error::other("bad sector"));
            }
            buf.fill(7);
            Ok(buf.len())
        }
    }

    fn with_failures(failures: u32) -> (io::Result<usize>, u32) {
        let (file, forgotten) = (Failing(Cell::new(failures)), Cell::new(0));
        let open = || Ok::<_, ()>(&file);
        let forget = || forgotten.set(forgotten.get() + 1);
        let mut buf = [0; 4];
        let read = read_twice(open, forget, &mut buf, 0).unwrap();
        assert!(read.is_err() || buf == [7; 4]);
        (read, forgotten.get())
    }

    #[test]
    fn one_failure_is_retried_and_two_are_told() {
        assert!(matches!(with_failures(0), (Ok(4), 0)));
        assert!(matches!(with_failures(1), (Ok(4), 1)));
        let (read, forgotten) = with_failures(2);
        assert_eq!(read.unwrap_err().to_string(), "bad sector");
        assert_eq!(forgotten, 1);
    }

    /// A tensor above 2 GiB: no single request is larger than the system takes, and offsets
    /// above 4 GiB stay whole. The buffer is never touched, so it costs no memory.
    #[test]
    fn large_reads_go_in_parts_that_every_system_takes() {
        struct Huge(RefCell<Vec<(usize, u64)>>);
        impl ReadAt for Huge {
            fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
                self.0.borrow_mut().push((buf.len(), offset));
                Ok(buf.len())
            }
        }
        let (huge, start) = (Huge(RefCell::default()), (4 << 30) + 7);
        let mut buf = vec![0; (2 << 30) + 5];
        assert_eq!(read_full(&huge, &mut buf, start).unwrap(), buf.len());
        let gib = 1 << 30;
        let wanted = [(gib, start), (gib, start + (1 << 30)), (5, start + (2 << 30))];
        assert_eq!(*huge.0.borrow(), wanted);
    }
}
