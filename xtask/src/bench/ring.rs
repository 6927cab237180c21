//! The cost of the loop on data at depth, through a ring: against a bare ring, and against fio.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use engine::DataEngine;
use engine::clock::Tsc;
use engine::pacing::ClosedLoop;
use engine::uring::{Options, UringEngine};
use engine::verb::Read;
use loops::Work;
use rustix::fs::OFlags;

use super::bare_ring::BareRing;
use super::drained::with_second_thread;
use super::fio::{self, Job};
use super::looped::{LoopResult, in_thread, through_loop};
use super::pinned::{Pinned, cpu_seconds};
use super::zram_file::ZramFile;
use super::{Bench, Limit, Row, Rows, Setting};
use crate::pairs::alternate;

pub(super) const BENCH: Bench =
    Bench { name: "ring", measures: "4 KiB reads at depth 32: our ring against a bare one and fio", run };

const SIZE_BYTES: u64 = 512 << 20;
const DEPTH: u32 = 32;
/// Half a pass over the file or device.
const SHORT: Work = Work::random_4k(SIZE_BYTES, SIZE_BYTES / 4096 / 2);
/// Two passes, because fio's clock counts milliseconds.
const LONG: Work = Work::random_4k(SIZE_BYTES, SIZE_BYTES / 4096 * 2);
/// Requests that do nothing.
const NOPS: Work = Work::random_4k(SIZE_BYTES, 1 << 20);
/// Number of short pairs for each requested pair.
const PAIRS: usize = 4;

fn run(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    if let Some(why) = engine::uring::refusal() {
        let limit = Limit::AtLeast(0.97);
        return rows.push(Row::skipped("depth 32, ours over a bare ring", limit, format!("io_uring: {why}")));
    }
    let pinned = Pinned::new()?;
    let tsc = Tsc::calibrate();
    {
        let file = ZramFile::new(SIZE_BYTES)?;
        let files = file.open(OFlags::RDONLY)?;
        rows.push(over_bare(&files, tsc, setting, &pinned)?)?;
        over_fio(&file.path(), &files, tsc, setting, &pinned, rows)?;
    }
    for depth in [DEPTH, 1] {
        rows.extend(nops(depth, tsc, setting, &pinned)?)?;
    }
    Ok(())
}

/// Compares our rate with fio's two ways of having many calls in flight.
fn over_fio(
    path: &Path,
    files: &Arc<[OwnedFd]>,
    tsc: Option<Tsc>,
    setting: &Setting,
    pinned: &Pinned,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let one_by_one = |path| vec![job("libaio", &[], path, "tausworthe64", 1, pinned)];
    for (what, jobs, limit) in [
        (
            "io_uring (goal 1.15)",
            jobs("io_uring", &["--fixedbufs", "--registerfiles"], path, pinned),
            Limit::AtLeast(1.0),
        ),
        // As most people run it.
        ("libaio, one by one", one_by_one(path), Limit::AtLeast(1.5)),
        ("libaio in batches", jobs("libaio", &[], path, pinned), Limit::None),
    ] {
        let what = format!("zram, ours over fio {what}");
        if let Some(why) = fio::absent() {
            rows.push(Row::skipped(what, limit, why))?;
            continue;
        }
        let job = fastest(&jobs, pinned)?;
        let measure_skye = || Ok(measure_skye::<false>(files, DEPTH, LONG, tsc, pinned)?.ops_per_second());
        let values = alternate(setting.pairs, measure_skye, || measure_fio(&job, pinned))?;
        rows.push(Row::new(what, "×", values, limit).noted(job.command_line()))?;
    }
    Ok(())
}

/// Runs the work with our worker, at that depth.
fn measure_skye<const NOP: bool>(
    files: &Arc<[OwnedFd]>,
    depth: u32,
    work: Work,
    tsc: Option<Tsc>,
    pinned: &Pinned,
) -> Result<LoopResult> {
    let engine = || {
        let options = Options::default();
        let engine = UringEngine::<NOP>::new(Arc::clone(files), 4096, depth, true, None, options);
        let engine = engine.context("make a ring")?;
        ensure!(
            engine.missing_features().is_empty(),
            "our ring does without {:?}, which a bare one has",
            engine.missing_features()
        );
        Ok(engine)
    };
    let done = through_loop(engine, tsc, ClosedLoop, Read, work, pinned)?;
    ensure!(done.counted.ops == work.ops, "{} calls counted of {}", done.counted.ops, work.ops);
    Ok(done)
}

/// CPU seconds that a bare ring takes for the same calls.
fn bare<const NOP: bool>(
    files: &Arc<[OwnedFd]>,
    depth: u32,
    offsets: &[u64],
    pinned: &Pinned,
) -> Result<f64> {
    in_thread(|| {
        let mut ring = BareRing::<NOP>::new(files, depth)?;
        let (seconds, done) = with_second_thread(pinned, || cpu_seconds(|| ring.run(offsets)))?;
        done.map(|()| seconds)
    })
}

fn over_bare(files: &Arc<[OwnedFd]>, tsc: Option<Tsc>, setting: &Setting, pinned: &Pinned) -> Result<Row> {
    let offsets = SHORT.offsets();
    let values = alternate(
        PAIRS * setting.pairs,
        || Ok(measure_skye::<false>(files, DEPTH, SHORT, tsc, pinned)?.ops_per_cpu_second()),
        || Ok(offsets.len() as f64 / bare::<false>(files, DEPTH, &offsets, pinned)?),
    )?;
    Ok(Row::new("zram, ours over a bare ring", "×", values, Limit::AtLeast(0.97)))
}

/// Times of requests that do nothing: skye's, and their ratio to those of a bare ring.
fn nops(depth: u32, tsc: Option<Tsc>, setting: &Setting, pinned: &Pinned) -> Result<[Row; 2]> {
    let files: Arc<[OwnedFd]> = Arc::new([]);
    let offsets = NOPS.offsets();
    let mut times_ns = Vec::new();
    let ratios = alternate(
        setting.pairs,
        || {
            let done = measure_skye::<true>(&files, depth, NOPS, tsc, pinned)?;
            times_ns.push(done.cpu_ns_per_op());
            Ok(done.cpu_seconds)
        },
        || bare::<true>(&files, depth, &offsets, pinned),
    )?;
    // The first time is discarded, like the first pair.
    times_ns.remove(0);
    Ok([
        Row::new(format!("NOP, depth {depth}, ours"), "ns", times_ns, Limit::None),
        Row::new(format!("NOP, depth {depth}, time of ours over a bare ring"), "×", ratios, Limit::None),
    ])
}

/// Jobs that might be the fastest of fio.
fn jobs(engine: &str, extra: &[&str], path: &Path, pinned: &Pinned) -> Vec<Job> {
    let ways = [1, 8, 16, 32].map(|batch| ("tausworthe64", batch));
    let ways = ways.into_iter().chain([("lfsr", 16)]);
    ways.map(|(generator, batch)| job(engine, extra, path, generator, batch, pinned)).collect()
}

/// Reads by fio: `batch` of them are submitted together, and at most as many are reaped.
fn job(engine: &str, extra: &[&str], path: &Path, generator: &str, batch: u32, pinned: &Pinned) -> Job {
    let name = format!("--filename={}", path.display());
    let (size, ios) = (format!("--size={SIZE_BYTES}"), format!("--io_size={}", LONG.ops * 4096));
    let (engine, depth) = (format!("--ioengine={engine}"), format!("--iodepth={DEPTH}"));
    let shape = [&engine, &name, "--direct=1", "--rw=randread", "--bs=4k", &depth, &size, &ios];
    let generator = format!("--random_generator={generator}");
    let submit = format!("--iodepth_batch_submit={batch}");
    let complete = format!("--iodepth_batch_complete_max={batch}");
    let same = ["--norandommap", &generator, &submit, "--iodepth_batch_complete_min=1", &complete];
    Job::new(&[&shape[..], extra, &same].concat(), pinned)
}

/// Returns the job with the highest rate, from two runs of each.
fn fastest(jobs: &[Job], pinned: &Pinned) -> Result<Job> {
    let mut best: Option<(f64, &Job)> = None;
    for job in jobs.iter().chain(jobs) {
        let rate = measure_fio(job, pinned)?;
        if best.is_none_or(|(most, _)| rate > most) {
            best = Some((rate, job));
        }
    }
    Ok(best.context("no job to choose from")?.1.clone())
}

/// Reads per second by fio's own clock.
fn measure_fio(job: &Job, pinned: &Pinned) -> Result<f64> {
    let answer = job.run(pinned)?;
    ensure!(answer.ios == LONG.ops, "fio read {} blocks of {}", answer.ios, LONG.ops);
    Ok(answer.iops)
}
