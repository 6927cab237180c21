//! Cases that fall into a trap, each with its trust and its figures, and cases beside them that do not.

use model::Request;
use model::figure::{Count, LATENCY_MAX_NS};
use model::finding::Finding;
use model::request::Seconds;
use model::run::{
    CompressibleProbe, Conditions, DriveTemperature, Helper, MaintenanceRecord, Mark, Mode, Reread,
    RoundRecord, RoundsWindow, SteadyRound, Trust, UntilSteady,
};
use model::size::Size;
use model::target::{Backing, Device, DeviceKind};
use model::workload::CacheMode;

use crate::TrapFinding;
use crate::fixtures::{InputBuilder, clean, clean_request, device};

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

/// Returns conditions with a drive at `celsius` (limit 70 °C), throttled CPUs, and maintenance.
fn conditions(celsius: f64, cpu_throttled: Option<u64>, maintenance: &[(&str, bool)]) -> Conditions {
    let record = |(work, belongs_to_target): &(&str, bool)| MaintenanceRecord {
        work: (*work).into(),
        device: belongs_to_target.then(|| "md0".into()),
        progress: belongs_to_target.then_some(0.34),
        belongs_to_target: *belongs_to_target,
    };
    Conditions {
        drives: vec![DriveTemperature { device: "sda".into(), celsius, celsius_max: Some(70.0) }],
        cpu_throttled,
        maintenance: maintenance.iter().map(record).collect(),
    }
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
    a_server_is_not_memory: memory_target QUIET, "create",
        |w| w.set_backing(Backing::RemoteOrUserSpace, "nfs4");
    the_loop_alone_touches_no_memory_target: memory_target QUIET, "read:engine=null",
        |w| w.set_backing(Backing::Memory, "tmpfs");

    punched_holes: unwritten_extents INVALID, "read:rnd4k",
        |w| w.record.seen.extents.as_mut().unwrap().hole_share = 0.49;
    fallocated_files: unwritten_extents INVALID, "read:buffered",
        |w| w.record.seen.extents.as_mut().unwrap().unwritten_share = 1.0;
    a_hole_that_does_not_matter: unwritten_extents QUIET, "read:rnd4k",
        |w| w.record.seen.extents.as_mut().unwrap().hole_share = 0.009;

    direct_io_that_is_refused: o_direct_ineffective INVALID, "read:rnd4k",
        |w| w.record.counts.direct_refused = true;
    direct_writes_that_are_journaled: o_direct_ineffective
        INVALID, "write:rnd4k",
        |w| {
            w.target().mount_options.push("data=journal".into());
            w.device().bytes_per_app_byte = Some(0.001);
        };
    direct_reads_that_fill_the_cache: o_direct_ineffective
        INVALID, "read:rnd4k",
        |w| {
            w.target().file_system = "btrfs".into();
            w.record.seen.residency.as_mut().unwrap().after = Some(0.88);
        };
    compressed_files_are_buffered: o_direct_ineffective INVALID, "read:rnd4k",
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
    metadata_that_each_sync_writes: o_direct_ineffective QUIET, "write:rnd4k:sync=each", all_dirty;
    half_of_the_bytes_is_another_matter: o_direct_ineffective QUIET, "read:rnd4k",
        |w| w.device().bytes_per_app_byte = Some(0.51);
    pages_that_somebody_held_before: o_direct_ineffective QUIET, "read:rnd4k",
        |w| {
            let residency = w.record.seen.residency.as_mut().unwrap();
            (residency.before, residency.after) = (Some(0.88), Some(0.88));
        };
    a_sync_after_each_write_moves_the_same_bytes: o_direct_ineffective QUIET, "fsync",
        |w| w.device().bytes_per_app_byte = Some(0.3);
    a_part_of_a_file_system_on_two_devices: o_direct_ineffective QUIET, "read:rnd4k",
        |w| {
            w.target().file_system = "btrfs".into();
            w.target().device_stack.push(device("sdb", DeviceKind::Disk, &[]));
            w.device().bytes_per_app_byte = Some(0.4);
        };
    counters_that_are_off_prove_nothing: o_direct_ineffective QUIET, "read:rnd4k",
        |w| {
            let device = w.device();
            (device.operations, device.bytes_per_app_byte) = (0, Some(0.0));
        };

    bytes_that_never_arrived: device_disagrees INVALID, "read:rnd4k",
        |w| w.device().bytes_per_app_byte = Some(0.97);
    bytes_of_others: device_disagrees SUSPECT, "read:rnd4k",
        |w| {
            let device = w.device();
            (device.bytes_per_app_byte, device.foreign_share) = (Some(1.3), Some(0.23));
        };
    bytes_of_ours_beyond_those_asked_for: device_disagrees
        REMARK, "write:rnd4k",
        |w| w.device().bytes_per_app_byte = Some(1.5);
    trees_of_a_copy_on_write_file_system: device_disagrees REMARK,
        "write:rnd4k",
        |w| {
            w.target().file_system = "btrfs".into();
            let device = w.device();
            (device.bytes_per_app_byte, device.foreign_share) = (Some(1.8), Some(0.44));
        };
    one_percent_is_journal_and_time_stamps: device_disagrees QUIET, "write:rnd4k",
        |w| w.device().bytes_per_app_byte = Some(1.019);
    syncing_each_write_adds_a_journal: device_disagrees QUIET, "write:rnd4k:sync=each",
        |w| w.device().bytes_per_app_byte = Some(3.1);
    room_for_a_new_file_is_written_down: device_disagrees QUIET, "write:seq64k:fresh",
        |w| w.device().bytes_per_app_byte = Some(1.1);

    charged_for_more_than_the_device_read: counters_disagree SUSPECT, "read:rnd4k",
        |w| {
            let device = w.device();
            device.bytes_read /= 10;
            device.bytes_per_app_byte = Some(0.1);
        };
    a_device_that_counts_nothing: counters_disagree
        SUSPECT, "write:rnd4k",
        |w| w.device().operations = 0;
    charged_for_as_much: counters_disagree QUIET, "read:buffered",
        |w| { let device = w.device(); device.bytes_read -= device.bytes_read / 25; };
    a_refused_attempt_is_charged_as_well: counters_disagree QUIET, "read:seq1m:q4",
        |w| w.device().bytes_read /= 2;
    a_neighbour_is_no_wrong_counter: counters_disagree QUIET, "read:rnd4k",
        |w| w.device().bytes_read *= 2;
    warm_reads_need_no_device: counters_disagree QUIET, "read:buffered",
        |w| {
            w.device().operations = 0;
            w.frames(|frame| frame.own_io.device_read_bytes = 0);
        };

    requests_that_wait_above_the_device: depth_not_reached
        REMARK, "read:rnd4k:q32",
        |w| w.device_frames(|device| device.in_flight_ns = 200_000_000);
    two_thirds_arrive: depth_not_reached QUIET, "read:rnd4k:q32",
        |w| w.device_frames(|device| device.in_flight_ns = 2_100_000_000);
    a_shallow_queue_needs_none: depth_not_reached QUIET, "read:rnd4k:q2",
        |w| w.device_frames(|device| device.in_flight_ns = 1_000_000);
    an_array_that_does_not_count_time: depth_not_reached QUIET, "read:rnd4k:q32",
        |w| w.device_frames(|device| device.in_flight_ns = 0);

    written_and_never_synced: nothing_durable INVALID,
        "write:rnd4k:buffered:sync=none", |_| {};
    synced_at_the_end: nothing_durable QUIET, "write:rnd4k:buffered", |_| {};
    direct_writes_reach_the_device_unsynced: nothing_durable QUIET, "write:rnd4k:sync=none", |_| {};

    no_barriers_over_a_volatile_cache: durability_void INVALID, "fsync",
        |w| {
            w.target().mount_options.push("nobarrier".into());
            back(&mut w.target().device_stack[1]);
        };
    an_overlay_that_ignores_syncs: durability_void INVALID, "create:sync=end",
        |w| w.target().mount_options.push("volatile".into());
    no_barriers_over_no_cache: durability_void QUIET, "fsync",
        |w| w.target().mount_options.push("nobarrier".into());
    nobody_asked_for_a_sync: durability_void QUIET, "create",
        |w| w.target().mount_options.push("volatile".into());

    syncs_faster_than_an_answer: sync_not_sent SUSPECT, "fsync", |w| w.probes.sync_ns = Some(300);
    syncs_as_fast_as_an_answer: sync_not_sent QUIET, "fsync", |w| w.probes.sync_ns = Some(9_000);
    reads_need_no_sync: sync_not_sent QUIET, "read", |w| w.probes.sync_ns = Some(300);
    calls_that_answer_in_parts: short_calls REMARK, "read", |w| w.record.counts.short_calls = 3;
    calls_that_answer_whole: short_calls QUIET, "read", |w| w.record.counts.short_calls = 0;

    a_flush_that_nothing_can_do_so_fast: flush_too_fast
        SUSPECT, "fsync",
        |w| {
            back(&mut w.target().device_stack[1]);
            w.frames(|frame| frame.devices[1].flushes = 10_000);
            w.record.figures.steps[0].latency_ns.as_mut().unwrap().p50 = Some(8_000);
        };
    a_flush_that_takes_its_time: flush_too_fast QUIET, "fsync",
        |w| {
            back(&mut w.target().device_stack[1]);
            w.frames(|frame| frame.devices[1].flushes = 10_000);
            w.record.figures.steps[0].latency_ns.as_mut().unwrap().p50 = Some(21_000);
        };
    a_cache_that_is_safe_needs_no_flush: flush_too_fast QUIET, "fsync",
        |w| w.record.figures.steps[0].latency_ns.as_mut().unwrap().p50 = Some(8_000);

    writes_that_did_not_arrive: absorbed_by_page_cache INVALID,
        "write:rnd4k:buffered", |w| w.device().bytes_written /= 2;
    several_passes_that_were_asked_for: absorbed_by_page_cache
        SUSPECT, "write:rnd4k:buffered:passes=3",
        |w| {
            w.record.counts.passes = 3.0;
            w.device().bytes_written /= 3;
        };
    hot_blocks_that_were_replaced: absorbed_by_page_cache REMARK,
        "write:rnd4k:buffered:zipf=0.99", |w| w.device().bytes_written /= 2;
    a_journal_beside_the_writes: absorbed_by_page_cache QUIET, "write:rnd4k:buffered",
        |w| w.device().bytes_written = w.device().bytes_written / 100 * 91;
    copies_may_be_stored_once: absorbed_by_page_cache QUIET, "write:rnd4k:buffered:dedupe=50",
        |w| w.device().bytes_written /= 2;

    half_of_the_file_was_in_memory: served_from_page_cache
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
    a_second_pass_finds_the_first: served_from_page_cache
        INVALID, "read:buffered:passes=3",
        |w| (w.record.seen.page_cache_share, w.record.counts.passes) = (Some(0.67), 3.0);
    hot_blocks_stay_in_memory: served_from_page_cache REMARK,
        "read:rnd4k:buffered:hot=90/10", |w| w.record.seen.page_cache_share = Some(0.8);
    left_as_it_was: served_from_page_cache SUSPECT,
        "read:buffered",
        |w| (w.plan.cache, w.record.seen.page_cache_share) = (CacheMode::AsIs, Some(0.1));
    warm_as_asked_for: served_from_page_cache REMARK,
        "read:buffered",
        |w| (w.plan.cache, w.record.seen.page_cache_share) = (CacheMode::Warm, Some(1.0));
    warm_and_larger_than_memory: served_from_page_cache SUSPECT,
        "read:buffered",
        |w| (w.plan.cache, w.record.seen.page_cache_share) = (CacheMode::Warm, Some(0.03));
    resident_on_a_server: served_from_page_cache INVALID, "read:buffered",
        |w| {
            w.set_backing(Backing::RemoteOrUserSpace, "nfs4");
            w.record.seen.residency.as_mut().unwrap().before = Some(0.3);
        };
    a_page_here_and_there: served_from_page_cache QUIET, "read:buffered",
        |w| w.record.seen.page_cache_share = Some(0.049);
    compressed_files_take_fewer_bytes: served_from_page_cache QUIET, "read:buffered",
        |w| {
            w.record.seen.extents.as_mut().unwrap().encoded_share = 1.0;
            w.record.seen.page_cache_share = Some(0.5);
        };

    pages_that_cannot_be_dropped: cache_not_cold SUSPECT, "read:buffered",
        |w| w.record.seen.residency.as_mut().unwrap().before = Some(0.02);
    dropped_but_for_a_page: cache_not_cold QUIET, "read:buffered",
        |w| w.record.seen.residency.as_mut().unwrap().before = Some(0.0009);
    told_as_memory_already: cache_not_cold QUIET, "read:buffered",
        |w| {
            w.record.seen.residency.as_mut().unwrap().before = Some(0.5);
            w.record.seen.page_cache_share = Some(0.5);
        };

    a_host_that_keeps_blocks: below_os_cache
        SUSPECT,
        "read:rnd4k",
        |w| {
            w.record.counts.passes = 2.0;
            w.probes.reread = Some(reread([736_000, 3_000_000], [46_000, 90_000]));
        };
    a_host_that_keeps_blocks_which_are_read_once: below_os_cache REMARK, "read:rnd4k",
        |w| w.probes.reread = Some(reread([736_000, 3_000_000], [46_000, 90_000]));
    a_host_that_keeps_the_slowest: below_os_cache REMARK, "read:rnd4k",
        |w| w.probes.reread = Some(reread([150_000, 900_000], [100_000, 200_000]));
    hot_blocks_in_a_host: below_os_cache REMARK, "read:rnd4k:zipf=0.99",
        |w| {
            w.record.counts.passes = 2.0;
            w.probes.reread = Some(reread([736_000, 3_000_000], [46_000, 90_000]));
        };
    hot_blocks_in_a_host_that_keeps_the_slowest: below_os_cache REMARK, "read:rnd4k:hot=90/10",
        |w| w.probes.reread = Some(reread([150_000, 900_000], [100_000, 200_000]));
    the_second_time_is_no_faster: below_os_cache QUIET, "read:rnd4k",
        |w| w.probes.reread = Some(reread([52_000, 900_000], [47_000, 200_000]));
    a_disturbed_first_time_of_a_fast_device: below_os_cache QUIET, "read:rnd4k",
        |w| w.probes.reread = Some(reread([24_000, 30_000], [9_000, 20_000]));
    what_was_asked_from_memory_needs_no_disk: below_os_cache QUIET, "read:buffered",
        |w| {
            w.plan.cache = CacheMode::Warm;
            w.probes.reread = Some(reread([736_000, 3_000_000], [46_000, 90_000]));
        };

    a_pool_of_unknown_disks: devices_unknown REMARK, "read:rnd4k",
        |w| w.set_backing(Backing::Unknown, "zfs");
    writes_are_made_durable: devices_unknown QUIET, "write:rnd4k", |w| w.set_backing(Backing::Unknown, "zfs");

    a_server_of_which_nothing_is_known: server_cache REMARK,
        "read:rnd4k", |w| w.set_backing(Backing::RemoteOrUserSpace, "fuse.sshfs");
    a_set_that_a_server_can_hold: server_cache SUSPECT, "read:rnd4k",
        |w| {
            w.set_backing(Backing::RemoteOrUserSpace, "nfs4");
            w.plan.server_ram_bytes = Some(1 << 30);
        };
    a_set_of_twice_its_memory: server_cache QUIET, "read:rnd4k",
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
    a_skewed_test_has_no_passes: several_passes QUIET, "read:rnd4k:zipf=0.99",
        |w| {
            w.record.counts.passes = 2.0;
            w.record.workload.size_bytes = 200_000 * 4096;
            let intervals = w.record.figures.intervals.iter_mut().enumerate();
            intervals.for_each(|(index, interval)| interval.ops = if index < 20 { 10_000 } else { 15_000 });
        };
    later_passes_are_alike: several_passes QUIET, "read:rnd4k",
        |w| {
            w.record.counts.passes = 2.0;
            w.record.workload.size_bytes = 200_000 * 4096;
            let intervals = w.record.figures.intervals.iter_mut().enumerate();
            intervals.for_each(|(index, interval)| interval.ops = if index < 20 { 10_000 } else { 11_900 });
        };
    a_rate_that_is_hardly_known: several_passes QUIET, "read:rnd4k",
        |w| {
            w.record.counts.passes = 2.0;
            w.set_rate_interval(0.2);
            w.record.workload.size_bytes = 200_000 * 4096;
            let intervals = w.record.figures.intervals.iter_mut().enumerate();
            intervals.for_each(|(index, interval)| interval.ops = if index < 20 { 10_000 } else { 15_000 });
        };

    names_from_memory: metadata_cache REMARK, "stat",
        |w| w.device().bytes_read = 0;
    names_that_need_hardly_a_read: metadata_cache REMARK, "stat", |w| w.set_name_read_bytes(6);
    names_from_the_device: metadata_cache QUIET, "stat", |w| w.set_name_read_bytes(7);
    names_read_by_others: metadata_cache REMARK, "open:missing",
        |w| {
            w.set_name_read_bytes(0);
            w.device().bytes_read = 1 << 30;
        };
    names_on_tmpfs: metadata_cache REMARK, "readdir", |w| w.set_backing(Backing::Memory, "tmpfs");
    names_that_the_client_keeps: metadata_cache REMARK, "stat", |w| w.set_server_requests(2);
    names_that_the_server_is_asked_for: metadata_cache QUIET, "stat", |w| w.set_server_requests(100);
    names_behind_a_program: metadata_cache QUIET, "stat", |w| w.set_backing(Backing::RemoteOrUserSpace, "fuse");
    names_that_were_dropped: metadata_cache QUIET, "stat:cold", |w| w.device().bytes_read = 0;
    creating_reads_nothing: metadata_cache QUIET, "create", |w| w.device().bytes_read = 0;

    not_all_files_were_made: fewer_files SUSPECT, "stat", |w| w.record.workload.files = 1000;
    all_files_were_made: fewer_files QUIET, "stat", |_| {};

    cold_names_without_a_read: names_not_cold SUSPECT, "stat:t4:cold", |w| w.set_name_read_bytes(0);
    cold_names_with_less_than_half_an_inode: names_not_cold SUSPECT, "stat:cold", |w| w.set_name_read_bytes(63);
    cold_names_that_others_read: names_not_cold SUSPECT, "stat:cold",
        |w| {
            w.set_name_read_bytes(0);
            w.device().bytes_read = 1 << 30;
        };
    cold_names_that_the_client_kept: names_not_cold SUSPECT, "open:cold", |w| w.set_server_requests(1);
    cold_names_with_half_an_inode: names_not_cold QUIET, "stat:cold", |w| w.set_name_read_bytes(64);
    cold_entries_without_inodes: names_not_cold QUIET, "readdir:cold", |w| w.set_name_read_bytes(12);
    cold_names_behind_a_program: names_not_cold QUIET, "stat:cold",
        |w| w.set_backing(Backing::RemoteOrUserSpace, "fuse");

    cold_names_that_are_read: cold_names REMARK, "stat:t4:cold", |w| w.set_name_read_bytes(290);
    cold_names_that_are_read_beside_others: cold_names REMARK, "stat:cold",
        |w| {
            w.set_name_read_bytes(290);
            w.device().bytes_read *= 2;
        };
    cold_names_on_a_server: cold_names REMARK, "stat:cold", |w| w.set_server_requests(100);
    cold_names_in_vain: cold_names QUIET, "stat:cold", |w| w.set_name_read_bytes(0);
    warm_names: cold_names QUIET, "stat", |w| w.set_name_read_bytes(290);

    inodes_that_are_held_back: inode_search REMARK, "create",
        |w| {
            w.target().geometry.journal = Some("none".into());
            w.latency().mean = 400_000;
            w.budget().kernel = 0.9;
        };
    inodes_with_a_journal: inode_search QUIET, "create",
        |w| {
            w.latency().mean = 400_000;
            w.budget().kernel = 0.9;
        };

    operation_of_two_days: latency_too_long SUSPECT, "read:rnd4k", |w| w.latency().max = LATENCY_MAX_NS;
    operation_of_a_day: latency_too_long QUIET, "read:rnd4k", |w| w.latency().max = 86_400_000_000_000;

    over_before_it_began: too_few_samples REMARK,
        "read:rnd4k", |w| w.ends_after(5);
    too_short_to_be_steady: too_few_samples REMARK, "read:rnd4k", |w| w.ends_after(19);
    a_pass_that_is_soon_over: too_few_samples REMARK, "read:buffered",
        |w| {
            w.ends_after(6);
            w.record.counts.passes = 1.0;
        };
    a_sync_that_takes_most_of_it: too_few_samples REMARK,
        "write:buffered",
        |w| {
            w.without_interval();
            w.record.figures.rate.last_done_ns = 1_000_000_000;
            w.record.figures.rate.overall_ops_per_second = Some(4e5);
        };
    two_rounds: too_few_samples REMARK, "create",
        |w| rounds(w, 2);
    a_round_that_may_not_be_repeated: too_few_samples REMARK, "create",
        |w| {
            rounds(w, 1);
            w.plan.phases[0].stop.passes = Some(1);
        };
    a_rate_that_was_asked_for_needs_no_interval: too_few_samples QUIET, "read:rnd4k:q32:rate=500",
        |w| w.ends_after(5);
    short_and_not_even_then_of_one_rate: too_few_samples QUIET, "read:rnd4k",
        |w| {
            w.ends_after(19);
            w.changes(0.9, 1e5, 5e4, 1 << 20);
        };

    a_drift: not_steady SUSPECT, "read:rnd4k",
        |w| {
            w.steady().is_steady = false;
            limited(w, |index| 10_000 - 60 * index as u64);
        };
    a_drift_of_unknown_width: not_steady SUSPECT, "read:rnd4k",
        |w| {
            w.steady().is_steady = false;
            limited(w, |index| 10_000 - 60 * index as u64);
            w.without_interval();
        };
    a_small_drift: not_steady REMARK, "read:rnd4k",
        |w| {
            w.steady().is_steady = false;
            limited(w, |index| 10_000 - 6 * index as u64);
        };
    a_late_change: not_steady SUSPECT, "read:rnd4k",
        |w| w.changes(3.0, 2_000.0, 10_000.0, 1 << 20);
    up_and_down: not_steady SUSPECT, "read:rnd4k",
        |w| {
            w.changes(1.0, 1_000.0, 2_000.0, 1 << 20);
            w.changes(3.0, 2_000.0, 900.0, 1 << 21);
        };
    anything_may_be_its_rate: not_steady REMARK, "read:rnd4k",
        |w| {
            w.steady().is_steady = false;
            w.set_rate_interval(0.4);
        };
    memory_that_fills_is_not_the_number: not_steady REMARK, "write:buffered",
        |w| {
            w.steady().is_steady = false;
            limited(w, |index| 10_000 - 20 * index as u64);
            w.without_interval();
        };
    a_long_sync_is_told_as_that: not_steady QUIET, "write:buffered",
        |w| {
            w.changes(1.0, 4e5, 1e5, 1 << 30);
            w.without_interval();
            w.record.figures.rate.overall_ops_per_second = Some(4e5);
        };
    too_short_is_not_unsteady: not_steady QUIET, "read:rnd4k", |w| w.ends_after(19);
    arrivals_that_vary_are_asked_for: not_steady QUIET, "read:rnd4k:q32:rate=500,poisson",
        |w| w.steady().is_steady = false;
    a_rate_that_was_not_kept: not_steady REMARK, "read:rnd4k:q32:rate=500",
        |w| {
            w.steady().is_steady = false;
            w.note(Finding::FellBehind { missed: Count(500), due: Count(1000) });
        };

    five_even_rounds: steady_rounds REMARK, "write:rnd4k",
        |w| w.record.figures.until_steady = Some(until_steady(Some(7), 7));
    no_five_even_rounds: never_steady SUSPECT, "write:rnd4k",
        |w| {
            w.steady().is_steady = false;
            w.record.figures.until_steady = Some(until_steady(None, 25));
        };
    four_rounds: never_steady SUSPECT, "write:rnd4k",
        |w| w.record.figures.until_steady = Some(until_steady(None, 4));
    steady_in_the_last_round: never_steady QUIET, "write:rnd4k",
        |w| w.record.figures.until_steady = Some(until_steady(Some(25), 25));
    steady_in_no_round: steady_rounds QUIET, "write:rnd4k",
        |w| w.record.figures.until_steady = Some(until_steady(None, 25));
    rounds_say_that_it_is_not_steady: not_steady QUIET, "write:rnd4k",
        |w| {
            w.steady().is_steady = false;
            w.record.figures.until_steady = Some(until_steady(None, 25));
        };

    known_within_three_percent: wide_interval REMARK, "read:rnd4k",
        |w| w.set_rate_interval(0.03);
    a_little_wider_than_wanted: wide_interval QUIET, "read:rnd4k", |w| w.set_rate_interval(0.024);
    told_as_not_steady: wide_interval QUIET, "read:rnd4k",
        |w| {
            w.steady().is_steady = false;
            w.set_rate_interval(0.3);
        };

    a_write_cache_that_is_full: rate_dropped
        SUSPECT,
        "write:seq1m",
        |w| {
            w.changes(1.5, 6.1e9 / 1_048_576.0, 1.4e9 / 1_048_576.0, 40_800_000_000);
            w.steady().is_steady = true;
        };
    a_credit_that_ran_out_late: rate_dropped
        SUSPECT, "create",
        |w| {
            w.record.figures.steady = clean("read").record.figures.steady;
            w.record.workload.block_bytes = None;
            w.changes(3.5, 65_536.0, 512.0, 0);
        };
    memory_that_is_full_of_writes: rate_dropped REMARK,
        "write:seq1m:buffered", |w| w.changes(1.0, 2_000.0, 100.0, 2_000 << 20);
    a_fifth_less: rate_dropped QUIET, "write:seq1m", |w| w.changes(1.5, 6_000.0, 4_900.0, 1 << 30);
    what_comes_back: rate_dropped QUIET, "write:seq1m",
        |w| {
            w.changes(1.0, 6_000.0, 1_000.0, 1 << 30);
            w.changes(2.0, 1_000.0, 5_500.0, 1 << 31);
        };
    what_was_as_low_before: rate_dropped QUIET, "read:rnd4k:q32",
        |w| {
            w.changes(1.0, 114_000.0, 99_000.0, 1 << 29);
            w.changes(2.0, 99_000.0, 134_000.0, 1 << 30);
            w.changes(3.0, 134_000.0, 106_000.0, 1 << 31);
        };
    a_neighbour_who_came: rate_dropped QUIET, "read:seq1m",
        |w| {
            w.changes(1.5, 6_000.0, 3_000.0, 1 << 30);
            w.device().foreign_share = Some(0.3);
        };

    a_limit_that_somebody_set: rate_capped
        REMARK, "read:rnd4k:q32",
        |w| limited(w, |_| 500);
    a_device_that_collects_garbage: rate_capped QUIET, "write:rnd4k:q32", |w| limited(w, |index| 480 + index as u64 % 9 * 5);
    many_operations_are_even_by_themselves: rate_capped QUIET, "read:rnd4k:q32",
        // With this many operations, chance alone causes at most a tenth of a percent, which is about this variation.
        |w| limited(w, |index| 5_000_000 + (index as u64 / 5 % 4) * 4_000);
    lots_at_a_boundary: rate_capped REMARK, "read:rnd4k:q32",
        |w| limited(w, |index| match index % 50 { 24 => 900, 25 => 100, _ => 500 });
    a_fixed_time_for_each: rate_capped QUIET, "read:rnd4k:q32",
        |w| {
            limited(w, |_| 400);
            w.record.figures.intervals.iter_mut().for_each(|interval| interval.histogram = vec![(8_000_000, 400)]);
            (w.latency().p50, w.latency().p99) = (Some(8_000_000), Some(8_100_000));
        };
    two_kinds_of_service: rate_capped QUIET, "read:rnd4k",
        |w| {
            limited(w, |_| 26);
            (w.latency().p50, w.latency().p99) = (Some(2_000_000), Some(20_000_000));
        };
    a_limit_that_we_set: rate_capped QUIET, "read:rnd4k:q32:rate=500", |w| limited(w, |_| 500);

    quick_ones_and_slow_ones: several_modes
        REMARK, "read:rnd4k",
        |w| w.latency().modes = vec![Mode { at_ns: 40_000, share: 0.985 }, Mode { at_ns: 21_000_000, share: 0.015 }];
    three_kinds: several_modes REMARK, "stat",
        |w| w.latency().modes = [1, 2, 3].map(|at_ns| Mode { at_ns, share: 0.33 }).to_vec();
    one_kind: several_modes QUIET, "read:rnd4k", |_| {};
    kinds_of_flows: several_modes QUIET, "mix:mail",
        |w| w.latency().modes = [1, 2, 3].map(|at_ns| Mode { at_ns, share: 0.33 }).to_vec();

    a_neighbour: foreign_io SUSPECT, "read:rnd4k",
        |w| w.device().foreign_share = Some(0.3);
    next_to_nobody: foreign_io QUIET, "read:rnd4k", |w| w.device().foreign_share = Some(0.049);
    trees_are_not_a_neighbour: foreign_io QUIET, "write:rnd4k",
        |w| {
            w.target().file_system = "btrfs".into();
            w.device().foreign_share = Some(0.5);
        };
    journaled_data_is_not_a_neighbour: foreign_io QUIET, "write:rnd4k",
        |w| {
            w.target().mount_options.push("data=journal".into());
            w.device().foreign_share = Some(0.5);
        };
    a_journal_is_not_a_neighbour: foreign_io QUIET, "write:rnd4k:sync=each",
        |w| w.device().foreign_share = Some(0.5);

    a_host_that_is_busy: steal SUSPECT, "read:rnd4k", |w| w.budget().steal = 0.12;
    a_host_that_is_calm: steal QUIET, "read:rnd4k", |w| w.budget().steal = 0.05;

    a_disk_that_guests_share: one_run REMARK, "read:rnd4k",
        |w| w.environment.virtualisation = Some("kvm".into());
    a_disk_of_our_own: one_run QUIET, "read:rnd4k", |w| w.environment.virtualisation = None;
    several_runs_tell_themselves: one_run QUIET, "read:rnd4k",
        |w| {
            w.environment.virtualisation = Some("kvm".into());
            w.plan.repetitions = 3;
        };

    a_drive_that_is_hot: thermal SUSPECT, "read:rnd4k",
        |w| w.record.seen.conditions = Some(conditions(71.0, Some(0), &[]));
    a_drive_that_is_warm: thermal QUIET, "read:rnd4k",
        |w| w.record.seen.conditions = Some(conditions(69.9, Some(0), &[]));
    cpus_that_are_hot: thermal SUSPECT, "read:rnd4k",
        |w| w.record.seen.conditions = Some(conditions(40.0, Some(300), &[]));
    cpus_that_are_hot_now_and_then: thermal QUIET, "read:rnd4k",
        |w| w.record.seen.conditions = Some(conditions(40.0, Some(2), &[]));

    an_array_that_is_repaired: maintenance SUSPECT, "read:rnd4k",
        |w| w.record.seen.conditions = Some(conditions(40.0, None, &[("resync", true)]));
    somebody_is_scrubbed: maintenance REMARK, "read:rnd4k",
        |w| w.record.seen.conditions = Some(conditions(40.0, None, &[("btrfs scrub", false)]));
    nothing_to_do: maintenance QUIET, "read:rnd4k",
        |w| w.record.seen.conditions = Some(conditions(40.0, None, &[]));

    programs_beside: cpu_contention SUSPECT, "read:rnd4k:t4",
        |w| w.budget().run_queue = 0.2;
    more_threads_than_cpus: cpu_contention QUIET, "read:rnd4k:t9", |w| w.budget().run_queue = 0.2;
    programs_beside_many_threads: cpu_contention SUSPECT, "read:rnd4k:t9", |w| {
        w.budget().run_queue = 0.2;
        let hog = Helper { name: "hog".into(), pid: 7, is_kernel: false, cpu_share: 3.0 };
        w.record.seen.system.get_or_insert_default().helpers.push(hog);
    };
    a_wait_now_and_then: cpu_contention QUIET, "read:rnd4k:t4", |w| w.budget().run_queue = 0.04;

    parity_of_parts_of_stripes: parity_writes
        REMARK, "write:rnd4k",
        |w| w.array("raid5", &[(20_000_000, 30_000_000); 3]);
    whole_stripes: parity_writes QUIET, "write:rnd4k", |w| w.array("raid5", &[(1_000_000, 20_000_000); 3]);
    a_mirror_has_no_parity: parity_writes QUIET, "write:rnd4k", |w| w.array("raid1", &[(20_000_000, 40_000_000); 2]);

    a_member_with_more_to_do: members_unbalanced REMARK, "read:rnd4k",
        |w| w.array("raid0", &[(2_000_000, 0), (12_000_000, 0), (4_000_000, 0)]);
    members_alike: members_unbalanced QUIET, "read:rnd4k",
        |w| w.array("raid0", &[(9_000_000, 0), (12_000_000, 0), (10_000_000, 0)]);
    a_mirror_may_read_from_one: members_unbalanced QUIET, "read:rnd4k",
        |w| w.array("raid10", &[(12_000_000, 0), (0, 0), (12_000_000, 0), (0, 0)]);
    disks_in_a_row: members_unbalanced QUIET, "read:rnd4k", |w| w.array("linear", &[(12_000_000, 0), (0, 0)]);

    pieces_on_a_disk_that_spins: fragmented REMARK, "read:rnd4k",
        |w| {
            w.target().device_stack[1].rotational = Some(true);
            w.record.seen.extents.as_mut().unwrap().extents = 10_000;
            w.record.workload.size_bytes = 10_000 * (159 << 10);
        };
    pieces_on_flash: fragmented QUIET, "read:rnd4k", |w| w.record.seen.extents.as_mut().unwrap().extents = 10_000;

    a_file_system_that_compresses: compressible_target REMARK,
        "write:rnd4k",
        |w| {
            w.target().file_system = "btrfs".into();
            w.probes.compressible = Some(CompressibleProbe {
                bytes: 1 << 20, allocated_bytes: 1 << 20, encoded_share: Some(1.0),
            });
        };
    stored_in_a_tenth: compressible_target REMARK,
        "write:rnd4k:compress=50",
        |w| w.probes.compressible = Some(CompressibleProbe {
            bytes: 1 << 20, allocated_bytes: 1 << 17, encoded_share: None,
        });
    stored_as_it_is: compressible_target QUIET, "write:rnd4k",
        |w| w.probes.compressible = Some(CompressibleProbe {
            bytes: 1 << 20, allocated_bytes: 1 << 20, encoded_share: Some(0.0),
        });

    a_cache_that_was_not_filled: volatile_write_cache REMARK,
        "write:rnd4k", |w| back(&mut w.target().device_stack[1]);
    a_device_that_was_filled: volatile_write_cache QUIET, "write:rnd4k",
        |w| {
            back(&mut w.target().device_stack[1]);
            w.record.counts.app_bytes_written = 400_000_000_000;
        };
    a_cache_that_ran_out: volatile_write_cache QUIET, "write:rnd4k",
        |w| {
            back(&mut w.target().device_stack[1]);
            w.changes(1.5, 6_000.0, 1_000.0, 1 << 30);
        };

    fetched_and_not_read: read_ahead REMARK, "read:buffered",
        |w| w.device().bytes_per_app_byte = Some(1.5);
    pages_for_small_blocks: read_ahead REMARK, "read:rnd512:buffered",
        |w| w.device().bytes_per_app_byte = Some(7.9);
    fetched_and_read: read_ahead QUIET, "read:buffered", |w| w.device().bytes_per_app_byte = Some(1.09);

    what_a_durable_write_costs: amplification REMARK, "fsync",
        |w| w.frames(|frame| frame.devices[1].flushes = 10_000);
    other_writes_are_not_asked: amplification QUIET, "write:rnd4k", |_| {};

    a_whole_pass: one_pass REMARK, "read:buffered",
        |w| w.record.counts.passes = 1.0;
    a_whole_pass_of_writes: one_pass REMARK, "write:buffered",
        |w| w.record.counts.passes = 1.0;
    time_came_first: one_pass QUIET, "read:buffered", |w| w.record.counts.passes = 0.99;

    a_part_of_the_limit: write_limit REMARK, "write:rnd4k",
        |w| w.plan.phases[0].stop.bytes = Some(w.record.counts.bytes);
    a_mix_wrote_its_part: write_limit REMARK, "mix:mail",
        |w| {
            w.record.counts.app_bytes_written = 1 << 30;
            w.plan.phases[0].stop.bytes = Some(1 << 30);
        };
    far_from_the_limit: write_limit QUIET, "write:rnd4k", |w| w.plan.phases[0].stop.bytes = Some(w.record.counts.bytes * 2);
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
