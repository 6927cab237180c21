//! Devices: their limits, their service times, and their other users.

use model::Limiter::{
    BelowOs, DeviceBandwidth, DeviceLatency, DeviceOps, DirtyThrottling, FsyncJournal, HelperCpu, IoThrottle,
    MetadataCache, NoisyNeighbour, QueueFull,
};

use super::{Case, Interference, LONG, Restriction};
use crate::spec::{DiskSpec, FuseSpec, Spec};

/// Size of the disks in memory.
const DISK_MIB: u64 = 320;

pub(super) fn disk() -> DiskSpec {
    Spec::disk().file_system("ext4").size_mib(DISK_MIB)
}

fn disk_over(server: FuseSpec) -> DiskSpec {
    disk().over(server)
}

/// A server that takes 2 ms to make its data durable.
fn slow_to_flush() -> FuseSpec {
    Spec::fuse().slots(64).sync_us(2000)
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = throttles();
    cases.extend(kernel_limits());
    cases.extend(times());
    cases.extend(flushes());
    cases.extend(disturbed_cases());
    cases
}

fn throttles() -> Vec<Case> {
    let (short, long) = ("--size 128m --time 2", format!("--size 128m --time {LONG}"));
    vec![
        Case::new("iops-cap", "a cgroup limit of 2,000 reads/s", disk().read_iops(2000))
            .options(long.clone())
            .test("read:rnd4k:q8", &[IoThrottle])
            .at(2000.0)
            .test("read:rnd4k:t8", &[IoThrottle])
            .at(2000.0),
        Case::new(
            "iops-cap-one",
            "a cgroup limit of 2,000 reads/s, one read at a time",
            disk().read_iops(2000),
        )
        .options(short)
        .test("read:rnd4k", &[IoThrottle]),
        Case::new("iops-cap-hidden", "a hidden cgroup limit of 2,000 reads/s", disk().read_iops(2000))
            .options(short)
            .restriction(Restriction::HiddenCgroups)
            .test("read:rnd4k:t8", &[IoThrottle]),
        Case::new("iops-cap-writes", "a cgroup limit of 1,000 writes/s", disk().write_iops(1000))
            .options(long.clone())
            .test("write:rnd4k:q8", &[IoThrottle])
            .at(1000.0),
        Case::new("bytes-cap", "a cgroup limit of 50 MB/s read", disk().read_bytes_per_second(50_000_000))
            .options(long.clone())
            .test("read:rnd64k:q4", &[IoThrottle])
            .at(50e6 / 65_536.0),
        Case::new(
            "bytes-cap-buffered",
            "a cgroup limit of 50 MB/s read, through the page cache",
            disk().read_bytes_per_second(50_000_000),
        )
        .options(short)
        .test("read:seq128k:buffered", &[IoThrottle]),
        Case::new(
            "bytes-cap-writes",
            "a cgroup limit of 50 MB/s written",
            disk().write_bytes_per_second(50_000_000),
        )
        .options(long.clone())
        .test("write:seq64k:q4", &[IoThrottle])
        .at(50e6 / 65_536.0),
        Case::new(
            "overlay",
            "a cgroup limit of 2,000 reads/s, under an overlay",
            disk().read_iops(2000).with_overlay(),
        )
        .options(short)
        .test("read:rnd4k:q8", &[IoThrottle]),
        Case::new(
            "cap-beneath",
            "a cgroup limit of 1,700 reads/s, on the loop device under a loop device",
            disk().on_disk(disk().size_mib(2 * DISK_MIB).read_iops(1700)),
        )
        .options(long.clone())
        .test("read:rnd4k:q64", &[IoThrottle])
        .at(1700.0),
    ]
}

/// Returns the cases with limits of dirty pages and of requests.
fn kernel_limits() -> Vec<Case> {
    vec![
        Case::new(
            "dirty-pages",
            "16 MiB of dirty pages on a device that writes 100 MB/s",
            disk_over(Spec::fuse().service_us(500).bytes_per_second(100_000_000))
                .size_mib(1024)
                .dirty_max_bytes(16 << 20),
        )
        .options("--size 400m --time 3")
        .test("write:seq1m:buffered", &[DirtyThrottling]),
        Case::new(
            "capped-pages",
            "16 MiB of dirty pages above a limit of 100 MB/s",
            disk().size_mib(1024).write_bytes_per_second(100_000_000).dirty_max_bytes(16 << 20),
        )
        .options("--size 400m --time 3")
        .test("write:seq1m:buffered", &[IoThrottle]),
        Case::new(
            "tags",
            "a queue of 4 requests on a device that accepts 32",
            disk_over(Spec::fuse().slots(32).service_us(5000)).requests(4),
        )
        .test("read:rnd4k:t16", &[QueueFull])
        .test("read:rnd4k:q16", &[QueueFull]),
    ]
}

fn times() -> Vec<Case> {
    vec![
        Case::new(
            "latency",
            "25 ms per request, up to 128 in parallel",
            disk_over(Spec::fuse().slots(128).service_us(25_000)),
        )
        .test("read:rnd4k", &[DeviceLatency])
        .test("read:rnd4k:q32", &[DeviceLatency])
        .test("read:rnd4k:t32", &[DeviceLatency]),
        Case::new(
            "room",
            "1 ms per request, up to 12 in parallel, with 8 requested",
            disk_over(Spec::fuse().slots(12).service_us(1000)),
        )
        .test("read:rnd4k:q8", &[DeviceLatency])
        .test("read:rnd4k:t8", &[DeviceLatency]),
        Case::new(
            "crowded",
            "5 ms per request up to 16 in parallel, 10 ms beyond",
            disk_over(Spec::fuse().service_us(5000).crowded(16, 10_000)),
        )
        .test("read:rnd4k:q16", &[DeviceLatency]),
        Case::new(
            "operations",
            "4,000 requests/s: 4 in parallel, 1 ms each",
            disk_over(Spec::fuse().slots(4).service_us(1000)),
        )
        .test("read:rnd4k:q16", &[DeviceOps])
        .at(4000.0)
        .test("read:rnd4k:t16", &[DeviceOps])
        .at(4000.0),
        Case::new(
            "large",
            "4,000 requests/s, but only 600/s above 8 KiB, so less bandwidth",
            disk_over(Spec::fuse().slots(4).service_us(1000).large(8192, 6667)),
        )
        .with_reason("a device with enough requests is saturated, whether by their number or their bytes")
        .test("read:rnd4k:q16", &[DeviceOps, DeviceBandwidth])
        .at(4000.0)
        .test("read:rnd16k:q16", &[DeviceOps, DeviceBandwidth])
        .at(600.0),
        Case::new(
            "cache-below",
            "1,000 requests/s, and 20 us per repeated read",
            // In small blocks, as small file systems have them, a read would span two of the server's blocks.
            disk_over(Spec::fuse().slots(4).service_us(4000).cache_us(20).only_reads())
                .mkfs_options("-b 4096"),
        )
        .options("--size 256m --time 3")
        .test("read:rnd4k:q16", &[DeviceOps])
        .at(1000.0),
        Case::new(
            "credits",
            "8,000 requests/s for 4 s, then 2,000/s",
            disk_over(Spec::fuse().slots(4).service_us(500).spent(32_000, 2000).only_reads()),
        )
        .options("--size 256m --time 8")
        .with_mark("read:rnd4k:q16", "rate_dropped")
        .at(2000.0)
        .test("read:rnd4k:t16", &[DeviceOps])
        .at(2000.0),
        Case::new(
            "bandwidth",
            "100 MB/s for any request size",
            disk_over(Spec::fuse().bytes_per_second(100_000_000)),
        )
        .test("read:rnd64k:q4", &[DeviceBandwidth])
        .at(100e6 / 65_536.0)
        .test("read:seq1m:t2", &[DeviceBandwidth])
        .at(100e6 / 1_048_576.0),
        Case::new(
            "helper",
            "one kernel thread, which copies all bytes of a loop device",
            disk().size_mib(600),
        )
        .options("--size 256m --time 2")
        .with_reason("the test cannot distinguish that thread from the device")
        .test("read:seq1m:q16", &[HelperCpu, DeviceBandwidth]),
        Case::new(
            "unsteady",
            "1 ms per request, and a stall of 900 ms every 2 s",
            disk_over(Spec::fuse().slots(4).service_us(1000).stall_ms(900, 2000)),
        )
        .options("--size 64m --time 8")
        .with_reason("it stalls periodically, as no device does by itself; between stalls, it is saturated")
        .test("read:rnd4k:q16", &[BelowOs, DeviceOps]),
    ]
}

fn flushes() -> Vec<Case> {
    let made_on = |file_system: &str| disk_over(slow_to_flush()).file_system(file_system).size_mib(400);
    let fsync = |case: Case| {
        case.options("--size 64m --time 1.5")
            .test("fsync:rnd4k", &[FsyncJournal])
            .test("create:files=100:sync=each", &[FsyncJournal])
    };
    vec![
        fsync(Case::new("flush-ext4", "2 ms per flush, ext4", disk_over(slow_to_flush()))),
        fsync(Case::new("flush-xfs", "2 ms per flush, xfs", made_on("xfs"))),
        fsync(Case::new("flush-btrfs", "2 ms per flush, btrfs", made_on("btrfs"))),
        Case::new(
            "flush-appended",
            "2 ms per flush, with a sync after each write",
            disk_over(slow_to_flush()),
        )
        .options("--size 64m --time 1.5")
        .test("write:seq4k:buffered:sync=each", &[FsyncJournal]),
    ]
}

fn disturbed_cases() -> Vec<Case> {
    // With one at a time, each waiting request gets the next turn: a client with two waiting requests gets twice as
    // much.
    let one_at_a_time = || disk_over(Spec::fuse().slots(1).service_us(500));
    let several = || disk_over(Spec::fuse().slots(4).service_us(1000));
    vec![
        Case::new(
            "neighbour",
            "another process that always has a request queued, on a saturated device",
            one_at_a_time(),
        )
        .interference(Interference::Neighbour(2000))
        .test("read:rnd4k", &[NoisyNeighbour])
        .test("read:rnd4k:q2", &[NoisyNeighbour]),
        Case::new(
            "neighbour-small",
            "another process that does a fortieth of the reads, on a saturated device",
            several(),
        )
        .interference(Interference::Neighbour(100))
        .test("read:rnd4k:q16", &[DeviceOps]),
        Case::new("holes", "a file system that lost half of a file", disk())
            .interference(Interference::Loss)
            .options("--size 32m --time 1.5")
            .test("stat:files=100", &[MetadataCache])
            .with_mark("read:rnd4k:q4", "unwritten_extents"),
    ]
}
