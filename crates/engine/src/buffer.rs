//! Memory aligned for direct I/O.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::{NonNull, null_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Alignment of every buffer: a page, which satisfies the memory alignment of every device that Linux drives.
pub const ALIGNMENT: usize = 4096;
/// Size of a huge page on most machines. Elsewhere, a buffer is aligned to it in vain.
const HUGE_BYTES: usize = 2 << 20;
/// Size from which on a buffer asks for huge pages.
const HUGE_FROM_BYTES: usize = 1 << 20;

/// A zeroed buffer whose first byte lies on a page boundary.
///
/// A large one asks for huge pages. A block is then one piece of memory, and not one per page. Requests to many devices
/// hold 128 pieces at most (`queue/max_segments`), so the kernel would have to split each block of 1 MiB.
///
/// Parts of it can be used while the kernel reads or writes other parts: no reference to the whole is made for them.
#[derive(Debug)]
pub struct AlignedBuffer {
    memory: NonNull<u8>,
    len: usize,
    mapping: NonNull<u8>,
    mapped_len: usize,
}

// SAFETY: it owns its memory, as a boxed slice does. It hands out references only with its own lifetime.
unsafe impl Send for AlignedBuffer {}
// SAFETY: a shared reference allows only reading.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// Returns a zeroed buffer of `len` bytes.
    pub fn new(len: usize) -> Self {
        let nothing = NonNull::dangling();
        if len == 0 {
            return Self { memory: nothing, len, mapping: nothing, mapped_len: 0 };
        }
        let is_huge = len >= HUGE_FROM_BYTES;
        let (alignment, more) = if is_huge { (HUGE_BYTES, HUGE_BYTES) } else { (ALIGNMENT, 0) };
        let layout =
            Layout::from_size_align(len, alignment).expect("a buffer is smaller than the address space");
        let used_len = layout.pad_to_align().size();
        let mapped_len = used_len + more;
        let (access, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: without an address and MAP_FIXED, the kernel chooses a place that nothing else uses.
        let mapping = unsafe { mmap_anonymous(null_mut(), mapped_len, access, private) };
        let mapping = mapping.ok().and_then(|mapping| NonNull::new(mapping.cast::<u8>()));
        let Some(mapping) = mapping else { handle_alloc_error(layout) };
        let offset = mapping.as_ptr().align_offset(alignment);
        // SAFETY: the mapping begins on a page and is longer than `used_len` by a huge page, if that is the alignment.
        let memory = unsafe { mapping.add(offset) };
        if is_huge {
            // SAFETY: these bytes lie within the mapping, and the advice changes no content. Small pages do as well.
            let _ = unsafe { madvise(memory.as_ptr().cast(), used_len, Advice::LinuxHugepage) };
        }
        Self { memory, len, mapping, mapped_len }
    }

    /// The whole buffer.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.part(0, self.len)
    }

    /// The whole buffer, to write.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.part_mut(0, self.len)
    }

    /// Returns `len` bytes from `start` on.
    ///
    /// # Panics
    /// If that part is not within the buffer.
    #[inline]
    pub fn part(&self, start: usize, len: usize) -> &[u8] {
        let start = self.place(start, len);
        // SAFETY: `place` has checked that these bytes lie within the memory. The memory is initialised and lives as
        // long as `self`. No one writes these bytes through `self` meanwhile.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// Returns `len` bytes from `start` on, to write.
    ///
    /// # Panics
    /// If that part is not within the buffer.
    #[inline]
    pub fn part_mut(&mut self, start: usize, len: usize) -> &mut [u8] {
        let start = self.place(start, len);
        // SAFETY: as in `part`; in addition, `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }

    /// Address of a part, for the kernel to write to.
    ///
    /// # Panics
    /// If that part is not within the buffer.
    #[inline]
    pub fn place(&self, start: usize, len: usize) -> *mut u8 {
        assert!(start <= self.len && len <= self.len - start, "a part lies within its buffer");
        self.memory.as_ptr().wrapping_add(start)
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        if self.mapped_len > 0 {
            // SAFETY: `new` made this mapping, and no one uses it again.
            let _ = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapped_len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_start_on_a_page() {
        for len in [1, 512, 4096, 1 << 20, 5 << 20] {
            let mut buffer = AlignedBuffer::new(len);
            assert_eq!(buffer.bytes().as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(buffer.bytes_mut().len(), len);
            assert!(buffer.bytes().iter().all(|byte| *byte == 0));
            buffer.part_mut(len - 1, 1)[0] = 7;
            assert_eq!(buffer.part(len - 1, 1), [7]);
        }
        assert!(AlignedBuffer::new(0).bytes().is_empty());
    }

    #[test]
    #[should_panic(expected = "within its buffer")]
    fn nothing_lies_outside() {
        AlignedBuffer::new(512).part(500, 13);
    }
}
