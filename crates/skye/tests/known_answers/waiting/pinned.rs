//! The beginning of a file, held in memory even if the kernel would give it back.

use std::ffi::c_void;
use std::fs::File;

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// A part of a file that stays in the page cache while this value lives.
///
/// Reading alone is not enough: a kernel that gives back unused pages takes them within seconds.
pub struct Pinned {
    address: *mut c_void,
    length: usize,
}

impl Pinned {
    /// Reads the first `bytes` of `file`, and nothing behind them, and holds them.
    pub fn first(file: &File, bytes: u64) -> Option<Self> {
        let length = usize::try_from(bytes).unwrap();
        if length == 0 {
            return None;
        }
        // SAFETY: a new mapping at an address that the kernel chooses; nothing ever reads or writes through it.
        let mapped = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0)
        };
        let pinned = Self { address: mapped.unwrap(), length };
        // SAFETY: this is the mapping above, whole. The advice changes how much is read around a fault, and no content.
        unsafe { rustix::mm::madvise(pinned.address, length, Advice::Random) }.unwrap();
        // SAFETY: the mapping above, whole; locking changes no byte of it.
        unsafe { rustix::mm::mlock(pinned.address, length) }.unwrap();
        Some(pinned)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: the mapping that this value made, whole, to which nothing refers.
        let _ = unsafe { rustix::mm::munmap(self.address, self.length) };
    }
}
