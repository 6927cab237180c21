//! Plain system calls: one at a time, so that depth comes from threads.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;

use crate::buffer::AlignedBuffer;
use crate::data::{Content, Pool};
use crate::{Call, Completion, DataEngine, Draft, Io};

/// `pread`, `pwrite` and `fdatasync`, each made when it is reaped.
#[derive(Debug)]
pub struct SyncEngine {
    files: Arc<[OwnedFd]>,
    /// Always the same for reads: it stays in the cache, as a program's own would.
    read_block: AlignedBuffer,
    /// What is written; absent where nothing is.
    pool: Option<Pool>,
    pending: Option<Io>,
}

impl SyncEngine {
    /// An engine on open files; one that writes has a pool of its own.
    pub fn new(files: Arc<[OwnedFd]>, block_bytes: usize, writes: Option<Content>) -> Self {
        let pool = writes.map(|content| Pool::new(content, block_bytes, 1));
        let mut read_block = AlignedBuffer::new(block_bytes);
        // Touched once, so that no page is missing when time counts.
        read_block.bytes_mut().fill(1);
        Self { files, read_block, pool, pending: None }
    }

    #[inline]
    fn call(&mut self, io: Io) -> Result<usize, Errno> {
        let file = &self.files[io.file as usize];
        match io.call {
            Call::Read => rustix::io::pread(file, self.read_block.bytes_mut(), io.offset_bytes),
            Call::Write => {
                let block = self.pool.as_ref().map_or(&[][..], |pool| pool.block(io.slot));
                rustix::io::pwrite(file, block, io.offset_bytes)
            }
            Call::Datasync => rustix::fs::fdatasync(file).map(|()| 0),
        }
    }
}

impl DataEngine for SyncEngine {
    fn depth(&self) -> u32 {
        1
    }

    #[inline]
    fn draft(&mut self, slot: u32) -> Draft<'_> {
        match &mut self.pool {
            Some(pool) => pool.draft(slot),
            // An engine that was made to read only: the write fails with the kernel's own words.
            None => Draft { bytes: &mut [], phase_bytes: 0, is_duplicate: false },
        }
    }

    #[inline]
    fn block_read(&self, _: u32) -> &[u8] {
        self.read_block.bytes()
    }

    #[inline]
    fn queue(&mut self, io: Io) {
        self.pending = Some(io);
    }

    #[inline]
    fn reap(&mut self, done: &mut [Completion], _: u64) -> Result<usize, Errno> {
        let Some(io) = self.pending.take() else { return Ok(0) };
        let mut result = self.call(io);
        while result == Err(Errno::INTR) {
            result = self.call(io);
        }
        let result = match result {
            // At most a block, which is less than 2 GiB.
            Ok(bytes) => bytes as i32,
            Err(errno) => -errno.raw_os_error(),
        };
        done[0] = Completion { slot: io.slot, result };
        Ok(1)
    }
}
