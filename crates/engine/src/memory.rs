//! How much memory there is and how much we use, where the system tells.

/// The most memory this process ever had resident, in bytes; `None` where the system does not say.
pub fn peak_resident_bytes() -> Option<u64> {
    proc_field("/proc/self/status", "VmHWM:")
}

/// Memory that could be had now without swapping, in bytes.
pub(crate) fn available_bytes() -> Option<u64> {
    proc_field("/proc/meminfo", "MemAvailable:")
}

/// The machine's memory, in bytes.
pub(crate) fn total_bytes() -> Option<u64> {
    proc_field("/proc/meminfo", "MemTotal:")
}

/// A field of a Linux status file that is given in kB.
fn proc_field(path: &str, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(field))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kb| kb * 1024)
}
