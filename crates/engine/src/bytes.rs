//! Byte verbs: one operation is one byte, moved by a separate call, in sequence.
//!
//! A call of the C library takes about ten instructions, so the loop must add almost none. The inner loop runs over a
//! stride: at most a piece of 4 KiB that was stamped before. The worker checks the clock, the stop rule and the counts
//! only between strides.
//!
//! Single operations have no latency, because a clock read would cost more than the call. The clock reads show, at no
//! extra cost, the time of many calls in a row. The longest such time is kept. Bytes, unlike blocks, use the position
//! of an open file, so each worker opens its files itself.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::data::{self, Content, Pool, STAMP_INTERVAL_BYTES, Stamp};
use crate::failure::{Cause, Failure};
use crate::recorder::{INTERVAL_NS, Recorder};
use crate::sample::Draws;
use crate::worker::{Stamping, WorkerResult};

/// Calls in a row that are timed together; the longest time is kept. bonnie++ times as many at once, and every stride
/// divides this number.
pub const CHUNK_CALLS: u64 = 8192;

/// A worker's part of one file of its data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Number of the file in its group.
    pub file: u32,
    /// Start of the span in the file. Start and end are multiples of the stamp interval.
    pub start_bytes: u64,
    /// End of the span in the file.
    pub end_bytes: u64,
}

/// The reason why calls were given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BytesError {
    /// The call that failed.
    pub call: &'static str,
    /// Bytes moved before the failure.
    pub moved: usize,
    /// The cause of the failure.
    pub cause: Cause,
}

impl BytesError {
    /// A call that moved nothing and returned `errno`.
    pub fn errno(call: &'static str, errno: Errno) -> Self {
        Self { call, moved: 0, cause: errno.into() }
    }
}

/// Moves bytes, one per call, to and from the position of a file.
pub trait ByteCalls {
    /// Most bytes between two clock reads: enough calls to hide the cost of a read. More would let a slow file system
    /// hold a worker long past its deadline.
    const STRIDE_BYTES: usize;

    /// Goes to an offset in the file of a span.
    ///
    /// # Errors
    /// The call that failed, on the way there or while leaving the previous file.
    fn go_to(&mut self, span: usize, offset_bytes: u64) -> Result<(), BytesError>;

    /// Writes each byte.
    ///
    /// # Errors
    /// The first byte that was not written.
    fn write(&mut self, bytes: &[u8]) -> Result<(), BytesError>;

    /// Reads each byte.
    ///
    /// # Errors
    /// The first byte that was not read.
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), BytesError>;

    /// Hands the bytes in the program's own buffer to the kernel.
    ///
    /// # Errors
    /// The error of the call.
    fn flush(&mut self) -> Result<(), BytesError>;

    /// The file of a span.
    fn file(&self, span: usize) -> &OwnedFd;
}

/// `write` and `read`: one system call per byte.
#[derive(Debug)]
pub struct SystemCalls {
    files: Vec<OwnedFd>,
    current: usize,
}

impl SystemCalls {
    /// Calls on the file of each span. Each file must be opened for this worker alone: all users of an open file share
    /// its position.
    pub fn new(files: Vec<OwnedFd>) -> Self {
        Self { files, current: 0 }
    }
}

impl ByteCalls for SystemCalls {
    /// A clock read costs as much as the user-space part of six calls. On a rotating disk with synchronous writes, at
    /// 10 ms each, a worker checks the clock every five seconds.
    const STRIDE_BYTES: usize = 512;

    fn go_to(&mut self, span: usize, offset_bytes: u64) -> Result<(), BytesError> {
        self.current = span;
        let at = rustix::fs::seek(&self.files[span], SeekFrom::Start(offset_bytes));
        at.map(drop).map_err(|errno| BytesError::errno("lseek", errno))
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), BytesError> {
        let file = self.files[self.current].as_fd();
        let mut at = 0;
        loop {
            let mut result = Ok(1);
            let stopped = call_each_byte(&bytes[at..], |byte| {
                let wrote = rustix::io::write(file, std::slice::from_ref(byte));
                if wrote != Ok(1) {
                    result = wrote;
                }
                wrote == Ok(1)
            });
            let Some(moved) = stopped else { return Ok(()) };
            at += moved;
            if result != Err(Errno::INTR) {
                return Err(bytes_error("write", at, result));
            }
        }
    }

    #[inline]
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), BytesError> {
        let file = self.files[self.current].as_fd();
        let mut at = 0;
        loop {
            let mut result = Ok(1);
            let stopped = call_each_byte_mut(&mut bytes[at..], |byte| {
                let got = rustix::io::read(file, std::slice::from_mut(byte));
                if got != Ok(1) {
                    result = got;
                }
                got == Ok(1)
            });
            let Some(moved) = stopped else { return Ok(()) };
            at += moved;
            if result != Err(Errno::INTR) {
                return Err(bytes_error("read", at, result));
            }
        }
    }

    fn flush(&mut self) -> Result<(), BytesError> {
        Ok(())
    }

    fn file(&self, span: usize) -> &OwnedFd {
        &self.files[span]
    }
}

/// Calls in a row between two counts of the loop. Counting and keeping the bytes read then cost less than the plain
/// loop that skye is compared with.
const UNROLLED_CALLS: usize = 8;

/// Makes a call for each byte until `call` returns false. Returns the index of that byte.
#[inline]
pub(crate) fn call_each_byte(bytes: &[u8], mut call: impl FnMut(&u8) -> bool) -> Option<usize> {
    let (rows, rest) = bytes.as_chunks::<UNROLLED_CALLS>();
    for (row, bytes) in rows.iter().enumerate() {
        for (column, byte) in bytes.iter().enumerate() {
            if !call(byte) {
                return Some(row * UNROLLED_CALLS + column);
            }
        }
    }
    let stopped = rest.iter().position(|byte| !call(byte))?;
    Some(rows.len() * UNROLLED_CALLS + stopped)
}

/// Same as [`call_each_byte`], for calls that change the byte.
#[inline]
pub(crate) fn call_each_byte_mut(bytes: &mut [u8], mut call: impl FnMut(&mut u8) -> bool) -> Option<usize> {
    let (rows, rest) = bytes.as_chunks_mut::<UNROLLED_CALLS>();
    for (row, bytes) in rows.iter_mut().enumerate() {
        for (column, byte) in bytes.iter_mut().enumerate() {
            if !call(byte) {
                return Some(row * UNROLLED_CALLS + column);
            }
        }
    }
    let stopped = rest.iter_mut().position(|byte| !call(byte))?;
    Some(rows.len() * UNROLLED_CALLS + stopped)
}

/// The failure of a call for one byte that did not move it.
#[cold]
fn bytes_error(call: &'static str, moved: usize, result: Result<usize, Errno>) -> BytesError {
    let short = |got_bytes| Cause::Short { got_bytes, wanted_bytes: 1 };
    BytesError { call, moved, cause: result.map_or_else(Cause::Errno, short) }
}

/// Receives the counts of a worker and decides when it stops.
pub trait Tally {
    /// Starts counting.
    fn start(&mut self, now_ns: u64);

    /// Counts bytes written or read, each as one operation.
    fn moved(&mut self, bytes: u64, written: bool);

    /// Counts a compared piece.
    fn verified(&mut self);

    /// Takes note of the time that [`CHUNK_CALLS`] calls in a row took.
    fn chunk(&mut self, time_ns: u64);

    /// Ends an interval. Returns true if the worker must stop.
    fn tick(&mut self, now_ns: u64) -> bool;

    /// Hands over the remaining counts.
    fn finish(self, end_ns: u64);
}

/// Counts into a recorder of this process.
#[derive(Debug)]
pub struct RecorderTally<'a> {
    /// Takes the counts.
    pub recorder: Recorder,
    /// Raised by anyone who wants all workers to stop.
    pub stop: &'a AtomicBool,
}

impl Tally for RecorderTally<'_> {
    fn start(&mut self, now_ns: u64) {
        self.recorder.start(now_ns);
    }

    #[inline]
    fn moved(&mut self, bytes: u64, written: bool) {
        self.recorder.operations(bytes, bytes);
        if written { self.recorder.write(bytes) } else { self.recorder.read(bytes) }
    }

    fn verified(&mut self) {
        self.recorder.verified();
    }

    #[inline]
    fn chunk(&mut self, time_ns: u64) {
        self.recorder.chunk(time_ns);
    }

    fn tick(&mut self, now_ns: u64) -> bool {
        self.recorder.hand_over(now_ns);
        self.stop.load(Ordering::Relaxed)
    }

    fn finish(self, end_ns: u64) {
        self.recorder.finish(end_ns);
    }
}

/// Memory that a piece is written from, or read into.
enum Block {
    Written(Box<Pool>),
    Read(Box<[u8]>),
}

/// The work of one thread on bytes.
pub struct ByteWorker<C, B, T> {
    calls: B,
    clock: C,
    tally: T,
    spans: Vec<Span>,
    stamping: Stamping,
    block: Block,
    piece_bytes: u64,
    /// Operations left to do.
    left: u64,
    deadline_ns: u64,
    /// The current span, and the offset of the next byte in its file.
    span: usize,
    offset_bytes: u64,
    /// True once every byte of every span was visited.
    is_covered: bool,
    /// Whole pieces left to read until the next one is compared.
    pieces_until_verify: u32,
    draws: Draws,
    /// The rest of a piece that was begun, as a range of the block.
    rest: std::ops::Range<usize>,
    /// Calls made in the current chunk, and its start time. Time that the worker spends on its own work moves the start
    /// later.
    chunk_calls: u64,
    chunk_start_ns: u64,
    next_tick_ns: u64,
    /// The earlier of tick and deadline: time of the next call of `check_time`.
    next_check_ns: u64,
    is_stopping: bool,
    failure: Option<Failure>,
}

impl<C: Clock, B: ByteCalls, T: Tally> ByteWorker<C, B, T> {
    /// A worker on `spans` in turn, again and again, for at most `ops` bytes; `u64::MAX` means no limit. It writes if
    /// `writes` is given, else it reads. It is already positioned at its first byte.
    pub fn new(
        mut calls: B,
        clock: C,
        tally: T,
        spans: Vec<Span>,
        writes: Option<Content>,
        stamping: Stamping,
        ops: u64,
    ) -> Self {
        // Whole intervals: a single short one has too few bytes to hide the cost of a piece.
        let interval_bytes = stamping.interval_bytes;
        let piece_bytes = (STAMP_INTERVAL_BYTES / interval_bytes).max(1) * interval_bytes;
        let block = match writes {
            Some(content) => Block::Written(Box::new(Pool::new(content, piece_bytes, 1))),
            // Touch the memory, so that no page is missing when time counts.
            None => Block::Read(vec![1; piece_bytes].into()),
        };
        let offset_bytes = spans.first().map_or(0, |span| span.start_bytes);
        let is_empty = spans.iter().all(|span| span.start_bytes >= span.end_bytes);
        let placed = if is_empty { Ok(()) } else { calls.go_to(0, offset_bytes) };
        let mut draws = stamping.sample.draws();
        let mut worker = Self {
            calls,
            clock,
            tally,
            pieces_until_verify: draws.distance(),
            draws,
            stamping,
            block,
            piece_bytes: piece_bytes as u64,
            left: ops,
            deadline_ns: 0,
            span: 0,
            offset_bytes,
            is_covered: is_empty,
            rest: 0..0,
            chunk_calls: 0,
            chunk_start_ns: 0,
            next_tick_ns: 0,
            next_check_ns: 0,
            is_stopping: is_empty || ops == 0,
            failure: None,
            spans,
        };
        if let Err(bytes_error) = placed {
            worker.fail(bytes_error, None);
        }
        worker
    }

    /// Starts at `start_ns`, as all workers do. Runs until `deadline_ns`, or until all operations are done, the tally
    /// stops it, or a call fails.
    pub fn run(mut self, start_ns: u64, deadline_ns: u64) -> WorkerResult {
        self.deadline_ns = deadline_ns;
        self.clock.wait_until(start_ns);
        self.tally.start(start_ns);
        self.next_tick_ns = start_ns + INTERVAL_NS;
        self.next_check_ns = self.next_tick_ns.min(self.deadline_ns);
        self.is_stopping |= start_ns >= self.deadline_ns;
        // A late wake-up does not count as time of the calls.
        self.chunk_start_ns = self.clock.now_ns();
        while !self.is_stopping {
            self.piece();
        }
        // Bytes in the program's own buffer are not written yet: flushing them is part of the operations.
        if matches!(self.block, Block::Written(_))
            && let Err(bytes_error) = self.calls.flush()
        {
            self.fail(bytes_error, None);
        }
        let end_ns = self.clock.now_ns();
        self.complete();
        self.tally.finish(end_ns);
        WorkerResult {
            end_ns,
            result: self.failure.map_or(Ok(()), Err),
            is_covered: self.is_covered,
            missed: 0,
        }
    }

    /// Moves one piece, or as much of it as the stop rule allows.
    fn piece(&mut self) {
        if self.offset_bytes >= self.spans[self.span].end_bytes {
            self.next_span();
            return;
        }
        let Span { file, end_bytes, .. } = self.spans[self.span];
        let start_bytes = self.offset_bytes;
        let len = self.piece_bytes.min(end_bytes - start_bytes) as usize;
        self.stamp(file, start_bytes);
        let mut at = 0;
        while at < len && !self.is_stopping {
            let stride =
                (len - at).min(B::STRIDE_BYTES).min(usize::try_from(self.left).unwrap_or(usize::MAX));
            let result = match &mut self.block {
                Block::Written(pool) => self.calls.write(&pool.block(0)[at..at + stride]),
                Block::Read(block) => self.calls.read(&mut block[at..at + stride]),
            };
            let moved = match result {
                Ok(()) => stride,
                Err(bytes_error) => {
                    self.fail(bytes_error, Some(start_bytes + (at + bytes_error.moved) as u64));
                    bytes_error.moved
                }
            };
            at += moved;
            self.left -= moved as u64;
            self.is_stopping |= self.left == 0;
            self.tally.moved(moved as u64, matches!(self.block, Block::Written(_)));
            let now_ns = self.clock.now_ns();
            self.chunk_calls += moved as u64;
            if self.chunk_calls == CHUNK_CALLS {
                self.tally.chunk(now_ns.saturating_sub(self.chunk_start_ns));
                (self.chunk_calls, self.chunk_start_ns) = (0, now_ns);
            }
            if now_ns >= self.next_check_ns {
                self.check_time(now_ns);
            }
        }
        self.offset_bytes += at as u64;
        if at == len {
            self.is_covered |= self.offset_bytes == end_bytes && self.span + 1 == self.spans.len();
            self.verify(len, file, start_bytes);
        } else {
            self.rest = at..len;
        }
    }

    fn next_span(&mut self) {
        self.is_covered |= self.span + 1 == self.spans.len();
        self.span = if self.span + 1 == self.spans.len() { 0 } else { self.span + 1 };
        self.offset_bytes = self.spans[self.span].start_bytes;
        if let Err(bytes_error) = self.calls.go_to(self.span, self.offset_bytes) {
            self.fail(bytes_error, None);
        }
        // A span may end within a chunk. The next span lies elsewhere, so a new chunk begins.
        (self.chunk_calls, self.chunk_start_ns) = (0, self.clock.now_ns());
    }

    /// Prepares the next piece to write.
    fn stamp(&mut self, file: u32, offset_bytes: u64) {
        let Block::Written(pool) = &mut self.block else { return };
        let draft = pool.draft(0);
        if !draft.is_duplicate {
            let Stamping { seed, first_file, generation, interval_bytes, .. } = self.stamping;
            let (file, phase_bytes) = (first_file + file, draft.phase_bytes);
            let stamp = Stamp { seed, file, generation, offset_bytes, phase_bytes };
            data::stamp(draft.bytes, interval_bytes, stamp);
        }
    }

    /// Compares a piece that was read with the data written there, if its turn has come.
    fn verify(&mut self, len: usize, file: u32, offset_bytes: u64) {
        let Block::Read(block) = &self.block else { return };
        let Some(verifier) = &self.stamping.verifier else { return };
        self.pieces_until_verify -= 1;
        if self.pieces_until_verify > 0 {
            return;
        }
        self.pieces_until_verify = self.draws.distance();
        let start_ns = self.clock.now_ns();
        match verifier.verify(&block[..len], self.stamping.first_file + file, offset_bytes) {
            Ok(()) => self.tally.verified(),
            Err(mismatch) => {
                let bytes_error = BytesError { call: "verify", moved: 0, cause: Cause::Mismatch(mismatch) };
                self.fail(bytes_error, Some(offset_bytes));
            }
        }
        self.chunk_start_ns += self.clock.now_ns().saturating_sub(start_ns);
    }

    /// Writes the rest of the last piece, uncounted and after the measured time. The stop rule may end a piece
    /// anywhere. A piece whose end is older than its stamp would look damaged to any later verification.
    fn complete(&mut self) {
        let Block::Written(pool) = &self.block else { return };
        if self.failure.is_some() {
            return;
        }
        let mut rest = &pool.block(0)[self.rest.clone()];
        let mut offset_bytes = self.offset_bytes;
        while !rest.is_empty() {
            let result = rustix::io::pwrite(self.calls.file(self.span), rest, offset_bytes);
            match result {
                Ok(written) if written > 0 => {
                    rest = &rest[written..];
                    offset_bytes += written as u64;
                }
                Err(Errno::INTR) => {}
                result => {
                    let short = |got_bytes| Cause::Short { got_bytes, wanted_bytes: rest.len() };
                    let cause = result.map_or_else(Cause::Errno, short);
                    self.fail(BytesError { call: "pwrite", moved: 0, cause }, Some(offset_bytes));
                    return;
                }
            }
        }
    }

    /// Stops the worker after a failure. Only the first failure is reported.
    #[cold]
    fn fail(&mut self, bytes_error: BytesError, offset_bytes: Option<u64>) {
        self.is_stopping = true;
        let BytesError { call, cause, .. } = bytes_error;
        let file = self.spans.get(self.span).map_or(0, |span| span.file.into());
        self.failure.get_or_insert(Failure { call, file, offset_bytes, cause });
    }

    #[cold]
    fn check_time(&mut self, now_ns: u64) {
        if now_ns >= self.next_tick_ns {
            self.is_stopping |= self.tally.tick(now_ns);
            let missed = (now_ns - self.next_tick_ns) / INTERVAL_NS;
            self.next_tick_ns += (missed + 1) * INTERVAL_NS;
        }
        self.is_stopping |= now_ns >= self.deadline_ns;
        self.next_check_ns = self.next_tick_ns.min(self.deadline_ns.max(now_ns + 1));
        self.chunk_start_ns += self.clock.now_ns().saturating_sub(now_ns);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::{Read, Seek, Write};
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::clock::Monotonic;
    use crate::data::{STAMP_BYTES, Verifier};
    use crate::recorder::{DeltaReader, Shape};
    use crate::sample::Sample;

    pub const CONTENT: Content =
        Content { seed: 7, interval_bytes: 4096, compress_percent: 30, dedupe_percent: 0 };

    /// Files of three pieces, two pieces and none. No span covers the last; the first two are written whole in
    /// generation 0.
    pub fn data_set() -> [File; 3] {
        let files = std::array::from_fn(|_| tempfile::tempfile().unwrap());
        let mut pool = Pool::new(CONTENT, 4096, 1);
        for (index, (file, pieces)) in files.iter().zip([3, 2, 0]).enumerate() {
            for offset_bytes in (0..pieces).map(|piece| piece * 4096) {
                let draft = pool.draft(0);
                let (file_number, phase_bytes) = (10 + index as u32, draft.phase_bytes);
                let at = Stamp { seed: 7, file: file_number, generation: 0, offset_bytes, phase_bytes };
                data::stamp(draft.bytes, 4096, at);
                file.write_all_at(pool.block(0), offset_bytes).unwrap();
            }
        }
        files
    }

    /// The second and third piece of the first file, and the whole second file: 16 KiB.
    pub fn spans() -> Vec<Span> {
        vec![
            Span { file: 0, start_bytes: 4096, end_bytes: 12_288 },
            Span { file: 1, start_bytes: 0, end_bytes: 8192 },
        ]
    }

    pub fn stamping(generation: u32, verify_every: Option<u32>) -> Stamping {
        Stamping {
            seed: 7,
            first_file: 10,
            generation,
            interval_bytes: 4096,
            verifier: verify_every.map(|_| Verifier::new(CONTENT, 0..=generation)),
            sample: Sample { every: verify_every.unwrap_or(1), seed: 0 },
        }
    }

    /// Generation of every piece of a file; all must be whole.
    pub fn generations(file: &File, number: u32) -> Vec<u32> {
        let mut bytes = Vec::new();
        let mut file = file;
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() % 4096, 0);
        let verifier = Verifier::new(CONTENT, 0..=9);
        assert_eq!(verifier.verify(&bytes, number, 0), Ok(()));
        bytes.chunks(4096).map(|piece| Stamp::from_bytes(&piece[..STAMP_BYTES]).unwrap().generation).collect()
    }

    /// Counted operations, bytes read, bytes written, pieces compared.
    pub fn counter_totals(reader: &DeltaReader) -> [u64; 4] {
        let mut sums = [0; 4];
        reader.drain(|delta| {
            assert_eq!(delta.ops, delta.bytes);
            assert_eq!(delta.latencies.count(), 0);
            let counts = [delta.ops, delta.read_bytes, delta.written_bytes, delta.verified];
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        });
        sums
    }

    /// A clock that advances by one nanosecond with each read, and by ten at one chosen read.
    struct SteppingClock(std::cell::Cell<u64>, std::cell::Cell<u64>, u64);

    impl Clock for SteppingClock {
        fn now_ns(&self) -> u64 {
            self.0.set(self.0.get() + 1);
            self.1.set(self.1.get() + if self.0.get() == self.2 { 10 } else { 1 });
            self.1.get()
        }

        fn wait_until(&self, _: u64) {}
    }

    #[test]
    fn slowest_chunk_duration_is_recorded() {
        let slowest = |file: &File, span_bytes: u64, slow_read, verify_every: Option<u32>| {
            let (recorder, reader) = Recorder::new(Shape::default());
            let stop = AtomicBool::new(false);
            let tally = RecorderTally { recorder, stop: &stop };
            let span = vec![Span { file: 0, start_bytes: 0, end_bytes: span_bytes }];
            let clock = SteppingClock(0.into(), 0.into(), slow_read);
            let calls = SystemCalls::new(vec![duplicate(file)]);
            let stamping = stamping(0, verify_every);
            let worker = ByteWorker::new(calls, clock, tally, span, None, stamping, span_bytes);
            assert_eq!(worker.run(0, u64::MAX).result, Ok(()));
            let mut slowest = 0;
            reader.drain(|delta| slowest = slowest.max(delta.slowest_chunk_ns));
            slowest
        };
        let empty = tempfile::tempfile().unwrap();
        empty.set_len(4 * CHUNK_CALLS).unwrap();
        // Sixteen strides of 512 calls; one stride takes ten times as long as the others.
        let strides = CHUNK_CALLS / SystemCalls::STRIDE_BYTES as u64;
        assert_eq!(slowest(&empty, 4 * CHUNK_CALLS, u64::MAX, None), strides);
        assert_eq!(slowest(&empty, 4 * CHUNK_CALLS, 40, None), strides + 9);
        // Fewer calls than a chunk report nothing, and an unfinished chunk reports nothing either.
        assert_eq!(slowest(&empty, CHUNK_CALLS - 1, u64::MAX, None), 0);
        assert_eq!(slowest(&empty, CHUNK_CALLS + 1024, strides + 2, None), strides);
        // A comparison reads the clock once before and once after. The second read is not counted, however long it
        // takes.
        let [file, ..] = data_set();
        for slow_read in [u64::MAX, 11] {
            assert_eq!(slowest(&file, CHUNK_CALLS, slow_read, Some(1)), strides + 1);
        }
    }

    fn duplicate(file: &File) -> OwnedFd {
        file.try_clone().unwrap().into()
    }

    fn run(files: &[File], is_write: bool, stamping: Stamping, ops: u64) -> (WorkerResult, [u64; 4]) {
        let (recorder, reader) = Recorder::new(Shape::default());
        let stop = AtomicBool::new(false);
        let calls = SystemCalls::new(files[..2].iter().map(duplicate).collect());
        let tally = RecorderTally { recorder, stop: &stop };
        let is_write = is_write.then_some(CONTENT);
        let worker = ByteWorker::new(calls, Monotonic, tally, spans(), is_write, stamping, ops);
        let start_ns = Monotonic.now_ns();
        let ended = worker.run(start_ns, u64::MAX);
        assert!(ended.end_ns > start_ns);
        (ended, counter_totals(&reader))
    }

    #[test]
    fn write_past_the_last_span_restarts_at_the_first() {
        let files = data_set();
        let (ended, counts) = run(&files, true, stamping(1, None), 10_000);
        assert_eq!((ended.result, ended.is_covered, counts), (Ok(()), false, [10_000, 0, 10_000, 0]));
        // The second and third piece of the first file, and the begun first piece of the second file, completed.
        assert_eq!(generations(&files[0], 10), [0, 1, 1]);
        assert_eq!(generations(&files[1], 11), [1, 0]);
        let (ended, counts) = run(&files, true, stamping(2, None), 16_384 + 4097);
        assert_eq!((ended.is_covered, counts[2]), (true, 20_481));
        assert_eq!((generations(&files[0], 10), generations(&files[1], 11)), (vec![0, 2, 2], vec![2, 2]));
    }

    #[test]
    fn bytes_are_read_and_compared() {
        let files = data_set();
        let (ended, counts) = run(&files, false, stamping(0, Some(1)), 2 * 16_384);
        assert_eq!((ended.result, ended.is_covered, counts), (Ok(()), true, [32_768, 32_768, 0, 8]));
        let (_, counts) = run(&files, false, stamping(0, Some(3)), 3 * 16_384);
        assert_eq!(counts[3], 4);
        // A piece that was not read whole cannot be compared.
        let (ended, counts) = run(&files, false, stamping(0, Some(1)), 16_383);
        assert_eq!((ended.is_covered, counts), (false, [16_383, 16_383, 0, 3]));
        files[1].write_all_at(b"?", 4096 + 100).unwrap();
        let (ended, counts) = run(&files, false, stamping(0, Some(1)), u64::MAX);
        let failure = ended.result.unwrap_err();
        assert_eq!((failure.call, failure.file, failure.offset_bytes), ("verify", 1, Some(4096)));
        let Cause::Mismatch(mismatch) = failure.cause else { panic!("{failure:?}") };
        assert_eq!((mismatch.offset_bytes, counts[0], counts[3]), (4196, 16_384, 3));
        assert_eq!(run(&files, false, stamping(0, None), 16_384).0.result, Ok(()), "not asked to compare");
    }

    #[test]
    fn deadline_or_stop_flag_ends_run_within_piece() {
        let files = data_set();
        for (deadline_ns, stopped) in [(30_000_000, false), (u64::MAX / 2, true)] {
            let (recorder, reader) = Recorder::new(Shape::default());
            let stop = AtomicBool::new(stopped);
            let calls = SystemCalls::new(files[..2].iter().map(duplicate).collect());
            let tally = RecorderTally { recorder, stop: &stop };
            let start_ns = Monotonic.now_ns();
            let stamping = stamping(3, None);
            let worker = ByteWorker::new(calls, Monotonic, tally, spans(), Some(CONTENT), stamping, u64::MAX);
            let ended = worker.run(start_ns, start_ns + deadline_ns);
            assert_eq!(ended.result, Ok(()));
            assert!(ended.end_ns - start_ns >= if stopped { INTERVAL_NS } else { 30_000_000 });
            assert_eq!(counter_totals(&reader)[0] % SystemCalls::STRIDE_BYTES as u64, 0);
            generations(&files[0], 10);
            generations(&files[1], 11);
        }
    }

    #[test]
    fn zero_byte_run_writes_no_data() {
        let files = data_set();
        let (ended, counts) = run(&files, true, stamping(1, None), 0);
        assert_eq!((ended.result, ended.is_covered, counts[0]), (Ok(()), false, 0));
        assert_eq!(generations(&files[0], 10), [0, 0, 0]);
    }

    #[test]
    fn failure_names_call_file_and_offset() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (ended, counts) = run(&[duplicate(&full).into(), full], true, stamping(1, None), 100);
        let failure = ended.result.unwrap_err();
        assert_eq!((failure.call, failure.file, failure.offset_bytes), ("write", 0, Some(4096)));
        assert_eq!((failure.cause, counts[0]), (Errno::NOSPC.into(), 0));
        // A file that became shorter ends in the middle of a piece.
        let mut files = data_set();
        files[1].set_len(5000).unwrap();
        files[1].flush().unwrap();
        let (ended, counts) = run(&files, false, stamping(0, Some(1)), u64::MAX);
        let failure = ended.result.unwrap_err();
        assert_eq!((failure.call, failure.file, failure.offset_bytes), ("read", 1, Some(5000)));
        assert_eq!((failure.cause, counts[0]), (Cause::Short { got_bytes: 0, wanted_bytes: 1 }, 8192 + 5000));
    }

    #[test]
    fn single_piece_holds_several_short_stamp_intervals() {
        let content = Content { interval_bytes: 512, dedupe_percent: 50, ..CONTENT };
        let file = tempfile::tempfile().unwrap();
        let verifier = Verifier::new(content, 1..=1);
        let stamping =
            Stamping { interval_bytes: 512, verifier: Some(verifier.clone()), ..stamping(1, Some(1)) };
        let span = vec![Span { file: 0, start_bytes: 0, end_bytes: 9 * 512 }];
        for writes in [Some(content), None] {
            let (recorder, reader) = Recorder::new(Shape::default());
            let stop = AtomicBool::new(false);
            let tally = RecorderTally { recorder, stop: &stop };
            let (calls, stamping) = (SystemCalls::new(vec![duplicate(&file)]), stamping.clone());
            let worker = ByteWorker::new(calls, Monotonic, tally, span.clone(), writes, stamping, 9 * 512);
            let ended = worker.run(Monotonic.now_ns(), u64::MAX);
            assert_eq!((ended.result, ended.is_covered), (Ok(()), true));
            assert_eq!(counter_totals(&reader)[3], if writes.is_some() { 0 } else { 2 });
        }
    }
}
