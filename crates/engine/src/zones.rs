//! A scan through a file or device from front to back, with each block timed: the rate over the offset.
//!
//! The loop makes one call at a time, on one thread. Its results go to a preallocated [`Board`], which others may read
//! meanwhile.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rustix::fs::{Advice, fadvise, fdatasync, fstat};
use rustix::io::{Errno, pread, pwrite};
use rustix::time::{ClockId, clock_gettime};

use crate::buffer::{ALIGNMENT, AlignedBuffer};
use crate::clock::Clock;
use crate::failure::{Cause, Failure};

/// Smallest unit of offsets in direct I/O.
const SECTOR_BYTES: u64 = 512;

/// A way to move bytes between a file and the buffer.
pub trait Mover {
    /// Name of the call that moves them.
    const CALL: &'static str;

    /// Prepares a pass over a range of the file. It is not timed. A failure here is ignored: it only changes the pass's
    /// conditions.
    fn begin(&self, file: &OwnedFd, _range: &Range<u64>) {
        // The first call's time must not include writing pages that others left dirty.
        let _ = fdatasync(file);
    }

    /// Moves up to `wanted_bytes` at an offset. Returns the bytes moved; 0 means that there are no more.
    ///
    /// # Errors
    /// The kernel's error.
    fn advance(
        &self,
        file: &OwnedFd,
        buffer: &mut [u8],
        offset_bytes: u64,
        wanted_bytes: usize,
    ) -> Result<usize, Errno>;
}

/// Reads from a file that was opened with `O_DIRECT`.
#[derive(Debug, Clone, Copy)]
pub struct DirectRead;

impl Mover for DirectRead {
    const CALL: &'static str = "read";

    #[inline]
    fn advance(
        &self,
        file: &OwnedFd,
        buffer: &mut [u8],
        offset_bytes: u64,
        wanted_bytes: usize,
    ) -> Result<usize, Errno> {
        // The previous call read a file that ends within a sector to its end. No direct call can go on from there.
        if !offset_bytes.is_multiple_of(SECTOR_BYTES) {
            return Ok(0);
        }
        // A file may end anywhere, a direct call may not: ask for more and accept a short read.
        let asked_bytes = wanted_bytes.next_multiple_of(ALIGNMENT).min(buffer.len());
        pread(file, &mut buffer[..asked_bytes], offset_bytes)
    }
}

/// Reads through the page cache, after dropping the file from it before each pass.
#[derive(Debug, Clone, Copy)]
pub struct CachedRead;

impl Mover for CachedRead {
    const CALL: &'static str = "read";

    fn begin(&self, file: &OwnedFd, range: &Range<u64>) {
        // The kernel does not drop dirty pages, so write them first.
        let _ = fdatasync(file);
        let length = std::num::NonZeroU64::new(range.end.saturating_sub(range.start));
        let _ = fadvise(file, range.start, length, Advice::DontNeed);
    }

    #[inline]
    fn advance(
        &self,
        file: &OwnedFd,
        buffer: &mut [u8],
        offset_bytes: u64,
        wanted_bytes: usize,
    ) -> Result<usize, Errno> {
        pread(file, &mut buffer[..wanted_bytes], offset_bytes)
    }
}

/// Writes zeros within a file and makes each write durable.
#[derive(Debug, Clone, Copy)]
pub struct DurableZeros;

impl Mover for DurableZeros {
    const CALL: &'static str = "write";

    #[inline]
    fn advance(
        &self,
        file: &OwnedFd,
        buffer: &mut [u8],
        offset_bytes: u64,
        wanted_bytes: usize,
    ) -> Result<usize, Errno> {
        // Never extends a file that someone has made shorter.
        let size_bytes = u64::try_from(fstat(file)?.st_size).unwrap_or(0);
        if offset_bytes + wanted_bytes as u64 > size_bytes {
            return Ok(0);
        }
        // No one has written to the buffer: it still holds its initial zeros.
        let written_bytes = pwrite(file, &buffer[..wanted_bytes], offset_bytes)?;
        fdatasync(file)?;
        Ok(written_bytes)
    }
}

/// Results of all passes so far, open to readers on other threads.
#[derive(Debug)]
pub struct Board {
    times_ns: Box<[AtomicU64]>,
    done: AtomicUsize,
    moved_bytes: AtomicU64,
}

impl Board {
    /// A board with room for `blocks` blocks: those of all passes.
    pub fn new(blocks: usize) -> Self {
        Self {
            times_ns: (0..blocks).map(|_| AtomicU64::new(0)).collect(),
            done: AtomicUsize::new(0),
            moved_bytes: AtomicU64::new(0),
        }
    }

    /// Blocks moved in all passes.
    pub fn done(&self) -> usize {
        self.done.load(Ordering::Acquire)
    }

    /// Time that a moved block took. Blocks of a pass follow those of the previous pass.
    pub fn time_ns(&self, block: usize) -> u64 {
        self.times_ns.get(block).map_or(0, |time| time.load(Ordering::Relaxed))
    }

    /// Bytes moved in all passes, including those of the unfinished block.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Ordering::Relaxed)
    }

    /// Adds the time of a block. Only the scan writes.
    fn put(&self, time_ns: u64) {
        let done = self.done.load(Ordering::Relaxed);
        if let Some(time) = self.times_ns.get(done) {
            time.store(time_ns, Ordering::Relaxed);
            self.done.store(done + 1, Ordering::Release);
        }
    }
}

/// The work of a scan.
#[derive(Debug)]
pub struct Task {
    /// The open file.
    pub file: OwnedFd,
    /// Bytes of each call: a multiple of [`ALIGNMENT`].
    pub chunk_bytes: usize,
    /// Ranges of the file in the order of visits. Each begins where a direct call may.
    pub blocks: Arc<[Range<u64>]>,
    /// Number of passes over the blocks.
    pub passes: u32,
    /// Receives the times.
    pub board: Arc<Board>,
    /// Raised by anyone who wants the scan to stop.
    pub stop: Arc<AtomicBool>,
}

/// Result of all passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// CPU time of the thread.
    pub cpu_ns: u64,
    /// Bytes of the block in which the scan ended early, and their time. That block is not on the board.
    pub partial: Option<(u64, u64)>,
    /// `Ok` if each block was moved, or if a stop was asked for.
    pub result: Result<(), Failure>,
}

/// The scan loop.
#[derive(Debug)]
pub struct Scan<M, C> {
    mover: M,
    clock: C,
    task: Task,
    buffer: AlignedBuffer,
}

impl<M: Mover, C: Clock> Scan<M, C> {
    /// Makes everything ready for a scan.
    pub fn new(mover: M, clock: C, task: Task) -> Self {
        let mut buffer = AlignedBuffer::new(task.chunk_bytes);
        // Touch the buffer once, so that no page is missing when time counts.
        buffer.bytes_mut().fill(0);
        Self { mover, clock, task, buffer }
    }

    /// Waits until `start_ns` on the clock, and visits all blocks once per pass.
    pub fn run(mut self, start_ns: u64) -> Ended {
        self.clock.wait_until(start_ns);
        let cpu_before_ns = thread_cpu_ns();
        let (partial, result) = self.passes();
        Ended { cpu_ns: thread_cpu_ns().saturating_sub(cpu_before_ns), partial, result }
    }

    fn passes(&mut self) -> (Option<(u64, u64)>, Result<(), Failure>) {
        let blocks = Arc::clone(&self.task.blocks);
        let range = match (blocks.first(), blocks.last()) {
            (Some(first), Some(last)) => first.start..last.end,
            _ => return (None, Ok(())),
        };
        for _ in 0..self.task.passes {
            self.mover.begin(&self.task.file, &range);
            let mut since_ns = self.clock.now_ns();
            for block in blocks.iter() {
                let (end_bytes, result) = self.block(block);
                let now_ns = self.clock.now_ns();
                let time_ns = now_ns.saturating_sub(since_ns);
                since_ns = now_ns;
                if end_bytes < block.end {
                    let moved_bytes = end_bytes - block.start;
                    // A failed call took time of its own, which belongs to no byte of the block.
                    let is_timed = !matches!(result, Err(Failure { cause: Cause::Errno(_), .. }));
                    return ((moved_bytes > 0 && is_timed).then_some((moved_bytes, time_ns)), result);
                }
                self.task.board.put(time_ns);
            }
        }
        (None, Ok(()))
    }

    /// Moves a block. Returns the offset that it reached, and the failure if one ended it early.
    #[inline]
    fn block(&mut self, block: &Range<u64>) -> (u64, Result<(), Failure>) {
        let mut at = block.start;
        while at < block.end {
            if self.task.stop.load(Ordering::Relaxed) {
                return (at, Ok(()));
            }
            let wanted_bytes =
                usize::try_from(block.end - at).unwrap_or(usize::MAX).min(self.buffer.bytes().len());
            let result = self.mover.advance(&self.task.file, self.buffer.bytes_mut(), at, wanted_bytes);
            let moved_bytes = match result {
                Ok(0) => return (at, Err(failure::<M>(at, Cause::Short { got_bytes: 0, wanted_bytes }))),
                // Bytes behind the block belong to no block.
                Ok(moved_bytes) => moved_bytes.min(wanted_bytes) as u64,
                Err(Errno::INTR) => continue,
                Err(errno) => return (at, Err(failure::<M>(at, errno.into()))),
            };
            at += moved_bytes;
            let board = &self.task.board.moved_bytes;
            board.store(board.load(Ordering::Relaxed) + moved_bytes, Ordering::Relaxed);
        }
        (at, Ok(()))
    }
}

#[cold]
fn failure<M: Mover>(offset_bytes: u64, cause: Cause) -> Failure {
    Failure { call: M::CALL, file: 0, offset_bytes: Some(offset_bytes), cause }
}

/// CPU time of the calling thread since it began.
fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Neither part is negative, as the thread has begun.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::clock::Monotonic;

    const MIB: u64 = 1 << 20;
    const FIRST: Range<u64> = 0..MIB;
    const SECOND: Range<u64> = MIB..2 * MIB;

    fn file(bytes: u64, byte: u8) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![byte; bytes as usize], 0).unwrap();
        file
    }

    fn task(file: &File, blocks: &[Range<u64>], passes: u32) -> Task {
        let board = Arc::new(Board::new(blocks.len() * passes as usize));
        let stop = Arc::new(AtomicBool::new(false));
        let file = file.try_clone().unwrap().into();
        Task { file, chunk_bytes: MIB as usize, blocks: blocks.into(), passes, board, stop }
    }

    /// A clock that advances by a second with each read.
    struct Seconds(std::cell::Cell<u64>);

    impl Clock for Seconds {
        fn now_ns(&self) -> u64 {
            self.0.set(self.0.get() + 1_000_000_000);
            self.0.get()
        }

        fn wait_until(&self, _: u64) {}
    }

    #[test]
    fn each_block_is_timed_by_one_look_at_the_clock() {
        let file = file(3 * MIB + 5, 7);
        let task = task(&file, &[0..2 * MIB, 2 * MIB..3 * MIB + 5], 2);
        let board = Arc::clone(&task.board);
        let ended = Scan::new(CachedRead, Seconds(0.into()), task).run(0);
        assert_eq!((ended.partial, ended.result), (None, Ok(())));
        assert_eq!((board.done(), board.moved_bytes()), (4, 2 * (3 * MIB + 5)));
        assert!((0..4).all(|block| board.time_ns(block) == 1_000_000_000));
        assert_eq!(board.time_ns(4), 0, "there is none");
    }

    #[test]
    fn only_the_blocks_are_moved() {
        let file = file(8 * MIB, 7);
        let task = task(&file, &[MIB..2 * MIB, 5 * MIB..6 * MIB], 1);
        let board = Arc::clone(&task.board);
        assert_eq!(Scan::new(CachedRead, Monotonic, task).run(0).result, Ok(()));
        assert_eq!((board.done(), board.moved_bytes()), (2, 2 * MIB));
    }

    #[test]
    fn a_file_that_became_shorter_ends_it_where_it_ends() {
        let file = file(2 * MIB + 100, 7);
        for direct in [false, true] {
            let task = task(&file, &[0..MIB, MIB..4 * MIB], 1);
            let board = Arc::clone(&task.board);
            let clock = Seconds(0.into());
            let ended = match direct {
                true => Scan::new(DirectRead, clock, task).run(0),
                false => Scan::new(CachedRead, clock, task).run(0),
            };
            assert_eq!((board.done(), ended.partial), (1, Some((MIB + 100, 1_000_000_000))));
            let failure = ended.result.unwrap_err();
            assert_eq!((failure.call, failure.offset_bytes), ("read", Some(2 * MIB + 100)));
            assert!(matches!(failure.cause, Cause::Short { got_bytes: 0, .. }), "{failure:?}");
        }
    }

    #[test]
    fn zeros_never_make_a_file_longer() {
        let file = file(2 * MIB + 100, 7);
        let task = task(&file, &[0..MIB, MIB..4 * MIB], 1);
        let ended = Scan::new(DurableZeros, Monotonic, task).run(0);
        let failure = ended.result.unwrap_err();
        // The last call would have crossed the end, so it was not made.
        assert_eq!((failure.call, failure.offset_bytes), ("write", Some(2 * MIB)));
        assert_eq!(file.metadata().unwrap().len(), 2 * MIB + 100);
        let mut read = vec![1; 2 * MIB as usize + 100];
        file.read_exact_at(&mut read, 0).unwrap();
        assert!(read[..2 * MIB as usize].iter().all(|byte| *byte == 0));
        assert!(read[2 * MIB as usize..].iter().all(|byte| *byte == 7));
    }

    #[test]
    fn a_flag_that_is_raised_ends_it() {
        let file = file(MIB, 7);
        let task = task(&file, std::slice::from_ref(&FIRST), 1);
        task.stop.store(true, Ordering::Relaxed);
        let board = Arc::clone(&task.board);
        let ended = Scan::new(CachedRead, Monotonic, task).run(0);
        assert_eq!((ended.partial, ended.result, board.done()), (None, Ok(()), 0));
    }

    #[test]
    fn failures_say_where() {
        let full = File::create("/dev/full").unwrap();
        // This file may not be read.
        let ended = Scan::new(CachedRead, Monotonic, task(&full, std::slice::from_ref(&SECOND), 1)).run(0);
        let failure = ended.result.unwrap_err();
        assert_eq!((failure.offset_bytes, failure.cause), (Some(MIB), Errno::BADF.into()));
    }
}
