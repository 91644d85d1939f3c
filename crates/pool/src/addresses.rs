//! Whether there are addresses for one more thread.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ptr;

/// A thread's stack, and as much again for what it allocates before it runs and for whoever goes on beside it.
const THREAD_BYTES: usize = 2 * (2 << 20);

/// Looks for them. The system refuses a stack that it has no addresses for, but a thread that has one and lacks them for
/// its signal stack or its first allocation ends the process.
pub(crate) fn are_enough() -> bool {
    are(THREAD_BYTES)
}

fn are(bytes: usize) -> bool {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
    let mapped = unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) };
    let Ok(mapped) = mapped else { return false };
    // SAFETY: the whole of the mapping that was just made, which nobody else knows of.
    unsafe { munmap(mapped, bytes) }.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_some_and_not_any_number() {
        assert!(are_enough());
        assert!(!are(isize::MAX as usize));
    }
}
