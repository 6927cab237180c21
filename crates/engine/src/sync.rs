//! Plain system calls: one at a time, so that depth comes from threads.

use std::ops::Range;
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
    /// Always the same for reads: it stays in the cache, as a program's own would.
    read_block: AlignedBuffer,
    /// What is written; empty where nothing is.
    pool: AlignedBuffer,
    block_bytes: usize,
    pool_blocks: u64,
    pending: Option<Io>,
}

impl SyncEngine {
    /// An engine on open files; one that writes has a pool of its own, filled from `seed`.
    pub fn new(files: Arc<[OwnedFd]>, block_bytes: usize, writes: bool, seed: u64) -> Self {
        let mut pool = AlignedBuffer::new(if writes { data::pool_bytes(block_bytes) } else { 0 });
        data::fill(&mut pool, seed);
        let mut read_block = AlignedBuffer::new(block_bytes);
        // Touched once, so that no page is missing when time counts.
        read_block.bytes_mut().fill(1);
        let pool_blocks = (pool.bytes().len() / block_bytes).max(1) as u64;
        Self { files, read_block, pool, block_bytes, pool_blocks, pending: None }
    }

    /// Where in the pool the block for a place lies.
    #[inline]
    fn slice(&self, offset_bytes: u64) -> Range<usize> {
        let start = (offset_bytes / self.block_bytes as u64 % self.pool_blocks) as usize * self.block_bytes;
        start..start + self.block_bytes
    }

    #[inline]
    fn call(&mut self, io: Io) -> Result<usize, Errno> {
        match io.call {
            Call::Read => {
                rustix::io::pread(&self.files[io.file], self.read_block.bytes_mut(), io.offset_bytes)
            }
            Call::Write => {
                let block = &self.pool.bytes()[self.slice(io.offset_bytes)];
                rustix::io::pwrite(&self.files[io.file], block, io.offset_bytes)
            }
            Call::Datasync => rustix::fs::fdatasync(&self.files[io.file]).map(|()| 0),
        }
    }
}

impl DataEngine for SyncEngine {
    fn depth(&self) -> usize {
        1
    }

    #[inline]
    fn block_to_write(&mut self, _slot: usize, offset_bytes: u64) -> &mut [u8] {
        let slice = self.slice(offset_bytes);
        &mut self.pool.bytes_mut()[slice]
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
