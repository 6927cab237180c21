//! Byte verbs: one operation is one byte, moved by one call of its own, in sequence.
//!
//! A call of the C library takes some ten instructions, so that nothing else may stand beside it: the inner loop runs
//! over a stride of at most a piece of 4 KiB that was stamped before, and clock, stop rule and counts are looked at
//! between strides alone. No operation has a latency of its own: reading a clock would cost more than the call. What the
//! looks at the clock tell for nothing is how long many calls in a row took, of which the longest time is kept.
//! Unlike blocks, bytes go through the position of an open file, which is why each worker has files of its own.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::clock::Clock;
use crate::data::{self, Content, Pool, STAMP_INTERVAL_BYTES, Stamp};
use crate::failure::{Cause, Failure};
use crate::recorder::{INTERVAL_NS, Recorder};
use crate::worker::{Ended, Stamping};

/// Calls in a row of which the longest time is kept: as many as bonnie++ times at once, and a multiple of every stride.
pub const CHUNK_CALLS: u64 = 8192;

/// A worker's part of one file of its data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Number of the file in its group.
    pub file: u32,
    /// Where it begins in the file: a multiple of the interval of stamps, as is its end.
    pub start_bytes: u64,
    /// Where it ends.
    pub end_bytes: u64,
}

/// Why calls were given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The call that failed.
    pub call: &'static str,
    /// Bytes that were moved before.
    pub moved: usize,
    /// Why it failed.
    pub cause: Cause,
}

impl Refused {
    /// A call that moved nothing and said why.
    pub fn errno(call: &'static str, errno: Errno) -> Self {
        Self { call, moved: 0, cause: errno.into() }
    }
}

/// Moves bytes, each by a call of its own, to and from the position of a file.
pub trait ByteCalls {
    /// Most bytes between two looks at the clock: as few as their calls hide the cost of, so that a slow file system
    /// does not keep a worker long past its deadline.
    const STRIDE_BYTES: usize;

    /// Goes to a place in the file of a span.
    ///
    /// # Errors
    /// What kept it from getting there, or from leaving the file before.
    fn go_to(&mut self, span: usize, offset_bytes: u64) -> Result<(), Refused>;

    /// Writes each byte.
    ///
    /// # Errors
    /// The first byte that was not written.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Refused>;

    /// Reads each byte.
    ///
    /// # Errors
    /// The first byte that was not read.
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), Refused>;

    /// Hands what is still in the program's own buffer to the kernel.
    ///
    /// # Errors
    /// What the call said.
    fn flush(&mut self) -> Result<(), Refused>;

    /// The file of a span.
    fn file(&self, span: usize) -> &OwnedFd;
}

/// `write` and `read`: a system call for each byte.
#[derive(Debug)]
pub struct SystemCalls {
    files: Vec<OwnedFd>,
    current: usize,
}

impl SystemCalls {
    /// Calls on the file of each span, opened for this worker alone: whoever shares an open file moves its position.
    pub fn new(files: Vec<OwnedFd>) -> Self {
        Self { files, current: 0 }
    }
}

impl ByteCalls for SystemCalls {
    /// A look costs as much as six calls without the kernel's part of them. On a rotating disk that makes each write
    /// durable, at 10 ms a piece, a worker looks up every five seconds.
    const STRIDE_BYTES: usize = 512;

    fn go_to(&mut self, span: usize, offset_bytes: u64) -> Result<(), Refused> {
        self.current = span;
        let at = rustix::fs::seek(&self.files[span], SeekFrom::Start(offset_bytes));
        at.map(drop).map_err(|errno| Refused::errno("lseek", errno))
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        let file = self.files[self.current].as_fd();
        let mut at = 0;
        loop {
            let mut result = Ok(1);
            let stopped = in_rows(&bytes[at..], |byte| {
                let wrote = rustix::io::write(file, std::slice::from_ref(byte));
                if wrote != Ok(1) {
                    result = wrote;
                }
                wrote == Ok(1)
            });
            let Some(moved) = stopped else { return Ok(()) };
            at += moved;
            if result != Err(Errno::INTR) {
                return Err(refused("write", at, result));
            }
        }
    }

    #[inline]
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), Refused> {
        let file = self.files[self.current].as_fd();
        let mut at = 0;
        loop {
            let mut result = Ok(1);
            let stopped = in_rows_mut(&mut bytes[at..], |byte| {
                let got = rustix::io::read(file, std::slice::from_mut(byte));
                if got != Ok(1) {
                    result = got;
                }
                got == Ok(1)
            });
            let Some(moved) = stopped else { return Ok(()) };
            at += moved;
            if result != Err(Errno::INTR) {
                return Err(refused("read", at, result));
            }
        }
    }

    fn flush(&mut self) -> Result<(), Refused> {
        Ok(())
    }

    fn file(&self, span: usize) -> &OwnedFd {
        &self.files[span]
    }
}

/// Calls in a row between two counts of the loop, so that counting and keeping what was read cost less than the plain
/// loop that we are compared with.
const ROW: usize = 8;

/// Makes a call for each byte, up to the first of which `call` is false: its number.
#[inline]
pub(crate) fn in_rows(bytes: &[u8], mut call: impl FnMut(&u8) -> bool) -> Option<usize> {
    let (rows, rest) = bytes.as_chunks::<ROW>();
    for (row, bytes) in rows.iter().enumerate() {
        for (column, byte) in bytes.iter().enumerate() {
            if !call(byte) {
                return Some(row * ROW + column);
            }
        }
    }
    let stopped = rest.iter().position(|byte| !call(byte))?;
    Some(rows.len() * ROW + stopped)
}

/// As [`in_rows`], for calls that change the byte.
#[inline]
pub(crate) fn in_rows_mut(bytes: &mut [u8], mut call: impl FnMut(&mut u8) -> bool) -> Option<usize> {
    let (rows, rest) = bytes.as_chunks_mut::<ROW>();
    for (row, bytes) in rows.iter_mut().enumerate() {
        for (column, byte) in bytes.iter_mut().enumerate() {
            if !call(byte) {
                return Some(row * ROW + column);
            }
        }
    }
    let stopped = rest.iter_mut().position(|byte| !call(byte))?;
    Some(rows.len() * ROW + stopped)
}

/// A call for one byte that did not move it.
#[cold]
fn refused(call: &'static str, moved: usize, result: Result<usize, Errno>) -> Refused {
    let short = |got_bytes| Cause::Short { got_bytes, wanted_bytes: 1 };
    Refused { call, moved, cause: result.map_or_else(Cause::Errno, short) }
}

/// Where the counts of a worker go, and whence it is told to stop.
pub trait Tally {
    /// Counting begins.
    fn start(&mut self, now_ns: u64);

    /// Counts bytes that were written or read: as many operations.
    fn moved(&mut self, bytes: u64, written: bool);

    /// Counts a piece that was compared.
    fn verified(&mut self);

    /// Takes note of how long [`CHUNK_CALLS`] calls in a row took.
    fn chunk(&mut self, time_ns: u64);

    /// An interval is over. Tells whether to stop.
    fn tick(&mut self, now_ns: u64) -> bool;

    /// Hands over what is left.
    fn finish(self, end_ns: u64);
}

/// Counts into a recorder of this process.
#[derive(Debug)]
pub struct Recorded<'a> {
    /// Takes the counts.
    pub recorder: Recorder,
    /// Raised by whoever wants all workers to stop.
    pub stop: &'a AtomicBool,
}

impl Tally for Recorded<'_> {
    fn start(&mut self, now_ns: u64) {
        self.recorder.start(now_ns);
    }

    #[inline]
    fn moved(&mut self, bytes: u64, written: bool) {
        self.recorder.operations(bytes, bytes);
        if written { self.recorder.written(bytes) } else { self.recorder.read(bytes) }
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

/// What a piece is written from, or read into.
enum Block {
    Written(Box<Pool>),
    Read(Box<[u8]>),
}

/// A thread's work on bytes.
pub struct ByteWorker<C, B, T> {
    calls: B,
    clock: C,
    tally: T,
    spans: Vec<Span>,
    stamping: Stamping,
    block: Block,
    piece_bytes: u64,
    /// Operations that are left.
    left: u64,
    deadline_ns: u64,
    /// The current span, and where in its file the next byte lies.
    span: usize,
    offset_bytes: u64,
    /// Every byte of every span was visited.
    is_covered: bool,
    /// Whole pieces to be read until the next one is compared.
    until_verified: u32,
    /// What is left of a piece that was begun, as a part of the block.
    rest: std::ops::Range<usize>,
    /// Calls of the chunk that was begun, and when that was, later by what the worker did for itself since.
    chunk_calls: u64,
    chunk_start_ns: u64,
    next_tick_ns: u64,
    /// At which of tick and deadline the loop looks up next.
    look_up_ns: u64,
    drained: bool,
    failure: Option<Failure>,
}

impl<C: Clock, B: ByteCalls, T: Tally> ByteWorker<C, B, T> {
    /// A worker on `spans` in turn, again and again, for at most `ops` bytes: `u64::MAX` for no limit. It writes if
    /// there is something to write, else it reads. It stands at its first byte already.
    pub fn new(
        mut calls: B,
        clock: C,
        tally: T,
        spans: Vec<Span>,
        writes: Option<Content>,
        stamping: Stamping,
        ops: u64,
    ) -> Self {
        // Whole intervals: short ones would leave too few bytes to hide what a piece costs.
        let interval_bytes = stamping.interval_bytes;
        let piece_bytes = (STAMP_INTERVAL_BYTES / interval_bytes).max(1) * interval_bytes;
        let block = match writes {
            Some(content) => Block::Written(Box::new(Pool::new(content, piece_bytes, 1))),
            // Touched, so that no page is missing when time counts.
            None => Block::Read(vec![1; piece_bytes].into()),
        };
        let offset_bytes = spans.first().map_or(0, |span| span.start_bytes);
        let is_empty = spans.iter().all(|span| span.start_bytes >= span.end_bytes);
        let placed = if is_empty { Ok(()) } else { calls.go_to(0, offset_bytes) };
        let mut worker = Self {
            calls,
            clock,
            tally,
            until_verified: stamping.verify_every,
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
            look_up_ns: 0,
            drained: is_empty || ops == 0,
            failure: None,
            spans,
        };
        if let Err(refused) = placed {
            worker.fail(refused, None);
        }
        worker
    }

    /// Begins at `start_ns`, as all workers do, and runs until `deadline_ns` has come, the operations are done, the
    /// tally says so, or a call fails.
    pub fn run(mut self, start_ns: u64, deadline_ns: u64) -> Ended {
        self.deadline_ns = deadline_ns;
        self.clock.wait_until(start_ns);
        self.tally.start(start_ns);
        self.next_tick_ns = start_ns + INTERVAL_NS;
        self.look_up_ns = self.next_tick_ns.min(self.deadline_ns);
        self.drained |= start_ns >= self.deadline_ns;
        // Waking up late is none of the calls' time.
        self.chunk_start_ns = self.clock.now_ns();
        while !self.drained {
            self.piece();
        }
        // What lies in a buffer of the program was not written yet: handing it over is part of the operations.
        if matches!(self.block, Block::Written(_))
            && let Err(refused) = self.calls.flush()
        {
            self.fail(refused, None);
        }
        let end_ns = self.clock.now_ns();
        self.complete();
        self.tally.finish(end_ns);
        Ended { end_ns, result: self.failure.map_or(Ok(()), Err), is_covered: self.is_covered, missed: 0 }
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
        while at < len && !self.drained {
            let stride =
                (len - at).min(B::STRIDE_BYTES).min(usize::try_from(self.left).unwrap_or(usize::MAX));
            let result = match &mut self.block {
                Block::Written(pool) => self.calls.write(&pool.block(0)[at..at + stride]),
                Block::Read(block) => self.calls.read(&mut block[at..at + stride]),
            };
            let moved = match result {
                Ok(()) => stride,
                Err(refused) => {
                    self.fail(refused, Some(start_bytes + (at + refused.moved) as u64));
                    refused.moved
                }
            };
            at += moved;
            self.left -= moved as u64;
            self.drained |= self.left == 0;
            self.tally.moved(moved as u64, matches!(self.block, Block::Written(_)));
            let now_ns = self.clock.now_ns();
            self.chunk_calls += moved as u64;
            if self.chunk_calls == CHUNK_CALLS {
                self.tally.chunk(now_ns.saturating_sub(self.chunk_start_ns));
                (self.chunk_calls, self.chunk_start_ns) = (0, now_ns);
            }
            if now_ns >= self.look_up_ns {
                self.look_up(now_ns);
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
        if let Err(refused) = self.calls.go_to(self.span, self.offset_bytes) {
            self.fail(refused, None);
        }
        // A span may end within a chunk, and what comes next is another place.
        (self.chunk_calls, self.chunk_start_ns) = (0, self.clock.now_ns());
    }

    /// Makes the next piece that will be written.
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

    /// Compares a piece that was read with what was written there, if it is its turn.
    fn verify(&mut self, len: usize, file: u32, offset_bytes: u64) {
        let Block::Read(block) = &self.block else { return };
        let Some(verifier) = &self.stamping.verifier else { return };
        self.until_verified -= 1;
        if self.until_verified > 0 {
            return;
        }
        self.until_verified = self.stamping.verify_every;
        let begun_ns = self.clock.now_ns();
        match verifier.verify(&block[..len], self.stamping.first_file + file, offset_bytes) {
            Ok(()) => self.tally.verified(),
            Err(mismatch) => {
                let refused = Refused { call: "verify", moved: 0, cause: Cause::Mismatch(mismatch) };
                self.fail(refused, Some(offset_bytes));
            }
        }
        self.chunk_start_ns += self.clock.now_ns().saturating_sub(begun_ns);
    }

    /// Writes what is left of the last piece, after the measured time and uncounted: the stop rule may hold anywhere
    /// in a piece, and one of which the end is older than its stamp would be damaged for whoever verifies it.
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
                    self.fail(Refused { call: "pwrite", moved: 0, cause }, Some(offset_bytes));
                    return;
                }
            }
        }
    }

    /// Nothing more is moved after a failure; the first one is told.
    #[cold]
    fn fail(&mut self, refused: Refused, offset_bytes: Option<u64>) {
        self.drained = true;
        let Refused { call, cause, .. } = refused;
        let file = self.spans.get(self.span).map_or(0, |span| span.file.into());
        self.failure.get_or_insert(Failure { call, file, offset_bytes, cause });
    }

    #[cold]
    fn look_up(&mut self, now_ns: u64) {
        if now_ns >= self.next_tick_ns {
            self.drained |= self.tally.tick(now_ns);
            let missed = (now_ns - self.next_tick_ns) / INTERVAL_NS;
            self.next_tick_ns += (missed + 1) * INTERVAL_NS;
        }
        self.drained |= now_ns >= self.deadline_ns;
        self.look_up_ns = self.next_tick_ns.min(self.deadline_ns.max(now_ns + 1));
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

    pub const CONTENT: Content =
        Content { seed: 7, interval_bytes: 4096, compress_percent: 30, dedupe_percent: 0 };

    /// Files of three and two pieces, and one that no span is on; the first two are written whole in generation 0.
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
            verify_every: verify_every.unwrap_or(1),
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

    /// What was counted: operations, bytes read, bytes written, pieces compared.
    pub fn counted(reader: &DeltaReader) -> [u64; 4] {
        let mut sums = [0; 4];
        reader.drain(|delta| {
            assert_eq!(delta.ops, delta.bytes);
            assert_eq!(delta.latencies.count(), 0);
            let counts = [delta.ops, delta.read_bytes, delta.written_bytes, delta.verified];
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        });
        sums
    }

    /// A clock that goes on by a second with each look; by ten at the look that is named.
    struct Looks(std::cell::Cell<u64>, std::cell::Cell<u64>, u64);

    impl Clock for Looks {
        fn now_ns(&self) -> u64 {
            self.0.set(self.0.get() + 1);
            self.1.set(self.1.get() + if self.0.get() == self.2 { 10 } else { 1 });
            self.1.get()
        }

        fn wait_until(&self, _: u64) {}
    }

    #[test]
    fn the_slowest_calls_in_a_row_are_told() {
        let slowest = |file: &File, span_bytes: u64, slow_look, verify_every: Option<u32>| {
            let (recorder, reader) = Recorder::new(Shape::default());
            let stop = AtomicBool::new(false);
            let tally = Recorded { recorder, stop: &stop };
            let span = vec![Span { file: 0, start_bytes: 0, end_bytes: span_bytes }];
            let clock = Looks(0.into(), 0.into(), slow_look);
            let calls = SystemCalls::new(vec![own(file)]);
            let stamping = stamping(0, verify_every);
            let worker = ByteWorker::new(calls, clock, tally, span, None, stamping, span_bytes);
            assert_eq!(worker.run(0, u64::MAX).result, Ok(()));
            let mut slowest = 0;
            reader.drain(|delta| slowest = slowest.max(delta.slowest_chunk_ns));
            slowest
        };
        let empty = tempfile::tempfile().unwrap();
        empty.set_len(4 * CHUNK_CALLS).unwrap();
        // Sixteen strides of 512 calls, of which one takes ten times as long as the others.
        let strides = CHUNK_CALLS / SystemCalls::STRIDE_BYTES as u64;
        assert_eq!(slowest(&empty, 4 * CHUNK_CALLS, u64::MAX, None), strides);
        assert_eq!(slowest(&empty, 4 * CHUNK_CALLS, 40, None), strides + 9);
        // Fewer calls than that tell nothing, nor do those of a chunk that was not finished.
        assert_eq!(slowest(&empty, CHUNK_CALLS - 1, u64::MAX, None), 0);
        assert_eq!(slowest(&empty, CHUNK_CALLS + 1024, strides + 2, None), strides);
        // Comparing takes a look before and one behind it, of which the latter is not counted, however long it takes.
        let [file, ..] = data_set();
        for slow_look in [u64::MAX, 11] {
            assert_eq!(slowest(&file, CHUNK_CALLS, slow_look, Some(1)), strides + 1);
        }
    }

    fn own(file: &File) -> OwnedFd {
        file.try_clone().unwrap().into()
    }

    fn run(files: &[File], writes: bool, stamping: Stamping, ops: u64) -> (Ended, [u64; 4]) {
        let (recorder, reader) = Recorder::new(Shape::default());
        let stop = AtomicBool::new(false);
        let calls = SystemCalls::new(files[..2].iter().map(own).collect());
        let tally = Recorded { recorder, stop: &stop };
        let writes = writes.then_some(CONTENT);
        let worker = ByteWorker::new(calls, Monotonic, tally, spans(), writes, stamping, ops);
        let start_ns = Monotonic.now_ns();
        let ended = worker.run(start_ns, u64::MAX);
        assert!(ended.end_ns > start_ns);
        (ended, counted(&reader))
    }

    #[test]
    fn bytes_are_written_over_all_spans_and_begin_again() {
        let files = data_set();
        let (ended, counts) = run(&files, true, stamping(1, None), 10_000);
        assert_eq!((ended.result, ended.is_covered, counts), (Ok(()), false, [10_000, 0, 10_000, 0]));
        // The first file's second and third piece, and what was begun of the second file's first, made whole.
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
        let (_, counts) = run(&files, false, stamping(0, Some(3)), 2 * 16_384);
        assert_eq!(counts[3], 2);
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
    fn the_deadline_and_the_stop_flag_are_seen_within_a_piece() {
        let files = data_set();
        for (deadline_ns, stopped) in [(30_000_000, false), (u64::MAX / 2, true)] {
            let (recorder, reader) = Recorder::new(Shape::default());
            let stop = AtomicBool::new(stopped);
            let calls = SystemCalls::new(files[..2].iter().map(own).collect());
            let tally = Recorded { recorder, stop: &stop };
            let start_ns = Monotonic.now_ns();
            let stamping = stamping(3, None);
            let worker = ByteWorker::new(calls, Monotonic, tally, spans(), Some(CONTENT), stamping, u64::MAX);
            let ended = worker.run(start_ns, start_ns + deadline_ns);
            assert_eq!(ended.result, Ok(()));
            assert!(ended.end_ns - start_ns >= if stopped { INTERVAL_NS } else { 30_000_000 });
            assert_eq!(counted(&reader)[0] % SystemCalls::STRIDE_BYTES as u64, 0);
            generations(&files[0], 10);
            generations(&files[1], 11);
        }
    }

    #[test]
    fn nothing_to_do_is_done() {
        let files = data_set();
        let (ended, counts) = run(&files, true, stamping(1, None), 0);
        assert_eq!((ended.result, ended.is_covered, counts[0]), (Ok(()), false, 0));
        assert_eq!(generations(&files[0], 10), [0, 0, 0]);
    }

    #[test]
    fn failures_say_where() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (ended, counts) = run(&[own(&full).into(), full], true, stamping(1, None), 100);
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
    fn short_intervals_share_a_piece() {
        let content = Content { interval_bytes: 512, dedupe_percent: 50, ..CONTENT };
        let file = tempfile::tempfile().unwrap();
        let verifier = Verifier::new(content, 1..=1);
        let stamping =
            Stamping { interval_bytes: 512, verifier: Some(verifier.clone()), ..stamping(1, Some(1)) };
        let span = vec![Span { file: 0, start_bytes: 0, end_bytes: 9 * 512 }];
        for writes in [Some(content), None] {
            let (recorder, reader) = Recorder::new(Shape::default());
            let stop = AtomicBool::new(false);
            let tally = Recorded { recorder, stop: &stop };
            let (calls, stamping) = (SystemCalls::new(vec![own(&file)]), stamping.clone());
            let worker = ByteWorker::new(calls, Monotonic, tally, span.clone(), writes, stamping, 9 * 512);
            let ended = worker.run(Monotonic.now_ns(), u64::MAX);
            assert_eq!((ended.result, ended.is_covered), (Ok(()), true));
            assert_eq!(counted(&reader)[3], if writes.is_some() { 0 } else { 2 });
        }
    }
}
