//! Cases to test the traps with: a test that went well on a healthy disk, with one change at a time.

use model::finding::Finding;
use model::layer::{Layer, LayerKind};
use model::plan::{Plan, plan};
use model::run::{
    Cap, ClientShare, ClientTotals, Conditions, Confidence, Counts, CpuShares, CpuTimes, DeviceFrame,
    DriveTemperature, Environment, FewerClients, Flow, Frame, Interval, Judgement, LatencyByPlace, Load,
    MaintenanceRecord, NetworkUse, Note, Observations, OwnIo, PhaseRecord, Place, PlaceLatency, Rate,
    RoundRecord, Status, SystemUse, TargetProbes, ThreadTimes, TimeBreakdown, Trust, Verdict, WorkloadRecord,
};
use model::size::Size;
use model::target::{Backing, Device, DeviceKind, Target};
use model::workload::CacheMode;
use model::{Limiter, Machine, Request};
use serde_json::json;

use crate::{JudgeInput, TRAPS, TrapFinding, judge};

/// Approximate operations per interval of 100 ms.
const INTERVAL_OPS: u64 = 10_000;
const INTERVALS: u64 = 40;

/// All parts of an input.
#[derive(Debug, Clone)]
pub struct InputBuilder {
    pub record: PhaseRecord,
    pub plan: Plan,
    pub environment: Environment,
    pub probes: TargetProbes,
}

/// Layers from the top down, each above the next.
pub fn chain(kinds: &[LayerKind]) -> Vec<Layer> {
    let last = kinds.len() as u32 - 1;
    let layer = |(at, kind): (u32, &LayerKind)| Layer {
        below: (at < last).then_some(at + 1).into_iter().collect(),
        ..Layer::new(*kind, format!("layer{at}"))
    };
    (0..).zip(kinds).map(layer).collect()
}

/// A limit on reads of the clean target's disk.
pub fn read_cap(ops_per_second: Option<f64>, bytes_per_second: Option<f64>) -> Cap {
    Cap {
        source: "/sys/fs/cgroup/blkio/blkio.throttle.read_iops_device".into(),
        device: "nvme0n1".into(),
        is_read: true,
        ops_per_second,
        bytes_per_second,
    }
}

/// A load of a second with this number of operations. Each layer that counts has its place, requests in flight and window.
pub fn load_of(ops: u64, counts: &[(u32, f64, Option<u64>)]) -> Load {
    let flow = |(layer, in_flight, window): &(u32, f64, Option<u64>)| Flow {
        layer: *layer,
        writes: ops,
        written_bytes: ops * 4096,
        write_ns: (in_flight * 1e9) as u64,
        window: *window,
        ..Flow::default()
    };
    Load {
        elapsed_ns: 1_000_000_000,
        ops,
        written_bytes: ops * 4096,
        flows: counts.iter().map(flow).collect(),
        ..Load::default()
    }
}

/// A test of `spec` that went well: 4 s at 100,000 operations per second, over nine tenths of the set.
pub fn clean(spec: &str) -> InputBuilder {
    // Names are cold only if all caches are dropped.
    let cache = spec.ends_with(":cold").then_some(CacheMode::DropAll);
    clean_request(Request {
        tests: vec![spec.into()],
        size: Some(Size::Bytes(1 << 30)),
        cache,
        ..Request::default()
    })
}

/// Like [`clean`], for the one test of `request`.
pub fn clean_request(request: Request) -> InputBuilder {
    let target = disk();
    let machine: Machine = serde_json::from_value(json!({
        "host": "ada", "kernel": "Linux 6.12", "cpu_model": null, "cpus": 8, "cpus_online": 8,
        "memory_bytes": 16u64 << 30, "memory_total_bytes": 16u64 << 30, "virtualisation": null,
        "clock_source": "tsc", "is_root": true, "lockable_bytes": null, "io_uring_refused": null,
    }))
    .unwrap();
    let mut plan = plan(&request, &target, &machine).unwrap();
    plan.phases[0].stop.bytes = None;
    let environment = Environment::new(&machine, target, Vec::new(), Vec::new());
    let probes = TargetProbes::default();
    InputBuilder { record: record(&plan), plan, environment, probes }
}

fn record(plan: &Plan) -> PhaseRecord {
    let phase = &plan.phases[0];
    let workload = &phase.workload;
    let data = workload.data();
    let block = data.map_or(0, |data| data.block_bytes);
    let of = |is_done: bool| if is_done { INTERVAL_OPS * block } else { 0 };
    let (read, written) = (of(data.is_some_and(|d| d.reads())), of(data.is_some_and(|d| d.writes())));
    // A test on files reads an inode for each.
    let charged = if workload.files().is_some() { INTERVAL_OPS * 256 } else { read };
    let frame = frame([read, written], charged, u64::from(workload.in_flight()));
    let interval = |index: u64| Interval {
        start_ns: index * 100_000_000,
        length_ns: 100_000_000,
        // Rates of devices vary by percents from one interval to the next.
        ops: INTERVAL_OPS - 200 + index * 37 % 5 * 100,
        bytes: INTERVAL_OPS * block,
        histogram: vec![(250_000, 9_000), (900_000, 1_000)],
        frame: Some(frame.clone()),
    };
    let ops = INTERVALS * INTERVAL_OPS;
    let files = workload.files().map_or(4, |files| files.files);
    let is_cached = data.is_some_and(|d| d.writes() && !d.direct && d.sync == model::workload::SyncMode::End);
    let durable = data.filter(|d| d.writes() && d.sync != model::workload::SyncMode::None).map(|_| 1e5);
    let latency = json!({
        "min": 50_000, "mean": u64::from(workload.in_flight()) * 10_000, "p50": 250_000, "p90": 400_000,
        "p99": 900_000, "p99_9": 1_900_000, "max": 5_000_000, "ci95": null, "modes": [],
    });
    let mut record: PhaseRecord = serde_json::from_value(json!({
        "id": phase.id, "spec": model::spec::print(workload), "name": workload.name(), "label": workload.label(),
        "group": null, "repetition": 1,
        "workload": WorkloadRecord::new(workload, ops * block * 10 / 9, files, plan.cache),
        "engine": {"name": phase.engine.word(), "features": [], "mean_batch": null, "idle_slots": null},
        "status": "done", "reason": null, "start_ns": 0, "ops": ops, "bytes": ops * block,
        "app_bytes_read": read * INTERVALS, "app_bytes_written": written * INTERVALS,
        "elapsed_ns": INTERVALS * 100_000_000, "passes": if data.is_some() { 0.9 } else { 6.0 },
        "rate": {
            "ops_per_second": 1e5, "bytes_per_second": 1e5 * block as f64,
            "steady_ops_per_second": data.map(|_| 1e5), "overall_ops_per_second": 1e5,
            "durable_ops_per_second": durable, "into_cache_ops_per_second": is_cached.then_some(1e5),
            "ci95_low_ops_per_second": 99e3, "ci95_high_ops_per_second": 101e3,
            "first_done_ns": 3_990_000_000u64, "last_done_ns": 3_990_000_000u64,
        },
        "latency_ns": latency, "histogram": null, "queueing_ns": null,
        "steps": [{"name": "fdatasync", "ops": ops, "latency_ns": latency, "histogram": null}],
        "intervals": {"count": 0, "start_ns": [], "length_ns": [], "ops": [], "bytes": []},
        "device": {
            "name": "nvme0n1p2", "bytes_read": (charged * INTERVALS).max(4096), "bytes_written": written * INTERVALS,
            "operations": ops, "flushes": 0, "mean_request_bytes": null, "bytes_per_app_byte": 1.0,
            "leaf_amplification": null, "foreign_share": 0.0,
        },
        "page_cache_share": (read > 0).then_some(0.0),
        "budget": {"user": 0.1, "kernel": 0.3, "run_queue": 0.01, "quota": null, "steal": 0.0, "blocked": 0.59},
        "cpu": {"user": 0.1, "kernel": 0.1, "steal": 0.0},
        "own_cost_ns_per_op": null,
        "steady": data.map(|_| json!({
            "is_steady": true, "from_ns": 100_000_000, "to_ns": 4_000_000_000u64, "change_points": [],
        })),
        "residency": data.map(|_| json!({"before": 0.0, "after": 0.0, "source": "cachestat"})),
        "extents": (read > 0).then(|| json!({
            "hole_share": 0.0, "unwritten_share": 0.0, "encoded_share": 0.0, "extents": 8,
        })),
        "notes": [],
    }))
    .unwrap();
    record.figures.intervals = (0..INTERVALS).map(interval).collect();
    if data.is_none() {
        record.figures.rounds = vec![RoundRecord::on_time(ops / 6, 660_000_000); 6];
    }
    record
}

/// Returns the machine in one interval: the bytes that were read and written, and those charged as reads of the device.
fn frame([read, written]: [u64; 2], charged: u64, in_flight: u64) -> Frame {
    let devices = ["nvme0n1p2", "nvme0n1"].map(|name| DeviceFrame {
        name: name.into(),
        reads: INTERVAL_OPS,
        read_bytes: read,
        written_bytes: written,
        in_flight_ns: in_flight * 100_000_000,
        busy_ns: 95_000_000,
        ..DeviceFrame::default()
    });
    Frame {
        devices: devices.into(),
        cpu: CpuTimes { user_ns: 60_000_000, kernel_ns: 100_000_000, idle_ns: 640_000_000, steal_ns: 0 },
        workers: ThreadTimes { cpu_ns: 40_000_000, run_queue_ns: 1_000_000 },
        own_io: OwnIo {
            read_call_bytes: read,
            write_call_bytes: written,
            device_read_bytes: charged,
            device_written_bytes: written,
            ..OwnIo::default()
        },
        dirty_bytes: 0,
        writeback_bytes: 0,
        dirtied_bytes: None,
    }
}

fn disk() -> Target {
    serde_json::from_value(json!({
        "path": "/mnt", "mount_point": "/mnt", "device_number": "259:2", "source": "/dev/nvme0n1p2", "file_system": "ext4",
        "mount_options": ["rw", "relatime"], "read_only": false, "backing": "devices",
        "geometry": {
            "block_bytes": 4096, "stripe_unit_bytes": null, "stripe_width_bytes": null, "allocation_groups": null,
            "journal": "internal", "journal_bytes": null, "data_checksum": null, "features": [],
        },
        "space": {"total_bytes": 900u64 << 30, "free_bytes": 600u64 << 30, "inodes_total": null, "inodes_free": null},
        "direct_io": null,
        "device_stack": [
            device("nvme0n1p2", DeviceKind::Partition, &["nvme0n1"]), device("nvme0n1", DeviceKind::Disk, &[]),
        ],
        "notes": [],
    }))
    .unwrap()
}

/// A device without a volatile cache.
pub fn device(name: &str, kind: DeviceKind, backing_devices: &[&str]) -> Device {
    serde_json::from_value(json!({
        "name": name, "major": 259, "minor": 0, "kind": kind, "backing_devices": backing_devices, "size_bytes": 960_197_124_096u64,
        "model": null, "logical_block_bytes": 512, "physical_block_bytes": 4096, "rotational": false,
        "scheduler": "none", "write_cache": "write through", "nr_requests": 1023, "read_ahead_bytes": null,
        "details": [],
    }))
    .unwrap()
}

/// Returns a client with that rate, held back by a limiter. Its threads wait if the limiter lies below it.
pub fn client(name: &str, rate: f64, limiter: Limiter, confidence: Confidence) -> ClientShare {
    let is_below = !matches!(limiter, Limiter::ClientCpu | Limiter::CpuContention);
    let blocked = if is_below { 0.9 } else { 0.05 };
    let budget =
        TimeBreakdown { user: 1.0 - blocked, kernel: 0.0, run_queue: 0.0, quota: None, steal: 0.0, blocked };
    let verdict = Verdict { confidence: Some(confidence), ..Verdict::new(limiter, 0.8, Vec::new()) };
    ClientShare {
        client: 0,
        name: name.into(),
        status: Status::Done,
        reason: None,
        counts: Counts::default(),
        rate: Rate { ops_per_second: Some(rate), ..Rate::default() },
        latency_ns: None,
        histogram: None,
        budget: Some(budget),
        cpu: Some(CpuShares { user: 0.1, kernel: 0.1, steal: 0.0 }),
        judged: Judgement { verdict: Some(verdict), ..Judgement::default() },
    }
}

impl InputBuilder {
    /// Makes the record the sum of clients. `fewer` are the number of clients and the rate of the row before it in a
    /// sweep.
    pub fn clients(&mut self, shares: Vec<ClientShare>, fewer: Option<(u32, f64)>) {
        let mut rates: Vec<_> = shares.iter().filter_map(|share| share.rate.ops_per_second).collect();
        rates.sort_unstable_by(f64::total_cmp);
        self.record.figures.together = Some(ClientTotals {
            clients: shares.len() as u32,
            window_ns: 1_000_000_000,
            median_ops_per_second: rates.get(rates.len() / 2).copied(),
            fewer: fewer.map(|(clients, ops_per_second)| FewerClients { clients, ops_per_second }),
            ..ClientTotals::default()
        });
        self.record.figures.rate.ops_per_second = Some(rates.iter().sum());
        self.record.hosts = shares;
        self.record.seen = Observations::default();
    }

    pub fn target(&mut self) -> &mut Target {
        &mut self.environment.target
    }

    pub fn device(&mut self) -> &mut model::run::DeviceUse {
        self.record.seen.device.as_mut().unwrap()
    }

    /// Sets the bytes that the device reads for each operation, all of them for the test.
    pub fn set_name_read_bytes(&mut self, bytes: u64) {
        self.device().bytes_read = bytes * self.record.counts.ops;
        self.frames(|frame| frame.own_io.device_read_bytes = bytes * INTERVAL_OPS);
    }

    /// Puts the target on an NFS server, and sets the bytes sent to it for each operation.
    pub fn set_server_requests(&mut self, bytes: u64) {
        self.set_backing(Backing::RemoteOrUserSpace, "nfs4");
        self.target().source = "ada:/srv".into();
        let sent_bytes = bytes * self.record.counts.ops;
        let network = Some(NetworkUse { sent_bytes, ..NetworkUse::default() });
        self.record.seen.system = Some(SystemUse { network, ..SystemUse::default() });
    }

    pub fn budget(&mut self) -> &mut TimeBreakdown {
        self.record.seen.budget.as_mut().unwrap()
    }

    pub fn latency(&mut self) -> &mut model::run::Latency {
        self.record.figures.latency_ns.as_mut().unwrap()
    }

    pub fn steady(&mut self) -> &mut model::run::Steady {
        self.record.figures.steady.as_mut().unwrap()
    }

    /// Moves the target from its device to `backing`, with `file_system`.
    pub fn set_backing(&mut self, backing: Backing, file_system: &str) {
        let target = self.target();
        (target.backing, target.file_system) = (backing, file_system.into());
        target.device_stack.clear();
        (self.record.seen.device, self.record.seen.page_cache_share) = (None, None);
    }

    /// Reads 1 GiB from a file system on a loop device whose disk reads `disk_bytes`.
    pub fn over_image(&mut self, disk_bytes: u64) {
        use LayerKind::{Device, FileSystem, PageCache};
        let device = |layer, read_bytes| Flow { layer, read_bytes, ..Flow::default() };
        self.over(&[FileSystem, Device, PageCache, Device], vec![device(1, 1 << 30), device(3, disk_bytes)]);
    }

    /// Adds limits on reads a second, in the order in which they were read.
    pub fn limits(&mut self, ops_per_second: &[f64]) {
        let system = self.record.seen.system.get_or_insert_default();
        system.caps = ops_per_second.iter().map(|limit| read_cap(Some(*limit), None)).collect();
    }

    /// Reads 1 GiB through FUSE. `in_flight_sum` is the sum of its requests in flight in 300 samples.
    pub fn over_daemon(&mut self, in_flight_sum: u64) {
        self.set_backing(Backing::RemoteOrUserSpace, "fuse.bindfs");
        let flow = Flow { samples: 300, in_flight_sum, ..Flow::default() };
        self.over(&[LayerKind::Fuse, LayerKind::Daemon], vec![flow]);
    }

    fn over(&mut self, kinds: &[LayerKind], flows: Vec<Flow>) {
        self.target().layers = chain(kinds);
        self.record.seen.load =
            Some(Load { read_bytes: 1 << 30, elapsed_ns: 4_000_000_000, flows, ..Load::default() });
    }

    /// Changes the activity of the machine in each interval.
    pub fn frames(&mut self, change: impl Fn(&mut Frame)) {
        self.record
            .figures
            .intervals
            .iter_mut()
            .filter_map(|interval| interval.frame.as_mut())
            .for_each(change);
    }

    /// Changes the activity of the mounted device in each interval.
    pub fn device_frames(&mut self, change: impl Fn(&mut DeviceFrame)) {
        self.frames(|frame| change(&mut frame.devices[0]));
    }

    /// Moves the target to an array of that level. Each member moves these bytes, read and written, in an interval.
    pub fn array(&mut self, level: &str, members: &[(u64, u64)]) {
        let names: Vec<String> = (0..members.len()).map(|number| format!("sd{number}")).collect();
        let below: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut raid = device("md0", DeviceKind::Raid, &below);
        raid.details = vec![format!("{level} of {} devices", members.len())];
        let disks = below.iter().map(|name| device(name, DeviceKind::Disk, &[]));
        self.target().device_stack = std::iter::once(raid).chain(disks).collect();
        self.frames(|frame| {
            let like = frame.devices[0].clone();
            frame.devices.truncate(1);
            frame.devices[0].name = "md0".into();
            frame.devices.extend(names.iter().zip(members).map(|(name, (read_bytes, written_bytes))| {
                DeviceFrame {
                    name: name.clone(),
                    read_bytes: *read_bytes,
                    written_bytes: *written_bytes,
                    ..like.clone()
                }
            }));
        });
    }

    /// Adds a change of the rate at `at_s` seconds, after `bytes` bytes. The rate is then not steady until the caller
    /// says so.
    pub fn changes(&mut self, at_s: f64, before: f64, after: f64, bytes: u64) {
        let at_ns = (at_s * 1e9) as u64;
        let steady = self.steady();
        (steady.is_steady, steady.from_ns) = (false, at_ns);
        steady.change_points.push(model::run::ChangePoint {
            at_ns,
            before_ops_per_second: before,
            after_ops_per_second: after,
            bytes,
        });
    }

    /// Lets the test's threads sleep in one function of the kernel, in this share of the samples.
    pub fn sleep_in(&mut self, symbol: &str, share: f64) {
        self.record.seen.wait_channels = vec![model::run::WaitChannel {
            of: model::run::SampledThreads::Workers,
            class: None,
            symbol: symbol.into(),
            share,
            samples: (share * 1000.0) as u64,
            operations: Vec::new(),
        }];
    }

    /// Adds a short run after all tests, at this share of the rate.
    pub fn return_visit(&mut self, share: f64) {
        let own = self.record.figures.rate.steady_or_whole().unwrap();
        let start_ns = self.record.counts.start_ns + 95_000_000_000;
        self.record.figures.return_visit = Some(model::run::ReturnVisit {
            start_ns,
            ops_per_second: share * own,
            latency_mean_ns: Some((50_000.0 / share) as u64),
            kernel_share: Some(0.9),
        });
    }

    /// Adds changes of the rate, where it has a course, and two kinds of latencies, so that more can go wrong.
    pub fn make_unsteady(&mut self) {
        if self.record.figures.steady.is_some() {
            self.changes(1.0, 2e5, 1e5, 1 << 30);
            self.changes(2.0, 1e5, 9e4, 2 << 30);
        }
        self.latency().modes =
            vec![model::run::Mode { at_ns: 1, share: 0.5 }, model::run::Mode { at_ns: 9, share: 0.5 }];
    }

    /// Sets the interval of the rate to that share of it on either side.
    pub fn set_rate_interval(&mut self, share: f64) {
        let rate = &mut self.record.figures.rate;
        (rate.ci95_low_ops_per_second, rate.ci95_high_ops_per_second) =
            (Some(1e5 * (1.0 - share)), Some(1e5 * (1.0 + share)));
    }

    /// Ends the test after this many intervals, with no steady part found by then.
    pub fn ends_after(&mut self, intervals: usize) {
        self.record.figures.intervals.truncate(intervals);
        let end_ns = intervals as u64 * 100_000_000;
        self.record.counts.elapsed_ns = end_ns;
        let steady = self.steady();
        (steady.is_steady, steady.from_ns, steady.to_ns) = (false, 0, end_ns);
        if intervals < 8 {
            self.without_interval();
        }
    }

    pub fn without_interval(&mut self) {
        let rate = &mut self.record.figures.rate;
        (rate.ci95_low_ops_per_second, rate.ci95_high_ops_per_second) = (None, None);
    }

    /// Adds a note of the run itself.
    pub fn note(&mut self, finding: Finding) {
        self.record.judged.notes.push(Note::new(finding, Vec::new()));
    }

    /// Returns the findings of all traps that fire, with the traps' codes.
    pub fn findings(&self) -> Vec<(&'static str, TrapFinding)> {
        let phase = &self.plan.phases[0];
        let input = JudgeInput::new(&self.record, phase, &self.plan, &self.environment, Some(&self.probes));
        TRAPS.iter().filter_map(|trap| Some((trap.code, (trap.check)(&input)?))).collect()
    }

    /// Returns the record, judged.
    pub fn judged_record(&self) -> PhaseRecord {
        let mut record = self.record.clone();
        judge(&mut record, &self.plan, &self.environment, Some(&self.probes));
        record
    }

    /// Returns the trust in the number, and the reasons for distrust.
    pub fn verdict(&self) -> (Trust, Vec<String>) {
        let verdict = self.judged_record().judged.verdict.unwrap();
        (verdict.trust, verdict.trust_reasons)
    }
}

/// Returns latencies in two places: the second takes `ratio` times as long as the first, and `ratio_low` times at least.
pub fn two_places(ratio: f64, ratio_low: f64) -> LatencyByPlace {
    let place = |start_bytes: u64, latency: f64| PlaceLatency {
        place: Place { start_bytes, end_bytes: start_bytes + (1 << 30) },
        latency_mean_ns: (latency * 1e6) as u64,
    };
    LatencyByPlace {
        places: vec![place(1 << 30, 1.0), place(100 << 30, ratio)],
        fastest: 0,
        slowest: 1,
        ratio,
        ratio_low,
        ratio_high: 2.0 * ratio - ratio_low,
    }
}

/// Returns conditions with a drive at `celsius` (limit 70 °C), throttled CPUs, and maintenance.
pub fn conditions(celsius: f64, cpu_throttled: Option<u64>, maintenance: &[(&str, bool)]) -> Conditions {
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
