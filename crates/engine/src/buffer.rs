//! Memory aligned for direct I/O.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::{NonNull, null_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Alignment of every buffer: a page, which satisfies the memory alignment of every device that Linux drives.
pub const ALIGNMENT: usize = 4096;
/// Size of a huge page on most machines. Elsewhere, this alignment has no effect.
const HUGE_BYTES: usize = 2 << 20;
/// Smallest buffer that requests huge pages.
const HUGE_FROM_BYTES: usize = 1 << 20;

/// A zeroed buffer that starts on a page boundary.
///
/// A large one requests huge pages. In them, a block has few physical segments instead of one per page. Requests to
/// many devices hold 128 segments at most (`queue/max_segments`), so the kernel would have to split each block of 1
/// MiB.
///
/// Parts of it can be used while the kernel reads or writes other parts: no reference to the whole is made for them.
#[derive(Debug)]
pub struct AlignedBuffer {
    memory: NonNull<u8>,
    len: usize,
    /// Mapping that holds the memory, and its length; `None` if the memory is the allocator's.
    mapping: Option<(NonNull<u8>, usize)>,
}

// SAFETY: it owns its memory, as a boxed slice does. It hands out references only with its own lifetime.
unsafe impl Send for AlignedBuffer {}
// SAFETY: a shared reference allows only reading.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// Returns a zeroed buffer of `len` bytes.
    pub fn new(len: usize) -> Self {
        if let Some(buffer) = (len >= HUGE_FROM_BYTES).then(|| Self::huge(len)).flatten() {
            return buffer;
        }
        let Some(layout) = layout(len) else {
            return Self { memory: NonNull::dangling(), len: 0, mapping: None };
        };
        // SAFETY: the layout is not of size zero.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        Self { memory, len, mapping: None }
    }

    /// Returns a buffer that begins on a huge page; `None` if there is no room for one.
    fn huge(len: usize) -> Option<Self> {
        let used_len = len.checked_next_multiple_of(HUGE_BYTES)?;
        let mapped_len = used_len.checked_add(HUGE_BYTES)?;
        let (access, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: without an address and MAP_FIXED, the kernel chooses a place that nothing else uses.
        let mapping = unsafe { mmap_anonymous(null_mut(), mapped_len, access, private) };
        let mapping = NonNull::new(mapping.ok()?.cast::<u8>())?;
        let offset = mapping.as_ptr().align_offset(HUGE_BYTES);
        // SAFETY: the mapping is longer than `used_len` by a huge page, and `offset` is less than one.
        let memory = unsafe { mapping.add(offset) };
        // SAFETY: these bytes lie within the mapping, and the advice changes no content. If it fails, small pages serve as well.
        let _ = unsafe { madvise(memory.as_ptr().cast(), used_len, Advice::LinuxHugepage) };
        Some(Self { memory, len, mapping: Some((mapping, mapped_len)) })
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

    /// Returns `len` bytes that begin at `start`.
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

    /// Returns `len` bytes that begin at `start`, to write.
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
        assert!(start <= self.len && len <= self.len - start, "a part is within its buffer");
        self.memory.as_ptr().wrapping_add(start)
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        if let Some((mapping, mapped_len)) = self.mapping {
            // SAFETY: `huge` made this mapping, and no one uses it again.
            let _ = unsafe { munmap(mapping.as_ptr().cast(), mapped_len) };
        } else if let Some(layout) = layout(self.len) {
            // SAFETY: `new` allocated the memory with this layout, and no one uses it again.
            unsafe { dealloc(self.memory.as_ptr(), layout) };
        }
    }
}

/// Layout of a buffer of `len` bytes; `None` for an empty one, which needs no memory.
fn layout(len: usize) -> Option<Layout> {
    let layout = Layout::from_size_align(len, ALIGNMENT).expect("a buffer is smaller than the address space");
    (len > 0).then_some(layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_start_on_a_page() {
        for len in [1, 512, 4096, HUGE_FROM_BYTES - 1, HUGE_FROM_BYTES, 5 << 20] {
            let mut buffer = AlignedBuffer::new(len);
            let is_huge = len >= HUGE_FROM_BYTES;
            let alignment = if is_huge { HUGE_BYTES } else { ALIGNMENT };
            assert_eq!(buffer.bytes().as_ptr().align_offset(alignment), 0);
            assert_eq!(buffer.mapping.is_some(), is_huge);
            assert_eq!(buffer.bytes_mut().len(), len);
            assert!(buffer.bytes().iter().all(|byte| *byte == 0));
            buffer.part_mut(len - 1, 1)[0] = 7;
            assert_eq!(buffer.part(len - 1, 1), [7]);
        }
        assert!(AlignedBuffer::new(0).bytes().is_empty());
    }

    #[test]
    #[should_panic(expected = "within its buffer")]
    fn part_beyond_end_panics() {
        AlignedBuffer::new(512).part(500, 13);
    }
}
