//! Bytes of a file in the making that its map says nothing of: what was on its way when a process was ended, or was
//! taken back and not freed.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use deltafin_store::hole::make_hole;
use rustix::fs::{SeekFrom, seek};

use crate::folder;
use crate::listing::RemoteFile;
use crate::map::Map;

/// How many there are, in whole blocks of the file system; none where the file has no map.
///
/// The folder must be locked: else what is on its way is taken for such bytes.
pub(crate) fn bytes(dir: &Path, file: &RemoteFile) -> io::Result<u64> {
    let part = File::open(folder::part_path(dir, &file.name))?;
    Ok(ranges(dir, file, &part)?.iter().map(|range| range.end - range.start).sum())
}

/// Gives their room back. The folder must be locked.
pub(crate) fn free(dir: &Path, file: &RemoteFile) -> io::Result<()> {
    let part = folder::part_path(dir, &file.name);
    let part = OpenOptions::new().read(true).write(true).open(part)?;
    ranges(dir, file, &part)?.into_iter().try_for_each(|range| make_hole(&part, range))
}

/// The data of a file without the blocks that its map speaks of.
fn ranges(dir: &Path, file: &RemoteFile, part: &File) -> io::Result<Vec<Range<u64>>> {
    let Some(known) = Map::read(&folder::map_path(dir, &file.name), file)? else {
        return Ok(Vec::new());
    };
    let block = part.metadata()?.blksize().max(512);
    let noted = known.pieces.iter().map(|(offset, (bytes, _))| *offset..offset + bytes);
    outside(part, block, noted)
}

/// The data of a file without the blocks that these ranges, in the order of their first bytes, lie in.
pub(crate) fn outside(
    file: &File,
    block: u64,
    ranges: impl Iterator<Item = Range<u64>>,
) -> io::Result<Vec<Range<u64>>> {
    let end = file.metadata()?.len().next_multiple_of(block);
    let (mut strays, mut from) = (Vec::new(), 0);
    for range in ranges.chain(std::iter::once(end..end)) {
        strays.extend(data(file, from..range.start / block * block, block)?);
        from = from.max(range.end.next_multiple_of(block));
    }
    Ok(strays)
}

/// Where within a range, in whole blocks, a file has data.
fn data(file: &File, within: Range<u64>, block: u64) -> io::Result<Vec<Range<u64>>> {
    let mut found = Vec::new();
    let mut from = within.start;
    while from < within.end {
        let begin = match seek(file, SeekFrom::Data(from)) {
            Ok(begin) => begin / block * block,
            // There is none up to the end.
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = seek(file, SeekFrom::Hole(begin.max(from)))?.next_multiple_of(block);
        let range = begin.max(from)..end.min(within.end);
        from = end.max(from + block);
        if range.start < range.end {
            found.push(range);
        }
    }
    Ok(found)
}
