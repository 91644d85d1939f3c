//! What the allocator keeps of memory that was given back to it.
//!
//! The allocator of glibc has an arena for each few threads, and keeps in each up to twice of what the largest freed
//! block had, at most 64 MiB: memory that nobody counts. Each also takes 64 MiB of addresses, touched or not. Where
//! another allocator is, these functions do nothing.

/// Blocks of so many bytes and more come from the system, and go back to it at once.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BYTES: libc::c_int = 128 << 10;

/// From now on large blocks go back to the system as soon as they are freed, and an arena keeps little of the rest at
/// its end. To be called before there are threads.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub fn keep_little() {
    for option in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: the call takes two numbers and locks what it changes; where it refuses, nothing is changed.
        unsafe { libc::mallopt(option, LARGE_BYTES) };
    }
}

/// From now on threads share one arena where the addresses of this process are limited (`ulimit -v`): one for each would
/// take those that weights and states are meant for, and may leave a thread none in the middle of its start, which ends
/// the process. To be called before there are threads.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub fn spare_addresses() {
    use rustix::process::{Resource, getrlimit};
    if getrlimit(Resource::As).current.is_some() {
        // SAFETY: as above.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}

/// Gives back what was freed between blocks that are in use, in all arenas.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub fn give_back() {
    // SAFETY: the call takes a number and locks each arena; it gives back only pages that are in no block.
    unsafe { libc::malloc_trim(0) };
}

/// Nothing here: see the module.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn keep_little() {}

/// Nothing here: see the module.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn spare_addresses() {}

/// Nothing here: see the module.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[cfg(test)]
mod tests {
    use super::*;

    fn resident_bytes() -> u64 {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    /// What was freed below a block that stays would be kept for good.
    #[test]
    fn what_was_freed_in_another_thread_is_no_longer_there() {
        keep_little();
        const BYTES: u64 = 64 << 20;
        let (kept, before) = std::thread::spawn(|| {
            let blocks: Vec<_> = (0..BYTES >> 12).map(|_| vec![1_u8; 4096]).collect();
            let stays = vec![1_u8; 4096];
            let before = resident_bytes();
            drop(blocks);
            (stays, before)
        })
        .join()
        .unwrap();
        give_back();
        let after = resident_bytes();
        assert!(after + BYTES / 2 < before, "{before} and then {after}");
        drop(kept);
    }
}
