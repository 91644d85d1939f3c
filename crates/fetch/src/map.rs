//! What of a file is here: one line for each piece, written after the bytes it speaks of.
//!
//! A process that is killed loses at most the lines of pieces that it had not finished. A line that was not
//! written whole ends the map there. Bytes are read back and held against their digests before a map
//! is believed again, so that a drive that forgot them, with the power, is found out.
//!
//! Where room is made, a line takes back what an earlier one noted; it is on the drive before the bytes go.
//! A map of the first version has no such lines. It gets the second one's number with the first of them,
//! so that no program takes for here what is not.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Proof;
use crate::cut::{PAGE_BYTES, Piece};
use crate::listing::RemoteFile;
use crate::proof::{hex, unhex};

/// Begins the file.
const HEAD: &str = "deltafin map 1";
/// Begins one that says what was freed or is gone, too: a program that knows no such state is not to go by it.
const HEAD_FREED: &str = "deltafin map 2";
/// Begins one of a shard that lies layer by layer: its lines of experts say in which layer's file, and where.
const HEAD_LAYERED: &str = "deltafin map 3";
/// Where these differ.
pub(crate) const VERSION_AT: u64 = HEAD.len() as u64 - 1;
/// The digit that is there in the second.
pub(crate) const VERSION: &[u8] = b"2";
/// Says that a piece was here, and that what it was is in a pack.
const FREED: &str = "freed ";
/// Says that a piece is here no more.
const GONE: &str = "gone ";
/// Says what server calls the state of the file that the pieces are from.
const TAG: &str = "tag ";
/// Says that the whole file is what the source announced.
const PROVEN: &str = "proven";
/// A longer one is none of ours: K3 has fewer than a thousand pieces in a shard.
pub(crate) const MAP_BYTES_MAX: u64 = 1 << 28;

/// A BLAKE3 digest.
pub(crate) type Digest = [u8; 32];

/// What is known of a file's bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Length and digest of the pieces that are here, by their first byte.
    pub(crate) pieces: BTreeMap<u64, (u64, Digest)>,
    /// The same of pieces whose bytes were given back to the drive when a pack of them was made. Of one that
    /// came again since, this is what the pack was made of.
    pub(crate) freed: BTreeMap<u64, (u64, Digest)>,
    /// How often a piece was taken away, by its first byte.
    pub(crate) gone: BTreeMap<u64, u64>,
    /// Whether what is here lies layer by layer.
    pub(crate) is_layered: bool,
    /// Where experts lie then, by their first byte in the shard.
    pub(crate) slots: BTreeMap<u64, Slot>,
    /// What the server calls them.
    pub(crate) tag: Option<String>,
    /// Whether the file is proven.
    pub(crate) proven: bool,
}

/// Where an expert lies that is in the file of its layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The layer.
    pub(crate) layer: u32,
    /// Its first byte there.
    pub(crate) at: u64,
}

impl Known {
    /// Bytes of all pieces that are here.
    pub(crate) fn bytes(&self) -> u64 {
        self.pieces.values().map(|piece| piece.0).sum()
    }

    /// How often it changed whether a piece is here: an odd number where it is.
    pub(crate) fn turns(&self, piece: &Piece) -> u64 {
        2 * self.gone.get(&piece.offset).copied().unwrap_or(0) + u64::from(self.has(piece))
    }

    /// Whether a piece is here.
    pub(crate) fn has(&self, piece: &Piece) -> bool {
        self.lists(piece) || self.proven && !self.freed.contains_key(&piece.offset)
    }

    fn lists(&self, piece: &Piece) -> bool {
        self.pieces.get(&piece.offset).is_some_and(|known| known.0 == piece.bytes)
    }

    /// Whether a piece was here, and is in a pack since.
    pub(crate) fn is_freed(&self, piece: &Piece) -> bool {
        let was_here = self.freed.get(&piece.offset).is_some_and(|known| known.0 == piece.bytes);
        was_here && !self.lists(piece)
    }

    /// Whether the byte at an offset is here.
    pub(crate) fn covers(&self, offset: u64) -> bool {
        let at = |pieces: &BTreeMap<u64, (u64, Digest)>| {
            let before = pieces.range(..=offset).next_back();
            before.is_some_and(|(first, piece)| offset < first + piece.0)
        };
        at(&self.pieces) || self.proven && !at(&self.freed)
    }

    /// First byte, length and digest of what was here, and is in a pack since.
    pub(crate) fn holes(&self) -> impl Iterator<Item = (u64, u64, Digest)> {
        let holes = self.freed.iter().filter(|(at, _)| !self.pieces.contains_key(at));
        holes.map(|(at, (bytes, digest))| (*at, *bytes, *digest))
    }

    /// Bytes of all of them.
    pub(crate) fn hole_bytes(&self) -> u64 {
        self.holes().map(|(_, bytes, _)| bytes).sum()
    }
}

/// Which file a map is of.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Of {
    name: String,
    bytes: u64,
    proof: Option<String>,
}

impl Of {
    fn file(file: &RemoteFile) -> Of {
        let proof = file.proof.parts().map(|(kind, digits)| format!("{kind} {digits}"));
        Of { name: file.name.clone(), bytes: file.bytes, proof }
    }

    fn into_file(self) -> Option<RemoteFile> {
        let proof = match self.proof.as_deref().map(|proof| proof.split_once(' ')) {
            None => Proof::None,
            Some(kind_and_digits) => kind_and_digits.and_then(|(k, d)| Proof::parse(k, d))?,
        };
        Some(RemoteFile { name: self.name, bytes: self.bytes, proof })
    }
}

/// The map of one file, on the drive.
#[derive(Debug)]
pub(crate) struct Map {
    path: PathBuf,
    known: Known,
    out: Option<File>,
}

impl Map {
    /// What a map says of a file; nothing where it is of another one or is not there.
    pub(crate) fn read(path: &Path, file: &RemoteFile) -> io::Result<Option<Known>> {
        match fs::metadata(path) {
            Ok(meta) if meta.len() <= MAP_BYTES_MAX => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(parse(&fs::read(path)?, file))
    }

    /// The file that a map is of, and what it says of that; nothing where it is no map.
    pub(crate) fn read_any(path: &Path) -> io::Result<Option<(RemoteFile, Known)>> {
        if fs::metadata(path)?.len() > MAP_BYTES_MAX {
            return Ok(None);
        }
        let bytes = fs::read(path)?;
        let of = bytes.split(|byte| *byte == b'\n').nth(1);
        let file = of.and_then(|of| serde_json::from_slice::<Of>(of).ok()?.into_file());
        Ok(file.and_then(|file| Some((file.clone(), parse(&bytes, &file)?))))
    }

    /// A map with this in it, in place of any that is there.
    pub(crate) fn create(path: &Path, file: &RemoteFile, known: Known) -> io::Result<Map> {
        let new = path.with_extension("map.new");
        let mut out = File::create(&new)?;
        out.write_all(text(file, &known)?.as_bytes())?;
        out.sync_all()?;
        fs::rename(&new, path)?;
        let out = OpenOptions::new().append(true).open(path)?;
        Ok(Map { path: path.to_owned(), known, out: Some(out) })
    }

    /// What is known.
    pub(crate) fn known(&self) -> &Known {
        &self.known
    }

    /// The file of the map.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Notes a piece whose bytes are written.
    pub(crate) fn note(&mut self, piece: Piece, digest: Digest) -> io::Result<()> {
        self.append(&piece_line(piece.offset, piece.bytes, &digest))?;
        self.known.pieces.insert(piece.offset, (piece.bytes, digest));
        Ok(())
    }

    /// Notes what the server calls the file.
    pub(crate) fn note_tag(&mut self, tag: &str) -> io::Result<()> {
        self.append(&tag_line(tag))?;
        self.known.tag = Some(tag.to_owned());
        Ok(())
    }

    /// Notes that the file is proven, for good.
    pub(crate) fn note_proven(&mut self) -> io::Result<()> {
        self.append(&format!("{PROVEN}\n"))?;
        self.known.proven = true;
        self.out.as_ref().map_or(Ok(()), File::sync_all)
    }

    fn append(&mut self, line: &str) -> io::Result<()> {
        match &mut self.out {
            Some(out) => out.write_all(line.as_bytes()),
            None => Ok(()),
        }
    }
}

/// What is known, as a map says it.
pub(crate) fn text(file: &RemoteFile, known: &Known) -> io::Result<String> {
    let of = serde_json::to_string(&Of::file(file)).map_err(io::Error::other)?;
    let head = match (known.is_layered, known.freed.is_empty()) {
        (true, _) => HEAD_LAYERED,
        (false, true) => HEAD,
        (false, false) => HEAD_FREED,
    };
    let mut text = format!("{head}\n{of}\n");
    if let Some(tag) = &known.tag {
        text.push_str(&tag_line(tag));
    }
    for (offset, (bytes, digest)) in &known.pieces {
        text.push_str(&match known.slots.get(offset) {
            Some(slot) => slotted_line(*offset, *bytes, digest, *slot),
            None => piece_line(*offset, *bytes, digest),
        });
    }
    for (offset, (bytes, digest)) in &known.freed {
        text.push_str(FREED);
        text.push_str(&piece_line(*offset, *bytes, digest));
    }
    if known.proven {
        text.push_str(PROVEN);
        text.push('\n');
    }
    Ok(text)
}

/// The line that notes what the server calls the file.
pub(crate) fn tag_line(tag: &str) -> String {
    format!("{TAG}{}\n", serde_json::Value::from(tag))
}

/// The line that notes a piece.
pub(crate) fn piece_line(offset: u64, bytes: u64, digest: &Digest) -> String {
    format!("{offset} {bytes} {}\n", hex(digest))
}

/// The line that notes a piece that lies in the file of its layer.
pub(crate) fn slotted_line(offset: u64, bytes: u64, digest: &Digest, slot: Slot) -> String {
    format!("{offset} {bytes} {} {} {}\n", hex(digest), slot.layer, slot.at)
}

/// The line that notes that a piece is here no more.
pub(crate) fn gone_line(offset: u64) -> String {
    format!("{GONE}{offset}\n")
}

/// What a map's bytes say of a file; nothing where they are of another one, or no map.
pub(crate) fn parse(bytes: &[u8], file: &RemoteFile) -> Option<Known> {
    let (begin, is_layered) = begin_of_lines(bytes, file)?;
    let mut known = Known { is_layered, ..Known::default() };
    take_lines(&mut known, &bytes[begin..], file.bytes);
    Some(known)
}

/// Where what is noted begins in a map, and whether what is here lies layer by layer; nothing where it is of another
/// file, or no map.
pub(crate) fn begin_of_lines(bytes: &[u8], file: &RemoteFile) -> Option<(usize, bool)> {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let (head, of) = (lines.next()?, lines.next()?);
    let head_line = head.strip_suffix(b"\n")?;
    let heads = [HEAD, HEAD_FREED, HEAD_LAYERED].map(str::as_bytes);
    let is_layered = head_line == HEAD_LAYERED.as_bytes();
    let is_of = serde_json::from_slice::<Of>(of.strip_suffix(b"\n")?).ok()? == Of::file(file);
    (heads.contains(&head_line) && is_of).then_some((head.len() + of.len(), is_layered))
}

/// Takes up what is noted, as far as lines are whole; gives how many bytes these have.
pub(crate) fn take_lines(known: &mut Known, bytes: &[u8], file_bytes: u64) -> usize {
    let mut taken = 0;
    for whole in bytes.split_inclusive(|byte| *byte == b'\n') {
        let line = whole.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok());
        if line.and_then(|line| note(known, line, file_bytes)).is_none() {
            break;
        }
        taken += whole.len();
    }
    taken
}

fn note(known: &mut Known, line: &str, file_bytes: u64) -> Option<()> {
    if line == PROVEN {
        known.proven = true;
        return Some(());
    }
    if let Some(tag) = line.strip_prefix(TAG) {
        known.tag = Some(serde_json::from_str(tag).ok()?);
        return Some(());
    }
    if let Some(offset) = line.strip_prefix(GONE) {
        let offset = offset.parse().ok()?;
        // Noted of what was here; two processes may have taken it for that.
        if known.pieces.remove(&offset).is_some() {
            known.slots.remove(&offset);
            *known.gone.entry(offset).or_default() += 1;
        }
        return Some(());
    }
    let (is_freed, line) = match line.strip_prefix(FREED) {
        Some(line) => (true, line),
        None => (false, line),
    };
    let mut words = line.split(' ');
    let (offset, bytes): (u64, u64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let digest = unhex(words.next()?)?;
    let slot = match words.next() {
        Some(layer) if known.is_layered && !is_freed => Some(Slot {
            layer: layer.parse().ok()?,
            at: words.next()?.parse().ok().filter(|at| is_place(*at, offset, bytes))?,
        }),
        Some(_) => return None,
        None => None,
    };
    if bytes == 0 || offset.checked_add(bytes)? > file_bytes || words.next().is_some() {
        return None;
    }
    if is_freed {
        known.freed.insert(offset, (bytes, digest));
        return Some(());
    }
    known.pieces.insert(offset, (bytes, digest));
    match slot {
        Some(slot) => known.slots.insert(offset, slot),
        None => known.slots.remove(&offset),
    };
    Some(())
}

/// Whether bytes from an offset of a shard may lie there in another file.
fn is_place(at: u64, offset: u64, bytes: u64) -> bool {
    let end = at.checked_add(bytes);
    at % PAGE_BYTES == offset % PAGE_BYTES && end.is_some_and(|end| end <= i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cut::Owner;

    fn file() -> RemoteFile {
        RemoteFile { name: "a b.json".to_owned(), bytes: 100, proof: Proof::GitBlob([7; 20]) }
    }

    fn piece(offset: u64, bytes: u64) -> Piece {
        Piece { offset, bytes, owner: Owner::File }
    }

    #[test]
    fn what_was_noted_is_read_again_and_a_torn_line_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.map");
        assert_eq!(Map::read(&path, &file()).unwrap(), None);
        let mut map = Map::create(&path, &file(), Known::default()).unwrap();
        map.note(piece(0, 8), [1; 32]).unwrap();
        map.note_tag("\"x\ny\"").unwrap();
        map.note(piece(8, 92), [2; 32]).unwrap();
        let known = map.known().clone();
        assert_eq!(Map::read(&path, &file()).unwrap(), Some(known.clone()));
        // Written anew, it says the same.
        Map::create(&path, &file(), known.clone()).unwrap();
        assert_eq!(Map::read(&path, &file()).unwrap(), Some(known));
        let whole = fs::read(&path).unwrap();
        let mut pieces = Vec::new();
        for cut in 0..whole.len() {
            let known = parse(&whole[..cut], &file());
            pieces.push(known.map_or(0, |known| known.pieces.len()));
        }
        assert!(pieces.is_sorted() && pieces.contains(&1) && !pieces.contains(&2));
        map.note_proven().unwrap();
    }

    #[test]
    fn what_was_freed_is_told_from_what_is_here_and_from_what_never_was() {
        let (mut known, here) = (Known { proven: true, ..Known::default() }, piece(0, 8));
        let (freed, other) = (piece(8, 50), piece(58, 42));
        known.pieces.insert(0, (8, [1; 32]));
        known.freed.insert(8, (50, [2; 32]));
        let text = text(&file(), &known).unwrap();
        assert!(
            text.starts_with("deltafin map 2\n") && text.contains("\nfreed 8 50 0202"),
            "{text}"
        );
        let mut known = parse(text.as_bytes(), &file()).unwrap();
        let has = |known: &Known| [&here, &freed, &other].map(|piece| known.has(piece));
        assert_eq!((has(&known), known.hole_bytes()), ([true, false, true], 50));
        assert!(known.is_freed(&freed) && !known.is_freed(&here));
        known.proven = false;
        assert_eq!(has(&known), [true, false, false]);
        // It came again: what the pack was made of stays known.
        known.pieces.insert(8, (50, [3; 32]));
        assert!(known.has(&freed) && !known.is_freed(&freed) && known.hole_bytes() == 0);
        assert_eq!(parse(super::text(&file(), &known).unwrap().as_bytes(), &file()), Some(known));
    }

    #[test]
    fn what_is_gone_is_here_no_more_until_it_comes_again() {
        let line = piece_line(8, 20, &[3; 32]);
        let of = text(&file(), &Known::default()).unwrap();
        let known =
            |lines: &[&str]| parse((of.clone() + &lines.concat()).as_bytes(), &file()).unwrap();
        let gone = gone_line(8);
        let turns = |lines: &[&str]| known(lines).turns(&piece(8, 20));
        assert_eq!(turns(&[]), 0);
        assert_eq!(turns(&[&line]), 1);
        assert_eq!(turns(&[&line, &line]), 1);
        assert_eq!(turns(&[&line, &gone]), 2);
        assert_eq!(turns(&[&line, &gone, &gone]), 2);
        assert_eq!(turns(&[&line, &gone, &line]), 3);
        let second = of.replace(HEAD, HEAD_FREED) + &line;
        assert!(parse(second.as_bytes(), &file()).unwrap().has(&piece(8, 20)));
        assert_eq!(parse(of.replace(HEAD, "deltafin map 4").as_bytes(), &file()), None);
        assert_eq!(&HEAD_FREED.as_bytes()[VERSION_AT as usize..], VERSION);
    }

    #[test]
    fn where_an_expert_lies_is_read_as_it_was_written() {
        let mut known = Known { is_layered: true, ..Known::default() };
        known.pieces.extend([(8, (20, [3; 32])), (40, (9, [4; 32]))]);
        known.slots.insert(40, Slot { layer: 7, at: 4096 + 40 });
        let written = text(&file(), &known).unwrap();
        assert_eq!(parse(written.as_bytes(), &file()), Some(known));
        let head = text(&file(), &Known { is_layered: true, ..Known::default() }).unwrap();
        let line = |offset, at| slotted_line(offset, 9, &[4; 32], Slot { layer: 7, at });
        let read = |lines: &str| parse((head.clone() + lines).as_bytes(), &file()).unwrap();
        assert_eq!(read(&line(40, 40)).slots[&40], Slot { layer: 7, at: 40 });
        assert_eq!(read(&(line(40, 40) + &line(40, 8232))).slots[&40].at, 8232, "it came again");
        let gone = read(&(line(40, 40) + &gone_line(40)));
        assert!(gone.pieces.is_empty() && gone.slots.is_empty());
        // Where reads past the page cache would not find it, after the end of all files, or half a line.
        for wrong in [
            line(40, 41),
            line(40, u64::MAX / 4096 * 4096 + 40),
            line(40, 40).replace(" 40\n", "\n"),
        ] {
            assert!(read(&wrong).pieces.is_empty(), "{wrong}");
        }
        let plain = head.replace(HEAD_LAYERED, HEAD) + &line(40, 40);
        assert!(parse(plain.as_bytes(), &file()).unwrap().pieces.is_empty());
    }

    #[test]
    fn a_map_of_another_file_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.map");
        Map::create(&path, &file(), Known::default()).unwrap();
        for other in [
            RemoteFile { bytes: 101, ..file() },
            RemoteFile { proof: Proof::None, ..file() },
            RemoteFile { name: "b.json".to_owned(), ..file() },
        ] {
            assert_eq!(Map::read(&path, &other).unwrap(), None);
        }
        for line in [
            "0 101 00",
            "18446744073709551615 1 00",
            "0 0 00",
            "x",
            "0 8",
            "tag x",
            "gone",
            "gone x",
        ] {
            let digits = line.replace(" 00", &format!(" {}", "00".repeat(32)));
            assert_eq!(note(&mut Known::default(), &digits, 100), None, "{line}");
        }
    }
}
