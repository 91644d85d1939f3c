//! Positional reads that go on until all bytes are there.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The most that is asked of the system at once; some refuse 2 GiB and more.
const CHUNK_BYTES: usize = 1 << 30;

/// One positional read, which may give fewer bytes than asked. Tests put faults behind it.
pub(super) trait ReadAt {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buf, offset)
    }
}

/// Reads until `buf` is full or the file ends; gives the bytes read.
pub(super) fn read_full(
    file: &(impl ReadAt + ?Sized),
    buf: &mut [u8],
    offset: u64,
) -> io::Result<usize> {
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
    use std::cell::RefCell;

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

    #[test]
    fn a_fault_is_a_fault() {
        struct Broken;
        impl ReadAt for Broken {
            fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
                Err(io::Error::other("bad sector"))
            }
        }
        let error = read_full(&Broken, &mut [0; 4], 0).unwrap_err();
        assert_eq!(error.to_string(), "bad sector");
    }
}
