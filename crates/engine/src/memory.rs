//! How much memory there is and how much we use, where the system tells.

use std::fs;

/// The most memory this process ever had resident, in bytes; `None` where the system does not say.
pub fn peak_resident_bytes() -> Option<u64> {
    proc_field("/proc/self/status", "VmHWM:")
}

/// Memory that could be had now without swapping, in bytes.
pub(crate) fn available_bytes() -> Option<u64> {
    least([proc_field("/proc/meminfo", "MemAvailable:"), group_limit(), address_limit()])
}

/// The most memory this process may ever have, in bytes: the machine's, its control group's or its
/// address space's, whichever is least.
pub(crate) fn usable_bytes() -> Option<u64> {
    least([proc_field("/proc/meminfo", "MemTotal:"), group_limit(), address_limit()])
}

fn least<const N: usize>(limits: [Option<u64>; N]) -> Option<u64> {
    limits.into_iter().flatten().min()
}

fn address_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::As).current
}

/// The limit of this process's control group, of either version.
fn group_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    least([
        group_file(&groups, "", "", "memory.max"),
        group_file(&groups, "memory", "/memory", "memory.limit_in_bytes"),
    ])
}

/// A number in a file of the group that `controller` has in `groups`. Inside a container the path
/// is often that of the host; the group's own files are then at the root.
fn group_file(groups: &str, controller: &str, mount: &str, file: &str) -> Option<u64> {
    let path = groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers.split(',').any(|c| c == controller).then_some(path)
    })?;
    let read = |path: &str| fs::read_to_string(format!("/sys/fs/cgroup{mount}{path}/{file}")).ok();
    read(path.trim_end_matches('/')).or_else(|| read(""))?.trim().parse().ok()
}

/// A field of a Linux status file that is given in kB.
fn proc_field(path: &str, field: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(field))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kb| kb * 1024)
}
