//! The program's loop on data, for benchmarks: one worker, its counts read as in a run.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow};
use engine::DataEngine;
use engine::clock::{Clock, Monotonic, Tsc};
use engine::pacing::Pacing;
use engine::recorder::{Recorder, Shape};
use engine::verb::Verb;
use engine::worker::{Limits, WorkerResult};
use loops::{Work, worker};

use super::drained::{WorkerCounts, with_counts_reader};
use super::pinned::{Pinned, cpu_seconds};

/// Results of a loop, and its time.
#[derive(Debug)]
pub(super) struct LoopResult {
    /// CPU time of the worker's thread.
    pub cpu_seconds: f64,
    /// Time from the start to the end of the loop.
    pub seconds: f64,
    /// Start of the work, on the worker's clock.
    pub start_ns: u64,
    pub ended: WorkerResult,
    pub counted: WorkerCounts,
}

impl LoopResult {
    /// Operations per second of CPU time.
    pub(super) fn ops_per_cpu_second(&self) -> f64 {
        self.counted.ops as f64 / self.cpu_seconds
    }

    /// CPU time of an operation, in nanoseconds.
    pub(super) fn cpu_ns_per_op(&self) -> f64 {
        self.cpu_seconds * 1e9 / self.counted.ops as f64
    }

    /// Operations per second of elapsed time.
    pub(super) fn ops_per_second(&self) -> f64 {
        self.counted.ops as f64 / self.seconds
    }
}

/// Does the work in a separate thread on the CPU of this thread, as a worker of the program does. The kernel keeps a
/// registered ring until its thread exits, and a thread may have sixteen.
pub(super) fn in_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| scope.spawn(work).join()).map_err(|_| anyhow!("a worker panicked"))?
}

/// Does the work through the program's loop. Each operation is timed by the clock that the program would choose. The
/// engine is made by the thread that uses it.
pub(super) fn through_loop<E: DataEngine, P: Pacing + Send, V: Verb + Send>(
    engine: impl FnOnce() -> Result<E> + Send,
    tsc: Option<Tsc>,
    pacing: P,
    verb: V,
    work: Work,
    pinned: &Pinned,
) -> Result<LoopResult> {
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
) -> Result<LoopResult> {
    let (recorder, reader) = Recorder::new(Shape::from_verb(&verb, P::IS_OPEN));
    let stop = AtomicBool::new(false);
    let start_ns = Monotonic.now_ns();
    let limits = Limits { deadline_ns: start_ns.saturating_add(work.time_ns), stop: &stop };
    let worker = worker(engine, clock, pacing, verb, work, limits, recorder);
    let ((seconds, cpu_seconds, ended), counted) = with_counts_reader(pinned, reader, || {
        let start = Instant::now();
        let (cpu_seconds, ended) = cpu_seconds(|| worker.run(start_ns));
        (start.elapsed().as_secs_f64(), cpu_seconds, ended)
    })?;
    ended.result.map_err(|failure| anyhow!("{failure:?}"))?;
    Ok(LoopResult { cpu_seconds, seconds, start_ns, ended, counted })
}
