//! Whether our latencies are those of the device, where it has a queue: against the log of a server of our own.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use engine::DataEngine;
use engine::clock::Tsc;
use engine::pacing::ClosedLoop;
use engine::sync::SyncEngine;
use engine::uring::{Options, UringEngine};
use engine::verb::Read;
use rustix::fs::{Mode, OFlags};

use super::looped::{Work, through_loop};
use super::pinned::Pinned;
use super::slow_file::{self, LoopDevice, Served, SlowFile};
use super::{Bench, Limit, Row, Setting};

pub(super) const BENCH: Bench = Bench {
    name: "queued",
    measures: "latencies of a device with a queue, against what its server wrote down",
    run,
};

const SIZE_BYTES: u64 = 64 << 20;
/// 32 at a time make 4,000 operations a second; this server answers 5,000 in time.
const SERVICE: Range<Duration> = Duration::from_micros(6_400)..Duration::from_micros(9_600);
const WORK: Work = Work { time_ns: 3_000_000_000, ..Work::random_4k(SIZE_BYTES, u64::MAX) };
/// What our latency may differ by: a share of it, and the way through the kernel and back.
const SHARE: f64 = 0.02;
const WAY_NS: f64 = 300_000.0;
const QUANTILES: [(&str, f64); 2] = [("p50", 0.5), ("p99", 0.99)];

fn run(setting: &Setting) -> Result<Vec<Row>> {
    let limit = Limit::AtMost(1.0);
    let refusal = engine::uring::refusal().map(|why| format!("io_uring: {why}"));
    if let Some(why) = slow_file::absent().or(refusal) {
        return Ok(vec![Row::skipped("latencies against the server's", limit, why)]);
    }
    let file = SlowFile::mount(SIZE_BYTES, SERVICE)?;
    let device = LoopDevice::attach(&file)?;
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let files = Arc::new([rustix::fs::open(device.path(), flags, Mode::empty()).context("open the device")?]);
    let pinned = Pinned::new()?;
    let tsc = Tsc::calibrate();
    let ring = || {
        UringEngine::<false>::new(files.clone(), 4096, 32, true, None, Options::default())
            .context("make a ring")
    };
    let mut rows = of("ring, depth 32", 32.0, ring, &file, tsc, setting, &pinned)?;
    let sync = || Ok(SyncEngine::new(files.clone(), 4096, None));
    rows.extend(of("sync, depth 1", 1.0, sync, &file, tsc, setting, &pinned)?);
    Ok(rows)
}

/// Differences at some quantiles, in what they may be.
fn of<E: DataEngine>(
    what: &str,
    depth: f64,
    engine: impl Fn() -> Result<E> + Sync,
    file: &SlowFile,
    tsc: Option<Tsc>,
    setting: &Setting,
    pinned: &Pinned,
) -> Result<Vec<Row>> {
    let mut values = [const { Vec::new() }; QUANTILES.len()];
    let mut notes = [const { String::new() }; QUANTILES.len()];
    for _ in 0..setting.pairs {
        file.take_log();
        let done = through_loop(&engine, tsc, ClosedLoop, Read, WORK, pinned)?;
        let served = times_ns(&file.take_log());
        let ops = done.counted.ops;
        // Now and then the kernel makes one read of two that are neighbours.
        let merged = ops.checked_sub(served.len() as u64).filter(|merged| merged * 1000 <= ops);
        ensure!(merged.is_some(), "{ops} reads counted, {} served", served.len());
        // With less under way there was no queue (Little's law, on the server's own log).
        let under_way = served.iter().sum::<u64>() as f64 / (done.seconds * 1e9);
        ensure!(
            under_way > 0.6 * depth,
            "{under_way:.1} reads under way of {depth}: the server is too slow here"
        );
        for (index, (name, share)) in QUANTILES.into_iter().enumerate() {
            let ours_ns = done.counted.latencies.quantile_ns(share) as f64;
            let theirs_ns = served[((served.len() as f64 * share).ceil() as usize).saturating_sub(1)] as f64;
            values[index].push((ours_ns - theirs_ns).abs() / (SHARE * theirs_ns + WAY_NS));
            notes[index] = format!(
                "{what}, {name} of the last measurement: {:.3} ms counted, {:.3} ms by the server's log",
                ours_ns / 1e6,
                theirs_ns / 1e6
            );
        }
    }
    let rows = QUANTILES.iter().zip(values).zip(notes).map(|(((name, _), values), note)| {
        let what = format!("{what}, {name}: off, of what may be");
        Row::new(what, "", values, Limit::AtMost(1.0)).noted(note)
    });
    Ok(rows.collect())
}

/// Times from arrival to answer, ascending.
fn times_ns(log: &[Served]) -> Vec<u64> {
    let time = |served: &Served| (served.answered - served.arrived).as_nanos() as u64;
    let mut times: Vec<_> = log.iter().map(time).collect();
    times.sort_unstable();
    times
}
