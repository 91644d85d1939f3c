//! What the kernel has counted for this process, whatever the process itself believes.

#[cfg(target_os = "macos")]
use std::mem::MaybeUninit;

/// Bytes that came from drives for this process since it started, past the page cache or into it; nothing
/// where the system does not count.
#[cfg(not(target_os = "macos"))]
pub fn bytes_from_drives() -> Option<u64> {
    field(&std::fs::read_to_string("/proc/self/io").ok()?, "read_bytes")
}

/// Bytes that came from drives for this process since it started, past the page cache or into it; nothing
/// where the system does not count.
#[cfg(target_os = "macos")]
#[allow(unsafe_code)]
pub fn bytes_from_drives() -> Option<u64> {
    let mut usage = MaybeUninit::<libc::rusage_info_v2>::zeroed();
    let buffer = usage.as_mut_ptr().cast::<libc::rusage_info_t>();
    // SAFETY: the kernel fills the structure that belongs to this flavour, which is ours and large enough.
    let status = unsafe { libc::proc_pid_rusage(libc::getpid(), libc::RUSAGE_INFO_V2, buffer) };
    // SAFETY: a structure of integers; all bits zero, as it began, is one already.
    (status == 0).then(|| unsafe { usage.assume_init() }.ri_diskio_bytesread)
}

/// Bytes that plain read calls of this process returned since it started, whoever answered them: a drive
/// or the page cache. Reads through a ring are not in it. Nothing where the system does not count.
pub fn bytes_by_calls() -> Option<u64> {
    field(&std::fs::read_to_string("/proc/self/io").ok()?, "rchar")
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.strip_prefix(':')?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_text_is_understood() {
        let text = "rchar: 4292\nwchar: 0\nsyscr: 13\nsyscw: 0\nread_bytes: 8192\n\
                    write_bytes: 0\ncancelled_write_bytes: 0\n";
        assert_eq!(field(text, "read_bytes"), Some(8192));
        assert_eq!(field(text, "rchar"), Some(4292));
        assert_eq!(field(text, "rch"), None);
        assert_eq!(field("rchar: many\n", "rchar"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn calls_are_counted() {
        let before = bytes_by_calls().unwrap();
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(bytes_by_calls().unwrap() - before >= own.len() as u64);
        assert!(bytes_from_drives().is_some());
    }
}
