//! The mapping under an arena.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};

use rustix::mm::{self, Advice, MapFlags, ProtFlags};

/// A huge page of x86-64 and of aarch64 with 4 KiB pages.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A private anonymous mapping, aligned to a huge page. All zero at first.
#[derive(Debug)]
pub(super) struct Map {
    mapped: NonNull<u8>,
    mapped_len: usize,
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: `Map` owns its mapping, which is tied to no thread; whoever turns its addresses into
// references answers for them.
unsafe impl Send for Map {}
// SAFETY: as above; `Map` itself never reads or writes the bytes.
unsafe impl Sync for Map {}

impl Map {
    /// Maps `len` bytes, a multiple of the huge page, and asks for huge pages.
    pub(super) fn new(len: usize) -> io::Result<Map> {
        // Longer by a huge page, so that an aligned run is inside; what is never touched is free.
        let mapped_len = len.checked_add(HUGE_PAGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let mapped = unsafe { mm::mmap_anonymous(ptr::null_mut(), mapped_len, protection, flags) }?;
        let mapped = NonNull::new(mapped.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let skip = mapped.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: `skip` is less than a huge page, by which the mapping is longer than `len`.
        let base = unsafe { mapped.add(skip) };
        let map = Map { mapped, mapped_len, base, len };
        map.ask_for_huge_pages();
        Ok(map)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Where this byte is.
    ///
    /// # Panics
    /// If the region ends before it.
    pub(super) fn at(&self, start: usize) -> NonNull<u8> {
        assert!(start <= self.len, "byte {start} of a region of {}", self.len);
        // SAFETY: inside the mapping, as was just checked.
        unsafe { self.base.add(start) }
    }

    /// Gives the pages of `range` back to the system. The caller knows that nobody holds a part of
    /// it. On Linux they go at once and read as zero afterwards; elsewhere the system may take them
    /// when it needs them, and until then they stay and keep their bytes. A refusal costs memory,
    /// nothing else.
    pub(super) fn release(&self, range: Range<usize>) {
        assert!(range.end <= self.len);
        #[cfg(target_os = "linux")]
        let advice = Advice::LinuxDontNeed;
        #[cfg(not(target_os = "linux"))]
        let advice = Advice::DontNeed;
        self.advise(range, advice);
    }

    #[cfg(target_os = "linux")]
    fn ask_for_huge_pages(&self) {
        self.advise(0..self.len, Advice::LinuxHugepage);
    }

    /// Elsewhere the system chooses the size of pages.
    #[cfg(not(target_os = "linux"))]
    fn ask_for_huge_pages(&self) {}

    fn advise(&self, range: Range<usize>, advice: Advice) {
        let start = self.at(range.start).as_ptr().cast::<c_void>();
        // SAFETY: the range is inside our mapping. Of the two kinds of advice one changes no
        // byte and the other only bytes that nobody holds.
        let _advice_only = unsafe { mm::madvise(start, range.len(), advice) };
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: this mapping is ours, and everything that pointed into it held the arena.
        let unmapped = unsafe { mm::munmap(self.mapped.as_ptr().cast(), self.mapped_len) };
        debug_assert!(unmapped.is_ok());
    }
}
