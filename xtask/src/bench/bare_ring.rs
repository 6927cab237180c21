//! A ring that does nothing but the calls: the reference for our loop through a ring.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use engine::buffer::AlignedBuffer;
use io_uring::squeue::Entry;
use io_uring::types::Fixed;
use io_uring::{IoUring, opcode};

const BLOCK_BYTES: usize = 4096;

/// A bare ring that reads 4 KiB blocks, or with `NOP` makes requests that do nothing. Its setup is that of the engine:
/// one issuer, deferred task work, and a registered ring, file and buffers.
pub(super) struct BareRing<const NOP: bool> {
    // Dropped before the buffers and files that it refers to.
    ring: IoUring,
    buffers: AlignedBuffer,
    _files: Arc<[OwnedFd]>,
    depth: usize,
}

impl<const NOP: bool> BareRing<NOP> {
    /// Makes a ring for the thread that calls, on the first of the files.
    pub(super) fn new(files: &Arc<[OwnedFd]>, depth: u32) -> Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_clamp().setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun();
        let ring = builder.build(depth).context("make a ring")?;
        let mut buffers = AlignedBuffer::new(depth as usize * BLOCK_BYTES);
        buffers.bytes_mut().fill(1);
        let mut bare = Self { ring, buffers, _files: Arc::clone(files), depth: depth as usize };
        let (mut submitter, _, _) = bare.ring.split();
        submitter.register_ring_fd().context("register the ring")?;
        if !NOP {
            let file = files.first().context("no file")?;
            submitter.register_files(&[file.as_raw_fd()]).context("register the file")?;
            let bytes = bare.buffers.bytes_mut();
            let region = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            // SAFETY: the buffers belong to `bare`, are never resized, and outlive the ring.
            unsafe { submitter.register_buffers(&[region]) }.context("register the buffers")?;
        }
        Ok(bare)
    }

    /// Makes one request for each offset, as many at a time as the ring is deep, and waits for all.
    pub(super) fn run(&mut self, offsets: &[u64]) -> Result<()> {
        let buffers = self.buffers.bytes_mut().as_mut_ptr();
        let entry = |slot: usize, offset: u64| -> Entry {
            if NOP {
                return opcode::Nop::new().build().user_data(slot as u64);
            }
            let buffer = buffers.wrapping_add(slot * BLOCK_BYTES);
            let read = opcode::ReadFixed::new(Fixed(0), buffer, BLOCK_BYTES as u32, 0).offset(offset);
            read.build().user_data(slot as u64)
        };
        let (submitter, mut submissions, mut completions) = self.ring.split();
        let mut left = offsets.iter();
        let mut in_flight = 0;
        for (slot, offset) in left.by_ref().take(self.depth).enumerate() {
            // SAFETY: each slot has a part of the buffers for itself; all calls end before this function returns.
            unsafe { submissions.push(&entry(slot, *offset)) }.context("the ring is full")?;
            in_flight += 1;
        }
        let mut wrong = None;
        while in_flight > 0 {
            submissions.sync();
            // Nothing can be done if the calls in flight cannot be waited for; their memory must stay.
            submitter.submit_and_wait(1).expect("a ring that took calls can be waited for");
            submissions.sync();
            completions.sync();
            for completion in &mut completions {
                in_flight -= 1;
                if completion.result() != if NOP { 0 } else { BLOCK_BYTES as i32 } {
                    wrong = Some(completion.result());
                }
                if let Some(offset) = left.next() {
                    // SAFETY: the call on this slot has just ended; as above.
                    let pushed =
                        unsafe { submissions.push(&entry(completion.user_data() as usize, *offset)) };
                    // There is an entry for each slot.
                    debug_assert!(pushed.is_ok());
                    in_flight += 1;
                }
            }
            // Otherwise, the kernel takes these completions for new ones and does not wait.
            completions.sync();
        }
        ensure!(wrong.is_none(), "a call returned {wrong:?}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_ring_completes_every_request() {
        let scratch = super::super::program::scratch_in_memory().unwrap();
        let path = scratch.path().join("file");
        std::fs::write(&path, vec![7; 10 * BLOCK_BYTES]).unwrap();
        let files: Arc<[OwnedFd]> = Arc::new([std::fs::File::open(&path).unwrap().into()]);
        let mut ring = BareRing::<false>::new(&files, 4).unwrap();
        let offsets: Vec<_> = (0..10).map(|block| block * BLOCK_BYTES as u64).collect();
        ring.run(&offsets).unwrap();
        assert!(ring.buffers.bytes().iter().all(|byte| *byte == 7));
        assert!(ring.run(&[10 * BLOCK_BYTES as u64]).is_err(), "beyond the end");
        let no_files: Arc<[OwnedFd]> = Arc::new([]);
        BareRing::<true>::new(&no_files, 4).unwrap().run(&offsets).unwrap();
    }
}
