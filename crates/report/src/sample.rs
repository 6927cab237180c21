//! Runs for tests: a plausible default run, and runs with all kinds of problems.

use model::advice::Advice;
use model::disturbance::Disturbance;
use model::figure::{Bytes, BytesPerSecond, Count, LatencyNs, Mean, Seconds, Share};
use model::finding::Finding;
use model::layer::{Layer, LayerKind};
use model::plan::{Plan, plan};
use model::run::{
    ChangePoint, ClientShare, Confidence, Counts, CpuShares, CpuTimes, DeviceFrame, DeviceUse, Ends,
    EngineRecord, Environment, Extents, Figures, Flow, Frame, Interval, Judgement, Latency, LatencyIntervals,
    Load, Note, Observations, OperationVerdict, OwnIo, PhaseRecord, RankedLimiter, Rate, Reread, Residency,
    RunStatus, SCHEMA, Setting, Status, Steady, Step, TargetProbes, ThreadTimes, TimeBreakdown, Tool,
    Verdict, WorkloadRecord,
};
use model::spec::{self, Defaults};
use model::target::{Backing, Device, DeviceKind, DirectIo, Geometry, Space, TargetKind};
use model::workload::CacheMode;
use model::{Limiter, Machine, Request, Run, Target};

use crate::text::Style;

mod any;
mod limited;

pub(crate) use any::any_run;
pub(crate) use limited::{limit, single_byte_phase, time};

pub(crate) const WIDE: Style = Style { has_unicode: true, width: 120 };
pub(crate) const NARROW: Style = Style { has_unicode: true, width: 60 };
pub(crate) const ASCII: Style = Style { has_unicode: false, width: 80 };

/// The text without ANSI sequences, as a pipe would get it.
pub(crate) fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

const GIB: u64 = 1 << 30;

pub(crate) fn machine() -> Machine {
    Machine {
        host: "ada".into(),
        kernel: "Linux 6.12.9".into(),
        cpu_model: Some("AMD EPYC 7313 16-Core Processor".into()),
        cpus: 32,
        cpus_online: 32,
        memory_bytes: 128 * GIB,
        memory_total_bytes: 128 * GIB,
        virtualisation: None,
        clock_source: Some("tsc".into()),
        is_root: false,
        lockable_bytes: None,
        open_files_max: None,
        file_bytes_max: None,
        io_uring_refused: None,
    }
}

pub(crate) fn environment(target: Target) -> Environment {
    let settings = vec![Setting { name: "vm.dirty_ratio".into(), value: "20".into() }];
    Environment::new(&machine(), target, settings, Vec::new())
}

fn device(name: &str, kind: DeviceKind, backing_devices: &[&str], details: &[&str]) -> Device {
    let is_leaf = backing_devices.is_empty();
    Device {
        name: name.into(),
        major: 259,
        minor: 0,
        kind,
        backing_devices: backing_devices.iter().map(|name| (*name).to_owned()).collect(),
        size_bytes: 960_197_124_096,
        model: is_leaf.then(|| "Samsung PM9A3".into()),
        logical_block_bytes: Some(512),
        physical_block_bytes: Some(4096),
        rotational: Some(false),
        scheduler: is_leaf.then(|| "none".into()),
        write_cache: Some("write through".into()),
        nr_requests: Some(1023),
        read_ahead_bytes: Some(128 << 10),
        numa_node: None,
        io_poll: None,
        link: None,
        details: details.iter().map(|detail| (*detail).to_owned()).collect(),
    }
}

/// xfs on a partition of an NVMe disk.
pub(crate) fn disk() -> Target {
    let options = ["rw", "noatime", "attr2", "inode64", "noquota"];
    Target {
        path: "/mnt/data".into(),
        kind: TargetKind::Directory,
        mount_point: "/mnt/data".into(),
        device_number: "259:1".into(),
        source: "/dev/nvme0n1p2".into(),
        file_system: "xfs".into(),
        mount_options: options.map(String::from).into(),
        read_only: false,
        is_writable_by_others: false,
        backing: Backing::Devices,
        geometry: Geometry { block_bytes: Some(4096), ..Geometry::default() },
        space: Space {
            total_bytes: 894 * GIB,
            free_bytes: 612 * GIB,
            inodes_total: Some(468_843_520),
            inodes_free: Some(468_000_000),
        },
        direct_io: Some(DirectIo { memory_align_bytes: 4, offset_align_bytes: 512 }),
        device_stack: vec![
            device("nvme0n1p2", DeviceKind::Partition, &["nvme0n1"], &[]),
            device("nvme0n1", DeviceKind::Disk, &[], &[]),
        ],
        notes: Vec::new(),
        user_attributes: None,
        erased: None,
        layers: Vec::new(),
    }
    .with_device_layers()
}

/// ext4 on LVM on LUKS on a partition.
pub(crate) fn mapped() -> Target {
    Target {
        path: "/home/ada/bench".into(),
        kind: TargetKind::Directory,
        mount_point: "/home".into(),
        device_number: "8:2".into(),
        source: "/dev/mapper/vg-home".into(),
        file_system: "ext4".into(),
        mount_options: ["rw", "relatime", "data=ordered"].map(String::from).into(),
        device_stack: vec![
            device("dm-0", DeviceKind::DeviceMapper, &["dm-1"], &["LVM volume vg-home"]),
            device("dm-1", DeviceKind::DeviceMapper, &["nvme0n1p2"], &["LUKS2 mapping cryptroot"]),
            device("nvme0n1p2", DeviceKind::Partition, &["nvme0n1"], &[]),
            device("nvme0n1", DeviceKind::Disk, &[], &[]),
        ],
        notes: vec!["LVM vg-home has 2 snapshots: the first write of each block copies it".into()],
        user_attributes: None,
        erased: None,
        ..disk()
    }
    .with_device_layers()
}

/// ext4 on a software RAID of partitions of spinning disks.
pub(crate) fn array(members: usize) -> Target {
    let names: Vec<_> =
        ('a'..).take(members).map(|letter| (format!("sd{letter}1"), format!("sd{letter}"))).collect();
    let parts: Vec<_> = names.iter().map(|(part, _)| part.as_str()).collect();
    let level = format!("raid6 of {members} devices");
    let mut device_stack = vec![device("md0", DeviceKind::Raid, &parts, &[&level, "chunk 512 KiB"])];
    for (part, disk) in &names {
        device_stack.push(device(part, DeviceKind::Partition, &[disk], &[]));
    }
    for (_, disk) in &names {
        let spinning = Device {
            model: Some("ST16000NM001G-2KK103".into()),
            size_bytes: 16_000_900_661_248,
            rotational: Some(true),
            scheduler: Some("mq-deadline".into()),
            ..device(disk, DeviceKind::Disk, &[], &[])
        };
        device_stack.push(spinning);
    }
    let space = Space { total_bytes: 145 << 40, free_bytes: 9_800 * GIB, ..disk().space };
    Target { file_system: "ext4".into(), device_stack, space, ..disk() }.with_device_layers()
}

pub(crate) fn tmpfs() -> Target {
    Target {
        path: "/tmp".into(),
        kind: TargetKind::Directory,
        mount_point: "/tmp".into(),
        device_number: "0:40".into(),
        source: "tmpfs".into(),
        file_system: "tmpfs".into(),
        mount_options: ["rw", "nosuid", "nodev", "size=67108864k", "inode64"].map(String::from).into(),
        backing: Backing::Memory,
        direct_io: None,
        device_stack: Vec::new(),
        layers: Vec::new(),
        ..disk()
    }
}

pub(crate) fn sshfs() -> Target {
    let options =
        ["rw", "nosuid", "nodev", "relatime", "user_id=1000", "group_id=1000", "default_permissions"];
    Target {
        path: "/mnt/far".into(),
        kind: TargetKind::Directory,
        mount_point: "/mnt/far".into(),
        device_number: "0:61".into(),
        source: "grace@far.example.org:/srv/data".into(),
        file_system: "fuse.sshfs".into(),
        mount_options: options.map(String::from).into(),
        backing: Backing::RemoteOrUserSpace,
        direct_io: None,
        device_stack: Vec::new(),
        layers: vec![
            Layer { below: vec![1], ..Layer::new(LayerKind::Fuse, "fuse.sshfs") },
            Layer {
                hidden: Some("its storage is not visible here".into()),
                ..Layer::new(LayerKind::Daemon, "sshfs")
            },
        ],
        ..disk()
    }
}

pub(crate) fn nfs() -> Target {
    let options = [
        "rw",
        "relatime",
        "vers=4.2",
        "rsize=1048576",
        "wsize=1048576",
        "namlen=255",
        "hard",
        "proto=tcp",
        "nconnect=8",
        "timeo=600",
        "retrans=2",
        "sec=sys",
        "clientaddr=10.0.0.2",
        "local_lock=none",
        "addr=10.0.0.1",
    ];
    Target {
        path: "/net/scratch/bench".into(),
        kind: TargetKind::Directory,
        mount_point: "/net/scratch".into(),
        device_number: "0:52".into(),
        source: "filer.example.org:/export/scratch".into(),
        file_system: "nfs4".into(),
        mount_options: options.map(String::from).into(),
        layers: vec![
            Layer { below: vec![1], ..Layer::new(LayerKind::Remote, "nfs4") },
            Layer {
                round_trip_ns: Some(20_100_000),
                hidden: Some(Layer::ON_SERVER.into()),
                ..Layer::new(LayerKind::Line, "eth0")
            },
        ],
        ..sshfs()
    }
}

/// The preset `standard`.
pub(crate) fn standard() -> Request {
    let tests = [
        "write:seq1m:q8",
        "read:seq1m:q8",
        "rewrite:seq128k",
        "read:rnd4k:q32t4",
        "write:rnd4k:q32t4",
        "read:rnd4k:q1",
        "fsync:rnd4k",
        "create:t4",
        "stat:t4",
        "readdir:t4",
        "unlink:t4",
    ];
    Request {
        preset: Some("standard".into()),
        tests: tests.map(String::from).into(),
        time: Some(model::request::Seconds(10.0)),
        total: Some(model::request::Seconds(170.0)),
        ..Request::default()
    }
}

pub(crate) fn plan_for(target: Target) -> (Plan, Environment) {
    (plan(&standard(), &target, &machine()).unwrap(), environment(target))
}

/// A simulated device of 1 TiB, and a plan for it.
pub(crate) fn simulated_plan() -> (Plan, Environment) {
    let target = Target {
        path: "sim:disk.toml".into(),
        kind: TargetKind::Simulated,
        mount_point: "sim:disk.toml".into(),
        device_number: String::new(),
        source: "sim0".into(),
        file_system: "simulated".into(),
        mount_options: Vec::new(),
        backing: Backing::Simulated,
        geometry: Geometry::default(),
        space: Space { total_bytes: 1 << 40, free_bytes: 1 << 40, inodes_total: None, inodes_free: None },
        direct_io: None,
        device_stack: Vec::new(),
        layers: Vec::new(),
        ..disk()
    };
    let request = Request { tests: vec!["read:rnd4k:q4".into()], ..Request::default() };
    (plan(&request, &target, &machine()).unwrap(), environment(target))
}

/// A note that threads of a test waited for a CPU.
pub(crate) fn waited_for_cpu(share: f64) -> Note {
    wording::note(Finding::WaitedForCpu { waited_share: Share(share) }, [Advice::StopOthers {}])
}

/// A mix with three operations, two of which have a limiter.
pub(crate) fn mix() -> PhaseRecord {
    let mut mix = phase("mix:mail:t4");
    let latency = phase("stat").figures.latency_ns;
    mix.figures.steps = [("stat-missing", 4), ("create", 720), ("list", 276)]
        .map(|(name, thousandths)| Step {
            name: name.into(),
            ops: 1_000,
            latency_ns: latency.clone(),
            elapsed_ns: Some(thousandths),
            waiting_ns: None,
            histogram: None,
        })
        .into();
    let found = |operation: &str, limiter, parts: &[Limiter]| OperationVerdict {
        operation: operation.into(),
        time_share: 0.5,
        limiter,
        confidence: Confidence::Likely,
        ranking: parts.iter().map(|part| RankedLimiter { limiter: *part, share: 0.45 }).collect(),
        samples: 400,
        observations: Vec::new(),
        evidence: None,
    };
    let verdict = Verdict::new(Limiter::FsyncJournal, 0.6, Vec::new());
    mix.judged.verdict = Some(Verdict {
        operations: vec![
            found("create", Limiter::FsyncJournal, &[Limiter::FsyncJournal]),
            found("list", Limiter::Mixed, &[Limiter::KernelCpu, Limiter::CpuSaturated]),
        ],
        ..verdict
    });
    mix
}

/// A phase of that spec without problems: 100,000 operations a second.
pub(crate) fn phase(spec: &str) -> PhaseRecord {
    let workload = spec::parse(spec, &Defaults::default()).unwrap();
    let block_bytes = workload.data().map(|data| data.block_bytes);
    let (size_bytes, files) = if block_bytes.is_some() { (4 * GIB, 1) } else { (0, 65_536) };
    let mut phase = PhaseRecord {
        id: format!("01-{}", workload.name()),
        spec: spec::print(&workload),
        name: workload.name().into(),
        label: workload.label(),
        handle: None,
        group: None,
        repetition: 1,
        workload: WorkloadRecord::new(&workload, size_bytes, files, CacheMode::Cold),
        engine: EngineRecord {
            name: "sync".into(),
            features: vec!["o_direct".into()],
            mean_batch: None,
            idle_slots: None,
        },
        status: Status::Done,
        reason: None,
        hosts: Vec::new(),
        counts: Counts {
            start_ns: 1_500_000_000,
            elapsed_ns: 10_000_000_000,
            passes: 1.25,
            ..Counts::default()
        },
        figures: Figures {
            rate: Rate { first_done_ns: 9_990_000_000, last_done_ns: 10_000_000_000, ..Rate::default() },
            histogram: Some("HISTFAAAAB542pNpmSzMwMDAxQABzFCaEUoz2X+AMgA".into()),
            intervals: vec![interval(0), interval(100_000_000)],
            steady: Some(Steady {
                is_steady: true,
                from_ns: 300_000_000,
                to_ns: 9_900_000_000,
                change_points: vec![ChangePoint {
                    at_ns: 300_000_000,
                    before_ops_per_second: 80_000.0,
                    after_ops_per_second: 100_000.0,
                    bytes: 98_304_000,
                }],
            }),
            ..Figures::default()
        },
        seen: Observations {
            budget: Some(TimeBreakdown {
                user: 0.125,
                kernel: 0.25,
                run_queue: 0.0,
                quota: None,
                steal: 0.0,
                blocked: 0.625,
            }),
            cpu: Some(CpuShares { user: 0.02, kernel: 0.05, steal: 0.003 }),
            residency: Some(Residency { before: Some(0.0), after: Some(0.0), source: "cachestat".into() }),
            extents: Some(Extents { hole_share: 0.0, unwritten_share: 0.0, encoded_share: 0.0, extents: 33 }),
            disturbance: Some(Disturbance {
                steal: 0.003,
                foreign_io: 0.004,
                run_queue: 0.01,
                foreign_cpus: 0.1,
            }),
            ..Observations::default()
        },
        judged: Judgement { verdict: Some(Verdict::default()), ..Judgement::default() },
    };
    measure(&mut phase, 100_000.0, [250_000, 511_000, 900_000]);
    if block_bytes.is_some() {
        phase.seen.device = Some(DeviceUse {
            name: "nvme0n1p2".into(),
            bytes_read: phase.counts.app_bytes_read,
            bytes_written: phase.counts.app_bytes_written,
            operations: phase.counts.ops,
            flushes: 0,
            mean_request_bytes: block_bytes.map(|bytes| bytes as f64),
            bytes_per_app_byte: Some(1.0),
            leaf_amplification: None,
            foreign_share: Some(0.004),
            other_bytes_per_second: None,
        });
        phase.seen.load = Some(load(&phase));
    }
    phase
}

/// Returns the load of a phase, all of which reached a partition and its disk.
fn load(phase: &PhaseRecord) -> Load {
    let Counts { ops, elapsed_ns, app_bytes_read: read_bytes, app_bytes_written: written_bytes, .. } =
        phase.counts;
    let is_read = read_bytes > 0;
    let of = |is_wanted: bool, value: u64| if is_wanted { value } else { 0 };
    let flow = |layer, time_ns: u64| Flow {
        layer,
        read_bytes,
        written_bytes,
        reads: of(is_read, ops),
        writes: of(!is_read, ops),
        read_ns: of(is_read, ops * time_ns),
        write_ns: of(!is_read, ops * time_ns),
        ..Flow::default()
    };
    let flows = vec![flow(1, 240_000), flow(2, 230_000)];
    Load { elapsed_ns, ops, read_bytes, written_bytes, in_flight_max: 32, flows }
}

fn interval(start_ns: u64) -> Interval {
    let counters = DeviceFrame {
        name: "nvme0n1p2".into(),
        reads: 10_000,
        read_bytes: 40_960_000,
        writes: 0,
        written_bytes: 0,
        flushes: 0,
        in_flight_ns: 12_800_000_000,
        busy_ns: 100_000_000,
    };
    Interval {
        start_ns,
        length_ns: 100_000_000,
        ops: 10_000,
        bytes: 40_960_000,
        histogram: vec![(250_000, 9_000), (511_000, 1_000)],
        frame: Some(Frame {
            devices: vec![counters],
            cpu: CpuTimes {
                user_ns: 64_000_000,
                kernel_ns: 160_000_000,
                idle_ns: 2_976_000_000,
                steal_ns: 0,
            },
            workers: ThreadTimes { cpu_ns: 150_000_000, run_queue_ns: 1_000_000 },
            own_io: OwnIo {
                read_call_bytes: 40_960_000,
                write_call_bytes: 0,
                read_calls: 10_000,
                write_calls: 0,
                device_read_bytes: 40_960_000,
                device_written_bytes: 0,
            },
            dirty_bytes: 1 << 20,
            writeback_bytes: 0,
            dirtied_bytes: Some(0),
        }),
    }
}

fn measure(phase: &mut PhaseRecord, ops_per_second: f64, [p50, p99, p99_9]: [u64; 3]) {
    let block_bytes = phase.workload.block_bytes;
    phase.counts.ops = (ops_per_second * 10.0) as u64;
    phase.counts.bytes = phase.counts.ops * block_bytes.unwrap_or(0);
    let verb = phase.name.as_str();
    phase.counts.app_bytes_read = if matches!(verb, "read" | "rewrite") { phase.counts.bytes } else { 0 };
    phase.counts.app_bytes_written =
        if matches!(verb, "write" | "rewrite" | "fsync") { phase.counts.bytes } else { 0 };
    phase.figures.rate.ops_per_second = Some(ops_per_second);
    phase.figures.rate.overall_ops_per_second = Some(ops_per_second);
    phase.figures.rate.steady_ops_per_second = Some(ops_per_second);
    phase.figures.rate.ci95_low_ops_per_second = Some(ops_per_second * 0.996);
    phase.figures.rate.ci95_high_ops_per_second = Some(ops_per_second * 1.004);
    phase.figures.rate.bytes_per_second = block_bytes.map(|bytes| ops_per_second * bytes as f64);
    phase.figures.latency_ns = (verb != "readdir").then_some(Latency {
        min: p50 / 2,
        mean: p50.saturating_add(p50 / 10),
        p50: Some(p50),
        p90: Some(p50.saturating_mul(3) / 2),
        p99: Some(p99),
        p99_9: Some(p99_9),
        chosen: Vec::new(),
        max: p99_9.saturating_mul(3),
        ci95: Some(LatencyIntervals {
            p50: Some(Ends { low: p50 - p50 / 100, high: p50.saturating_add(p50 / 100) }),
            p90: None,
            p99: Some(Ends { low: p99 - p99 / 20, high: p99.saturating_add(p99 / 20) }),
            p99_9: None,
        }),
        modes: Vec::new(),
    });
}

fn step(name: &str, ops: u64, [p50, p99, p99_9]: [u64; 3]) -> Step {
    Step {
        elapsed_ns: None,
        waiting_ns: None,
        name: name.into(),
        ops,
        latency_ns: Some(Latency {
            min: p50 / 2,
            mean: p50,
            p50: Some(p50),
            p90: None,
            p99: Some(p99),
            p99_9: Some(p99_9),
            chosen: Vec::new(),
            max: p99_9,
            ci95: None,
            modes: Vec::new(),
        }),
        histogram: None,
    }
}

/// Reads and writes at random, with a sync after each fourth write.
pub(crate) fn rw() -> PhaseRecord {
    let mut rw = phase("rw:rnd4k:t4:read=70:sync=4");
    measure(&mut rw, 20_000.0, [91_000, 702_000, 4_100_000]);
    rw.figures.steps = vec![
        step("read", 140_000, [88_000, 120_000, 340_000]),
        step("write", 60_000, [31_000, 77_000, 410_000]),
        step("fdatasync", 15_000, [402_000, 980_000, 5_200_000]),
    ];
    rw
}

/// The default run of the design and the README, with two marked rows and limiters of every kind.
pub(crate) fn run() -> Run {
    let (plan, environment) = plan_for(disk());
    let measured = [
        (2_588.3, [2_970_000, 4_460_000, 6_120_000]),
        (6_562.0, [1_210_000, 1_380_000, 1_770_000]),
        (7_538.1, [118_000, 301_000, 1_100_000]),
        (966_310.0, [130_000, 511_000, 1_310_000]),
        (281_440.0, [403_000, 1_920_000, 5_400_000]),
        (12_910.0, [76_100, 93_200, 141_000]),
        (4_310.0, [221_000, 405_000, 2_010_000]),
        (142_310.0, [25_200, 188_000, 1_400_000]),
        (1_890_000.0, [2_080, 3_410, 11_000]),
        (9_411_000.0, [0; 3]),
        (160_200.0, [23_100, 99_000, 870_000]),
    ];
    let mut start_ns = 2_000_000_000;
    let mut phases: Vec<_> = plan
        .phases
        .iter()
        .zip(measured)
        .map(|(planned, (ops_per_second, latencies))| {
            let mut phase = phase(&spec::print(&planned.workload));
            phase.id = planned.id.clone();
            phase.counts.start_ns = start_ns;
            start_ns += 12_000_000_000;
            measure(&mut phase, ops_per_second, latencies);
            phase
        })
        .collect();
    phases[2].figures.rate.into_cache_ops_per_second = Some(17_624.0);
    phases[2].figures.rate.durable_ops_per_second = Some(7_538.1);
    let (first, then) = (BytesPerSecond(1_830e6), BytesPerSecond(988e6));
    let ran_out = Finding::RanOutMean {
        moved_bytes: Bytes(4_200_000_000),
        first_bytes_per_second: first,
        then_bytes_per_second: then,
        at_seconds: Seconds(2.3),
    };
    phases[2].judged.notes.push(wording::note(ran_out, []));
    if let Some(device) = phases[6].seen.device.as_mut() {
        device.bytes_per_app_byte = Some(3.12);
    }
    let fsync_steps = [("write", [9_000, 21_000, 80_000]), ("fdatasync", [212_000, 390_000, 1_990_000])];
    phases[6].figures.steps = fsync_steps.map(|(name, latencies)| step(name, 43_100, latencies)).into();
    let from_memory = Finding::NamesFromMemory { operations: Count(65_536) };
    phases[8].judged.notes.push(wording::note(from_memory, [Advice::ColdNames {}]));
    limited::all(&mut phases);
    for rate in phases.iter_mut().map(|phase| &mut phase.figures.rate) {
        rate.repeat_half_width = rate.printed_half_width();
    }
    Run {
        schema: SCHEMA.into(),
        skye_version: "0.1.0".into(),
        skye_build: Some("0.1.0 (7c69668c+, x86_64-unknown-linux-gnu, release)".into()),
        skye_libc: Some("glibc 2.36".into()),
        started_at: "2026-11-21T14:03:07Z".into(),
        finished_at: "2026-11-21T14:05:18Z".into(),
        run_status: RunStatus::Complete,
        command: ["skye", "/mnt/data"].map(String::from).into(),
        label: None,
        pairing: None,
        percentiles: Vec::new(),
        seed: 7311,
        plan,
        environment,
        hosts: Vec::new(),
        scores: None,
        phases,
        fills: Vec::new(),
        target_probes: Some(TargetProbes {
            reread: Some(Reread {
                blocks: 1000,
                first_mean_ns: 81_000,
                first_p99_ns: 120_000,
                second_mean_ns: 80_000,
                second_p99_ns: 119_000,
            }),
            ..TargetProbes::default()
        }),
        ceilings: Vec::new(),
        tool: Tool {
            overhead_ns_per_op: None,
            telemetry_cpu_share: Some(0.004),
            clock_read_ns: Some(22.4),
            warnings: Vec::new(),
        },
    }
}

fn without_numbers(mut phase: PhaseRecord, status: Status, reason: Option<&str>) -> PhaseRecord {
    phase.status = status;
    phase.reason = reason.map(String::from);
    (phase.counts.ops, phase.counts.bytes, phase.counts.app_bytes_read, phase.counts.app_bytes_written) =
        (0, 0, 0, 0);
    (
        phase.figures.rate.ops_per_second,
        phase.figures.rate.bytes_per_second,
        phase.figures.rate.overall_ops_per_second,
    ) = (None, None, None);
    (phase.figures.latency_ns, phase.seen.device, phase.figures.histogram) = (None, None, None);
    phase
}

/// Rows that failed, were skipped, ended early, or are not to be trusted.
pub(crate) fn problem_rows() -> Vec<PhaseRecord> {
    let full = "cannot write data.3 at offset 1073741824 in /mnt/data/skye.x7Qf2a: No space left on device (os error 28)";
    let mut partial = phase("read:rnd4k:q32t4");
    partial.status = Status::Partial;
    partial.reason = Some("interrupted after 3.2 s of 10 s".into());
    let mut distrusted = phase("write:rnd4k:q32t4");
    distrusted.judged.notes = vec![
        wording::note(
            Finding::DirectMissedDevice { moved_share: Share(0.03), file_system: "zfs".into() },
            [Advice::ZfsDirect {}],
        ),
        wording::note(
            Finding::TooEven {
                variation: Share(0.001),
                p50_ns: LatencyNs(76_000),
                p99_ns: LatencyNs(101_000_000),
            },
            [Advice::FindLimit {}],
        ),
    ];
    let used_up = Some("the total time of 2 min 50 s was used up");
    vec![
        without_numbers(
            phase("write:seq1m:q8"),
            Status::Failed,
            Some("No space left on device (os error 28)"),
        ),
        without_numbers(phase("read:seq1m:q8"), Status::Failed, Some(full)),
        without_numbers(phase("rewrite:seq128k"), Status::Failed, None),
        partial,
        distrusted,
        without_numbers(phase("fsync"), Status::Done, None),
        without_numbers(phase("create:t4"), Status::Skipped, used_up),
        without_numbers(phase("stat:t4"), Status::Skipped, used_up),
        without_numbers(phase("readdir:t4"), Status::Skipped, used_up),
    ]
}

/// Two repetitions of two tests, the first of them buffered.
pub(crate) fn repeated() -> Vec<PhaseRecord> {
    let mut write = phase("write:seq1m:buffered");
    measure(&mut write, 901.0, [1_100_000, 1_300_000, 2_000_000]);
    write.figures.rate.into_cache_ops_per_second = Some(2_310e6 / 1_048_576.0);
    let fsync = phase("fsync");
    let without_ratio = |mut phase: PhaseRecord| {
        phase.seen.device = None;
        phase
    };
    [1, 2]
        .into_iter()
        .flat_map(|repetition| {
            [write.clone(), without_ratio(fsync.clone())].map(|p| PhaseRecord { repetition, ..p })
        })
        .collect()
}

/// The slowest and the fastest rows that may occur.
pub(crate) fn extremes() -> Vec<PhaseRecord> {
    let of = |spec: &str, ops_per_second: f64, latencies: [u64; 3]| {
        let mut phase = phase(spec);
        measure(&mut phase, ops_per_second, latencies);
        phase
    };
    let mut few = of("read:rnd4k:q1", 0.7, [1_430_000_000, 12_000_000_000, 9_999_000_000_000]);
    if let Some(latency) = few.figures.latency_ns.as_mut() {
        (latency.p99, latency.p99_9) = (None, None);
    }
    vec![
        few,
        of("fsync", 43.1, [23_100_000, 48_000_000, 112_000_000]),
        of("read:rnd4k:q1", 99.96, [9_990_000, 9_996_000, 999_600_000]),
        of("read:seq1m", 431.2, [2_310_000, 2_900_000, 31_000_000]),
        of("read:rnd4k:q32t4", 12_345_678.0, [999, 1_000, 1_004]),
        of("read:seq1:t64", 512_345_678.0, [2, 3, 38]),
        of("read:seq1:t64", 1e9, [1, 1, 1]),
        of("read:seq1g:q64t64", 9_999.0, [u64::MAX, u64::MAX, u64::MAX]),
        of("stat:t64", 412_345_678.0, [38, 41, 90]),
        of("create", 4.31, [231_000_000, 400_000_000, 1_100_000_000]),
        of("readdir", 1_000_000.0, [0; 3]),
    ]
}

fn run_with_sweep(tests: &[&str], sweep: &str) -> Run {
    let request = Request {
        tests: tests.iter().map(|test| (*test).to_owned()).collect(),
        sweep: Some(sweep.into()),
        ..Request::default()
    };
    let plan = plan(&request, &disk(), &machine()).unwrap();
    let phases = plan.phases.iter().map(|planned| {
        let engine = EngineRecord {
            name: "uring".into(),
            features: Vec::new(),
            mean_batch: Some(1.0),
            idle_slots: None,
        };
        let workload = phase(&spec::print(&planned.workload));
        PhaseRecord { id: planned.id.clone(), group: planned.group.clone(), engine, ..workload }
    });
    Run { phases: phases.collect(), plan, ..run() }
}

/// Two tests swept over depths: the first has a knee within the range, the second has none.
pub(crate) fn swept_run() -> Run {
    let mut run = run_with_sweep(&["read:rnd4k", "write:rnd4k"], "q1..q8");
    let measured = [
        (12_910.0, [76_100, 93_200, 141_000]),
        (25_400.0, [77_000, 99_800, 151_000]),
        (49_900.0, [78_900, 104_000, 161_000]),
        (52_100.0, [151_000, 188_000, 240_000]),
        (40_300.0, [23_900, 41_000, 88_000]),
        (79_100.0, [24_400, 43_000, 91_000]),
        (155_000.0, [25_100, 46_000, 99_000]),
        (301_000.0, [25_900, 51_000, 120_000]),
    ];
    for (phase, (ops_per_second, latencies)) in run.phases.iter_mut().zip(measured) {
        measure(phase, ops_per_second, latencies);
    }
    for (index, waited) in [(1, 0.33), (4, 0.16), (5, 0.18), (6, 0.25), (7, 0.31)] {
        run.phases[index].judged.notes.push(waited_for_cpu(waited));
    }
    let knee = Finding::Knee { throughput_share: Share(0.96), latency_share: Share(0.52) };
    run.phases[2].judged.notes.push(wording::note(knee, []));
    run.phases[7].judged.notes.push(wording::note(Finding::NoKnee {}, [Advice::SweepFurther {}]));
    run
}

/// One test swept over shares of its closed-loop rate. Near the highest rate, operations start late.
pub(crate) fn open_loop_run() -> Run {
    let mut run = run_with_sweep(&["read:rnd4k:q32"], "rate");
    let measured = [
        (100_000.0, [311_000, 402_000, 511_000], None),
        (10_000.0, [81_000, 99_000, 160_000], Some([800, 2_100, 9_000])),
        (25_000.0, [83_000, 121_000, 199_000], Some([800, 2_300, 9_400])),
        (50_000.0, [98_000, 260_000, 404_000], Some([900, 6_200, 31_000])),
        (75_000.0, [171_000, 909_000, 1_900_000], Some([1_200, 401_000, 990_000])),
        (89_700.0, [1_880_000, 12_500_000, 19_000_000], Some([1_610_000, 9_100_000, 14_100_000])),
    ];
    for (phase, (ops_per_second, latencies, wait)) in run.phases.iter_mut().zip(measured) {
        measure(phase, ops_per_second, latencies);
        phase.counts.verified_blocks = phase.counts.ops;
        phase.figures.queueing_ns = wait.map(|[p50, p99, max]| Latency {
            min: 0,
            mean: p50,
            p50: Some(p50),
            p90: None,
            p99: Some(p99),
            p99_9: None,
            chosen: Vec::new(),
            max,
            ci95: None,
            modes: Vec::new(),
        });
    }
    run
}

/// A run on a simulated device.
pub(crate) fn simulated_run() -> Run {
    let (plan, environment) = simulated_plan();
    let mut phase = phase("read:rnd4k:q4");
    (phase.seen.cpu, phase.seen.device) = (None, None);
    phase.engine.name = "sim".into();
    Run { plan, environment, phases: vec![phase], ..run() }
}

pub(crate) fn long_labels() -> Vec<PhaseRecord> {
    let mut phases: Vec<_> = [
        "read:seq8k:buffered",
        "rewrite:seq128k:q32t16:direct",
        "write:seq128k:q1024t4:buffered:shared",
        "write:seq128k:q1024t4:buffered:shared:rate=20000,poisson",
        "rw:rnd4k:q5",
        "stat:t16:order=rnd:shared:missing",
        "create:t4:size=64k:order=rnd:shared",
    ]
    .map(phase)
    .into();
    phases[2].repetition = 12;
    phases[4].name = "a-verb-of-a-later-version".into();
    phases
}

/// A run that a signal ended in the fourth test.
pub(crate) fn partial_run() -> Run {
    let mut run = run();
    run.phases.truncate(4);
    run.phases[3].status = Status::Partial;
    run.phases[3].reason = Some("interrupted by SIGINT after 3.2 s of 10 s".into());
    run.run_status = RunStatus::Partial;
    run.label = Some("before the upgrade".into());
    run.plan.label = run.label.clone();
    run.finished_at = "2026-11-21T14:03:47Z".into();
    run
}

/// A run with names that are all chosen to do harm.
pub(crate) fn hostile_run() -> Run {
    let mut run = run();
    run.phases.truncate(2);
    run.environment.host = "=cmd|' /C calc'!A0\x1b[2J".into();
    run.environment.target.path = "/mnt/\u{202e}atad\n| evil | @root <b>".into();
    run.environment.kernel = "Linux\r6".into();
    run.environment.cpu_model = Some("\x1b]0;title\x07 CPU".into());
    run.environment.target.mount_options.push("x=\u{9b}2J".into());
    run.label = Some("+1 [link](http://x) `code`\t\u{e0041}".into());
    run.skye_version = "@9".into();
    run.skye_build = Some("=9 (\x1b[5m)".into());
    run.started_at = "yesterday\x1b[A".into();
    run.plan.preset = "-x\u{200b}".into();
    run.plan.notes = vec!["a note\nwith a line".into()];
    run.tool.warnings = vec!["warn\x08ing".into()];
    let phase = &mut run.phases[0];
    phase.name = "\twr\x1b[31m".into();
    phase.label = "=SUM(A1:A9)".into();
    let member = "-2+3 \x1b[5m blinking | pipes";
    let busy = Finding::BusyMember { member: member.into(), times: Mean(2.0), array: "md0".into() };
    phase.judged.notes = vec![wording::note(busy, [])];
    run.phases[1].status = Status::Failed;
    run.phases[1].reason = Some("@import\n\u{2028}|x| /path/\u{2066}name".into());
    run
}

/// Returns a client whose share of a test is that record.
pub(crate) fn client(name: &str, record: &PhaseRecord) -> ClientShare {
    ClientShare {
        client: 0,
        name: name.into(),
        status: record.status,
        reason: None,
        counts: record.counts.clone(),
        rate: record.figures.rate.clone(),
        latency_ns: record.figures.latency_ns.clone(),
        histogram: None,
        budget: record.seen.budget.clone(),
        cpu: record.seen.cpu.clone(),
        judged: record.judged.clone(),
    }
}
