//! Cases that fall into a trap, each with its trust and its figures, and cases beside them that do not.

use model::Request;
use model::figure::{Count, LATENCY_MAX_NS};
use model::finding::Finding;
use model::layer::LayerKind;
use model::request::Seconds;
use model::run::{
    CompressibleProbe, Helper, Mark, Mode, Place, RateRange, Reread, RoundRecord, RoundsWindow, SteadyRound,
    SystemUse, Trust, UntilSteady,
};
use model::size::Size;
use model::target::{Backing, Device, DeviceKind};
use model::workload::CacheMode;

use crate::TrapFinding;
use crate::fixtures::{InputBuilder, clean, clean_request, conditions, device, load_of, two_places};

/// The trust and the mark that a trap gives a case. Its figures and words are in the snapshot of all cases.
#[derive(Debug, Clone, Copy)]
enum ExpectedFinding {
    Nothing,
    This(Trust, Mark),
}

const QUIET: ExpectedFinding = ExpectedFinding::Nothing;
const INVALID: ExpectedFinding = ExpectedFinding::This(Trust::Invalid, Mark::Invalid);
const SUSPECT: ExpectedFinding = ExpectedFinding::This(Trust::Suspect, Mark::Suspect);
const REMARK: ExpectedFinding = ExpectedFinding::This(Trust::Ok, Mark::Remark);

fn check(code: &str, expected: ExpectedFinding, spec: &str, change: fn(&mut InputBuilder)) {
    let mut world = clean(spec);
    change(&mut world);
    check_world(code, expected, &world);
}

fn check_world(code: &str, expected: ExpectedFinding, world: &InputBuilder) {
    let findings = world.findings();
    let found = findings.iter().find(|(known, _)| *known == code).map(|(_, finding)| finding);
    match (expected, found) {
        (ExpectedFinding::Nothing, found) => assert_eq!(found, None),
        (ExpectedFinding::This(..), None) => panic!("{code} does not fire: {findings:?}"),
        (ExpectedFinding::This(trust, mark), Some(found)) => {
            let text = wording::paragraph(&[&found.finding], &found.advice);
            let grade = found.finding.grade();
            assert_eq!((grade.trust(), grade.mark()), (trust, mark), "{text}");
            assert_eq!(found.finding.code(), code);
            let (overall, reasons) = world.verdict();
            assert!(overall >= trust, "{overall:?}");
            assert_eq!(reasons.iter().any(|reason| reason == code), trust > Trust::Ok, "{reasons:?}");
        }
    }
}

/// Stops the run for a part of the test.
fn stop(world: &mut InputBuilder, part: u64) {
    let not_running_ns = Some(world.record.counts.elapsed_ns / part);
    world.record.seen.system = Some(SystemUse { not_running_ns, ..SystemUse::default() });
}

/// Returns `count` rounds, with an excursion of 8 % over the last five if they are steady, and else of 35 %.
fn until_steady(steady_round: Option<u32>, count: u64) -> UntilSteady {
    let excursion = if steady_round.is_some() { 0.08 } else { 0.35 };
    let window =
        |round| (round >= 4).then_some(RoundsWindow { mean_ops_per_second: 1e4, excursion, slope: -0.02 });
    let (second, ops_per_second) = (1_000_000_000, 1e4);
    let round = |round| SteadyRound {
        from_ns: round * second,
        to_ns: (round + 1) * second,
        ops: 10_000,
        ops_per_second,
        window: window(round),
    };
    UntilSteady { steady_round, rounds_max: 25, rounds: (0..count).map(round).collect() }
}

/// Sets the dirtied bytes as if every written byte had made a page dirty.
fn all_dirty(world: &mut InputBuilder) {
    let written = world.record.counts.app_bytes_written;
    let intervals = world.record.figures.intervals.len() as u64;
    let frames = world.record.figures.intervals.iter_mut().filter_map(|interval| interval.frame.as_mut());
    frames.for_each(|frame| frame.dirtied_bytes = Some(written.div_ceil(intervals)));
}

/// A case that falls into a trap, or one beside it.
pub struct Example {
    /// Its name.
    pub name: &'static str,
    /// The trap.
    pub code: &'static str,
    /// True if it falls into the trap.
    pub has_finding: bool,
    spec: &'static str,
    change: fn(&mut InputBuilder),
}

impl Example {
    /// Returns the finding of its trap.
    pub fn caught(&self) -> Option<TrapFinding> {
        let mut world = clean(self.spec);
        (self.change)(&mut world);
        world.findings().into_iter().find(|(code, _)| *code == self.code).map(|(_, caught)| caught)
    }
}

/// Each line is a test: its name, the trap, the trap's answer, the test's spec, and the change to a healthy case.
macro_rules! examples {
    ($($name:ident: $code:ident $expected:expr, $spec:literal, $change:expr;)+) => {
        $(#[test] fn $name() { check(stringify!($code), $expected, $spec, $change); })+

        /// Every example.
        pub const ALL: &[Example] = &[$(Example {
            name: stringify!($name),
            code: stringify!($code),
            has_finding: !matches!($expected, ExpectedFinding::Nothing),
            spec: $spec,
            change: $change,
        },)+];
    };
}

fn back(leaf: &mut Device) {
    leaf.write_cache = Some("write back".into());
}

fn reread(first: [u64; 2], second: [u64; 2]) -> Reread {
    Reread {
        blocks: 1000,
        first_mean_ns: first[0],
        first_p99_ns: first[1],
        second_mean_ns: second[0],
        second_p99_ns: second[1],
    }
}

/// Adds a limit that lets a burst pass every 100 ms. Nine of ten operations take 76 µs, the tenth waits for the next
/// slice.
pub(super) fn limited(world: &mut InputBuilder, ops: impl Fn(usize) -> u64) {
    for (index, interval) in world.record.figures.intervals.iter_mut().enumerate() {
        interval.ops = ops(index);
        interval.histogram = vec![(76_000, interval.ops * 9 / 10), (101_000_000, interval.ops / 10)];
    }
    let latency = world.latency();
    (latency.p50, latency.p99) = (Some(76_000), Some(101_000_000));
}

fn rounds(world: &mut InputBuilder, count: usize) {
    world.record.figures.rounds = vec![RoundRecord::on_time(65_536, 2_000_000_000); count];
    world.record.counts.ops = 65_536 * count as u64;
    world.without_interval();
}

examples! {
    tmpfs_is_memory: memory_target INVALID, "create",
        |w| w.set_backing(Backing::Memory, "tmpfs");
    zram_is_memory: memory_target INVALID, "read:rnd4k",
        |w| w.target().device_stack.iter_mut().for_each(|device| device.kind = DeviceKind::Zram);
    nfs_target: memory_target QUIET, "create",
        |w| w.set_backing(Backing::RemoteOrUserSpace, "nfs4");
    null_engine_on_tmpfs: memory_target QUIET, "read:engine=null",
        |w| w.set_backing(Backing::Memory, "tmpfs");

    punched_holes: unwritten_extents INVALID, "read:rnd4k",
        |w| w.record.seen.extents.as_mut().unwrap().hole_share = 0.49;
    fallocated_files: unwritten_extents INVALID, "read:buffered",
        |w| w.record.seen.extents.as_mut().unwrap().unwritten_share = 1.0;
    holes_below_1_percent: unwritten_extents QUIET, "read:rnd4k",
        |w| w.record.seen.extents.as_mut().unwrap().hole_share = 0.009;

    refused_direct_io: o_direct_ineffective INVALID, "read:rnd4k",
        |w| w.record.counts.direct_refused = true;
    direct_writes_with_data_journaling: o_direct_ineffective
        INVALID, "write:rnd4k",
        |w| {
            w.target().mount_options.push("data=journal".into());
            w.device().bytes_per_app_byte = Some(0.001);
        };
    direct_reads_filling_page_cache: o_direct_ineffective
        INVALID, "read:rnd4k",
        |w| {
            w.target().file_system = "btrfs".into();
            w.record.seen.residency.as_mut().unwrap().after = Some(0.88);
        };
    direct_reads_of_compressed_files: o_direct_ineffective INVALID, "read:rnd4k",
        |w| {
            w.target().file_system = "btrfs".into();
            w.target().mount_options.push("compress=zstd:3".into());
            w.device().bytes_per_app_byte = Some(0.2);
        };
    direct_writes_with_a_checksum: o_direct_ineffective
        INVALID, "write:rnd4k",
        |w| {
            w.target().file_system = "btrfs".into();
            all_dirty(w);
        };
    metadata_dirtied_by_each_sync: o_direct_ineffective QUIET, "write:rnd4k:sync=each", all_dirty;
    device_reads_at_51_percent: o_direct_ineffective QUIET, "read:rnd4k",
        |w| w.device().bytes_per_app_byte = Some(0.51);
    pages_resident_before_test: o_direct_ineffective QUIET, "read:rnd4k",
        |w| {
            let residency = w.record.seen.residency.as_mut().unwrap();
            (residency.before, residency.after) = (Some(0.88), Some(0.88));
        };
    fsync_test_with_fewer_device_bytes: o_direct_ineffective QUIET, "fsync",
        |w| w.device().bytes_per_app_byte = Some(0.3);
    btrfs_on_two_devices: o_direct_ineffective QUIET, "read:rnd4k",
        |w| {
            w.target().file_system = "btrfs".into();
            w.target().device_stack.push(device("sdb", DeviceKind::Disk, &[]));
            w.device().bytes_per_app_byte = Some(0.4);
        };
    disabled_device_counters: o_direct_ineffective QUIET, "read:rnd4k",
        |w| {
            let device = w.device();
            (device.operations, device.bytes_per_app_byte) = (0, Some(0.0));
        };

    device_reads_at_97_percent: device_disagrees INVALID, "read:rnd4k",
        |w| w.device().bytes_per_app_byte = Some(0.97);
    excess_bytes_of_foreign_io: device_disagrees SUSPECT, "read:rnd4k",
        |w| {
            let device = w.device();
            (device.bytes_per_app_byte, device.foreign_share) = (Some(1.3), Some(0.23));
        };
    own_write_amplification: device_disagrees
        REMARK, "write:rnd4k",
        |w| w.device().bytes_per_app_byte = Some(1.5);
    btrfs_write_amplification: device_disagrees REMARK,
        "write:rnd4k",
        |w| {
            w.target().file_system = "btrfs".into();
            let device = w.device();
            (device.bytes_per_app_byte, device.foreign_share) = (Some(1.8), Some(0.44));
        };
    journal_overhead_below_2_percent: device_disagrees QUIET, "write:rnd4k",
        |w| w.device().bytes_per_app_byte = Some(1.019);
    journal_writes_of_sync_each: device_disagrees QUIET, "write:rnd4k:sync=each",
        |w| w.device().bytes_per_app_byte = Some(3.1);
    allocation_metadata_of_fresh_file: device_disagrees QUIET, "write:seq64k:fresh",
        |w| w.device().bytes_per_app_byte = Some(1.1);

    process_reads_10_times_device_reads: counters_disagree SUSPECT, "read:rnd4k",
        |w| {
            let device = w.device();
            device.bytes_read /= 10;
            device.bytes_per_app_byte = Some(0.1);
        };
    device_without_io_counters: counters_disagree
        SUSPECT, "write:rnd4k",
        |w| w.device().operations = 0;
    process_reads_4_percent_above_device: counters_disagree QUIET, "read:buffered",
        |w| { let device = w.device(); device.bytes_read -= device.bytes_read / 25; };
    io_uring_retries_charged_twice: counters_disagree QUIET, "read:seq1m:q4",
        |w| w.device().bytes_read /= 2;
    charges_while_all_slots_are_taken: counters_disagree QUIET, "read:rnd4k",
        |w| {
            w.device().bytes_read /= 2;
            w.record.seen.load = Some(load_of(1000, &[(0, 4.0, Some(4))]));
        };
    device_reads_doubled_by_neighbour: counters_disagree QUIET, "read:rnd4k",
        |w| w.device().bytes_read *= 2;
    warm_reads_without_device_io: counters_disagree QUIET, "read:buffered",
        |w| {
            w.device().operations = 0;
            w.frames(|frame| frame.own_io.device_read_bytes = 0);
        };

    buffered_writes_without_sync: nothing_durable INVALID,
        "write:rnd4k:buffered:sync=none", |_| {};
    buffered_writes_with_final_sync: nothing_durable QUIET, "write:rnd4k:buffered", |_| {};
    direct_writes_without_sync: nothing_durable QUIET, "write:rnd4k:sync=none", |_| {};

    nobarrier_with_volatile_cache: durability_void INVALID, "fsync",
        |w| {
            w.target().mount_options.push("nobarrier".into());
            back(&mut w.target().device_stack[1]);
        };
    volatile_overlayfs_with_syncs: durability_void INVALID, "create:sync=end",
        |w| w.target().mount_options.push("volatile".into());
    nobarrier_without_volatile_cache: durability_void QUIET, "fsync",
        |w| w.target().mount_options.push("nobarrier".into());
    volatile_overlayfs_without_syncs: durability_void QUIET, "create",
        |w| w.target().mount_options.push("volatile".into());

    fsync_in_300_ns: sync_not_sent SUSPECT, "fsync", |w| w.probes.sync_ns = Some(300);
    fsync_in_9_us: sync_not_sent QUIET, "fsync", |w| w.probes.sync_ns = Some(9_000);
    reads_with_fast_fsync_probe: sync_not_sent QUIET, "read", |w| w.probes.sync_ns = Some(300);
    three_short_reads: short_calls REMARK, "read", |w| w.record.counts.short_calls = 3;
    no_short_reads: short_calls QUIET, "read", |w| w.record.counts.short_calls = 0;

    flush_in_8_us: flush_too_fast
        SUSPECT, "fsync",
        |w| {
            back(&mut w.target().device_stack[1]);
            w.frames(|frame| frame.devices[1].flushes = 10_000);
            w.record.figures.steps[0].latency_ns.as_mut().unwrap().p50 = Some(8_000);
        };
    flush_in_21_us: flush_too_fast QUIET, "fsync",
        |w| {
            back(&mut w.target().device_stack[1]);
            w.frames(|frame| frame.devices[1].flushes = 10_000);
            w.record.figures.steps[0].latency_ns.as_mut().unwrap().p50 = Some(21_000);
        };
    fast_fsync_without_volatile_cache: flush_too_fast QUIET, "fsync",
        |w| w.record.figures.steps[0].latency_ns.as_mut().unwrap().p50 = Some(8_000);

    device_writes_at_50_percent: absorbed_by_page_cache INVALID,
        "write:rnd4k:buffered", |w| w.device().bytes_written /= 2;
    three_requested_write_passes: absorbed_by_page_cache
        SUSPECT, "write:rnd4k:buffered:passes=3",
        |w| {
            w.record.counts.passes = 3.0;
            w.device().bytes_written /= 3;
        };
    hot_blocks_overwritten_in_cache: absorbed_by_page_cache REMARK,
        "write:rnd4k:buffered:zipf=0.99", |w| w.device().bytes_written /= 2;
    device_writes_at_91_percent: absorbed_by_page_cache QUIET, "write:rnd4k:buffered",
        |w| w.device().bytes_written = w.device().bytes_written / 100 * 91;
    deduplicable_writes: absorbed_by_page_cache QUIET, "write:rnd4k:buffered:dedupe=50",
        |w| w.device().bytes_written /= 2;

    half_of_file_in_page_cache: served_from_page_cache
        INVALID, "read:buffered",
        |w| w.record.seen.page_cache_share = Some(0.49);
    read_ahead_of_other_clients: served_from_page_cache
        QUIET, "read:buffered:shared",
        |w| {
            if let model::workload::Work::Data(data) = &mut w.plan.phases[0].workload.work {
                data.interleaved = true;
            }
            w.plan.clients = Some(model::plan::Clients { count: 2, number: Some(0), clients_on_file_system: 1 });
            w.record.seen.page_cache_share = Some(0.49);
        };
    later_passes_from_page_cache: served_from_page_cache
        INVALID, "read:buffered:passes=3",
        |w| (w.record.seen.page_cache_share, w.record.counts.passes) = (Some(0.67), 3.0);
    hot_blocks_stay_in_memory: served_from_page_cache REMARK,
        "read:rnd4k:buffered:hot=90/10", |w| w.record.seen.page_cache_share = Some(0.8);
    cache_mode_as_is: served_from_page_cache SUSPECT,
        "read:buffered",
        |w| (w.plan.cache, w.record.seen.page_cache_share) = (CacheMode::AsIs, Some(0.1));
    cache_mode_warm: served_from_page_cache REMARK,
        "read:buffered",
        |w| (w.plan.cache, w.record.seen.page_cache_share) = (CacheMode::Warm, Some(1.0));
    warm_data_larger_than_memory: served_from_page_cache SUSPECT,
        "read:buffered",
        |w| (w.plan.cache, w.record.seen.page_cache_share) = (CacheMode::Warm, Some(0.03));
    resident_pages_of_nfs_file: served_from_page_cache INVALID, "read:buffered",
        |w| {
            w.set_backing(Backing::RemoteOrUserSpace, "nfs4");
            w.record.seen.residency.as_mut().unwrap().before = Some(0.3);
        };
    cached_share_below_5_percent: served_from_page_cache QUIET, "read:buffered",
        |w| w.record.seen.page_cache_share = Some(0.049);
    buffered_reads_of_compressed_files: served_from_page_cache QUIET, "read:buffered",
        |w| {
            w.record.seen.extents.as_mut().unwrap().encoded_share = 1.0;
            w.record.seen.page_cache_share = Some(0.5);
        };

    resident_pages_after_drop: cache_not_cold SUSPECT, "read:buffered",
        |w| w.record.seen.residency.as_mut().unwrap().before = Some(0.02);
    residency_below_0_1_percent: cache_not_cold QUIET, "read:buffered",
        |w| w.record.seen.residency.as_mut().unwrap().before = Some(0.0009);
    page_cache_share_already_reported: cache_not_cold QUIET, "read:buffered",
        |w| {
            w.record.seen.residency.as_mut().unwrap().before = Some(0.5);
            w.record.seen.page_cache_share = Some(0.5);
        };

    page_cache_of_an_image: answered_by_layer SUSPECT, "read:rnd4k", |w| w.over_image(0);
    image_without_cache: answered_by_layer QUIET, "read:rnd4k", |w| w.over_image(1 << 30);
    warm_reads_of_a_cached_image: answered_by_layer QUIET, "read:buffered",
        |w| {
            w.over_image(0);
            w.plan.cache = CacheMode::Warm;
        };
    page_cache_above_a_daemon: answered_by_layer SUSPECT, "read:rnd4k", |w| w.over_daemon(0);
    daemon_with_requests_in_flight: answered_by_layer QUIET, "read:rnd4k", |w| w.over_daemon(300);
    hole_in_a_lower_image: answered_by_layer SUSPECT, "read:rnd4k",
        |w| {
            w.over_image(0);
            w.environment.target.layers[2].kind = LayerKind::FileSystem;
        };

    host_cache_with_two_passes: below_os_cache
        SUSPECT,
        "read:rnd4k",
        |w| {
            w.record.counts.passes = 2.0;
            w.probes.reread = Some(reread([736_000, 3_000_000], [46_000, 90_000]));
        };
    host_cache_with_single_pass: below_os_cache REMARK, "read:rnd4k",
        |w| w.probes.reread = Some(reread([736_000, 3_000_000], [46_000, 90_000]));
    host_cache_of_slowest_blocks: below_os_cache REMARK, "read:rnd4k",
        |w| w.probes.reread = Some(reread([150_000, 900_000], [100_000, 200_000]));
    hot_blocks_in_host_cache: below_os_cache REMARK, "read:rnd4k:zipf=0.99",
        |w| {
            w.record.counts.passes = 2.0;
            w.probes.reread = Some(reread([736_000, 3_000_000], [46_000, 90_000]));
        };
    slowest_hot_blocks_in_host_cache: below_os_cache REMARK, "read:rnd4k:hot=90/10",
        |w| w.probes.reread = Some(reread([150_000, 900_000], [100_000, 200_000]));
    reread_as_fast_as_first_read: below_os_cache QUIET, "read:rnd4k",
        |w| w.probes.reread = Some(reread([52_000, 900_000], [47_000, 200_000]));
    disturbed_first_read_of_fast_device: below_os_cache QUIET, "read:rnd4k",
        |w| w.probes.reread = Some(reread([24_000, 30_000], [9_000, 20_000]));
    warm_reads_with_fast_reread: below_os_cache QUIET, "read:buffered",
        |w| {
            w.plan.cache = CacheMode::Warm;
            w.probes.reread = Some(reread([736_000, 3_000_000], [46_000, 90_000]));
        };

    reads_from_unknown_disks: devices_unknown REMARK, "read:rnd4k",
        |w| w.set_backing(Backing::Unknown, "zfs");
    writes_to_unknown_disks: devices_unknown QUIET, "write:rnd4k", |w| w.set_backing(Backing::Unknown, "zfs");

    server_of_unknown_memory_size: server_cache REMARK,
        "read:rnd4k", |w| w.set_backing(Backing::RemoteOrUserSpace, "fuse.sshfs");
    server_memory_over_half_of_set: server_cache SUSPECT, "read:rnd4k",
        |w| {
            w.set_backing(Backing::RemoteOrUserSpace, "nfs4");
            w.plan.server_ram_bytes = Some(1 << 30);
        };
    server_memory_below_half_of_set: server_cache QUIET, "read:rnd4k",
        |w| {
            w.set_backing(Backing::RemoteOrUserSpace, "nfs4");
            w.plan.server_ram_bytes = Some(800 << 20);
        };

    later_passes_are_faster: several_passes SUSPECT, "read:rnd4k",
        |w| {
            w.record.counts.passes = 2.0;
            w.record.workload.size_bytes = 200_000 * 4096;
            let intervals = w.record.figures.intervals.iter_mut().enumerate();
            intervals.for_each(|(index, interval)| interval.ops = if index < 20 { 10_000 } else { 15_000 });
        };
    zipf_test_getting_faster: several_passes QUIET, "read:rnd4k:zipf=0.99",
        |w| {
            w.record.counts.passes = 2.0;
            w.record.workload.size_bytes = 200_000 * 4096;
            let intervals = w.record.figures.intervals.iter_mut().enumerate();
            intervals.for_each(|(index, interval)| interval.ops = if index < 20 { 10_000 } else { 15_000 });
        };
    later_passes_19_percent_faster: several_passes QUIET, "read:rnd4k",
        |w| {
            w.record.counts.passes = 2.0;
            w.record.workload.size_bytes = 200_000 * 4096;
            let intervals = w.record.figures.intervals.iter_mut().enumerate();
            intervals.for_each(|(index, interval)| interval.ops = if index < 20 { 10_000 } else { 11_900 });
        };
    faster_passes_within_wide_interval: several_passes QUIET, "read:rnd4k",
        |w| {
            w.record.counts.passes = 2.0;
            w.set_rate_interval(0.2);
            w.record.workload.size_bytes = 200_000 * 4096;
            let intervals = w.record.figures.intervals.iter_mut().enumerate();
            intervals.for_each(|(index, interval)| interval.ops = if index < 20 { 10_000 } else { 15_000 });
        };

    names_from_memory: metadata_cache REMARK, "stat",
        |w| w.device().bytes_read = 0;
    stat_reading_6_bytes_each: metadata_cache REMARK, "stat", |w| w.set_name_read_bytes(6);
    stat_reading_7_bytes_each: metadata_cache QUIET, "stat", |w| w.set_name_read_bytes(7);
    cached_open_with_foreign_reads: metadata_cache REMARK, "open:missing",
        |w| {
            w.set_name_read_bytes(0);
            w.device().bytes_read = 1 << 30;
        };
    names_on_tmpfs: metadata_cache REMARK, "readdir", |w| w.set_backing(Backing::Memory, "tmpfs");
    stat_from_nfs_client_cache: metadata_cache REMARK, "stat", |w| w.set_server_requests(2);
    stat_requests_to_nfs_server: metadata_cache QUIET, "stat", |w| w.set_server_requests(100);
    stat_on_fuse: metadata_cache QUIET, "stat", |w| w.set_backing(Backing::RemoteOrUserSpace, "fuse");
    stat_after_cache_drop: metadata_cache QUIET, "stat:cold", |w| w.device().bytes_read = 0;
    create_without_device_reads: metadata_cache QUIET, "create", |w| w.device().bytes_read = 0;

    fewer_files_than_requested: fewer_files SUSPECT, "stat", |w| w.record.workload.files = 1000;
    all_requested_files: fewer_files QUIET, "stat", |_| {};

    cold_stat_without_device_reads: names_not_cold SUSPECT, "stat:t4:cold", |w| w.set_name_read_bytes(0);
    cold_stat_reading_63_bytes_each: names_not_cold SUSPECT, "stat:cold", |w| w.set_name_read_bytes(63);
    cold_stat_with_only_foreign_reads: names_not_cold SUSPECT, "stat:cold",
        |w| {
            w.set_name_read_bytes(0);
            w.device().bytes_read = 1 << 30;
        };
    cold_open_from_nfs_client_cache: names_not_cold SUSPECT, "open:cold", |w| w.set_server_requests(1);
    cold_stat_reading_64_bytes_each: names_not_cold QUIET, "stat:cold", |w| w.set_name_read_bytes(64);
    cold_readdir_reading_12_bytes_each: names_not_cold QUIET, "readdir:cold", |w| w.set_name_read_bytes(12);
    cold_stat_on_fuse: names_not_cold QUIET, "stat:cold",
        |w| w.set_backing(Backing::RemoteOrUserSpace, "fuse");

    cold_stat_with_device_reads: cold_names REMARK, "stat:t4:cold", |w| w.set_name_read_bytes(290);
    cold_stat_beside_foreign_reads: cold_names REMARK, "stat:cold",
        |w| {
            w.set_name_read_bytes(290);
            w.device().bytes_read *= 2;
        };
    cold_stat_on_nfs_server: cold_names REMARK, "stat:cold", |w| w.set_server_requests(100);
    cold_stat_from_cache: cold_names QUIET, "stat:cold", |w| w.set_name_read_bytes(0);
    warm_stat_with_device_reads: cold_names QUIET, "stat", |w| w.set_name_read_bytes(290);

    slow_create_without_journal: inode_search SUSPECT, "create",
        |w| {
            w.target().geometry.journal = Some("none".into());
            w.latency().mean = 400_000;
            w.budget().kernel = 0.9;
        };
    slow_create_with_journal: inode_search QUIET, "create",
        |w| {
            w.latency().mean = 400_000;
            w.budget().kernel = 0.9;
        };

    latency_at_recordable_maximum: latency_too_long SUSPECT, "read:rnd4k", |w| w.latency().max = LATENCY_MAX_NS;
    latency_of_one_day: latency_too_long QUIET, "read:rnd4k", |w| w.latency().max = 86_400_000_000_000;

    half_second_test: too_few_samples REMARK,
        "read:rnd4k", |w| w.ends_after(5);
    too_short_to_be_steady: too_few_samples REMARK, "read:rnd4k", |w| w.ends_after(19);
    short_single_pass: too_few_samples REMARK, "read:buffered",
        |w| {
            w.ends_after(6);
            w.record.counts.passes = 1.0;
        };
    sync_longer_than_writes: too_few_samples REMARK,
        "write:buffered",
        |w| {
            w.without_interval();
            w.record.figures.rate.last_done_ns = 1_000_000_000;
            w.record.figures.rate.overall_ops_per_second = Some(4e5);
        };
    two_rounds: too_few_samples REMARK, "create",
        |w| rounds(w, 2);
    single_requested_round: too_few_samples REMARK, "create",
        |w| {
            rounds(w, 1);
            w.plan.phases[0].stop.passes = Some(1);
        };
    short_test_at_requested_rate: too_few_samples QUIET, "read:rnd4k:q32:rate=500",
        |w| w.ends_after(5);
    short_test_with_rate_change: too_few_samples QUIET, "read:rnd4k",
        |w| {
            w.ends_after(19);
            w.changes(0.9, 1e5, 5e4, 1 << 20);
        };

    downward_drift: not_steady SUSPECT, "read:rnd4k",
        |w| {
            w.steady().is_steady = false;
            limited(w, |index| 10_000 - 60 * index as u64);
        };
    drift_without_confidence_interval: not_steady SUSPECT, "read:rnd4k",
        |w| {
            w.steady().is_steady = false;
            limited(w, |index| 10_000 - 60 * index as u64);
            w.without_interval();
        };
    small_downward_drift: not_steady REMARK, "read:rnd4k",
        |w| {
            w.steady().is_steady = false;
            limited(w, |index| 10_000 - 6 * index as u64);
        };
    late_rate_change: not_steady SUSPECT, "read:rnd4k",
        |w| w.changes(3.0, 2_000.0, 10_000.0, 1 << 20);
    rate_rise_then_fall: not_steady SUSPECT, "read:rnd4k",
        |w| {
            w.changes(1.0, 1_000.0, 2_000.0, 1 << 20);
            w.changes(3.0, 2_000.0, 900.0, 1 << 21);
        };
    unsteady_with_40_percent_interval: not_steady REMARK, "read:rnd4k",
        |w| {
            w.steady().is_steady = false;
            w.set_rate_interval(0.4);
        };
    drift_while_page_cache_fills: not_steady REMARK, "write:buffered",
        |w| {
            w.steady().is_steady = false;
            limited(w, |index| 10_000 - 20 * index as u64);
            w.without_interval();
        };
    rate_change_before_long_sync: not_steady QUIET, "write:buffered",
        |w| {
            w.changes(1.0, 4e5, 1e5, 1 << 30);
            w.without_interval();
            w.record.figures.rate.overall_ops_per_second = Some(4e5);
        };
    too_short_for_steady_state: not_steady QUIET, "read:rnd4k", |w| w.ends_after(19);
    poisson_arrivals: not_steady QUIET, "read:rnd4k:q32:rate=500,poisson",
        |w| w.steady().is_steady = false;
    missed_requested_rate: not_steady REMARK, "read:rnd4k:q32:rate=500",
        |w| {
            w.steady().is_steady = false;
            w.note(Finding::FellBehind { missed: Count(500), due: Count(1000) });
        };

    steady_window_of_five_rounds: steady_rounds REMARK, "write:rnd4k",
        |w| w.record.figures.until_steady = Some(until_steady(Some(7), 7));
    no_steady_window_in_25_rounds: never_steady SUSPECT, "write:rnd4k",
        |w| {
            w.steady().is_steady = false;
            w.record.figures.until_steady = Some(until_steady(None, 25));
        };
    four_rounds: never_steady SUSPECT, "write:rnd4k",
        |w| w.record.figures.until_steady = Some(until_steady(None, 4));
    steady_in_the_last_round: never_steady QUIET, "write:rnd4k",
        |w| w.record.figures.until_steady = Some(until_steady(Some(25), 25));
    steady_state_never_reached: steady_rounds QUIET, "write:rnd4k",
        |w| w.record.figures.until_steady = Some(until_steady(None, 25));
    unsteady_rounds: not_steady QUIET, "write:rnd4k",
        |w| {
            w.steady().is_steady = false;
            w.record.figures.until_steady = Some(until_steady(None, 25));
        };

    interval_of_3_percent: wide_interval REMARK, "read:rnd4k",
        |w| w.set_rate_interval(0.03);
    interval_of_2_4_percent: wide_interval QUIET, "read:rnd4k", |w| w.set_rate_interval(0.024);
    wide_interval_of_unsteady_rate: wide_interval QUIET, "read:rnd4k",
        |w| {
            w.steady().is_steady = false;
            w.set_rate_interval(0.3);
        };

    full_write_cache: rate_dropped
        SUSPECT,
        "write:seq1m",
        |w| {
            w.changes(1.5, 6.1e9 / 1_048_576.0, 1.4e9 / 1_048_576.0, 40_800_000_000);
            w.steady().is_steady = true;
        };
    burst_credits_exhausted_late: rate_dropped
        SUSPECT, "create",
        |w| {
            w.record.figures.steady = clean("read").record.figures.steady;
            w.record.workload.block_bytes = None;
            w.changes(3.5, 65_536.0, 512.0, 0);
        };
    dirty_page_limit_reached: rate_dropped REMARK,
        "write:seq1m:buffered",
        |w| {
            w.changes(1.0, 2_000.0, 100.0, 2_000 << 20);
            w.sleep_in("balance_dirty_pages_ratelimited_flags", 0.9);
        };
    buffered_drop_without_throttled_writer: rate_dropped SUSPECT,
        "write:seq1m:buffered", |w| w.changes(1.0, 2_000.0, 100.0, 2_000 << 20);
    drop_of_a_fifth: rate_dropped QUIET, "write:seq1m", |w| w.changes(1.5, 6_000.0, 4_900.0, 1 << 30);
    drop_with_recovery: rate_dropped QUIET, "write:seq1m",
        |w| {
            w.changes(1.0, 6_000.0, 1_000.0, 1 << 30);
            w.changes(2.0, 1_000.0, 5_500.0, 1 << 31);
        };
    drop_back_to_earlier_rate: rate_dropped QUIET, "read:rnd4k:q32",
        |w| {
            w.changes(1.0, 114_000.0, 99_000.0, 1 << 29);
            w.changes(2.0, 99_000.0, 134_000.0, 1 << 30);
            w.changes(3.0, 134_000.0, 106_000.0, 1 << 31);
        };
    drop_with_foreign_io: rate_dropped QUIET, "read:seq1m",
        |w| {
            w.changes(1.5, 6_000.0, 3_000.0, 1 << 30);
            w.device().foreign_share = Some(0.3);
        };

    throttling_in_100_ms_slices: rate_capped
        REMARK, "read:rnd4k:q32",
        |w| limited(w, |_| 500);
    garbage_collection: rate_capped QUIET, "write:rnd4k:q32", |w| limited(w, |index| 480 + index as u64 % 9 * 5);
    even_rate_from_large_counts: rate_capped QUIET, "read:rnd4k:q32",
        // With this many operations, chance alone causes at most a tenth of a percent, which is about this variation.
        |w| limited(w, |index| 5_000_000 + (index as u64 / 5 % 4) * 4_000);
    batches_across_interval_boundary: rate_capped REMARK, "read:rnd4k:q32",
        |w| limited(w, |index| match index % 50 { 24 => 900, 25 => 100, _ => 500 });
    constant_service_time: rate_capped QUIET, "read:rnd4k:q32",
        |w| {
            limited(w, |_| 400);
            w.record.figures.intervals.iter_mut().for_each(|interval| interval.histogram = vec![(8_000_000, 400)]);
            (w.latency().p50, w.latency().p99) = (Some(8_000_000), Some(8_100_000));
        };
    bimodal_service_times: rate_capped QUIET, "read:rnd4k",
        |w| {
            limited(w, |_| 26);
            (w.latency().p50, w.latency().p99) = (Some(2_000_000), Some(20_000_000));
        };
    requested_rate_limit: rate_capped QUIET, "read:rnd4k:q32:rate=500", |w| limited(w, |_| 500);

    two_latency_modes: several_modes
        REMARK, "read:rnd4k",
        |w| w.latency().modes = vec![Mode { at_ns: 40_000, share: 0.985 }, Mode { at_ns: 21_000_000, share: 0.015 }];
    three_latency_modes: several_modes REMARK, "stat",
        |w| w.latency().modes = [1, 2, 3].map(|at_ns| Mode { at_ns, share: 0.33 }).to_vec();
    single_latency_mode: several_modes QUIET, "read:rnd4k", |_| {};
    latency_modes_of_mix_flows: several_modes QUIET, "mix:mail",
        |w| w.latency().modes = [1, 2, 3].map(|at_ns| Mode { at_ns, share: 0.33 }).to_vec();

    foreign_io_of_30_percent: foreign_io SUSPECT, "read:rnd4k",
        |w| w.device().foreign_share = Some(0.3);
    foreign_io_below_5_percent: foreign_io QUIET, "read:rnd4k", |w| w.device().foreign_share = Some(0.049);
    uncharged_btrfs_metadata: foreign_io QUIET, "write:rnd4k",
        |w| {
            w.target().file_system = "btrfs".into();
            w.device().foreign_share = Some(0.5);
        };
    uncharged_data_journal: foreign_io QUIET, "write:rnd4k",
        |w| {
            w.target().mount_options.push("data=journal".into());
            w.device().foreign_share = Some(0.5);
        };
    uncharged_journal_of_sync_each: foreign_io QUIET, "write:rnd4k:sync=each",
        |w| w.device().foreign_share = Some(0.5);

    steal_of_12_percent: steal SUSPECT, "read:rnd4k", |w| w.budget().steal = 0.12;
    steal_of_5_percent: steal QUIET, "read:rnd4k", |w| w.budget().steal = 0.05;

    run_stopped_for_half_of_test: not_running SUSPECT, "read:rnd4k", |w| stop(w, 2);
    pause_left_out_of_the_rate: not_running SUSPECT, "read:rnd4k",
        |w| {
            let not_running_ns = Some(2_000_000_000);
            let system = SystemUse { not_running_ns, left_out_ns: Some(2_100_000_000), ..SystemUse::default() };
            w.record.seen.system = Some(system);
        };
    machine_suspended_for_an_hour: not_running SUSPECT, "stat",
        |w| {
            let suspended_ns = Some(3_600_000_000_000);
            w.record.seen.system = Some(SystemUse { suspended_ns, ..SystemUse::default() });
        };
    run_stopped_for_half_of_file_test: not_running SUSPECT, "stat", |w| stop(w, 2);
    run_stopped_for_hundredth_of_file_test: not_running QUIET, "stat", |w| stop(w, 100);

    changes_within_the_range_of_repeats: not_steady QUIET, "read:rnd4k",
        |w| { w.changes(1.5, 110_000.0, 95_000.0, 1 << 30); w.record.figures.rate.repeat_half_width = Some(0.2); };
    rates_before_and_after_a_raised_limit: not_steady SUSPECT, "read:rnd4k",
        |w| { w.changes(4.1, 1e3, 4e3, 1 << 20); w.steady().is_steady = true; w.limits(&[1e3, 4e3]); };
    return_visit_with_half_the_rate: does_not_repeat SUSPECT, "read:rnd4k", |w| w.return_visit(0.5);
    return_visit_with_nearly_the_same_rate: does_not_repeat QUIET, "read:rnd4k", |w| w.return_visit(0.9);
    return_visit_within_the_interval_of_repeats: does_not_repeat QUIET, "read:rnd4k",
        |w| { w.return_visit(0.7); w.record.figures.rate.repeat_half_width = Some(0.6); };
    return_visit_among_used_inodes: does_not_repeat SUSPECT, "create",
        |w| {
            w.target().geometry.journal = Some("none".into());
            w.return_visit(0.1);
        };
    return_visit_to_slow_create: does_not_repeat QUIET, "create",
        |w| {
            w.target().geometry.journal = Some("none".into());
            w.latency().mean = 400_000;
            w.budget().kernel = 0.9;
            w.return_visit(4.0);
        };

    single_run_in_kvm_guest: one_run REMARK, "read:rnd4k",
        |w| w.environment.virtualisation = Some("kvm".into());
    single_run_on_bare_metal: one_run QUIET, "read:rnd4k", |w| w.environment.virtualisation = None;
    three_runs_in_kvm_guest: one_run QUIET, "read:rnd4k",
        |w| {
            w.environment.virtualisation = Some("kvm".into());
            w.plan.repetitions = 3;
        };

    limit_raised_during_the_test: limit_changed SUSPECT, "read:rnd4k", |w| w.limits(&[1000.0, 4000.0]);
    unchanged_limit: limit_changed QUIET, "read:rnd4k", |w| w.limits(&[1000.0]);
    hot_drive: thermal SUSPECT, "read:rnd4k",
        |w| w.record.seen.conditions = Some(conditions(71.0, Some(0), &[]));
    warm_drive: thermal QUIET, "read:rnd4k",
        |w| w.record.seen.conditions = Some(conditions(69.9, Some(0), &[]));
    hot_cpus: thermal SUSPECT, "read:rnd4k",
        |w| w.record.seen.conditions = Some(conditions(40.0, Some(300), &[]));
    rarely_throttled_cpus: thermal QUIET, "read:rnd4k",
        |w| w.record.seen.conditions = Some(conditions(40.0, Some(2), &[]));

    resyncing_array: maintenance SUSPECT, "read:rnd4k",
        |w| w.record.seen.conditions = Some(conditions(40.0, None, &[("resync", true)]));
    scrub_of_another_file_system: maintenance REMARK, "read:rnd4k",
        |w| w.record.seen.conditions = Some(conditions(40.0, None, &[("btrfs scrub", false)]));
    no_maintenance: maintenance QUIET, "read:rnd4k",
        |w| w.record.seen.conditions = Some(conditions(40.0, None, &[]));

    run_queue_wait_of_20_percent: cpu_contention SUSPECT, "read:rnd4k:t4",
        |w| w.budget().run_queue = 0.2;
    more_threads_than_cpus: cpu_contention QUIET, "read:rnd4k:t9", |w| w.budget().run_queue = 0.2;
    hog_beside_more_threads_than_cpus: cpu_contention SUSPECT, "read:rnd4k:t9", |w| {
        w.budget().run_queue = 0.2;
        let hog = Helper { name: "hog".into(), pid: 7, is_kernel: false, cpu_share: 3.0, ..Helper::default() };
        w.record.seen.system.get_or_insert_default().helpers.push(hog);
    };
    run_queue_wait_of_4_percent: cpu_contention QUIET, "read:rnd4k:t4", |w| w.budget().run_queue = 0.04;

    partial_stripe_writes: parity_writes
        REMARK, "write:rnd4k",
        |w| w.array("raid5", &[(20_000_000, 30_000_000); 3]);
    full_stripe_writes: parity_writes QUIET, "write:rnd4k", |w| w.array("raid5", &[(1_000_000, 20_000_000); 3]);
    writes_to_mirror: parity_writes QUIET, "write:rnd4k", |w| w.array("raid1", &[(20_000_000, 40_000_000); 2]);

    overloaded_raid0_member: members_unbalanced REMARK, "read:rnd4k",
        |w| w.array("raid0", &[(2_000_000, 0), (12_000_000, 0), (4_000_000, 0)]);
    balanced_raid0_members: members_unbalanced QUIET, "read:rnd4k",
        |w| w.array("raid0", &[(9_000_000, 0), (12_000_000, 0), (10_000_000, 0)]);
    raid10_reads_from_one_mirror: members_unbalanced QUIET, "read:rnd4k",
        |w| w.array("raid10", &[(12_000_000, 0), (0, 0), (12_000_000, 0), (0, 0)]);
    linear_array: members_unbalanced QUIET, "read:rnd4k", |w| w.array("linear", &[(12_000_000, 0), (0, 0)]);

    slow_place_on_disk: uneven_places REMARK, "write:rnd4k",
        |w| w.record.seen.latency_by_place = Some(two_places(2.4, 2.2));
    slow_place_of_spread_files: uneven_places REMARK, "write:rnd4k", |w| {
        w.record.seen.latency_by_place = Some(two_places(2.4, 2.2));
        w.record.seen.places = vec![Place { start_bytes: 0, end_bytes: 1 << 30 }; Place::MOST];
    };
    runs_in_other_places_faster: uneven_places REMARK, "write:rnd4k",
        |w| w.record.figures.rates_elsewhere = Some(RateRange {
            runs: 3,
            low_ops_per_second: 0.9 * w.record.figures.rate.ops_per_second.unwrap(),
            high_ops_per_second: 2.5 * w.record.figures.rate.ops_per_second.unwrap(),
        });
    slow_place_by_chance: uneven_places QUIET, "write:rnd4k",
        |w| w.record.seen.latency_by_place = Some(two_places(1.4, 1.05));

    fragments_on_hard_disk: fragmented REMARK, "read:rnd4k",
        |w| {
            w.target().device_stack[1].rotational = Some(true);
            w.record.seen.extents.as_mut().unwrap().extents = 10_000;
            w.record.workload.size_bytes = 10_000 * (159 << 10);
        };
    fragments_on_flash: fragmented QUIET, "read:rnd4k", |w| w.record.seen.extents.as_mut().unwrap().extents = 10_000;

    btrfs_with_compression: compressible_target REMARK,
        "write:rnd4k",
        |w| {
            w.target().file_system = "btrfs".into();
            w.probes.compressible = Some(CompressibleProbe {
                bytes: 1 << 20, allocated_bytes: 1 << 20, encoded_share: Some(1.0),
            });
        };
    probe_stored_in_an_eighth: compressible_target REMARK,
        "write:rnd4k:compress=50",
        |w| w.probes.compressible = Some(CompressibleProbe {
            bytes: 1 << 20, allocated_bytes: 1 << 17, encoded_share: None,
        });
    probe_stored_uncompressed: compressible_target QUIET, "write:rnd4k",
        |w| w.probes.compressible = Some(CompressibleProbe {
            bytes: 1 << 20, allocated_bytes: 1 << 20, encoded_share: Some(0.0),
        });

    unfilled_write_cache: volatile_write_cache REMARK,
        "write:rnd4k", |w| back(&mut w.target().device_stack[1]);
    over_a_third_of_capacity_written: volatile_write_cache QUIET, "write:rnd4k",
        |w| {
            back(&mut w.target().device_stack[1]);
            w.record.counts.app_bytes_written = 400_000_000_000;
        };
    exhausted_write_cache: volatile_write_cache QUIET, "write:rnd4k",
        |w| {
            back(&mut w.target().device_stack[1]);
            w.changes(1.5, 6_000.0, 1_000.0, 1 << 30);
        };

    unused_read_ahead: read_ahead REMARK, "read:buffered",
        |w| w.device().bytes_per_app_byte = Some(1.5);
    page_reads_for_512_byte_blocks: read_ahead REMARK, "read:rnd512:buffered",
        |w| w.device().bytes_per_app_byte = Some(7.9);
    used_read_ahead: read_ahead QUIET, "read:buffered", |w| w.device().bytes_per_app_byte = Some(1.09);

    fsync_with_one_flush_each: amplification REMARK, "fsync",
        |w| w.frames(|frame| frame.devices[1].flushes = 10_000);
    random_writes_without_fsync: amplification QUIET, "write:rnd4k", |_| {};
    uncached_reads_that_stay: call_flags SUSPECT, "read:uncached",
        |w| w.record.seen.residency.as_mut().unwrap().after = Some(0.9);
    cached_reads: call_flags QUIET, "read:buffered", |_| {};

    complete_read_pass: one_pass REMARK, "read:buffered",
        |w| w.record.counts.passes = 1.0;
    complete_write_pass: one_pass REMARK, "write:buffered",
        |w| w.record.counts.passes = 1.0;
    pass_cut_short_by_time: one_pass QUIET, "read:buffered", |w| w.record.counts.passes = 0.99;

    test_at_write_limit: write_limit REMARK, "write:rnd4k",
        |w| w.plan.phases[0].stop.bytes = Some(w.record.counts.bytes);
    mix_at_write_limit: write_limit REMARK, "mix:mail",
        |w| {
            w.record.counts.app_bytes_written = 1 << 30;
            w.plan.phases[0].stop.bytes = Some(1 << 30);
        };
    test_at_half_write_limit: write_limit QUIET, "write:rnd4k", |w| w.plan.phases[0].stop.bytes = Some(w.record.counts.bytes * 2);
}

/// The wanted precision is the preset's, or 5 % where a time was requested.
#[test]
fn requested_time_allows_a_wider_interval() {
    let request = Request {
        tests: vec!["read:rnd4k".into()],
        size: Some(Size::Bytes(1 << 30)),
        time: Some(Seconds(4.0)),
        ..Request::default()
    };
    let mut world = clean_request(request);
    world.set_rate_interval(0.06);
    check_world("wide_interval", QUIET, &world);
    world.set_rate_interval(0.07);
    check_world("wide_interval", REMARK, &world);
}
