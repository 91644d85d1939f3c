//! Parts of a file that take no room.

use std::fs::File;
use std::io;
use std::ops::Range;

/// Gives the room of these bytes of a file back to its drive; they read as zeros afterwards, and the file
/// is as long as before. What shares a block of the file system with other bytes may keep its room.
///
/// # Errors
/// Where the file system has no holes, among others.
#[cfg(target_os = "linux")]
pub fn make_hole(file: &File, bytes: Range<u64>) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let length = bytes.end.saturating_sub(bytes.start);
    Ok(rustix::io::retry_on_intr(|| fallocate(file, flags, bytes.start, length))?)
}

/// Gives the room of these bytes of a file back to its drive; they read as zeros afterwards, and the file
/// is as long as before. What shares a block of the file system with other bytes stays as it is.
///
/// # Errors
/// Where the file system has no holes, among others.
#[cfg(target_os = "macos")]
#[allow(unsafe_code)]
pub fn make_hole(file: &File, bytes: Range<u64>) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;
    let meta = file.metadata()?;
    let Some(bytes) = whole_blocks(&bytes, meta.blksize(), meta.len()) else { return Ok(()) };
    let signed = |number: u64| libc::off_t::try_from(number).map_err(io::Error::other);
    let hole = libc::fpunchhole_t {
        fp_flags: 0,
        reserved: 0,
        fp_offset: signed(bytes.start)?,
        fp_length: signed(bytes.end.saturating_sub(bytes.start))?,
    };
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the kernel only reads the structure.
    let status = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PUNCHHOLE, &raw const hole) };
    if status == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The blocks of a file of this length that have nothing but these bytes; nothing where there is none. The last block
/// of a file may be shorter.
#[cfg(any(target_os = "macos", test))]
fn whole_blocks(bytes: &Range<u64>, block: u64, file_bytes: u64) -> Option<Range<u64>> {
    let block = block.max(512);
    let begin = bytes.start.checked_next_multiple_of(block)?;
    let end = match bytes.end >= file_bytes {
        true => file_bytes.checked_next_multiple_of(block)?,
        false => bytes.end / block * block,
    };
    (begin < end).then_some(begin..end)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};

    use super::*;

    #[test]
    fn only_whole_blocks_make_room_where_the_system_wants_such() {
        let of = |bytes: Range<u64>| whole_blocks(&bytes, 4096, 10_000);
        assert_eq!(of(0..4096), Some(0..4096));
        assert_eq!(of(1..9000), Some(4096..8192));
        assert_eq!(of(4096..10_000), Some(4096..12_288), "the last block is the file's end");
        assert_eq!(of(1..4096), None);
        assert_eq!(of(5000..8191), None);
        assert_eq!(of(u64::MAX - 1..u64::MAX), None);
    }

    #[test]
    fn a_hole_takes_no_room_and_its_neighbours_stay() {
        // On the drive that the build is on.
        let mut path = std::env::current_exe().unwrap();
        path.set_file_name(format!("hole-{}", std::process::id()));
        let options =
            File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = options.unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all_at(&vec![7; 1 << 20], 0).unwrap();
        file.sync_all().unwrap();
        let before = file.metadata().unwrap().blocks();
        make_hole(&file, 4096..1 << 19).unwrap();
        let after = file.metadata().unwrap();
        assert!(after.blocks() < before && after.len() == 1 << 20);
        let mut bytes = vec![1; 1 << 20];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(
            bytes
                .iter()
                .enumerate()
                .all(|(at, byte)| { *byte == if (4096..1 << 19).contains(&at) { 0 } else { 7 } })
        );
    }
}
