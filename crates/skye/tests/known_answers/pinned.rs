//! The beginning of a file, held in memory whatever the kernel would rather have given back.

use std::ffi::c_void;
use std::fs::File;

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// While it lives, these bytes are in the page cache.
///
/// What was only read is not enough: a kernel that gives back what nobody uses takes such pages within seconds.
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
        // SAFETY: the mapping above, whole; the advice changes how much is read around a fault, and nothing that it
        // says.
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
