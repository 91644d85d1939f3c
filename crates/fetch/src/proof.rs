//! Whether a file is what the source announced.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// Bytes read at once.
const BLOCK_BYTES: usize = 1 << 20;

/// What a source says of a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The SHA-256 of the file, as a hub gives it for large files.
    Sha256([u8; 32]),
    /// Git's name for the bytes, as a hub gives it for small files.
    GitBlob([u8; 20]),
    /// Nothing: length and entity tag are all there is to hold the bytes against.
    None,
}

impl Proof {
    /// The proof with this name and these hexadecimal digits.
    pub(crate) fn parse(kind: &str, digits: &str) -> Option<Proof> {
        match kind {
            "sha256" => Some(Proof::Sha256(unhex(digits)?)),
            "git" => Some(Proof::GitBlob(unhex(digits)?)),
            _ => None,
        }
    }

    /// Its name and digits, if there is anything.
    pub(crate) fn parts(&self) -> Option<(&'static str, String)> {
        match self {
            Proof::Sha256(digest) => Some(("sha256", hex(digest))),
            Proof::GitBlob(digest) => Some(("git", hex(digest))),
            Proof::None => None,
        }
    }

    /// Reads a file of `bytes` and says whether it is the one; nothing where nothing can be said.
    pub(crate) fn holds(&self, path: &Path, bytes: u64) -> io::Result<Option<bool>> {
        self.holds_shown(path, bytes, &mut |_| {})
    }

    /// As [`Proof::holds`]; `show` is given the bytes that are read, in their order.
    pub(crate) fn holds_shown(
        &self,
        path: &Path,
        bytes: u64,
        show: &mut dyn FnMut(&[u8]),
    ) -> io::Result<Option<bool>> {
        Ok(match self {
            Proof::Sha256(wanted) => Some(digest(path, Sha256::new(), show)?.as_slice() == wanted),
            Proof::GitBlob(wanted) => {
                let mut hasher = Sha1::new();
                hasher.update(format!("blob {bytes}\0"));
                Some(digest(path, hasher, show)?.as_slice() == wanted)
            }
            Proof::None => None,
        })
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            Some((kind, digits)) => write!(f, "{kind} {digits}"),
            None => f.write_str("no digest"),
        }
    }
}

fn digest<D: sha2::Digest>(
    path: &Path,
    mut hasher: D,
    show: &mut dyn FnMut(&[u8]),
) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match file.read(&mut block) {
            Ok(0) => return Ok(hasher.finalize().to_vec()),
            Ok(got) => {
                hasher.update(&block[..got]);
                show(&block[..got]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// So many bytes from hexadecimal digits.
pub(crate) fn unhex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let digits = digits.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_digests() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"hello\n").unwrap();
        let git = Proof::parse("git", "ce013625030ba8dba906f756967f9e9ca394464a").unwrap();
        assert_eq!(git.holds(file.path(), 6).unwrap(), Some(true));
        let digits = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        let sha = Proof::parse("sha256", digits).unwrap();
        assert_eq!(sha.holds(file.path(), 6).unwrap(), Some(true));
        assert_eq!(sha.parts(), Some(("sha256", digits.to_owned())));
        std::fs::write(file.path(), b"hellO\n").unwrap();
        assert_eq!(sha.holds(file.path(), 6).unwrap(), Some(false));
        assert_eq!(git.holds(file.path(), 6).unwrap(), Some(false));
        assert_eq!(Proof::None.holds(file.path(), 6).unwrap(), None);
    }

    #[test]
    fn digits_that_are_none_are_refused() {
        assert_eq!(unhex::<2>("0g00"), None);
        assert_eq!(unhex::<2>("000"), None);
        assert_eq!(unhex::<2>("é00"), None);
        assert_eq!(unhex::<2>("00fF"), Some([0, 255]));
    }
}
