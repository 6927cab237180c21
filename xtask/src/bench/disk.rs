//! Skye's ring compared with fio on storage: a disk, a loop device with direct I/O, a device behind a rig's server.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use engine::clock::Tsc;
use engine::pacing::ClosedLoop;
use engine::uring::{Options, UringEngine};
use engine::verb::{Read, Write};
use loops::{CONTENT, Work};
use rig::{Disk, Spec};
use rustix::fs::{Mode, OFlags};

use super::fio::{self, Job, LATENCIES};
use super::looped::through_loop;
use super::pinned::Pinned;
use super::program::{file_of, fill};
use super::queued::absent;
use super::{Bench, Limit, Row, Rows, Setting};

pub(super) const DISK: Bench = Bench {
    name: "disk",
    measures: "rates and latencies at depth on the disk of the target directory: our ring against fio",
    run: disk,
};
pub(super) const LOOP: Bench =
    Bench { name: "loop", measures: "the same on a loop device with direct I/O", run: loop_device };
pub(super) const SERVED: Bench = Bench {
    name: "served",
    measures: "the same on a device behind a server of four slots of 1 ms, and how near its known rate is met",
    run: served_device,
};

/// Least rate, relative to that of fio: for the median, and for the lower end of its interval.
const RATE: Limit = Limit::AtLeastBoth(0.98, 0.93);
/// Size of a file, so small that all are quickly written. All together are more than a device caches.
const SIZE_BYTES: u64 = 512 << 20;
/// Files, which take turns: a device may be faster in one than in another.
const FILES: usize = 4;
const LOOP_BYTES: u64 = 1 << 30;
const SERVED_MIB: u64 = 256;
/// Length of a measurement: hundreds of the slowest operations.
const TIME_NS: u64 = 400_000_000;
/// Length of a measurement against the known rate: some operations more or less must not matter.
const SERVED_NS: u64 = 1_000_000_000;
/// Slots of the server, service time of a read, and the reads per second that follow.
const SLOTS: u32 = 4;
const SERVICE_US: u64 = 1000;
const SERVED_PER_SECOND: f64 = SLOTS as f64 * 1e6 / SERVICE_US as f64;
/// Largest relative deviation of a rate from it.
const SERVED_DEVIATION_MAX: f64 = 0.005;

/// Work of one test.
#[derive(Debug, Clone, Copy)]
struct Test {
    name: &'static str,
    is_write: bool,
    is_random: bool,
    block_bytes: u64,
    depth: u32,
}

const TESTS: [Test; 5] = [
    Test { name: "read 4 KiB random q32", is_write: false, is_random: true, block_bytes: 4096, depth: 32 },
    Test { name: "read 4 KiB random q1", is_write: false, is_random: true, block_bytes: 4096, depth: 1 },
    Test { name: "read 1 MiB q8", is_write: false, is_random: false, block_bytes: 1 << 20, depth: 8 },
    Test { name: "write 1 MiB q8", is_write: true, is_random: false, block_bytes: 1 << 20, depth: 8 },
    Test { name: "write 4 KiB random q32", is_write: true, is_random: true, block_bytes: 4096, depth: 32 },
];

/// A rate, and latencies measured at the same time.
#[derive(Debug, Clone, Copy)]
struct Figures {
    per_second: f64,
    p50_ns: f64,
    p99_ns: f64,
}

/// A place to measure in.
struct TestBed {
    pinned: Pinned,
    tsc: Option<Tsc>,
    scratch: tempfile::TempDir,
}

/// Prepares a place, or prints the row with the reason why there is none.
fn test_bed(is_rig: bool, rows: &mut Rows<'_>) -> Result<Option<TestBed>> {
    let refusal = engine::uring::refusal().map(|why| format!("io_uring: {why}"));
    if let Some(why) = refusal.or_else(fio::absent).or_else(|| absent().filter(|_| is_rig)) {
        return rows.push(Row::skipped("ours over fio", RATE, why)).map(|()| None);
    }
    let scratch = tempfile::Builder::new().prefix("skye-bench.").tempdir_in(crate::target_directory());
    let scratch = scratch.context("make a directory on the disk")?;
    Ok(Some(TestBed { pinned: Pinned::new()?, tsc: Tsc::calibrate(), scratch }))
}

fn disk(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let Some(test_bed) = test_bed(false, rows)? else { return Ok(()) };
    let files: Vec<_> = (0..FILES).map(|file| test_bed.scratch.path().join(file.to_string())).collect();
    for file in &files {
        file_of(file, SIZE_BYTES)?;
    }
    TESTS.into_iter().try_for_each(|test| rows.extend(compare_test(test, &files, setting, &test_bed)?))
}

fn loop_device(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let Some(test_bed) = test_bed(true, rows)? else { return Ok(()) };
    let disk = Disk::build(&Spec::disk().size_mib(LOOP_BYTES >> 20).in_directory(test_bed.scratch.path()))?;
    let device = std::fs::File::options().write(true).open(disk.path());
    fill(&mut device.context("open the loop device")?, LOOP_BYTES)?;
    TESTS
        .into_iter()
        .try_for_each(|test| rows.extend(compare_test(test, &[disk.path()], setting, &test_bed)?))
}

fn served_device(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let Some(test_bed) = test_bed(true, rows)? else { return Ok(()) };
    let server = Spec::fuse().slots(SLOTS).service_us(SERVICE_US);
    let disk = Disk::build(&Spec::disk().size_mib(SERVED_MIB).over(server))?;
    // With as many requests in flight as slots, each slot waits for its next one: fio shows how long.
    let as_many = Test { name: "read 4 KiB random q4", depth: SLOTS, ..TESTS[0] };
    for test in TESTS.into_iter().filter(|test| test.block_bytes == 4096).chain([as_many]) {
        rows.extend(compare_test(test, &[disk.path()], setting, &test_bed)?)?;
    }
    for depth in [2 * SLOTS, 8 * SLOTS] {
        let test = Test { depth, ..TESTS[0] };
        let values = (0..setting.pairs).map(|_| {
            let found = measure_skye(test, &disk.path(), SERVED_NS, &test_bed)?;
            Ok((found.per_second / SERVED_PER_SECOND - 1.0).abs())
        });
        let what = format!("{SLOTS} at a time of 1 ms, q{depth}: off by");
        rows.push(Row::new(what, "", values.collect::<Result<_>>()?, Limit::AtMost(SERVED_DEVIATION_MAX)))?;
    }
    Ok(())
}

/// Ratios of a test: skye over fio with its fastest options. Pairs alternate between the files, two on each, and the
/// two start with different sides.
fn compare_test(test: Test, files: &[PathBuf], setting: &Setting, test_bed: &TestBed) -> Result<[Row; 3]> {
    let pinned = &test_bed.pinned;
    let tuned = fastest(test, files, pinned)?;
    let mut ratios = [const { Vec::new() }; 3];
    for pair in 0..=setting.pairs {
        let file = &files[pair / 2 % files.len()];
        let measure_skye = || measure_skye(test, file, TIME_NS, test_bed);
        let measure_fio = || measure_fio(test, file, tuned, pinned);
        let (a, b) = if pair.is_multiple_of(2) {
            let a = measure_skye()?;
            (a, measure_fio()?)
        } else {
            let b = measure_fio()?;
            (measure_skye()?, b)
        };
        // The first pair loads programs and caches.
        if pair > 0 {
            ratios[0].push(a.per_second / b.per_second);
            ratios[1].push(a.p50_ns / b.p50_ns);
            ratios[2].push(a.p99_ns / b.p99_ns);
        }
    }
    let command = job(test, &files[0], tuned, pinned).command_line();
    let [rate, p50, p99] = ratios;
    let latency = Limit::AtMostBoth(1.05, 1.10);
    let Test { name, .. } = test;
    Ok([
        Row::new(name, "×", rate, RATE),
        Row::new(format!("{name}: p50"), "×", p50, latency),
        Row::new(format!("{name}: p99"), "×", p99, latency),
    ]
    .map(|row| row.noted(&command)))
}

/// Measures skye's worker on a file.
fn measure_skye(test: Test, file: &Path, time_ns: u64, test_bed: &TestBed) -> Result<Figures> {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let file = rustix::fs::open(file, flags, Mode::empty()).context("open the file")?;
    let size_bytes = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).context("ask for its size")?;
    let files: Arc<[OwnedFd]> = Arc::new([file]);
    let work = Work {
        block_bytes: test.block_bytes,
        blocks: size_bytes / test.block_bytes,
        is_random: test.is_random,
        ops: u64::MAX,
        time_ns,
    };
    let engine = || {
        let (reads, writes) = (!test.is_write, test.is_write.then_some(CONTENT));
        let block_bytes = test.block_bytes as usize;
        UringEngine::<false>::new(files, block_bytes, test.depth, reads, writes, Options::default())
            .context("make a ring")
    };
    let done = if test.is_write {
        through_loop(engine, test_bed.tsc, ClosedLoop, Write, work, &test_bed.pinned)?
    } else {
        through_loop(engine, test_bed.tsc, ClosedLoop, Read, work, &test_bed.pinned)?
    };
    let quantile_ns = |share| done.counted.latencies.quantile_ns(share) as f64;
    Ok(Figures { per_second: done.ops_per_second(), p50_ns: quantile_ns(0.5), p99_ns: quantile_ns(0.99) })
}

/// Ways to run fio: by default, with files and buffers registered, and with these in batches.
const WAYS: [&[&str]; 3] = [
    &[],
    &["--fixedbufs", "--registerfiles"],
    &[
        "--fixedbufs",
        "--registerfiles",
        "--iodepth_batch_submit=8",
        "--iodepth_batch_complete_min=1",
        "--iodepth_batch_complete_max=8",
    ],
];

fn job(test: Test, file: &Path, way: usize, pinned: &Pinned) -> Job {
    let name = format!("--filename={}", file.display());
    let block = format!("--bs={}", test.block_bytes);
    let depth = format!("--iodepth={}", test.depth);
    let time = format!("--runtime={}ms", TIME_NS / 1_000_000);
    let verb = match (test.is_write, test.is_random) {
        (false, false) => "--rw=read",
        (false, true) => "--rw=randread",
        (true, false) => "--rw=write",
        (true, true) => "--rw=randwrite",
    };
    let shape = ["--ioengine=io_uring", "--direct=1", "--time_based", "--randrepeat=0", verb];
    let own = [&name[..], &block, &depth, &time];
    Job::new(&[&shape[..], &own, &LATENCIES, WAYS[way]].concat(), pinned)
}

fn measure_fio(test: Test, file: &Path, way: usize, pinned: &Pinned) -> Result<Figures> {
    let answer = job(test, file, way, pinned).run(pinned)?;
    ensure!(answer.p50_ns > 0.0 && answer.p99_ns > 0.0, "fio tells no latencies");
    Ok(Figures { per_second: answer.iops, p50_ns: answer.p50_ns, p99_ns: answer.p99_ns })
}

/// Returns the way with the highest rate, from two runs of each.
fn fastest(test: Test, files: &[PathBuf], pinned: &Pinned) -> Result<usize> {
    let mut best = (0, 0.0);
    for file in [&files[0], &files[files.len() - 1]] {
        for way in 0..WAYS.len() {
            let rate = measure_fio(test, file, way, pinned)?.per_second;
            if rate > best.1 {
                best = (way, rate);
            }
        }
    }
    Ok(best.0)
}
