//! The loop on data that the program runs, for benchmarks: one worker, its counts read as in a run.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow};
use engine::DataEngine;
use engine::clock::{Clock, Monotonic, Tsc};
use engine::data::{Content, STAMP_INTERVAL_BYTES};
use engine::pacing::Pacing;
use engine::pattern::Pattern;
use engine::recorder::Recorder;
use engine::verb::Verb;
use engine::worker::{Ended, Layout, Limits, Stamping, Worker};

use super::drained::{Counted, while_drained};
use super::pinned::{Pinned, cpu_seconds};

/// Seed of everything that is drawn.
pub(super) const SEED: u64 = 0x736b_7965;
/// What is written, where something is: as by default.
pub(super) const CONTENT: Content =
    Content { seed: SEED, interval_bytes: STAMP_INTERVAL_BYTES, compress_percent: 0, dedupe_percent: 0 };

/// What there is to do, on one file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub block_bytes: u64,
    pub blocks: u64,
    pub is_random: bool,
    /// Operations, unless the time comes first.
    pub ops: u64,
    /// How long operations may start; `u64::MAX` for no limit.
    pub time_ns: u64,
}

impl Work {
    /// 4 KiB blocks of a file in an order that looks random.
    pub(super) const fn random_4k(size_bytes: u64, ops: u64) -> Self {
        Self { block_bytes: 4096, blocks: size_bytes / 4096, is_random: true, ops, time_ns: u64::MAX }
    }

    /// The order of the blocks.
    pub(super) fn pattern(&self) -> Pattern {
        Pattern::new(0, self.blocks, self.is_random, SEED, self.ops)
    }

    /// The places of the same blocks in the same order.
    pub(super) fn offsets(&self) -> Vec<u64> {
        let mut pattern = self.pattern();
        std::iter::from_fn(|| pattern.next_block()).map(|block| block * self.block_bytes).collect()
    }
}

/// What was done, and what it took.
#[derive(Debug)]
pub(super) struct Done {
    /// CPU time of the worker's thread.
    pub cpu_seconds: f64,
    /// From the start to the end of the loop.
    pub seconds: f64,
    /// When the work began, on the worker's clock.
    pub start_ns: u64,
    pub ended: Ended,
    pub counted: Counted,
}

impl Done {
    /// Operations a second of CPU time.
    pub(super) fn ops_per_cpu_second(&self) -> f64 {
        self.counted.ops as f64 / self.cpu_seconds
    }

    /// CPU time of an operation.
    pub(super) fn cpu_ns_per_op(&self) -> f64 {
        self.cpu_seconds * 1e9 / self.counted.ops as f64
    }

    /// Operations a second of the time that everybody has.
    pub(super) fn ops_per_second(&self) -> f64 {
        self.counted.ops as f64 / self.seconds
    }
}

/// Does it in a thread of its own, as a worker of the program has, on the CPU of this one. A ring ends with its thread:
/// until then the kernel keeps it, and a thread may have sixteen.
pub(super) fn in_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| scope.spawn(work).join()).map_err(|_| anyhow!("a worker panicked"))?
}

/// Does the work through the loop that the program runs, each operation timed by the clock that the program takes.
/// The engine is made by the thread that uses it.
pub(super) fn through_loop<E: DataEngine, P: Pacing + Send, V: Verb + Send>(
    engine: impl FnOnce() -> Result<E> + Send,
    tsc: Option<Tsc>,
    pacing: P,
    verb: V,
    work: Work,
    pinned: &Pinned,
) -> Result<Done> {
    in_thread(|| match tsc.map(Tsc::anchored) {
        Some(tsc) => with_clock(engine()?, tsc, pacing, verb, work, pinned),
        None => with_clock(engine()?, Monotonic, pacing, verb, work, pinned),
    })
}

fn with_clock<E: DataEngine, C: Clock, P: Pacing, V: Verb>(
    engine: E,
    clock: C,
    pacing: P,
    verb: V,
    work: Work,
    pinned: &Pinned,
) -> Result<Done> {
    let (recorder, reader) = Recorder::new(Worker::<E, C, P, V>::SHAPE);
    let stop = AtomicBool::new(false);
    let start_ns = Monotonic.now_ns();
    let limits = Limits { deadline_ns: start_ns.saturating_add(work.time_ns), stop: &stop };
    let worker = worker(engine, clock, pacing, verb, work, limits, recorder);
    let ((seconds, cpu_seconds, ended), counted) = while_drained(pinned, reader, || {
        let start = Instant::now();
        let (cpu_seconds, ended) = cpu_seconds(|| worker.run(start_ns));
        (start.elapsed().as_secs_f64(), cpu_seconds, ended)
    })?;
    ended.result.map_err(|failure| anyhow!("{failure:?}"))?;
    Ok(Done { cpu_seconds, seconds, start_ns, ended, counted })
}

/// A worker on one file that compares nothing with what it reads.
pub(super) fn worker<E: DataEngine, C: Clock, P: Pacing, V: Verb>(
    engine: E,
    clock: C,
    pacing: P,
    verb: V,
    work: Work,
    limits: Limits<'_>,
    recorder: Recorder,
) -> Worker<'_, E, C, P, V> {
    let layout = Layout { block_bytes: work.block_bytes, blocks_per_file: work.blocks };
    Worker::new(
        engine,
        clock,
        pacing,
        verb,
        work.pattern(),
        layout,
        Stamping::unverified(SEED),
        limits,
        recorder,
    )
}
