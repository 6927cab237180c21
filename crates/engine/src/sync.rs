//! Plain system calls: one at a time, so that depth comes from threads.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;

use crate::buffer::AlignedBuffer;
use crate::data;
use crate::{Call, Completion, DataEngine, Io};

/// `pread`, `pwrite` and `fdatasync`, each made when it is reaped.
#[derive(Debug)]
pub struct SyncEngine {
    files: Arc<[OwnedFd]>,
    pool: AlignedBuffer,
    block_bytes: usize,
    pool_blocks: u64,
    slice_start: usize,
    pending: Option<Io>,
}

impl SyncEngine {
    /// An engine on open files, with a pool of its own that is filled from `seed`.
    pub fn new(files: Arc<[OwnedFd]>, block_bytes: usize, seed: u64) -> Self {
        let mut pool = AlignedBuffer::new(data::pool_bytes(block_bytes));
        data::fill(&mut pool, seed);
        let pool_blocks = (pool.bytes().len() / block_bytes) as u64;
        Self { files, pool, block_bytes, pool_blocks, slice_start: 0, pending: None }
    }

    #[inline]
    fn call(&mut self, io: Io) -> Result<usize, Errno> {
        let file = &self.files[io.file];
        let block = &mut self.pool.bytes_mut()[self.slice_start..self.slice_start + self.block_bytes];
        match io.call {
            Call::Read => rustix::io::pread(file, block, io.offset_bytes),
            Call::Write => rustix::io::pwrite(file, block, io.offset_bytes),
            Call::Datasync => rustix::fs::fdatasync(file).map(|()| 0),
        }
    }
}

impl DataEngine for SyncEngine {
    fn depth(&self) -> usize {
        1
    }

    #[inline]
    fn buffer(&mut self, _slot: usize, offset_bytes: u64) -> &mut [u8] {
        // The slice follows from the place, so that what lies there can be computed again.
        let slice = offset_bytes / self.block_bytes as u64 % self.pool_blocks;
        self.slice_start = slice as usize * self.block_bytes;
        &mut self.pool.bytes_mut()[self.slice_start..self.slice_start + self.block_bytes]
    }

    #[inline]
    fn queue(&mut self, io: Io) {
        self.pending = Some(io);
    }

    #[inline]
    fn commit(&mut self) -> Result<(), Errno> {
        Ok(())
    }

    #[inline]
    fn reap(&mut self, done: &mut [Completion]) -> Result<usize, Errno> {
        let Some(io) = self.pending.take() else { return Ok(0) };
        let mut result = self.call(io);
        while result == Err(Errno::INTR) {
            result = self.call(io);
        }
        done[0] = Completion { slot: io.slot, result };
        Ok(1)
    }
}
