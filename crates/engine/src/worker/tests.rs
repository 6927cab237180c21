use super::*;
use crate::clock::Monotonic;
use crate::null::NullEngine;
use crate::pacing::{ClosedLoop, OpenLoop};
use crate::recorder::{Delta, Shape};
use crate::skew::Skew;
use crate::verb::{self, Steps};
use crate::{Io, PendingBlock};
use rustix::io::Errno;
use std::cell::Cell;
use std::rc::Rc;

/// A clock that advances only by waiting, and by the device below.
#[derive(Clone, Default)]
struct Virtual(Rc<Cell<u64>>);

impl Clock for Virtual {
    fn now_ns(&self) -> u64 {
        self.0.get()
    }

    fn wait_until(&self, at_ns: u64) {
        self.0.set(self.0.get().max(at_ns));
    }
}

/// A device whose calls end `service_ns` after they were queued, or up to `spread` times that. The call with the
/// number `fails` fails. No block may be in flight twice if one of the calls writes.
struct Device {
    clock: Virtual,
    depth: u32,
    service_ns: u64,
    spread: u64,
    in_flight: Vec<(u64, Io)>,
    block: Vec<u8>,
    queued: u64,
    calls: u64,
    fails: Option<(u64, i32)>,
}

impl DataEngine for Device {
    fn depth(&self) -> u32 {
        self.depth
    }

    fn block_bytes(&self) -> u64 {
        4096
    }

    fn draft(&mut self, _: u32) -> PendingBlock<'_> {
        PendingBlock { bytes: &mut self.block, phase_bytes: 0, is_duplicate: false }
    }

    fn block_read(&self, _: u32) -> &[u8] {
        &self.block
    }

    fn queue(&mut self, io: Io) {
        let is_same = |other: &Io| (other.file, other.offset_bytes) == (io.file, io.offset_bytes);
        let writes = |other: &Io| Call::Write == other.call || Call::Write == io.call;
        let conflicts = |(_, other): &(u64, Io)| is_same(other) && writes(other);
        assert!(!self.in_flight.iter().any(conflicts), "{io:?} is in flight already");
        let times = 1 + data::mix(self.queued) % self.spread;
        self.queued += 1;
        self.in_flight.push((self.clock.now_ns() + self.service_ns * times, io));
    }

    fn move_rest(&mut self, _: Io, from_bytes: usize) -> Result<usize, Errno> {
        // The calls after a call of 1,024 bytes move as many, until the block is whole.
        Ok(if from_bytes.is_multiple_of(1024) { 1024 } else { 0 })
    }

    fn reap(&mut self, done: &mut [Completion], until_ns: u64) -> Result<usize, Errno> {
        let first_ns = self.in_flight.iter().map(|(end_ns, _)| *end_ns).min();
        self.clock.wait_until(first_ns.unwrap_or(until_ns).min(until_ns));
        let now_ns = self.clock.now_ns();
        let mut count = 0;
        for (_, io) in self.in_flight.extract_if(.., |(end_ns, _)| *end_ns <= now_ns) {
            let moved = if io.call == Call::Datasync { 0 } else { 4096 };
            let result = match self.fails {
                Some((call, result)) if call == self.calls => result,
                _ => moved,
            };
            self.calls += 1;
            done[count] = Completion { slot: io.slot, result };
            count += 1;
        }
        Ok(count)
    }
}

#[derive(Default)]
struct Outcome {
    ops: u64,
    read_bytes: u64,
    written_bytes: u64,
    short_calls: u64,
    deltas: usize,
    latencies: Vec<(u64, u64)>,
    queueing: Vec<(u64, u64)>,
    steps: Vec<u64>,
    ended: Option<WorkerResult>,
}

impl Outcome {
    fn end_ns(&self) -> u64 {
        self.ended.unwrap().end_ns
    }

    fn failure(&self) -> Failure {
        self.ended.unwrap().result.unwrap_err()
    }
}

fn run<V: Verb>(verb: V, depth: u32, limit: u64, deadline_ns: u64, fails: Option<(u64, i32)>) -> Outcome {
    run_paced(verb, ClosedLoop, depth, limit, deadline_ns, fails, 1)
}

fn run_paced<V: Verb, P: Pacing>(
    verb: V,
    pacing: P,
    depth: u32,
    limit: u64,
    deadline_ns: u64,
    fails: Option<(u64, i32)>,
    spread: u64,
) -> Outcome {
    let pattern = Pattern::new(0, 100, false, 1, limit);
    run_pattern(verb, pacing, depth, pattern, deadline_ns, fails, spread)
}

fn run_pattern<V: Verb, P: Pacing>(
    verb: V,
    pacing: P,
    depth: u32,
    pattern: Pattern,
    deadline_ns: u64,
    fails: Option<(u64, i32)>,
    spread: u64,
) -> Outcome {
    let clock = Virtual::default();
    let device = Device {
        clock: clock.clone(),
        depth,
        service_ns: 1_000_000,
        spread,
        in_flight: Vec::new(),
        block: vec![0; 4096],
        queued: 0,
        calls: 0,
        fails,
    };
    let (recorder, reader) = Recorder::new(Shape::from_verb(&verb, P::IS_OPEN));
    let stop = AtomicBool::new(false);
    let mut worker = Worker::new(WorkerParts {
        engine: device,
        clock,
        pacing,
        verb,
        pattern,
        layout: Layout::dense(25, 4096),
        stamping: Stamping {
            seed: 1,
            first_file: 0,
            generation: 0,
            interval_bytes: 4096,
            verifier: None,
            sample: Sample::ALL,
        },
        limits: Limits { deadline_ns, stop: &stop },
        recorder,
    });
    let mut outcome = Outcome::default();
    let mut take = |reader: &crate::recorder::DeltaReader| {
        reader.drain(|delta| {
            outcome.ops += delta.ops;
            outcome.read_bytes += delta.read_bytes;
            outcome.short_calls += delta.short_calls;
            outcome.written_bytes += delta.written_bytes;
            outcome.deltas += 1;
            outcome.latencies.extend(delta.latencies.buckets());
            outcome.queueing.extend(delta.queueing.iter().flat_map(|queueing| queueing.buckets()));
            outcome.steps.resize(delta.steps.len(), 0);
            for (sum, step) in outcome.steps.iter_mut().zip(&delta.steps) {
                *sum += step.count();
            }
        });
    };
    worker.start(0);
    while worker.step() == Progress::Continue {
        take(&reader);
    }
    let ended = worker.end();
    take(&reader);
    Outcome { ended: Some(ended), ..outcome }
}

#[test]
fn operation_limit_ends_phase_exactly() {
    let outcome = run(verb::Read, 1, 250, u64::MAX, None);
    assert_eq!((outcome.ops, outcome.read_bytes, outcome.written_bytes), (250, 250 * 4096, 0));
    assert_eq!(outcome.end_ns(), 250_000_000);
    assert_eq!(outcome.deltas, 3, "one delta per 100 ms");
    assert!(outcome.ended.unwrap().result.is_ok() && outcome.ended.unwrap().is_covered);
}

#[test]
fn deadline_ends_phase_and_counts_calls_in_flight() {
    let outcome = run(verb::Read, 4, u64::MAX, 10_500_000, None);
    // Eleven rounds of four calls: the last round began at 10 ms.
    assert_eq!((outcome.ops, outcome.end_ns()), (44, 11_000_000));
    assert!(outcome.latencies.iter().all(|(upper_ns, _)| upper_ns.abs_diff(1_000_000) < 10_000));
}

#[test]
fn operation_of_three_steps_counts_once() {
    let outcome = run(Steps::REWRITE_DURABLY, 1, 10, u64::MAX, None);
    assert_eq!((outcome.ops, outcome.read_bytes, outcome.written_bytes), (10, 40_960, 40_960));
    assert_eq!(outcome.steps, [10, 10, 10]);
    assert!(outcome.latencies.iter().all(|(upper_ns, _)| upper_ns.abs_diff(3_000_000) < 30_000));
}

#[test]
fn reread_adds_read_bytes_but_no_operation() {
    for depth in [1, 8] {
        let outcome = run(Steps::REWRITE_AND_REREAD, depth, 100, u64::MAX, None);
        assert_eq!((outcome.ops, outcome.read_bytes, outcome.written_bytes), (100, 819_200, 409_600));
        assert_eq!(outcome.steps, [100, 100, 100]);
    }
}

#[test]
fn short_calls_are_continued_and_counted() {
    for verb in [Steps::REWRITE_AND_REREAD, Steps::REWRITE_DURABLY] {
        let outcome = run(verb, 8, 100, u64::MAX, Some((30, 1024)));
        assert_eq!((outcome.ops, outcome.short_calls), (100, 1));
        assert_eq!(outcome.written_bytes, 409_600);
    }
    let outcome = run(verb::Read, 1, 100, u64::MAX, Some((30, 512)));
    assert_eq!(outcome.failure().cause, Cause::Short { got_bytes: 512, wanted_bytes: 4096 });
    assert_eq!(outcome.short_calls, 0);
}

#[test]
fn failure_has_location_and_calls_in_flight_complete() {
    let outcome = run(verb::Read, 1, 100, u64::MAX, Some((30, -5)));
    let failure = outcome.failure();
    assert_eq!((failure.call, failure.file, failure.offset_bytes), ("read", 1, Some(5 * 4096)));
    assert_eq!((failure.cause, outcome.ops), (Cause::Errno(Errno::IO), 30));
    let outcome = run(verb::Write, 1, 100, u64::MAX, Some((0, 512)));
    assert_eq!(outcome.failure().cause, Cause::Short { got_bytes: 512, wanted_bytes: 4096 });
    let outcome = run(verb::Read, 8, 100, u64::MAX, Some((32, -5)));
    assert_eq!((outcome.failure().offset_bytes, outcome.ops), (Some(7 * 4096), 39));
    let outcome = run(Steps::REWRITE_DURABLY, 8, 100, u64::MAX, Some((12, -28)));
    assert_eq!((outcome.failure().call, outcome.ops), ("write", 0));
}

#[test]
fn passes_overlap_without_concurrent_writes_to_block() {
    // The device asserts the latter. If each pass were waited for, its slowest call would count twenty times: 8 ms
    // each. That comes on top of the 14 ms that 100 calls of 4.5 ms take, 32 at a time.
    let outcome = run_paced(verb::Write, ClosedLoop, 32, 2000, u64::MAX, None, 8);
    assert_eq!(outcome.ops, 2000);
    assert!(outcome.end_ns() < 20 * 17_000_000, "{} ns", outcome.end_ns());
    let outcome = run_paced(Steps::mix(50, false, 3), ClosedLoop, 32, 2000, u64::MAX, None, 8);
    assert_eq!(outcome.ops, 2000);
    let outcome = run_paced(Steps::REWRITE, ClosedLoop, 99, 2000, u64::MAX, None, 8);
    assert_eq!((outcome.ops, outcome.ended.unwrap().is_covered), (2000, true));
    // As many slots as blocks: every block of the next pass is in flight.
    let outcome = run_paced(verb::Write, ClosedLoop, 100, 2000, u64::MAX, None, 8);
    assert_eq!(outcome.ops, 2000);
    let pacing = OpenLoop::new(20_000.0, true, 0, 1, 1);
    let outcome = run_paced(verb::Write, pacing, 64, 2000, u64::MAX, None, 8);
    assert_eq!(outcome.ops, 2000);
}

#[test]
fn writes_to_hot_block_serialize_and_reads_do_not() {
    // The device asserts that no block is written twice at once.
    let skewed = |theta| Pattern::skewed(0, 100, Skew::Zipf { theta }, 1, 2000);
    for depth in [1, 2, 32, 200] {
        let outcome = run_pattern(verb::Write, ClosedLoop, depth, skewed(1.2), u64::MAX, None, 8);
        assert_eq!((outcome.ops, outcome.written_bytes), (2000, 2000 * 4096));
        assert!(!outcome.ended.unwrap().is_covered);
    }
    let mix = Steps::mix(50, false, 3);
    assert_eq!(run_pattern(mix, ClosedLoop, 32, skewed(0.9), u64::MAX, None, 8).ops, 2000);
    let poisson = OpenLoop::new(20_000.0, true, 0, 1, 1);
    assert_eq!(run_pattern(Steps::REWRITE, poisson, 64, skewed(0.9), u64::MAX, None, 8).ops, 2000);
    // Each call takes a millisecond. Reads of the same block go on at once; writes of it, one by one.
    let [reads, writes] = [
        run_pattern(verb::Read, ClosedLoop, 20, skewed(9.0), u64::MAX, None, 1),
        run_pattern(verb::Write, ClosedLoop, 20, skewed(9.0), u64::MAX, None, 1),
    ];
    assert_eq!(reads.end_ns(), 100_000_000);
    assert!(writes.end_ns() > 1_900_000_000, "{}", writes.end_ns());
}

#[test]
fn wrong_data_fails_sampled_verification() {
    // The device returns only zeros, which no one wrote.
    let content = data::Content { seed: 1, interval_bytes: 4096, compress_percent: 0, dedupe_percent: 0 };
    let mut engine = NullEngine::new(1, 4096);
    assert_eq!(engine.draft(0).bytes.len(), 4096);
    let clock = Virtual::default();
    let (recorder, reader) = Recorder::new(Shape::default());
    let stop = AtomicBool::new(false);
    let worker = Worker::new(WorkerParts {
        engine,
        clock,
        pacing: ClosedLoop,
        verb: verb::Read,
        pattern: Pattern::new(0, 100, false, 1, 100),
        layout: Layout::dense(25, 4096),
        stamping: Stamping {
            seed: 1,
            first_file: 0,
            generation: 0,
            interval_bytes: 4096,
            verifier: Some(Verifier::new(content, 0..=0)),
            sample: Sample { every: 30, seed: 1 },
        },
        limits: Limits { deadline_ns: u64::MAX, stop: &stop },
        recorder,
    });
    let ended = worker.run(0);
    let failure = ended.result.unwrap_err();
    let mut ops = 0;
    reader.drain(|delta| ops += delta.ops);
    let (file, block) = (u64::from(ops > 25), (ops - 1) % 25);
    assert!((1..=30).contains(&ops), "{ops}");
    assert_eq!((failure.call, failure.file, failure.offset_bytes), ("verify", file, Some(block * 4096)));
}

#[test]
fn open_loop_latency_counts_from_due_time() {
    // The device makes one call a millisecond, and a call is due every half millisecond. Each starts later than the
    // one before.
    let pacing = || OpenLoop::new(2000.0, false, 0, 1, 1);
    let outcome = run_paced(verb::Read, pacing(), 1, u64::MAX, 20_000_000, None, 1);
    assert_eq!((outcome.ops, outcome.end_ns(), outcome.ended.unwrap().missed), (20, 20_000_000, 20));
    let latest_ns = outcome.latencies.iter().map(|(upper_ns, _)| *upper_ns).max().unwrap();
    assert!(latest_ns.abs_diff(10_500_000) < 105_000, "{latest_ns}");
    let latest_ns = outcome.queueing.iter().map(|(upper_ns, _)| *upper_ns).max().unwrap();
    assert!(latest_ns.abs_diff(9_500_000) < 95_000, "{latest_ns}");
    // With enough slots for all calls, none waits.
    let outcome = run_paced(verb::Read, pacing(), 4, u64::MAX, 20_000_000, None, 1);
    assert_eq!((outcome.ops, outcome.ended.unwrap().missed), (40, 0));
    assert!(outcome.latencies.iter().all(|(upper_ns, _)| upper_ns.abs_diff(1_000_000) < 10_000));
    assert!(outcome.queueing.iter().all(|(upper_ns, _)| *upper_ns <= 1), "{:?}", outcome.queueing);
}

/// Numbers of the cache lines that a worker writes in its loop.
fn lines_written(worker: &Worker<'_, NullEngine, Monotonic, ClosedLoop, verb::Read>) -> Vec<usize> {
    const LINE_BYTES: usize = 64;
    let of = |start: usize, bytes: usize| start / LINE_BYTES..(start + bytes).div_ceil(LINE_BYTES);
    fn place<T: ?Sized>(value: &T) -> (usize, usize) {
        (std::ptr::from_ref(value).cast::<u8>().addr(), size_of_val(value))
    }
    let capacity = |vec: &Vec<u32>| (vec.as_ptr().addr(), vec.capacity() * size_of::<u32>());
    let places = [
        place(worker),
        place(worker.recorder.current()),
        place(&*worker.slots),
        place(&*worker.completions),
        capacity(&worker.free),
        capacity(&worker.ready),
    ];
    places.into_iter().flat_map(|(start, bytes)| of(start, bytes)).collect()
}

#[test]
fn workers_share_no_cache_line_that_they_write() {
    const WORKERS: usize = 4;
    let barrier = std::sync::Barrier::new(WORKERS);
    // As in a run, one thread makes all recorders. Each worker's own thread makes the rest.
    let recorders: Vec<_> = (0..WORKERS).map(|_| Recorder::new(Shape::default())).collect();
    let mut lines: Vec<usize> = std::thread::scope(|scope| {
        let threads: Vec<_> = recorders
            .into_iter()
            .map(|(recorder, _reader)| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let stop = AtomicBool::new(false);
                    let worker = Worker::new(WorkerParts {
                        engine: NullEngine::new(8, 4096),
                        clock: Monotonic,
                        pacing: ClosedLoop,
                        verb: verb::Read,
                        pattern: Pattern::new(0, 100, false, 1, 100),
                        layout: Layout::dense(100, 4096),
                        stamping: Stamping::unverified(1),
                        limits: Limits { deadline_ns: u64::MAX, stop: &stop },
                        recorder,
                    });
                    let mut lines = lines_written(&worker);
                    // Wait while all workers exist: freed memory may be allocated again.
                    barrier.wait();
                    lines.sort_unstable();
                    lines.dedup();
                    lines
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(align_of::<Delta>() >= 128, "it may lie beside another worker's");
    let all = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), all);
}
