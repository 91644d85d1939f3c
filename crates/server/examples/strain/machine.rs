//! What the system says about this process. Where it keeps no such files, nothing is known.

use std::fs;
use std::time::Duration;

/// A tick of the kernel's account: a hundredth of a second on every Linux that a program sees.
const TICK: Duration = Duration::from_millis(10);

/// Bytes in memory.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

/// Open files and sockets, the one that counts them included.
pub(crate) fn descriptors() -> usize {
    fs::read_dir("/dev/fd").map_or(0, Iterator::count)
}

/// Processor time of all threads, also of those that have ended.
pub(crate) fn process_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which may have blanks: the state is field 3, and 14 and 15 are the times.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<u32>().ok();
    Some(TICK * (ticks(14)? + ticks(15)?))
}

/// Processor time of the thread that asks.
pub(crate) fn thread_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
