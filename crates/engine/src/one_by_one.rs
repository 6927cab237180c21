//! Engines that make one call at a time: each call is made when it is reaped.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::buffer::AlignedBuffer;
use crate::call_flags::CallFlags;
use crate::data::{Content, Pool};
use crate::{Call, Completion, DataEngine, Io, PendingBlock};

/// The blocks that an engine reads into and writes from.
#[derive(Debug)]
pub struct Blocks {
    /// The same block for all reads: it stays in the CPU cache, as a program's own buffer would.
    pub read: AlignedBuffer,
    /// Data to write; `None` if the engine only reads.
    pool: Option<Pool>,
}

impl Blocks {
    /// Blocks of a size, with a pool of data if there is a content to write.
    pub fn new(block_bytes: usize, writes: Option<Content>) -> Self {
        let pool = writes.map(|content| Pool::new(content, block_bytes, 1));
        let mut read = AlignedBuffer::new(block_bytes);
        // Touch the block once, so that no page is missing when time counts.
        read.bytes_mut().fill(1);
        Self { read, pool }
    }

    /// Reads or writes the rest of a block by a plain system call.
    ///
    /// # Errors
    /// The error of the kernel.
    pub(crate) fn move_rest(
        &mut self,
        file: &OwnedFd,
        io: Io,
        from_bytes: usize,
        flags: CallFlags,
    ) -> Result<usize, Errno> {
        let write = self.pool.as_ref().map_or(&[][..], |pool| pool.block(io.slot));
        move_rest(file, io, from_bytes, self.read.bytes_mut(), write, flags)
    }

    /// The block that a slot writes; empty if the engine only reads.
    #[inline]
    pub fn to_write(&self, slot: u32) -> &[u8] {
        self.pool.as_ref().map_or(&[][..], |pool| pool.block(slot))
    }
}

/// A way to make one call.
pub trait Calls {
    /// Makes a call. Returns the bytes moved; fewer than a block where the file ends.
    ///
    /// # Errors
    /// The error of the kernel. `EINTR` makes the engine call again.
    fn call(&self, io: Io, blocks: &mut Blocks) -> Result<usize, Errno>;

    /// Makes another call for the rest of a block; see [`DataEngine::move_rest`].
    ///
    /// # Errors
    /// The error of the kernel.
    fn move_rest(&self, _io: Io, _from_bytes: usize, _blocks: &mut Blocks) -> Result<usize, Errno> {
        Ok(0)
    }
}

/// Reads or writes the rest of a block by a plain system call.
pub(crate) fn move_rest(
    file: &OwnedFd,
    io: Io,
    from_bytes: usize,
    read: &mut [u8],
    write: &[u8],
    flags: CallFlags,
) -> Result<usize, Errno> {
    let offset_bytes = io.offset_bytes + from_bytes as u64;
    match io.call {
        Call::Read => {
            let to = IoSliceMut::new(&mut read[from_bytes..]);
            rustix::io::preadv2(file, &mut [to], offset_bytes, flags.read)
        }
        Call::Write => {
            let from = IoSlice::new(&write[from_bytes..]);
            rustix::io::pwritev2(file, &[from], offset_bytes, flags.write)
        }
        Call::Datasync | Call::Discard => Ok(0),
    }
}

/// An engine without depth.
#[derive(Debug)]
pub struct OneByOne<C> {
    calls: C,
    blocks: Blocks,
    pending: Option<Io>,
}

impl<C> OneByOne<C> {
    /// An engine that makes these calls with these blocks.
    pub fn with(calls: C, blocks: Blocks) -> Self {
        Self { calls, blocks, pending: None }
    }
}

impl<C: Calls> DataEngine for OneByOne<C> {
    fn depth(&self) -> u32 {
        1
    }

    #[inline]
    fn block_bytes(&self) -> u64 {
        self.blocks.read.bytes().len() as u64
    }

    #[inline]
    fn draft(&mut self, slot: u32) -> PendingBlock<'_> {
        match &mut self.blocks.pool {
            Some(pool) => pool.draft(slot),
            // The engine was made to read only. The write fails.
            None => PendingBlock { bytes: &mut [], phase_bytes: 0, is_duplicate: false },
        }
    }

    #[inline]
    fn block_read(&self, _: u32) -> &[u8] {
        self.blocks.read.bytes()
    }

    #[inline]
    fn queue(&mut self, io: Io) {
        self.pending = Some(io);
    }

    fn move_rest(&mut self, io: Io, from_bytes: usize) -> Result<usize, Errno> {
        self.calls.move_rest(io, from_bytes, &mut self.blocks)
    }

    // In line with the worker's loop: see `SystemCalls::call`.
    #[inline(always)]
    fn reap(&mut self, done: &mut [Completion], _: u64) -> Result<usize, Errno> {
        let Some(io) = self.pending.take() else { return Ok(0) };
        let result = loop {
            let result = self.calls.call(io, &mut self.blocks);
            if result != Err(Errno::INTR) {
                break result;
            }
        };
        let result = match result {
            // At most a block, which is less than 2 GiB.
            Ok(bytes) => bytes as i32,
            Err(errno) => -errno.raw_os_error(),
        };
        done[0] = Completion { slot: io.slot, result };
        Ok(1)
    }
}
