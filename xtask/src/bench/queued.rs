//! Skye's latencies of a device with a queue, compared with the log of a rig's server.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use engine::DataEngine;
use engine::clock::Tsc;
use engine::pacing::ClosedLoop;
use engine::sync::SyncEngine;
use engine::uring::{Options, UringEngine};
use engine::verb::Read;
use loops::Work;
use rig::{Disk, Spec};
use rustix::fs::{Mode, OFlags};

use super::looped::through_loop;
use super::pinned::Pinned;
use super::{Bench, Limit, Row, Rows, Setting};

pub(super) const BENCH: Bench = Bench {
    name: "queued",
    measures: "latencies of a device with a queue, against what its server wrote down",
    run,
};

const SIZE_MIB: u64 = 64;
/// Range of the service time, in microseconds. At a depth of 32, it makes 4,000 operations a second; this server
/// answers 5,000 in time. With one time for all, reads that are answered together would come again together, and queue
/// unseen.
const SERVICE_US: (u64, u64) = (6_400, 9_600);
const WORK: Work = Work { time_ns: 2_000_000_000, ..Work::random_4k(SIZE_MIB << 20, u64::MAX) };
/// Allowed difference of our latency: a share of it, and the way through the kernel and back.
const SHARE: f64 = 0.02;
const WAY_NS: f64 = 300_000.0;
const QUANTILES: [(&str, f64); 2] = [("p50", 0.5), ("p99", 0.99)];

fn run(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let limit = Limit::AtMost(1.0);
    let refusal = engine::uring::refusal().map(|why| format!("io_uring: {why}"));
    if let Some(why) = absent().or(refusal) {
        return rows.push(Row::skipped("latencies against the server's", limit, why));
    }
    let server = Spec::fuse().service_between_us(SERVICE_US.0, SERVICE_US.1);
    let disk = Disk::build(&Spec::disk().size_mib(SIZE_MIB).over(server))?;
    // A user's setting outlives a device.
    let slots: u32 = disk.device().attribute("queue/nr_requests")?.parse().context("its requests")?;
    ensure!(slots >= 64, "{} has room for {slots} requests only", disk.path().display());
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let files = Arc::new([rustix::fs::open(disk.path(), flags, Mode::empty()).context("open the device")?]);
    let pinned = Pinned::new()?;
    let tsc = Tsc::calibrate();
    let ring = || {
        UringEngine::<false>::new(files.clone(), 4096, 32, true, None, Options::default())
            .context("make a ring")
    };
    rows.extend(compare_quantiles("ring, depth 32", 32.0, ring, &disk, tsc, setting, &pinned)?)?;
    let sync = || Ok(SyncEngine::new(files.clone(), 4096, None));
    rows.extend(compare_quantiles("sync, depth 1", 1.0, sync, &disk, tsc, setting, &pinned)?)
}

/// Differences at some quantiles, relative to the allowed ones.
fn compare_quantiles<E: DataEngine>(
    what: &str,
    depth: f64,
    engine: impl Fn() -> Result<E> + Sync,
    disk: &Disk,
    tsc: Option<Tsc>,
    setting: &Setting,
    pinned: &Pinned,
) -> Result<Vec<Row>> {
    let mut values = [const { Vec::new() }; QUANTILES.len()];
    let mut notes = [const { String::new() }; QUANTILES.len()];
    for _ in 0..setting.pairs {
        disk.take_served();
        let done = through_loop(&engine, tsc, ClosedLoop, Read, WORK, pinned)?;
        let served = disk.take_served().context("its server's log")?.times_ns();
        let ops = done.counted.ops;
        // Now and then the kernel merges two neighbouring reads.
        let merged = ops.checked_sub(served.len() as u64).filter(|merged| merged * 1000 <= ops);
        ensure!(merged.is_some(), "{ops} reads counted, {} served", served.len());
        // With fewer reads in flight there was no queue (Little's law, on the server's own log).
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

/// Returns the reason why this machine cannot have a device with a server behind it, or `None` if it can.
pub(super) fn absent() -> Option<String> {
    ["root", "fuse", "loop"].iter().find_map(|name| {
        let check = crate::capability::find(name).map_or(Ok(()), crate::capability::Capability::check);
        check.err().map(|reason| format!("needs {name}: {reason}"))
    })
}
