//! Plain system calls, one at a time: queue depth comes from threads.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;

use crate::call_flags::CallFlags;
use crate::data::Content;
use crate::discard::{discard, is_device};
use crate::one_by_one::{Blocks, Calls, OneByOne};
use crate::{Call, Io};

/// `pread`, `pwrite`, `fdatasync` and discards. Reads and writes with flags are `preadv2` and `pwritev2`.
#[derive(Debug)]
pub struct SystemCalls {
    files: Arc<[OwnedFd]>,
    /// True if the files are block devices.
    is_device: bool,
    flags: CallFlags,
}

/// The engine of plain system calls.
pub type SyncEngine = OneByOne<SystemCalls>;

impl SyncEngine {
    /// An engine on open files. An engine that writes has its own pool.
    pub fn new(files: Arc<[OwnedFd]>, block_bytes: usize, writes: Option<Content>) -> Self {
        Self::with_flags(files, block_bytes, writes, CallFlags::NONE)
    }

    /// The same with flags for each read and write.
    pub fn with_flags(
        files: Arc<[OwnedFd]>,
        block_bytes: usize,
        writes: Option<Content>,
        flags: CallFlags,
    ) -> Self {
        let is_device = files.first().is_some_and(|file| is_device(file.as_fd()));
        Self::with(SystemCalls { files, is_device, flags }, Blocks::new(block_bytes, writes))
    }
}

impl Calls for SystemCalls {
    // In line with the worker's loop: a return into a function that called the kernel is slow where the kernel protects
    // its own returns (Linux's "Safe RET" against Inception, on AMD CPUs). Of a 4 KiB read from zram, it took 0.5 of 3.4 µs.
    #[inline(always)]
    fn call(&self, io: Io, blocks: &mut Blocks) -> Result<usize, Errno> {
        let file = &self.files[io.file as usize];
        match io.call {
            // A call without flags costs less.
            Call::Read if self.flags.read.is_empty() => {
                rustix::io::pread(file, blocks.read.bytes_mut(), io.offset_bytes)
            }
            Call::Read => {
                let to = IoSliceMut::new(blocks.read.bytes_mut());
                rustix::io::preadv2(file, &mut [to], io.offset_bytes, self.flags.read)
            }
            Call::Write if self.flags.write.is_empty() => {
                rustix::io::pwrite(file, blocks.to_write(io.slot), io.offset_bytes)
            }
            Call::Write => {
                let from = IoSlice::new(blocks.to_write(io.slot));
                rustix::io::pwritev2(file, &[from], io.offset_bytes, self.flags.write)
            }
            Call::Datasync => rustix::fs::fdatasync(file).map(|()| 0),
            Call::Discard => {
                let length_bytes = blocks.read.bytes().len() as u64;
                discard(file.as_fd(), self.is_device, io.offset_bytes, length_bytes).map(|()| 0)
            }
        }
    }

    fn move_rest(&self, io: Io, from_bytes: usize, blocks: &mut Blocks) -> Result<usize, Errno> {
        blocks.move_rest(&self.files[io.file as usize], io, from_bytes, self.flags)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use std::os::fd::OwnedFd;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::clock::Monotonic;
    use crate::data::Verifier;
    use crate::pacing::ClosedLoop;
    use crate::pattern::Pattern;
    use crate::recorder::{Recorder, Shape};
    use crate::sample::Sample;
    use crate::verb::{Read, Steps, Verb, Write};
    use crate::worker::{Layout, Limits, Stamping, Worker, WorkerParts};
    use crate::{Completion, DataEngine, Failure, PendingBlock};

    const BLOCKS: u64 = 8;
    const CONTENT: Content =
        Content { seed: 5, interval_bytes: 4096, compress_percent: 0, dedupe_percent: 0 };

    /// A device that reports a write as done without writing.
    struct Forgetful {
        engine: SyncEngine,
        forgotten: Option<Io>,
    }

    impl DataEngine for Forgetful {
        fn depth(&self) -> u32 {
            1
        }

        #[inline]
        fn block_bytes(&self) -> u64 {
            self.engine.block_bytes()
        }

        fn draft(&mut self, slot: u32) -> PendingBlock<'_> {
            self.engine.draft(slot)
        }

        fn block_read(&self, slot: u32) -> &[u8] {
            self.engine.block_read(slot)
        }

        fn queue(&mut self, io: Io) {
            match io.call {
                Call::Write => self.forgotten = Some(io),
                _ => self.engine.queue(io),
            }
        }

        fn reap(&mut self, done: &mut [Completion], least: u64) -> Result<usize, Errno> {
            let Some(io) = self.forgotten.take() else { return self.engine.reap(done, least) };
            done[0] = Completion { slot: io.slot, result: 4096 };
            Ok(1)
        }
    }

    fn run<E: DataEngine, V: Verb>(engine: E, verb: V, generation: u32) -> Result<(), Failure> {
        run_passes(engine, verb, generation, Sample::ALL, 1)
    }

    fn run_passes<E: DataEngine, V: Verb>(
        engine: E,
        verb: V,
        generation: u32,
        sample: Sample,
        passes: u64,
    ) -> Result<(), Failure> {
        let (recorder, reader) = Recorder::new(Shape::from_verb(&verb, false));
        let stop = AtomicBool::new(false);
        let stamping = Stamping {
            seed: 5,
            first_file: 2,
            generation,
            interval_bytes: 4096,
            verifier: Some(Verifier::new(CONTENT, 0..=generation)),
            sample,
        };
        let pattern = Pattern::new(0, BLOCKS, false, 3, passes * BLOCKS);
        let layout = Layout::dense(BLOCKS, 4096);
        let limits = Limits { deadline_ns: u64::MAX, stop: &stop };
        let worker = Worker::new(WorkerParts {
            engine,
            clock: Monotonic,
            pacing: ClosedLoop,
            verb,
            pattern,
            layout,
            stamping,
            limits,
            recorder,
        });
        let ended = worker.run(0);
        while !reader.drain_last(|_| {}) {}
        ended.result
    }

    #[test]
    fn stale_reread_fails_verification() {
        let file: OwnedFd = tempfile::tempfile().unwrap().into();
        let files: Arc<[OwnedFd]> = Arc::new([file]);
        let engine = || SyncEngine::new(Arc::clone(&files), 4096, Some(CONTENT));
        assert_eq!(run(engine(), Write, 0), Ok(()));
        assert_eq!(run(engine(), Steps::REWRITE_AND_REREAD, 1), Ok(()));
        // The data on the device is old. A first read may find old data; a second one may not.
        let forgetful = Forgetful { engine: engine(), forgotten: None };
        let failure = run(forgetful, Steps::REWRITE_AND_REREAD, 2).unwrap_err();
        assert_eq!((failure.call, failure.offset_bytes), ("verify", Some(0)));
    }

    #[test]
    fn damaged_block_is_found_in_a_later_pass() {
        let file = tempfile::tempfile().unwrap();
        let damaged = file.try_clone().unwrap();
        let files: Arc<[OwnedFd]> = Arc::new([file.into()]);
        let engine = || SyncEngine::new(Arc::clone(&files), 4096, Some(CONTENT));
        assert_eq!(run(engine(), Write, 0), Ok(()));
        // One block of each pass is compared: as many as there are from one fixed comparison to the next.
        for block in 0..BLOCKS {
            let mut byte = [0];
            let at = block * 4096 + 4000;
            damaged.read_exact_at(&mut byte, at).unwrap();
            damaged.write_all_at(&[!byte[0]], at).unwrap();
            let sample = Sample { every: BLOCKS as u32, seed: 1 };
            let failure = run_passes(engine(), Read, 0, sample, 100).unwrap_err();
            assert_eq!((failure.call, failure.offset_bytes), ("verify", Some(block * 4096)));
            damaged.write_all_at(&byte, at).unwrap();
        }
    }
}
