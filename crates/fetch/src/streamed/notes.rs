//! A file's map that several processes add to.
//!
//! Lines are added under a lock of the map, one whole line at a time. What a process that was ended in the
//! middle of a line left is cut off before the next one is added: lines after it would not count.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::access::Access;
use crate::cut::Piece;
use crate::listing::RemoteFile;
use crate::map::{self, Digest, Known, Slot};

/// A map, as far as it was read.
#[derive(Debug)]
pub(super) struct Notes {
    path: PathBuf,
    file: File,
    of_bytes: u64,
    known: Known,
    /// Where the lines that were read end.
    read_to: u64,
}

impl Notes {
    /// Reads a map; nothing where it is of another file.
    pub(super) fn open(path: &Path, of: &RemoteFile, access: Access) -> io::Result<Option<Notes>> {
        let file = match OpenOptions::new().read(true).append(access.writes()).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let bytes = rest(&file, 0)?;
        let Some((begin, is_layered)) = map::begin_of_lines(&bytes, of) else { return Ok(None) };
        let (known, read_to) = (Known { is_layered, ..Known::default() }, begin as u64);
        let path = path.to_owned();
        let mut notes = Notes { path, file, of_bytes: of.bytes, known, read_to };
        notes.catch_up()?;
        Ok(Some(notes))
    }

    /// What is known.
    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    /// Reads what was added since; says whether anything was.
    pub(super) fn catch_up(&mut self) -> io::Result<bool> {
        let bytes = rest(&self.file, self.read_to)?;
        let taken = map::take_lines(&mut self.known, &bytes, self.of_bytes) as u64;
        self.read_to += taken;
        Ok(taken > 0)
    }

    /// As [`Notes::catch_up`], past whatever a file system that is shared by machines remembers of the map.
    pub(super) fn catch_up_locked(&mut self) -> io::Result<bool> {
        let is_locked = self.file.lock_shared().is_ok();
        let caught_up = self.catch_up();
        if is_locked {
            self.file.unlock()?;
        }
        caught_up
    }

    /// Notes that a piece is here, for all.
    pub(super) fn note(&mut self, piece: Piece, digest: &Digest) -> io::Result<()> {
        self.add(&map::piece_line(piece.offset, piece.bytes, digest))
    }

    /// Notes that a piece is here, in the file of its layer.
    pub(super) fn note_slotted(
        &mut self,
        piece: Piece,
        digest: &Digest,
        slot: Slot,
    ) -> io::Result<()> {
        self.add(&map::slotted_line(piece.offset, piece.bytes, digest, slot))
    }

    /// Notes what the server calls the file.
    pub(super) fn note_tag(&mut self, tag: &str) -> io::Result<()> {
        self.add(&map::tag_line(tag))
    }

    /// Notes that pieces are here no more. Whoever makes holes syncs the map first.
    pub(super) fn note_gone(&mut self, pieces: impl Iterator<Item = Piece>) -> io::Result<()> {
        if !self.known.is_layered {
            // Not by the file that is open to be added to: that one writes at its end, whatever is said.
            let head = OpenOptions::new().write(true).open(&self.path)?;
            head.write_all_at(map::VERSION, map::VERSION_AT)?;
        }
        self.add(&pieces.map(|piece| map::gone_line(piece.offset)).collect::<String>())
    }

    /// The file, to be synced by somebody who does not keep others from the notes meanwhile.
    pub(super) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    fn add(&mut self, line: &str) -> io::Result<()> {
        // Where there are no locks there is one process, or a line may be lost: its record comes again.
        let is_locked = self.file.lock().is_ok();
        let added = self.add_alone(line);
        if is_locked {
            self.file.unlock()?;
        }
        added
    }

    fn add_alone(&mut self, line: &str) -> io::Result<()> {
        self.catch_up()?;
        let end = self.file.metadata()?.len();
        if end > self.read_to {
            self.file.set_len(self.read_to)?;
        }
        let added = self.file.write_all(line.as_bytes());
        if added.is_err() {
            let _ = self.file.set_len(self.read_to);
        }
        added?;
        self.catch_up().map(|_| ())
    }
}

/// The bytes of a file from an offset on.
fn rest(file: &File, from: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len().saturating_sub(from);
    if length > map::MAP_BYTES_MAX {
        return Err(io::Error::other("its map is too long"));
    }
    let mut bytes = vec![0; length as usize];
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], from + read as u64) {
            Ok(0) => break,
            Ok(got) => read += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Proof;
    use crate::cut::Owner;
    use crate::map::Map;

    fn file() -> RemoteFile {
        RemoteFile { name: "a".to_owned(), bytes: 100, proof: Proof::None }
    }

    fn piece(offset: u64) -> Piece {
        Piece { offset, bytes: 10, owner: Owner::File }
    }

    #[test]
    fn what_one_notes_the_other_sees_and_a_torn_line_harms_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.map");
        Map::create(&path, &file(), Known::default()).unwrap();
        let mut one = Notes::open(&path, &file(), Access::Full).unwrap().unwrap();
        let mut other = Notes::open(&path, &file(), Access::Full).unwrap().unwrap();
        one.note(piece(0), &[1; 32]).unwrap();
        other.note(piece(10), &[2; 32]).unwrap();
        assert_eq!(one.known().pieces.len(), 1);
        one.catch_up().unwrap();
        assert_eq!(one.known(), other.known());
        // A third was ended while it wrote.
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], b"20 10 0303"].concat()).unwrap();
        let mut one = Notes::open(&path, &file(), Access::Full).unwrap().unwrap();
        one.note_tag("x").unwrap();
        one.note(piece(30), &[4; 32]).unwrap();
        let known = Map::read(&path, &file()).unwrap().unwrap();
        assert_eq!(known.pieces.keys().copied().collect::<Vec<_>>(), [0, 10, 30]);
        assert_eq!(known.tag.as_deref(), Some("x"));
        let other = RemoteFile { bytes: 99, ..file() };
        assert!(Notes::open(&path, &other, Access::Full).unwrap().is_none());
        // A map of the version before says that it is of this one as soon as it is needed.
        let first = fs::read_to_string(&path).unwrap().replacen("map 2", "map 1", 1);
        fs::write(&path, first).unwrap();
        let mut one = Notes::open(&path, &file(), Access::Full).unwrap().unwrap();
        one.note_gone([piece(0), piece(30)].into_iter()).unwrap();
        assert!(fs::read_to_string(&path).unwrap().starts_with("deltafin map 2\n"));
        let known = Map::read(&path, &file()).unwrap().unwrap();
        assert_eq!(known.pieces.keys().copied().collect::<Vec<_>>(), [10]);
        assert_eq!((known.turns(&piece(0)), known.turns(&piece(10))), (2, 1));
    }
}
