//! Zones: parts of the data that a worker visits one after the other, and the time of each: the rate over the offset.
//!
//! A worker requests the next zone where it would otherwise have no more blocks ([`Worker::in_zones`]), so that its
//! loop has no branch for zones. The times go to a preallocated [`SharedZoneTimes`], which other threads may read at
//! any time.
//!
//! [`ZeroWriter`] is no worker. It writes zeros within a file for zcav, and nothing else.
//!
//! [`Worker::in_zones`]: crate::worker::Worker::in_zones

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rustix::fs::{fdatasync, fstat};
use rustix::io::{Errno, pwrite};

use crate::buffer::AlignedBuffer;
use crate::clock::Clock;
use crate::failure::{Cause, Failure};
use crate::pattern::Pattern;

/// Times of zones, open to readers on other threads.
#[derive(Debug)]
pub struct SharedZoneTimes {
    times_ns: Box<[AtomicU64]>,
    visited_zones: AtomicUsize,
}

impl SharedZoneTimes {
    /// A board for this number of zones.
    pub fn new(zones: usize) -> Self {
        Self { times_ns: (0..zones).map(|_| AtomicU64::new(0)).collect(), visited_zones: AtomicUsize::new(0) }
    }

    /// Zones that were visited to their end.
    pub fn visited_zones(&self) -> usize {
        self.visited_zones.load(Ordering::Acquire)
    }

    /// Time that a visited zone took.
    pub fn time_ns(&self, zone: usize) -> u64 {
        self.times_ns.get(zone).map_or(0, |time| time.load(Ordering::Relaxed))
    }

    /// Adds the time of a zone. Only one thread writes.
    fn put(&self, time_ns: u64) {
        let visited_zones = self.visited_zones.load(Ordering::Relaxed);
        if let Some(time) = self.times_ns.get(visited_zones) {
            time.store(time_ns, Ordering::Relaxed);
            self.visited_zones.store(visited_zones + 1, Ordering::Release);
        }
    }
}

/// Zones that a worker visits.
#[derive(Debug)]
pub struct Zones {
    /// Blocks of each zone.
    blocks: Box<[Range<u64>]>,
    /// Offset at which the data ends, perhaps within the last block.
    end_bytes: u64,
    time_table: Arc<SharedZoneTimes>,
    since_ns: u64,
}

impl Zones {
    /// Zones of these blocks, whose times go to the board. The data ends at `end_bytes`.
    pub fn new(blocks: Box<[Range<u64>]>, end_bytes: u64, time_table: Arc<SharedZoneTimes>) -> Self {
        Self { blocks, end_bytes, time_table, since_ns: 0 }
    }

    /// Blocks of the zone that is visited now.
    pub(crate) fn pattern(&self) -> Option<Pattern> {
        let blocks = self.blocks.get(self.time_table.visited_zones())?;
        let count = blocks.end - blocks.start;
        Some(Pattern::new(blocks.start, count, false, 0, count))
    }

    /// Begins the first zone.
    pub(crate) fn begin(&mut self, start_ns: u64) {
        self.since_ns = start_ns;
    }

    /// Ends a zone at the end of its last call. Returns the blocks of the next one.
    pub(crate) fn next(&mut self, end_ns: u64) -> Option<Pattern> {
        self.time_table.put(end_ns.saturating_sub(self.since_ns));
        self.since_ns = end_ns;
        self.pattern()
    }

    /// True if the data ends where a short read ended.
    pub(crate) fn end_at(&self, offset_bytes: u64) -> bool {
        offset_bytes == self.end_bytes
    }
}

/// A file in which zeros are written over zones, and made durable call by call.
#[derive(Debug)]
pub struct ZeroWriter {
    /// The open file.
    pub file: OwnedFd,
    /// Bytes of each call.
    pub chunk_bytes: usize,
    /// Parts of the file in the order of visits.
    pub zones: Vec<Range<u64>>,
    /// Receives their times.
    pub time_table: Arc<SharedZoneTimes>,
    /// Receives the number of bytes written.
    pub moved_bytes: Arc<AtomicU64>,
    /// Raised by anyone who wants it to stop.
    pub stop: Arc<AtomicBool>,
}

/// Result of a pass over the zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZeroPassResult {
    /// Bytes of the zone in which it ended early, and their time. That zone is not on the board.
    pub partial: Option<(u64, u64)>,
    /// `Ok` if each zone was written, or if a stop was requested.
    pub result: Result<(), Failure>,
}

impl ZeroWriter {
    /// Writes all zones once.
    pub fn run<C: Clock>(&self, clock: &C) -> ZeroPassResult {
        let mut zeros = AlignedBuffer::new(self.chunk_bytes);
        // Touch the buffer once, so that no page is missing when time counts.
        zeros.bytes_mut().fill(0);
        self.pass(clock, zeros.bytes())
    }

    /// Writes all zones once, from a buffer of zeros.
    pub fn pass<C: Clock>(&self, clock: &C, zeros: &[u8]) -> ZeroPassResult {
        // The first call's time must not include writing pages that others left dirty.
        let _ = fdatasync(&self.file);
        let mut since_ns = clock.now_ns();
        for zone in &self.zones {
            let (end_bytes, result) = self.zone(zone, zeros);
            let now_ns = clock.now_ns();
            let time_ns = now_ns.saturating_sub(since_ns);
            since_ns = now_ns;
            if end_bytes < zone.end {
                let moved_bytes = end_bytes - zone.start;
                // A failed call took time that belongs to no byte of the zone.
                let is_timed = !matches!(result, Err(Failure { cause: Cause::Errno(_), .. }));
                let partial = (moved_bytes > 0 && is_timed).then_some((moved_bytes, time_ns));
                return ZeroPassResult { partial, result };
            }
            self.time_table.put(time_ns);
        }
        ZeroPassResult { partial: None, result: Ok(()) }
    }

    /// Writes a zone. Returns the offset that it reached, and the failure if one ended it early.
    fn zone(&self, zone: &Range<u64>, zeros: &[u8]) -> (u64, Result<(), Failure>) {
        let mut at = zone.start;
        while at < zone.end {
            if self.stop.load(Ordering::Relaxed) {
                return (at, Ok(()));
            }
            let wanted_bytes = usize::try_from(zone.end - at).unwrap_or(usize::MAX).min(zeros.len());
            match self.write(at, &zeros[..wanted_bytes]) {
                Ok(0) => return (at, Err(failure(at, Cause::Short { got_bytes: 0, wanted_bytes }))),
                Ok(bytes) => {
                    at += bytes as u64;
                    self.moved_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return (at, Err(failure(at, errno.into()))),
            }
        }
        (at, Ok(()))
    }

    fn write(&self, at: u64, zeros: &[u8]) -> Result<usize, Errno> {
        // Never extends a file that someone has made shorter.
        let size_bytes = u64::try_from(fstat(&self.file)?.st_size).unwrap_or(0);
        if at + zeros.len() as u64 > size_bytes {
            return Ok(0);
        }
        let written_bytes = pwrite(&self.file, zeros, at)?;
        fdatasync(&self.file)?;
        Ok(written_bytes)
    }
}

#[cold]
fn failure(offset_bytes: u64, cause: Cause) -> Failure {
    Failure { call: "write", file: 0, offset_bytes: Some(offset_bytes), cause }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::clock::Monotonic;
    use crate::pacing::ClosedLoop;
    use crate::recorder::{Recorder, Shape};
    use crate::sync::SyncEngine;
    use crate::verb::Read;
    use crate::worker::{Layout, Limits, Stamping, Worker, WorkerParts, WorkerResult};

    const MIB: u64 = 1 << 20;
    const FIRST: Range<u64> = 0..MIB;
    const SECOND: Range<u64> = MIB..2 * MIB;

    fn file(bytes: u64, byte: u8) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![byte; bytes as usize], 0).unwrap();
        file
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

    /// Reads zones in blocks of a MiB. Returns how it ended, the board, and the bytes that were counted.
    fn read<C: Clock>(
        file: &File,
        zones: &[Range<u64>],
        end_bytes: u64,
        clock: C,
        is_stopping: bool,
    ) -> (WorkerResult, Arc<SharedZoneTimes>, u64) {
        let time_table = Arc::new(SharedZoneTimes::new(zones.len()));
        let blocks = zones.iter().map(|zone| zone.start / MIB..zone.end.div_ceil(MIB)).collect();
        let (recorder, reader) = Recorder::new(Shape::default());
        let stop = AtomicBool::new(is_stopping);
        let engine = SyncEngine::new(Arc::new([file.try_clone().unwrap().into()]), MIB as usize, None);
        let worker = Worker::new(WorkerParts {
            engine,
            clock,
            pacing: ClosedLoop,
            verb: Read,
            pattern: Pattern::new(0, 1, false, 0, 1),
            layout: Layout::dense(1 << 20, MIB),
            stamping: Stamping::unverified(0),
            limits: Limits { deadline_ns: u64::MAX, stop: &stop },
            recorder,
        });
        let ended = worker.in_zones(Zones::new(blocks, end_bytes, Arc::clone(&time_table))).run(0);
        let mut bytes = 0;
        reader.drain(|delta| bytes += delta.read_bytes);
        (ended, time_table, bytes)
    }

    #[test]
    fn zone_time_ends_with_its_last_call() {
        let file = file(3 * MIB + 5, 7);
        let zones = [0..2 * MIB, 2 * MIB..3 * MIB + 5];
        let (ended, time_table, bytes) = read(&file, &zones, 3 * MIB + 5, Seconds(0.into()), false);
        assert_eq!((ended.result, time_table.visited_zones(), bytes), (Ok(()), 2, 3 * MIB + 5));
        // The clock is read when a call begins and when it ends, and once more at the very end.
        assert_eq!([0, 1].map(|zone| time_table.time_ns(zone)), [4_000_000_000; 2]);
        assert_eq!((time_table.time_ns(2), ended.end_ns), (0, 9_000_000_000), "there is none");
    }

    #[test]
    fn only_the_zones_are_read() {
        let file = file(8 * MIB, 7);
        let (ended, time_table, bytes) =
            read(&file, &[MIB..2 * MIB, 5 * MIB..6 * MIB], 8 * MIB, Monotonic, false);
        assert_eq!((ended.result, time_table.visited_zones(), bytes), (Ok(()), 2, 2 * MIB));
    }

    #[test]
    fn truncated_file_ends_with_short_read() {
        let file = file(2 * MIB + 100, 7);
        let (ended, time_table, bytes) =
            read(&file, &[0..MIB, MIB..4 * MIB], 4 * MIB, Seconds(0.into()), false);
        assert_eq!((time_table.visited_zones(), bytes), (1, 2 * MIB));
        let failure = ended.result.unwrap_err();
        assert_eq!((failure.call, failure.offset_bytes), ("read", Some(2 * MIB)));
        assert!(matches!(failure.cause, Cause::Short { got_bytes: 100, .. }), "{failure:?}");
    }

    fn writer(file: &File, zones: &[Range<u64>]) -> ZeroWriter {
        let time_table = Arc::new(SharedZoneTimes::new(zones.len()));
        let file = file.try_clone().unwrap().into();
        let (zones, moved_bytes, stop) = (zones.to_vec(), Arc::default(), Arc::default());
        ZeroWriter { file, chunk_bytes: MIB as usize, zones, time_table, moved_bytes, stop }
    }

    #[test]
    fn zone_writes_never_extend_the_file() {
        let file = file(2 * MIB + 100, 7);
        let writer = writer(&file, &[0..MIB, MIB..4 * MIB]);
        let written = writer.run(&Seconds(0.into()));
        let failure = written.result.unwrap_err();
        // The last call would have crossed the end, so it was not made.
        assert_eq!((failure.call, failure.offset_bytes), ("write", Some(2 * MIB)));
        assert_eq!((writer.time_table.visited_zones(), written.partial), (1, Some((MIB, 1_000_000_000))));
        assert_eq!(
            (writer.time_table.time_ns(0), writer.moved_bytes.load(Ordering::Relaxed)),
            (1_000_000_000, 2 * MIB)
        );
        assert_eq!(file.metadata().unwrap().len(), 2 * MIB + 100);
        let mut read = vec![1; 2 * MIB as usize + 100];
        file.read_exact_at(&mut read, 0).unwrap();
        assert!(read[..2 * MIB as usize].iter().all(|byte| *byte == 0));
        assert!(read[2 * MIB as usize..].iter().all(|byte| *byte == 7));
    }

    #[test]
    fn raised_stop_flag_ends_read_and_write() {
        let file = file(MIB, 7);
        let writer = writer(&file, std::slice::from_ref(&FIRST));
        writer.stop.store(true, Ordering::Relaxed);
        assert_eq!(writer.run(&Monotonic), ZeroPassResult { partial: None, result: Ok(()) });
        assert_eq!(writer.time_table.visited_zones(), 0);
        // A worker checks the flag once an interval; on this clock, after each call.
        let zones = [0..MIB, MIB..2 * MIB];
        let (ended, time_table, bytes) = read(&file, &zones, 2 * MIB, Seconds(0.into()), true);
        assert_eq!((ended.result, time_table.visited_zones(), bytes), (Ok(()), 0, MIB));
    }

    #[test]
    fn failure_reports_the_offset() {
        let full = File::create("/dev/full").unwrap();
        // This file may not be read.
        let (ended, ..) = read(&full, std::slice::from_ref(&SECOND), 2 * MIB, Monotonic, false);
        let failure = ended.result.unwrap_err();
        assert_eq!((failure.offset_bytes, failure.cause), (Some(MIB), Errno::BADF.into()));
        let closed = File::open("/dev/null").unwrap();
        let written = writer(&closed, std::slice::from_ref(&FIRST)).run(&Monotonic);
        assert_eq!(written.result.unwrap_err().offset_bytes, Some(0));
    }
}
