//! Checks rigs with plain threads and plain calls: the truth that other measurements are compared with must itself be
//! true.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, anyhow};
use rig::fuse::{Faults, Fuse};
use rig::{Direction, Disk, Network, Spec, Throttle, now_ns};
use rustix::fs::OFlags;

use super::{Bench, Limit, Row, Rows, Setting};

pub(super) const BENCH: Bench =
    Bench { name: "rigs", measures: "devices and servers with known answers, against what they say", run };

/// Length of each measurement. It is no multiple of any time that a rig is given. In a multiple, a repeating pattern is
/// counted exactly, however uneven it is.
const TIME_NS: u64 = 697_000_000;
/// A pause that no read on memory takes: the kernel keeps a limit in bursts, and waits for the next one.
const PAUSE_NS: u64 = 30_000_000;
/// Time before a measurement, in which the saved-up allowance is spent.
const WARM_UP_NS: u64 = 300_000_000;
/// Largest relative deviation of a rate.
const DEVIATION_MAX: f64 = 0.01;
/// Size of the device: so small that all of it lies in memory.
const SIZE_MIB: u64 = 64;

fn run(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    served(setting, rows)?;
    limited(setting, rows)?;
    measure_network(setting, rows)
}

/// Returns the reason why this machine cannot have a rig that needs these capabilities, or `None` if it can.
fn absent(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| {
        let check = crate::capability::find(name).map_or(Ok(()), crate::capability::Capability::check);
        check.err().map(|reason| format!("needs {name}: {reason}"))
    })
}

fn served(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    if let Some(why) = absent(&["root", "fuse", "loop"]) {
        return rows.push(Row::skipped("servers", Limit::AtMost(DEVIATION_MAX), why));
    }
    let fuse = |spec: rig::FuseSpec| {
        Fuse::mount(&spec.file_bytes(SIZE_MIB << 20), Faults::default()).context("serve a file system")
    };
    let [mut queue, mut late_p50_ns, mut late_p99_ns] = [const { Vec::new() }; 3];
    {
        let server = fuse(Spec::fuse().slots(4).service_us(1000))?;
        for _ in 0..setting.pairs {
            queue.push(off(rate(&server.path().join("file"), 16)?, 4000.0));
        }
    }
    rows.push(Row::new("4 slots of 1 ms, 16 readers: rate off", "", queue, Limit::AtMost(DEVIATION_MAX)))?;
    let mut names = Vec::new();
    {
        let server = fuse(Spec::fuse().slots(1).metadata_us(2000))?;
        for _ in 0..setting.pairs {
            names.push(off(lookups(server.path())?, 500.0));
        }
    }
    rows.push(Row::new(
        "names of 2 ms, 4 who look them up: rate off",
        "",
        names,
        Limit::AtMost(DEVIATION_MAX),
    ))?;
    let mut slow = Vec::new();
    {
        let server = fuse(Spec::fuse().service_us(2000).slow(0.1, 20_000))?;
        for _ in 0..setting.pairs {
            server.take_served();
            rate(&server.path().join("file"), 8)?;
            let times = server.take_served().in_direction(Direction::Read).times_ns();
            let late = |time: &u64| if *time < 20_000_000 { *time - 2_000_000 } else { *time - 20_000_000 };
            let mut late: Vec<_> = times.iter().map(late).collect();
            late.sort_unstable();
            late_p50_ns.push(late[late.len() / 2] as f64);
            late_p99_ns.push(late[late.len() * 99 / 100] as f64);
            let share = times.iter().filter(|time| **time >= 20_000_000).count() as f64 / times.len() as f64;
            slow.push((share - 0.1).abs());
        }
    }
    rows.push(Row::new("2 ms, a tenth 20 ms: share of the slow off", "", slow, Limit::AtMost(0.02)))?;
    rows.push(Row::new(
        "2 ms, a tenth 20 ms: answers late, p50",
        "ns",
        late_p50_ns,
        Limit::AtMost(300_000.0),
    ))?;
    rows.push(Row::new("2 ms, a tenth 20 ms: answers late, p99", "ns", late_p99_ns, Limit::None))?;
    let mut device = Vec::new();
    let disk = Disk::build(&Spec::disk().size_mib(SIZE_MIB).over(Spec::fuse().slots(8).service_us(5000)))?;
    for _ in 0..setting.pairs {
        disk.take_served();
        device.push(off(rate(&disk.path(), 32)?, 1600.0));
    }
    rows.push(Row::new(
        "device of 8 slots of 5 ms, 32 readers: rate off",
        "",
        device,
        Limit::AtMost(DEVIATION_MAX),
    ))
}

fn limited(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    if let Some(why) = absent(&["root", "loop", "blkio"]) {
        return rows.push(Row::skipped("limits", Limit::AtMost(DEVIATION_MAX), why));
    }
    let mut disk = Disk::build(&Spec::disk().size_mib(SIZE_MIB))?;
    for (what, limit, reads_per_second) in LIMITS {
        disk.limit(limit)?;
        let [mut between, mut over] = [const { Vec::new() }; 2];
        for _ in 0..setting.pairs {
            let ends_ns = ends(&disk.path(), 8, TIME_NS)?;
            between.push(off(rate_between_bursts(&ends_ns), reads_per_second));
            over.push(off(ends_ns.len() as f64 * 1e9 / TIME_NS as f64, reads_per_second));
        }
        rows.push(Row::new(
            format!("{what}, from burst to burst: rate off"),
            "",
            between,
            Limit::AtMost(DEVIATION_MAX),
        ))?;
        rows.push(Row::new(format!("{what}, over 0.697 s: rate off"), "", over, Limit::None).noted(BURSTS))?;
    }
    Ok(())
}

/// Measures the rate of a file through a network, in both directions.
fn measure_network(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    const BYTES: usize = 6 << 20;
    const BITS_PER_SECOND: u64 = 40_000_000;
    if let Some(why) = absent(&["root", "netns", "sshfs"]) {
        return rows.push(Row::skipped("network", Limit::AtMost(HEADERS), why));
    }
    let network = Network::build(&Spec::network(BITS_PER_SECOND).size_mib(64), &[])?;
    let path = network.path().join("file");
    let off_since = |begin_ns| {
        let rate = BYTES as f64 * 8e9 / (now_ns() - begin_ns) as f64;
        off(rate, BITS_PER_SECOND as f64)
    };
    let [mut written, mut read] = [const { Vec::new() }; 2];
    for _ in 0..setting.pairs {
        let begin_ns = now_ns();
        let mut file = File::create(&path).context("make a file behind the network")?;
        file.write_all(&vec![1; BYTES]).and_then(|()| file.sync_all()).context("write it")?;
        written.push(off_since(begin_ns));
        drop(file);
        let begin_ns = now_ns();
        std::fs::read(&path).context("read it")?;
        read.push(off_since(begin_ns));
    }
    rows.extend([
        Row::new("network of 40 Mbit/s, 6 MiB written: rate off", "", written, Limit::AtMost(HEADERS)),
        Row::new("network of 40 Mbit/s, 6 MiB read: rate off", "", read, Limit::AtMost(HEADERS)),
    ])
}

/// Allowed deviation for bytes that are not data: 66 of each 1,514 are for Ethernet, IP and TCP, few more for SSH.
const HEADERS: f64 = 0.06;

/// Looks up names that do not exist, in four threads, until the time is up. Returns the look-ups per second.
fn lookups(directory: &Path) -> Result<f64> {
    let begin_ns = now_ns() + WARM_UP_NS;
    let end_ns = begin_ns + TIME_NS;
    let lookup_count = thread::scope(|scope| {
        let count_lookups = |thread: u64| {
            (0_u64..)
                .map(|look| {
                    // No name comes twice, and the error of each says nothing.
                    let _ = std::fs::symlink_metadata(directory.join(format!("{thread}-{look}")));
                    now_ns()
                })
                .take_while(|ended_ns| *ended_ns < end_ns)
                .filter(|ended_ns| *ended_ns >= begin_ns)
                .count()
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || count_lookups(thread))).collect();
        let counts = threads.into_iter().map(|one| one.join().map_err(|_| anyhow!("a thread panicked")));
        Ok::<_, anyhow::Error>(counts.collect::<Result<Vec<_>>>()?.iter().sum::<usize>())
    })?;
    Ok(lookup_count as f64 * 1e9 / TIME_NS as f64)
}

const BURSTS: &str = "a limit lets through a tenth of a second's worth at once: over any time, a rate is off by as \
    much as one such burst";
const UNLIMITED: Throttle =
    Throttle { read_iops: None, write_iops: None, read_bytes_per_second: None, write_bytes_per_second: None };
/// Limits of a device, and the reads of 4 KiB per second that each lets through.
const LIMITS: [(&str, Throttle, f64); 4] = [
    ("limit of 5,000 reads/s", Throttle { read_iops: Some(5000), ..UNLIMITED }, 5000.0),
    ("limit of 10,000 reads/s", Throttle { read_iops: Some(10_000), ..UNLIMITED }, 10_000.0),
    ("limit of 2,000 reads/s", Throttle { read_iops: Some(2000), ..UNLIMITED }, 2000.0),
    ("limit of 20.48 MB/s", Throttle { read_bytes_per_second: Some(20_480_000), ..UNLIMITED }, 5000.0),
];

fn off(rate: f64, of: f64) -> f64 {
    (rate / of - 1.0).abs()
}

/// Reads of 4 KiB per second that `readers` threads get, one at a time each.
fn rate(path: &Path, readers: u64) -> Result<f64> {
    Ok(ends(path, readers, TIME_NS)?.len() as f64 * 1e9 / TIME_NS as f64)
}

/// Returns the times at which their reads ended, in ascending order.
fn ends(path: &Path, readers: u64, time_ns: u64) -> Result<Vec<u64>> {
    let begin_ns = now_ns() + WARM_UP_NS;
    let mut ends_ns = thread::scope(|scope| {
        let readers: Vec<_> = (0..readers)
            .map(|reader| scope.spawn(move || read(path, reader, begin_ns..begin_ns + time_ns)))
            .collect();
        let ended =
            readers.into_iter().map(|reader| reader.join().map_err(|_| anyhow!("a reader panicked"))?);
        Ok::<_, anyhow::Error>(ended.collect::<Result<Vec<_>>>()?.concat())
    })?;
    ends_ns.sort_unstable();
    Ok(ends_ns)
}

/// Rate from the first burst to the last, so that only whole bursts count.
fn rate_between_bursts(ends_ns: &[u64]) -> f64 {
    let begins = |index: &usize| ends_ns[*index] - ends_ns[*index - 1] >= PAUSE_NS;
    let bursts: Vec<_> = (1..ends_ns.len()).filter(begins).collect();
    match bursts[..] {
        [first, .., last] => (last - first) as f64 * 1e9 / (ends_ns[last] - ends_ns[first]) as f64,
        _ => f64::NAN,
    }
}

/// Reads at random until the time is up. Returns the times at which reads within it ended.
fn read(path: &Path, seed: u64, time: Range<u64>) -> Result<Vec<u64>> {
    let direct = OFlags::DIRECT.bits() as i32;
    let file: File =
        OpenOptions::new().read(true).custom_flags(direct).open(path).context("open it directly")?;
    let mut bytes = vec![0; 2 * 4096];
    let at = bytes.as_ptr().align_offset(4096).min(4096);
    let mut ends_ns = Vec::new();
    for read in 0_u64.. {
        let block = engine::data::mix(seed << 32 | read) % (SIZE_MIB << 8);
        file.read_exact_at(&mut bytes[at..at + 4096], block * 4096).context("read it directly")?;
        match now_ns() {
            now_ns if now_ns >= time.end => break,
            now_ns if now_ns >= time.start => ends_ns.push(now_ns),
            _ => {}
        }
    }
    Ok(ends_ns)
}
