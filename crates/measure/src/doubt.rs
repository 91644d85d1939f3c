//! Why a measured drive may not have been the drive.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use deltafin_checkpoint::Span;
use deltafin_store::Store;
use deltafin_store::drive::IoMode;
use rustix::fs::SeekFrom;
use serde::Serialize;

/// A reason to think that something faster than the drive has answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// The files are kept in memory.
    MemoryFiles,
    /// Reads went through the page cache, which may have had the bytes.
    PageCache,
    /// The files have holes, which no drive is asked for.
    Holes {
        /// Of the bytes that were read, those in holes.
        share: f64,
    },
    /// The drive was much slower at times than at others.
    Disturbed {
        /// The slowest and the fastest stretch, in 10^9 bytes per second.
        between_gbps: [f64; 2],
    },
    /// The system counts fewer bytes as read from a drive than were read.
    Uncounted {
        /// Of the bytes that were read, those it counts.
        share: f64,
    },
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::MemoryFiles => f.write_str("these files are kept in memory, not on a drive"),
            Doubt::PageCache => {
                f.write_str("reads go through the page cache here: memory may have answered")
            }
            Doubt::Holes { share } => write!(
                f,
                "{:.0} % of what was read are holes in sparse files, which no drive is asked for",
                100.0 * share
            ),
            Doubt::Disturbed { between_gbps: [least, most] } => {
                write!(f, "between {least:.2} and {most:.2} GB/s; something else uses the drive")
            }
            Doubt::Uncounted { share } => write!(
                f,
                "the system counts {:.0} % of what was read as read from a drive: memory may have answered",
                100.0 * share
            ),
        }
    }
}

/// Shares below this are borders of records and bytes that came along.
const NOTABLE: f64 = 0.05;

/// Everything there is to doubt about reads of `spans` in `mode`, of which the system counted
/// `counted` bytes.
pub(crate) fn about(
    store: &dyn Store,
    spans: &[Span],
    mode: IoMode,
    counted: Option<u64>,
) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let in_memory = |span: &Span| store.file(span.shard()).is_none_or(|f| is_memory(f.path()));
    if spans.iter().any(in_memory) {
        doubts.push(Doubt::MemoryFiles);
        return doubts;
    }
    if mode == IoMode::Buffered {
        doubts.push(Doubt::PageCache);
    }
    let bytes: u64 = spans.iter().map(|span| span.len()).sum();
    let of_all = |part: u64| part as f64 / bytes.max(1) as f64;
    let holes = of_all(spans.iter().map(|span| hole_bytes(store, *span)).sum());
    if holes > NOTABLE {
        doubts.push(Doubt::Holes { share: holes });
    }
    let share = of_all(counted.unwrap_or(bytes));
    // Bytes in holes are never counted: one reason is enough.
    if share < 1.0 - NOTABLE && holes <= NOTABLE {
        doubts.push(Doubt::Uncounted { share });
    }
    doubts
}

/// Bytes that this process had read from drives so far, where the system tells.
pub(crate) fn counted_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.trim().parse().ok()
}

fn hole_bytes(store: &dyn Store, span: Span) -> u64 {
    let file = store.file(span.shard()).map(|file| File::open(file.path()));
    let Some(Ok(file)) = file else { return 0 };
    let (mut at, mut holes) = (span.offset(), 0);
    while let Some(start) = seek(&file, SeekFrom::Hole(at)).filter(|start| *start < span.end()) {
        // Behind the last data there is none to seek to.
        let end = seek(&file, SeekFrom::Data(start)).map_or(span.end(), |end| end.min(span.end()));
        holes += end - start;
        at = end;
        if at >= span.end() {
            break;
        }
    }
    holes
}

/// Nothing where there is nothing of the kind, or the file system cannot tell.
fn seek(file: &File, to: SeekFrom) -> Option<u64> {
    rustix::fs::seek(file, to).map_err(io::Error::from).ok()
}

#[cfg(target_os = "linux")]
fn is_memory(path: &Path) -> bool {
    const TMPFS: i128 = 0x0102_1994;
    const RAMFS: i128 = 0x8584_58f6;
    let kind = rustix::fs::statfs(path).map(|system| i128::from(system.f_type));
    // The field is signed on some machines.
    kind.is_ok_and(|kind| [TMPFS, RAMFS].contains(&(kind & 0xffff_ffff)))
}

#[cfg(target_os = "macos")]
fn is_memory(_: &Path) -> bool {
    false
}
