//! An engine without any I/O: only the cost of the loop itself remains.

use rustix::io::Errno;

use crate::{Completion, DataEngine, Io, PendingBlock};

/// Completes every queued call as soon as it is reaped, at the depth of a ring.
#[derive(Debug)]
pub struct NullEngine {
    block: Box<[u8]>,
    moved: i32,
    /// Completions; the first `queued` of them are valid.
    done: Box<[Completion]>,
    queued: usize,
}

impl NullEngine {
    /// An engine that claims to move blocks of `block_bytes`.
    pub fn new(depth: u32, block_bytes: usize) -> Self {
        Self {
            block: vec![0; block_bytes].into(),
            moved: block_bytes as i32,
            done: vec![Completion { slot: 0, result: 0 }; depth as usize].into(),
            queued: 0,
        }
    }
}

impl DataEngine for NullEngine {
    fn depth(&self) -> u32 {
        self.done.len() as u32
    }

    #[inline]
    fn block_bytes(&self) -> u64 {
        self.block.len() as u64
    }

    #[inline]
    fn draft(&mut self, _: u32) -> PendingBlock<'_> {
        PendingBlock { bytes: &mut self.block, phase_bytes: 0, is_duplicate: false }
    }

    fn block_read(&self, _: u32) -> &[u8] {
        &self.block
    }

    #[inline]
    fn queue(&mut self, io: Io) {
        let result = if io.call.moves() { self.moved } else { 0 };
        self.done[self.queued] = Completion { slot: io.slot, result };
        self.queued += 1;
    }

    #[inline]
    fn reap(&mut self, done: &mut [Completion], _: u64) -> Result<usize, Errno> {
        let count = std::mem::take(&mut self.queued);
        done[..count].copy_from_slice(&self.done[..count]);
        Ok(count)
    }
}
