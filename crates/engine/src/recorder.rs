//! Counts of a worker and their transfer out of the loop: one delta per interval, over a preallocated queue.
//!
//! A worker sends its delta at the first operation that ends after a tick, and continues with an empty one. If the
//! reader is late, the worker keeps filling the same delta, and nothing is lost. At the end of a round or of its work
//! it waits for the reader.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use model::figure::LATENCY_MAX_NS;
use model::workload::verbs::VerbStep;

use crate::regions::RegionSums;
use crate::verb::Verb;

/// Nominal length of an interval.
pub const INTERVAL_NS: u64 = 100_000_000;
/// Deltas per worker: one being filled, one in the queue, one in reserve for a late reader.
const DELTAS: usize = 3;
/// Pause between two checks for a delta that a late reader has yet to return: short compared with the interval of the
/// reads.
const READER_WAIT: Duration = Duration::from_millis(1);

/// Current step of a worker, for other threads to read. Only the worker writes it. Like [`Delta`], it has its own cache
/// lines.
#[derive(Debug)]
#[repr(align(128))]
pub struct CurrentStep(AtomicU32);

impl CurrentStep {
    /// Value while the worker is in no step.
    const NONE: u32 = u32::MAX;

    /// Returns the step; `None` before the first step of a round and after its last, and in loops that publish none.
    #[inline]
    pub fn get(&self) -> Option<usize> {
        Some(self.0.load(Ordering::Relaxed)).filter(|step| *step != Self::NONE).map(|step| step as usize)
    }
}

/// Buckets of an octave of latencies, as a power of two: those of HdrHistogram with 2 significant digits.
const OCTAVE_BITS: u32 = 7;
/// Buckets from 0 to [`LATENCY_MAX_NS`].
const BUCKETS: usize = bucket(LATENCY_MAX_NS) + 1;

/// Latencies in nanoseconds, 2 significant digits from 1 ns to 39 hours. Of its 21 KiB, those in use stay in the cache.
///
/// Buckets are those of HdrHistogram (Tene, 2012), without its sums and bounds: a count takes a third of the
/// instructions.
#[derive(Debug, Clone)]
pub struct Latencies {
    counts: Box<[u32; BUCKETS]>,
    count: u64,
}

/// Returns the bucket of a latency: the octave, then the digits below its highest.
#[inline]
const fn bucket(latency_ns: u64) -> usize {
    let shift = (latency_ns >> OCTAVE_BITS | 1).ilog2();
    ((shift as usize) << OCTAVE_BITS) + (latency_ns >> shift) as usize
}

/// Returns the longest latency of a bucket.
const fn upper_end_ns(bucket: usize) -> u64 {
    let shift = (bucket >> OCTAVE_BITS).saturating_sub(1);
    (((bucket - (shift << OCTAVE_BITS)) as u64 + 1) << shift) - 1
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]), count: 0 }
    }
}

impl Latencies {
    /// Latencies that never come: their memory is not touched.
    fn unused() -> Self {
        let counts = vec![0; BUCKETS].into_boxed_slice().try_into();
        counts.map_or_else(|_| Self::default(), |counts| Self { counts, count: 0 })
    }

    /// Counts one latency; those longer than [`LATENCY_MAX_NS`] count as that.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        self.counts[bucket(latency_ns.min(LATENCY_MAX_NS))] += 1;
        self.count += 1;
    }

    /// Number of latencies counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Pairs of a bucket's upper end in nanoseconds and its count, ascending, without empty buckets.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(bucket, count)| (upper_end_ns(bucket), u64::from(*count)))
    }

    /// Forgets all latencies. An operation makes few of the kinds of calls that have counts: empty ones stay as they are,
    /// out of the cache.
    fn reset(&mut self) {
        if self.count > 0 {
            self.counts.fill(0);
            self.count = 0;
        }
    }
}

/// Shape of the counts that a worker keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// Kinds of calls with separate counts, a bit for the number of each; 0 if an operation is one call.
    pub steps: u32,
    /// True if operations have an intended start.
    pub is_open: bool,
}

impl From<&[VerbStep]> for Shape {
    /// Returns the shape for a closed loop whose operations have these steps.
    fn from(steps: &[VerbStep]) -> Self {
        Self { steps: steps.iter().fold(0, |bits, step| bits | 1 << step.number), is_open: false }
    }
}

impl Shape {
    /// Shape for a closed loop whose operations make `steps` kinds of calls; a single kind needs no separate count.
    pub const fn closed(steps: usize) -> Self {
        Self { steps: if steps > 1 { u32::MAX >> (u32::BITS - steps as u32) } else { 0 }, is_open: false }
    }

    /// Shape for the loop of a verb on data, in an open or closed loop.
    pub fn from_verb(verb: &impl Verb, is_open: bool) -> Self {
        Self { is_open, ..Self::closed(verb.steps().len()) }
    }
}

/// Counts of one worker between two instants. Those of another worker may be next to it in memory. The two must not
/// share cache lines, and processors fetch two lines at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Delta {
    /// Start of the interval, on the worker's clock.
    pub start_ns: u64,
    /// End of the interval.
    pub end_ns: u64,
    /// Operations.
    pub ops: u64,
    /// Bytes of these operations.
    pub bytes: u64,
    /// Bytes that read calls returned.
    pub read_bytes: u64,
    /// Bytes that write calls took.
    pub written_bytes: u64,
    /// Visits to the engine that returned at least one completion: operations over visits is the batch size.
    pub visits: u64,
    /// Time that slots waited for the loop, not for the kernel, summed over the slots.
    pub idle_slots_ns: u64,
    /// Blocks read and compared byte by byte.
    pub verified: u64,
    /// Calls that moved a part of their block; another call moved the rest.
    pub short_calls: u64,
    /// Longest time of [`CHUNK_CALLS`](crate::bytes::CHUNK_CALLS) calls in a row; 0 if none was timed.
    pub slowest_chunk_ns: u64,
    /// Latencies of whole operations, from their intended start.
    pub latencies: Latencies,
    /// Delays from the intended to the actual start; open loops only.
    pub queueing: Option<Latencies>,
    /// Latencies of each kind of call, by the number of its step; empty if an operation is one call.
    pub steps: Vec<Latencies>,
    /// Latencies of some operations on blocks, by region of the data set.
    pub regions: RegionSums,
}

impl Delta {
    fn new(shape: Shape) -> Self {
        Self {
            steps: (0..u32::BITS - shape.steps.leading_zeros())
                .map(
                    |step| {
                        if shape.steps >> step & 1 == 1 { Latencies::default() } else { Latencies::unused() }
                    },
                )
                .collect(),
            queueing: shape.is_open.then(Latencies::default),
            ..Self::default()
        }
    }

    fn reset(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.end_ns = start_ns;
        (self.ops, self.bytes, self.read_bytes, self.written_bytes) = (0, 0, 0, 0);
        (self.visits, self.idle_slots_ns, self.verified, self.slowest_chunk_ns) = (0, 0, 0, 0);
        self.short_calls = 0;
        self.latencies.reset();
        self.queueing.iter_mut().for_each(Latencies::reset);
        self.steps.iter_mut().for_each(Latencies::reset);
        self.regions.reset();
    }
}

/// The reader's end of a [`Recorder`].
#[derive(Debug)]
pub struct DeltaReader {
    full: Receiver<Box<Delta>>,
    empty: SyncSender<Box<Delta>>,
    step: Arc<CurrentStep>,
}

impl DeltaReader {
    /// Returns the current step of the worker, which keeps changing.
    pub fn current_step(&self) -> Arc<CurrentStep> {
        Arc::clone(&self.step)
    }

    /// Passes every received delta to `take`, and returns its memory to the worker.
    pub fn drain(&self, mut take: impl FnMut(&Delta)) {
        self.drain_until_empty(&mut take);
    }

    /// Same as [`DeltaReader::drain`]. Returns true once the worker has ended and nothing will follow.
    pub fn drain_last(&self, mut take: impl FnMut(&Delta)) -> bool {
        self.drain_until_empty(&mut take) == TryRecvError::Disconnected
    }

    fn drain_until_empty(&self, take: &mut dyn FnMut(&Delta)) -> TryRecvError {
        loop {
            match self.full.try_recv() {
                Ok(delta) => {
                    take(&delta);
                    // The queue has slots for all deltas of this worker, so it is never full. The worker may have
                    // ended.
                    let _ = self.empty.try_send(delta);
                }
                Err(why) => return why,
            }
        }
    }
}

/// The worker's end: counts into the current delta and sends it at the end of an interval.
#[derive(Debug)]
pub struct Recorder {
    current: Box<Delta>,
    full: SyncSender<Box<Delta>>,
    empty: Receiver<Box<Delta>>,
    step: Arc<CurrentStep>,
}

impl Recorder {
    /// Returns a recorder and its reader.
    pub fn new(shape: Shape) -> (Self, DeltaReader) {
        let (full, full_reader) = sync_channel(DELTAS);
        let (empty_writer, empty) = sync_channel(DELTAS);
        for _ in 1..DELTAS {
            let _ = empty_writer.try_send(Box::new(Delta::new(shape)));
        }
        let current = Box::new(Delta::new(shape));
        let step = Arc::new(CurrentStep(AtomicU32::new(CurrentStep::NONE)));
        let reader = DeltaReader { full: full_reader, empty: empty_writer, step: Arc::clone(&step) };
        (Self { current, full, empty, step }, reader)
    }

    /// The delta being filled.
    #[cfg(test)]
    pub(crate) fn current(&self) -> &Delta {
        &self.current
    }

    /// Starts counting at `now_ns`. Counts that a late reader has not taken yet stay, and leave with the next delta.
    pub fn start(&mut self, now_ns: u64) {
        if self.current.ops == 0 {
            self.current.reset(now_ns);
        }
    }

    /// Counts an operation.
    #[inline]
    pub fn operation(&mut self, latency_ns: u64, bytes: u64) {
        self.current.ops += 1;
        self.current.bytes += bytes;
        self.current.latencies.record(latency_ns);
    }

    /// Counts the latency of an operation in its region.
    #[inline]
    pub fn region(&mut self, region: usize, latency_ns: u64) {
        self.current.regions.record(region, latency_ns);
    }

    /// Returns the operations since the last delta.
    pub fn ops(&self) -> u64 {
        self.current.ops
    }

    /// Counts operations without a separate latency, and their bytes.
    #[inline]
    pub fn operations(&mut self, ops: u64, bytes: u64) {
        self.current.ops += ops;
        self.current.bytes += bytes;
    }

    /// Keeps the longest time of several calls in a row without separate latencies.
    #[inline]
    pub fn chunk(&mut self, time_ns: u64) {
        self.current.slowest_chunk_ns = self.current.slowest_chunk_ns.max(time_ns);
    }

    /// Counts a visit to the engine.
    #[inline]
    pub fn visit(&mut self) {
        self.current.visits += 1;
    }

    /// Counts the time that `slots` slots waited for the loop.
    #[inline]
    pub fn idle_slots(&mut self, slots: u64, time_ns: u64) {
        self.current.idle_slots_ns += slots * time_ns;
    }

    /// Counts a call whose rest another call has moved.
    #[cold]
    pub fn short_call(&mut self) {
        self.current.short_calls += 1;
    }

    /// Counts a compared block.
    #[inline]
    pub fn verified(&mut self) {
        self.current.verified += 1;
    }

    /// Counts the delay of an operation's start.
    #[inline]
    pub fn queueing(&mut self, late_ns: u64) {
        if let Some(queueing) = &mut self.current.queueing {
            queueing.record(late_ns);
        }
    }

    /// Publishes that no step is running.
    pub fn leave(&mut self) {
        self.step.0.store(CurrentStep::NONE, Ordering::Relaxed);
    }

    /// Publishes the step that begins now.
    #[inline]
    pub fn enter(&mut self, step: usize) {
        self.step.0.store(step as u32, Ordering::Relaxed);
    }

    /// Counts one call of an operation that makes several kinds of calls.
    #[inline]
    pub fn step(&mut self, step: usize, latency_ns: u64) {
        if let Some(latencies) = self.current.steps.get_mut(step) {
            latencies.record(latency_ns);
        }
    }

    /// Counts bytes that a read call returned.
    #[inline]
    pub fn read(&mut self, bytes: u64) {
        self.current.read_bytes += bytes;
    }

    /// Counts bytes that a write call took.
    #[inline]
    pub fn write(&mut self, bytes: u64) {
        self.current.written_bytes += bytes;
    }

    /// Ends the interval. Sends the delta if the reader has returned an empty one, else keeps filling it.
    #[cold]
    pub fn hand_over(&mut self, now_ns: u64) {
        self.current.end_ns = now_ns;
        if let Ok(mut next) = self.empty.try_recv() {
            next.reset(now_ns);
            let full = std::mem::replace(&mut self.current, next);
            // The queue has slots for all deltas. A reader that has ended needs none.
            let _ = self.full.try_send(full);
        }
    }

    /// Ends a round. Same as [`Recorder::hand_over`], but waits for the reader, so that no counts stay behind if no
    /// more rounds follow. Without a reader it returns at once.
    #[cold]
    pub fn flush(&mut self, now_ns: u64) {
        self.leave();
        self.current.end_ns = now_ns;
        // A blocking receive would allocate a waiter, once for the thread and once for the queue.
        let mut next = loop {
            match self.empty.try_recv() {
                Ok(next) => break next,
                Err(TryRecvError::Empty) => thread::sleep(READER_WAIT),
                Err(TryRecvError::Disconnected) => return,
            }
        };
        next.reset(now_ns);
        // The queue has slots for all deltas.
        let _ = self.full.try_send(std::mem::replace(&mut self.current, next));
    }

    /// Ends the last interval and sends the remaining counts.
    pub fn finish(mut self, now_ns: u64) {
        self.current.end_ns = now_ns;
        // The queue has slots for all deltas.
        let _ = self.full.try_send(self.current);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_reader_loses_no_records() {
        let (mut recorder, reader) = Recorder::new(Shape::closed(2));
        recorder.start(0);
        let mut seen = (0, 0, 0);
        for round in 1..=10u64 {
            for _ in 0..100 {
                recorder.operation(1000 * round, 4096);
                recorder.step(1, 500);
            }
            recorder.hand_over(round * INTERVAL_NS);
            // The reader runs only now and then.
            if round % 4 == 0 {
                reader.drain(|delta| {
                    seen.0 += delta.ops;
                    seen.1 += delta.latencies.count();
                    seen.2 += delta.steps[1].count();
                });
            }
        }
        let drainer = thread::spawn(move || {
            let mut total = seen;
            while total.0 < 1000 {
                reader.drain(|delta| {
                    total.0 += delta.ops;
                    total.1 += delta.latencies.count();
                    total.2 += delta.steps[1].count();
                });
            }
            total
        });
        recorder.finish(11 * INTERVAL_NS);
        assert_eq!(drainer.join().unwrap(), (1000, 1000, 1000));
    }

    #[test]
    fn reader_sees_current_step_until_leave_or_flush() {
        let (mut recorder, reader) = Recorder::new(Shape::closed(3));
        let seen = reader.current_step();
        assert_eq!((seen.get(), align_of_val(&*seen)), (None, 128));
        recorder.start(0);
        recorder.enter(2);
        assert_eq!(seen.get(), Some(2));
        recorder.enter(0);
        assert_eq!(seen.get(), Some(0));
        recorder.leave();
        assert_eq!(seen.get(), None);
        recorder.enter(1);
        recorder.flush(1);
        assert_eq!(seen.get(), None);
    }

    #[test]
    fn latencies_up_to_a_day_are_within_one_percent() {
        const DAY_NS: u64 = 86_400_000_000_000;
        let mut latencies = Latencies::default();
        let all = [1, 99, 12_345, 1_000_000, 256_000_000_000, DAY_NS, u64::MAX];
        all.into_iter().for_each(|latency| latencies.record(latency));
        let buckets: Vec<_> = latencies.buckets().collect();
        assert_eq!(buckets.len(), all.len());
        for (latency, (upper_ns, count)) in all[..6].iter().zip(&buckets) {
            assert!(upper_ns.abs_diff(*latency) <= latency / 100 && *count == 1, "{latency}: {upper_ns}");
        }
        assert_eq!(buckets[6], (LATENCY_MAX_NS, 1), "longer ones count as the longest");
    }
}
