//! Checks that an open loop starts the operations of its schedule, and at the right time.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use anyhow::{Context, Result, ensure};
use engine::clock::{Clock, Monotonic, Tsc};
use engine::null::NullEngine;
use engine::pacing::{ClosedLoop, OpenLoop, Pacing, Start};
use engine::uring::{Options, UringEngine};
use engine::verb::Read;
use engine::{Completion, DataEngine, Io, PendingBlock};
use loops::{SEED, Work};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::looped::{LoopResult, through_loop};
use super::pinned::Pinned;
use super::zram_file::ZramFile;
use super::{Bench, Limit, Row, Rows, Setting};

pub(super) const BENCH: Bench = Bench {
    name: "openloop",
    measures: "arrivals on a schedule, at half of what can be done: how many are kept",
    run,
};

const SIZE_BYTES: u64 = 512 << 20;
/// Length of each measurement, and of the one before it that finds the highest rate.
const TIME_NS: u64 = 300_000_000;
/// Largest share of the scheduled operations that may be missing.
const MISSING: f64 = 0.005;
/// Load, as a share of the highest rate.
const LOAD: f64 = 0.5;
/// Arrivals per second: so few that the loop's own time is nothing beside their distances.
const SPARSE_OPS_PER_SECOND: f64 = 20_000.0;

fn run(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let pinned = Pinned::new()?;
    let tsc = Tsc::calibrate();
    for (clock, tsc) in [("TSC", tsc), ("vDSO", None)] {
        if clock == "TSC" && tsc.is_none() {
            continue;
        }
        let engine = || Ok(NullEngine::new(32, 4096));
        compare_starts(&format!("null, {clock}"), engine, tsc, setting, &pinned, rows)?;
    }
    rows.extend(starts(tsc, setting, &pinned)?)?;
    if let Some(why) = engine::uring::refusal() {
        return rows.push(Row::skipped("zram, ring", Limit::AtMost(MISSING), format!("io_uring: {why}")));
    }
    let file = ZramFile::new(SIZE_BYTES)?;
    let files: Arc<[OwnedFd]> = file.open(OFlags::RDONLY)?;
    let engine = || {
        UringEngine::<false>::new(Arc::clone(&files), 4096, 8, true, None, Options::default())
            .context("make a ring")
    };
    compare_starts("zram, ring of 8", engine, tsc, setting, &pinned, rows)
}

/// Compares the started operations with the schedule, for fixed and random distances of arrivals.
fn compare_starts<E: DataEngine>(
    what: &str,
    engine: impl Fn() -> Result<E> + Sync,
    tsc: Option<Tsc>,
    setting: &Setting,
    pinned: &Pinned,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let work = Work { time_ns: TIME_NS, ..Work::random_4k(SIZE_BYTES, u64::MAX) };
    for is_poisson in [false, true] {
        let [mut missing, mut full_ns] = [const { Vec::new() }; 2];
        // The first measurement warms up.
        for measurement in 0..=setting.pairs {
            let closed = through_loop(&engine, tsc, ClosedLoop, Read, work, pinned)?.ops_per_second();
            // Finds the highest rate of an open loop: the requested rate is twice that of a closed one, so that all
            // slots are always busy. Without waits, drawing the distances is most of the work.
            let pacing = OpenLoop::new(2.0 * closed, is_poisson, 0, 1, SEED);
            let full = through_loop(&engine, tsc, pacing, Read, work, pinned)?;
            let pacing = OpenLoop::new(LOAD * full.ops_per_second(), is_poisson, 0, 1, SEED);
            let done = through_loop(&engine, tsc, pacing.clone(), Read, work, pinned)?;
            if measurement > 0 {
                missing.push((done.counted.ops as f64 / scheduled(pacing, &done)? as f64 - 1.0).abs());
                full_ns.push(full.cpu_ns_per_op());
            }
        }
        let kind = if is_poisson { "Poisson" } else { "fixed" };
        let name = format!("{what}, {kind}");
        rows.push(Row::new(format!("{name}: missing"), "", missing, Limit::AtMost(MISSING)))?;
        rows.push(Row::new(format!("{name}: all slots busy"), "ns", full_ns, Limit::None))?;
    }
    Ok(())
}

/// Checks that starts, taken when the engine gets each call, are still a Poisson process, and measures their delays.
fn starts(tsc: Option<Tsc>, setting: &Setting, pinned: &Pinned) -> Result<Vec<Row>> {
    let work = Work { time_ns: TIME_NS, ..Work::random_4k(SIZE_BYTES, u64::MAX) };
    let room = (SPARSE_OPS_PER_SECOND * TIME_NS as f64 / 1e9 * 1.2) as usize;
    let [mut distances, mut late_p50_ns, mut late_p99_ns] = [const { Vec::new() }; 3];
    for _ in 0..setting.pairs {
        let (noted, instants) = channel();
        let pacing = OpenLoop::new(SPARSE_OPS_PER_SECOND, true, 0, 1, SEED);
        let pacing = StartRecorder { of: pacing, instants_ns: Vec::with_capacity(room), to: noted };
        let (noted, started) = channel();
        let engine = || {
            let of = NullEngine::new(32, 4096);
            Ok(StartRecorder { of, instants_ns: Vec::with_capacity(room), to: noted })
        };
        through_loop(engine, tsc, pacing, Read, work, pinned)?;
        let (intended_ns, started_ns) = (instants.recv()?, started.recv()?);
        // The pacing may have found more operations due after the end.
        ensure!(started_ns.len() <= intended_ns.len() && started_ns.len() > 1000, "what started was noted");
        distances.push(from_exponential(&started_ns) / (CHANCE / (started_ns.len() as f64).sqrt()));
        let late =
            started_ns.iter().zip(&intended_ns).map(|(started, intended)| started.saturating_sub(*intended));
        let mut late_ns: Vec<_> = late.collect();
        late_ns.sort_unstable();
        late_p50_ns.push(late_ns[late_ns.len() / 2] as f64);
        late_p99_ns.push(late_ns[late_ns.len() * 99 / 100] as f64);
    }
    let row =
        |what: &str, unit, values, limit| Row::new(format!("null, 20,000/s: {what}"), unit, values, limit);
    Ok(vec![
        row("starts, KS distance", "", distances, Limit::AtMost(1.0)).noted(
            "KS distance: of the distances of starts from the exponential distribution, over what 95 in 100 samples of it keep",
        ),
        row("started late, p50", "ns", late_p50_ns, Limit::None),
        row("started late, p99", "ns", late_p99_ns, Limit::None),
    ])
}

/// Distance that 95 in 100 samples of a distribution keep from it, times the root of the sample's size (Kolmogorov and
/// Smirnov).
const CHANCE: f64 = 1.36;

/// Distance of the gaps between instants from the exponential distribution with the requested mean.
fn from_exponential(instants_ns: &[u64]) -> f64 {
    let mut gaps: Vec<_> =
        instants_ns.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64).collect();
    gaps.sort_unstable_by(f64::total_cmp);
    let count = gaps.len() as f64;
    let expected = |gap: f64| 1.0 - (-gap * SPARSE_OPS_PER_SECOND / 1e9).exp();
    let away = |(index, gap): (usize, &f64)| ((index as f64 + 0.5) / count - expected(*gap)).abs();
    gaps.iter().enumerate().map(away).fold(0.0, f64::max)
}

/// An engine or a pacing that notes the instants of its operations. It sends them when it is dropped.
struct StartRecorder<T> {
    of: T,
    instants_ns: Vec<u64>,
    to: Sender<Vec<u64>>,
}

impl<T> Drop for StartRecorder<T> {
    fn drop(&mut self) {
        // After a failure, there is no receiver.
        let _ = self.to.send(std::mem::take(&mut self.instants_ns));
    }
}

impl Pacing for StartRecorder<OpenLoop> {
    const IS_OPEN: bool = true;

    fn begin(&mut self, start_ns: u64) {
        self.of.begin(start_ns);
    }

    fn next(&mut self, now_ns: u64) -> Start {
        let start = self.of.next(now_ns);
        if let Start::Now { intended_ns } = start {
            self.instants_ns.push(intended_ns);
        }
        start
    }

    fn missed(&mut self, end_ns: u64) -> u64 {
        self.of.missed(end_ns)
    }
}

impl<E: DataEngine> DataEngine for StartRecorder<E> {
    fn depth(&self) -> u32 {
        self.of.depth()
    }

    #[inline]
    fn block_bytes(&self) -> u64 {
        self.of.block_bytes()
    }

    fn draft(&mut self, slot: u32) -> PendingBlock<'_> {
        self.of.draft(slot)
    }

    fn block_read(&self, slot: u32) -> &[u8] {
        self.of.block_read(slot)
    }

    fn queue(&mut self, io: Io) {
        self.instants_ns.push(Monotonic.now_ns());
        self.of.queue(io);
    }

    fn reap(&mut self, done: &mut [Completion], until_ns: u64) -> Result<usize, Errno> {
        self.of.reap(done, until_ns)
    }
}

/// Counts the operations that were due before the end, by drawing them again.
fn scheduled(mut pacing: OpenLoop, done: &LoopResult) -> Result<u64> {
    pacing.begin(done.start_ns);
    let last_ns = done.start_ns + TIME_NS - 1;
    let due =
        std::iter::from_fn(|| matches!(pacing.next(last_ns), Start::Now { .. }).then_some(())).count() as u64;
    let (started, missed) = (done.counted.ops, done.ended.missed);
    // The worker checks its deadline after it has passed, and may have started an operation that was due a moment
    // later.
    ensure!(started + missed >= due, "{due} were due, {started} started, {missed} were missed");
    Ok(due)
}
