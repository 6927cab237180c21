//! Memory aligned for direct I/O.

/// Alignment of every buffer: a page, which satisfies the memory alignment of every device that Linux drives.
pub const ALIGNMENT: usize = 4096;

/// A zeroed buffer whose first byte lies on a page boundary.
///
/// A plain vector with room to choose the start in: no `unsafe`, and a page of waste per worker.
#[derive(Debug)]
pub struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// A buffer of `len` bytes.
    pub fn new(len: usize) -> Self {
        let memory = vec![0; len + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, start, len }
    }

    /// All of it.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    /// All of it, to write.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_start_on_a_page() {
        for len in [1, 512, 4096, 1 << 20] {
            let mut buffer = AlignedBuffer::new(len);
            assert_eq!(buffer.bytes().as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(buffer.bytes_mut().len(), len);
        }
    }
}
