//! For each limiter, a case that it holds back, with the limiter and the confidence that the judge must name.

use model::Experiment;
use model::Limiter;
use model::figure::Count;
use model::finding::Finding;
use model::layer::{Layer, LayerKind};
use model::observation::Source;
use model::request::{MixTexts, Request};
use model::run::{
    CallUse, CeilingShares, Confidence, CpuShares, Flow, Helper, Load, NetworkUse, Note, Pressures, Reclaim,
    Response, SampledThreads, Sensitivity, Status, SystemUse, WaitChannel, sources,
};
use model::target::{Backing, DeviceKind};

use crate::conclusion::verdict::conclude;
use crate::fixtures::{InputBuilder, chain, clean, clean_request, client, load_of, read_cap};
use crate::{JudgeInput, next_experiment};

/// An answer to a change, with the rate that follows from it.
fn response(change: &str, value: f64, half_width: f64, times: f64) -> Option<Response> {
    Some(Response {
        value,
        half_width: Some(half_width),
        before_ops_per_second: 1e5,
        after_ops_per_second: 1e5 * times,
        change: change.into(),
        load: None,
    })
}

/// A virtual machine whose device makes `ops` operations in each 100 ms, or a fifth of them.
fn comes_and_goes(ops: u64, backing: Backing) -> InputBuilder {
    with(clean("read:rnd4k:q4").blocked().queues(4.0), |world| {
        world.environment.virtualisation = Some("kvm".into());
        world.target().backing = backing;
        for (index, interval) in world.record.figures.intervals.iter_mut().enumerate() {
            interval.ops = if index / 10 % 2 == 0 { ops } else { ops / 5 };
        }
        world.steady().is_steady = false;
    })
}

fn depth(value: f64, half_width: f64) -> Option<Response> {
    response("4 times the depth", value, half_width, 4f64.powf(value))
}

fn block(value: f64, half_width: f64) -> Option<Response> {
    response("blocks of 16 KiB", value, half_width, 4f64.powf(value))
}

fn separate(times: f64) -> Option<Response> {
    response("a directory for each thread", times, 0.1, times)
}

impl InputBuilder {
    /// Answers to more depth and to other blocks.
    fn answers(mut self, by_depth: f64, by_block: f64) -> Self {
        let (depth, block) = (depth(by_depth, 0.05), block(by_block, 0.05));
        self.record.judged.sensitivity = Some(Sensitivity { depth, block, ..Sensitivity::default() });
        self
    }

    /// Adds the answer to a single operation.
    fn single(mut self, value: f64) -> Self {
        self.record.judged.sensitivity.get_or_insert_default().single =
            response("q1t1", value, 0.02, 32f64.powf(-value));
        self
    }

    /// Shares of the threads' time: in their own code, in the kernel, waiting for a CPU, blocked.
    fn spends(mut self, user: f64, kernel: f64, run_queue: f64, blocked: f64) -> Self {
        let budget = self.budget();
        (budget.user, budget.kernel, budget.run_queue, budget.blocked) = (user, kernel, run_queue, blocked);
        self
    }

    fn blocked(self) -> Self {
        self.spends(0.0, 0.02, 0.01, 0.97)
    }

    /// Sets where its threads slept, in shares of all samples. In the rest they were running.
    fn sleeps(mut self, sites: &[(&str, f64)]) -> Self {
        let site = |of: SampledThreads, symbol: &str, share: f64| WaitChannel {
            of,
            class: None,
            symbol: symbol.into(),
            share,
            samples: (share * 1000.0) as u64,
            operations: Vec::new(),
        };
        let asleep: f64 = sites.iter().map(|(_, share)| share).sum();
        let ring = self.plan.phases[0].engine == model::workload::Engine::Uring;
        let of = if ring { SampledThreads::RingWorkers } else { SampledThreads::Workers };
        self.record.seen.wait_channels =
            sites.iter().map(|(symbol, share)| site(of, symbol, *share)).collect();
        self.record.seen.wait_channels.push(site(SampledThreads::Workers, "running", 1.0 - asleep));
        self
    }

    /// Requests in the mounted device, on average.
    fn queues(mut self, requests: f64) -> Self {
        self.frames(|frame| {
            frame.devices.iter_mut().for_each(|device| device.in_flight_ns = (requests * 1e8) as u64);
        });
        self
    }

    /// Moves it to a machine whose CPUs are all busy.
    fn hogged(mut self) -> Self {
        self.record.seen.cpu = Some(CpuShares { user: 0.9, kernel: 0.1, steal: 0.0 });
        self
    }

    fn system(mut self, change: impl Fn(&mut SystemUse)) -> Self {
        change(self.record.seen.system.get_or_insert_with(SystemUse::default));
        self
    }

    fn remote(self, requests: f64) -> Self {
        self.server(requests, None)
    }

    /// Requests at a server, on average, and the most that are let through.
    fn server(mut self, requests: f64, window: Option<u64>) -> Self {
        self.set_backing(Backing::RemoteOrUserSpace, "fuse");
        self.environment.target.layers = vec![Layer::new(LayerKind::Fuse, "fuse")];
        let flow = Flow { samples: 100, in_flight_sum: (100.0 * requests) as u64, window, ..Flow::default() };
        self.record.seen.load = Some(Load { flows: vec![flow], ..Load::default() });
        self
    }

    #[track_caller]
    fn is(&self, limiter: Limiter, confidence: Confidence) {
        let phase = &self.plan.phases[0];
        let input = JudgeInput::new(&self.record, phase, &self.plan, &self.environment, Some(&self.probes));
        let found = conclude(&input).unwrap();
        assert_eq!(
            (found.limiter, found.confidence),
            (Some(limiter), Some(confidence)),
            "{:#?}",
            found.observations
        );
        let sum: f64 = found.ranking.iter().map(|ranked| ranked.share).sum();
        assert!(sum <= 1.0 + 1e-6, "{:?}", found.ranking);
        let is_clear = sources(&found.observations) >= 2 && limiter != Limiter::NotClear;
        assert_eq!(confidence >= Likely, is_clear);
        let evidence = Source::ALL.iter().filter_map(|source| wording::evidence(&[&found], *source));
        for sentence in evidence.chain(wording::next_steps(&[&found])) {
            assert!(
                !sentence.is_empty() && !sentence.contains("NaN") && !sentence.contains("inf "),
                "{sentence}"
            );
        }
    }

    fn next(&self, tried: &[Experiment]) -> Option<Experiment> {
        next_experiment(&self.record, &self.plan, &self.environment, Some(&self.probes), tried)
    }
}

use Confidence::{Confirmed, Likely, Undetermined};

/// Each line is a test: its name, the limiter with its confidence, and the case.
macro_rules! cases {
    ($($name:ident: $limiter:ident $confidence:ident, $world:expr;)+) => {
        $(#[test] fn $name() { $world.is(Limiter::$limiter, $confidence); })+

        /// Every case, by its name.
        fn cases() -> Vec<(&'static str, InputBuilder)> {
            vec![$((stringify!($name), $world)),+]
        }
    };
}

/// The sum of four clients of a server that gives 1,000 operations a second to two.
fn four_clients(rate: f64) -> InputBuilder {
    with(clean("read:rnd4k:q4"), |world| {
        let share = |name| client(name, rate / 4.0, Limiter::ServerSaturated, Likely);
        world.clients(["a", "b", "c", "d"].map(share).into(), Some((2, 1000.0)));
    })
}

/// A link that carried the written bytes.
fn link() -> InputBuilder {
    clean("write:seq1m").blocked().remote(0.9).sleeps(&[("request_wait_answer", 0.9)]).system(|system| {
        system.network = Some(NetworkUse {
            interface: "eth0".into(),
            sent_bytes: 440_000_000_000,
            received_bytes: 1_000_000,
            ..NetworkUse::default()
        });
    })
}

/// 32 operations, of which 31 are in a loop device, and `inside` in one below `middle`. A request there takes `times` as long as
/// one alone.
fn above_lower(middle: LayerKind, inside: f64, window: Option<u64>, times: f64) -> InputBuilder {
    use LayerKind::{Device, FileSystem};
    with(clean("write:rnd4k:q32").blocked().queues(31.0).answers(0.0, 0.0).single(0.3), |world| {
        world.target().layers = chain(&[FileSystem, Device, middle, Device]);
        world.target().layers[1].name = "nvme0n1p2".into();
        world.target().device_stack[0].kind = DeviceKind::Loop;
        // No thread of the loop device is busy.
        let cpu = world.record.seen.cpu.as_mut().unwrap();
        (cpu.user, cpu.kernel) = (0.01, 0.01);
        let alone = inside / 10.0 / times;
        let threads = if middle == LayerKind::Daemon { window } else { None };
        let load = |ops, upper, lower| {
            let mut load = load_of(ops, &[(1, upper, Some(128)), (3, lower, window)]);
            load.flows.insert(1, Flow { layer: 2, window: threads, ..Flow::default() });
            load
        };
        world.record.seen.load = Some(load(1000, 31.0, inside));
        let tried = world.record.judged.sensitivity.as_mut().unwrap();
        tried.single.as_mut().unwrap().load = Some(load(100, 1.0, alone));
    })
}

/// A buffered stream on a link that carried the written bytes. Experiments on another test found that the link carries
/// `line_times` as much.
fn stream(line_times: Option<f64>) -> InputBuilder {
    over_link("write:seq8k:buffered", line_times)
}

/// The same for any test that writes.
fn over_link(spec: &str, line_times: Option<f64>) -> InputBuilder {
    let mut world = clean(spec)
        .blocked()
        .remote(0.9)
        .sleeps(&[("request_wait_answer", 0.9)])
        .system(|system| system.network = link().record.seen.system.unwrap().network);
    let (written, elapsed_ns) = (world.record.counts.app_bytes_written, world.record.counts.elapsed_ns);
    let network = world.record.seen.system.as_mut().unwrap().network.as_mut().unwrap();
    network.sent_bytes = written;
    network.line_bytes_per_second = line_times.map(|times| times * written as f64 * 1e9 / elapsed_ns as f64);
    world
}

/// A rewrite of blocks that fills half of a line of 25 MB/s in each direction.
fn in_turn(spec: &str) -> InputBuilder {
    let mut world = over_link(spec, None);
    let moved_bytes = (world.record.counts.elapsed_ns as f64 / 1e9 * 12.5e6) as u64;
    (world.record.counts.app_bytes_read, world.record.counts.app_bytes_written) = (moved_bytes, moved_bytes);
    let network = world.record.seen.system.as_mut().unwrap().network.as_mut().unwrap();
    (network.received_bytes, network.sent_bytes) = (moved_bytes, moved_bytes);
    network.line_bytes_per_second = Some(25e6);
    world
}

/// The same stream, with a change to the figures of its interface. The change gets the written bytes per second.
fn stream_over(change: impl FnOnce(&mut NetworkUse, f64)) -> InputBuilder {
    let mut world = stream(None);
    let written_per_second =
        world.record.counts.app_bytes_written as f64 * 1e9 / world.record.counts.elapsed_ns as f64;
    change(world.record.seen.system.as_mut().unwrap().network.as_mut().unwrap(), written_per_second);
    world
}

/// The same stream through a queueing discipline that lets `times` times its rate pass.
fn shaped(times: f64) -> InputBuilder {
    stream_over(|network, rate| {
        network.shaper = Some("tbf".into());
        network.shaped_bytes_per_second = Some(times * rate);
    })
}

/// A device on a server behind a line that carries just its bytes.
fn network_device() -> InputBuilder {
    with(clean("write:seq1m:q4").blocked().queues(4.0).answers(0.0, -1.0), |world| {
        let nbd = Layer::new(LayerKind::Device, "nbd0");
        world.target().layers = vec![Layer { hidden: Some(Layer::ON_SERVER.into()), ..nbd }];
        let sent_bytes = world.record.counts.app_bytes_written;
        let seconds = world.record.counts.elapsed_ns as f64 / 1e9;
        world.record.seen.system.get_or_insert_default().network = Some(NetworkUse {
            interface: "eth0".into(),
            sent_bytes,
            shaper: Some("tbf".into()),
            shaped_bytes_per_second: Some(sent_bytes as f64 / seconds),
            ..NetworkUse::default()
        });
    })
}

/// A mix with pauses, whose flows took this share of its threads' time.
fn pausing(share: f64) -> InputBuilder {
    const MIX: &str = "[population]\nfiles = 9\nsizes = { median = '4k', p90 = '8k', max = '1m' }\n\
                       [[flow]]\nname = 'f'\nweight = 1\nthink_ms = 5\ndo = ['stat']\n";
    let mixes = MixTexts([("own.toml".to_owned(), MIX.to_owned())].into());
    let mut world =
        clean_request(Request { tests: vec!["mix:own.toml".into()], mixes, ..Request::default() });
    let elapsed_ns = world.record.counts.elapsed_ns;
    world.record.counts.ops = 1000;
    let latency = world.record.figures.latency_ns.as_mut().unwrap();
    latency.mean = (share * elapsed_ns as f64 / 1000.0) as u64;
    let kernel = if share < 0.5 { 0.2 } else { 0.85 };
    world.spends(0.05, kernel, 0.0, 0.95 - kernel)
}

/// A test on files of a server that took a request of `request_bytes` for each operation.
fn on_server(spec: &str, request_bytes: u64) -> InputBuilder {
    let mut world = clean(spec).remote(0.9);
    world.target().source = "server:/export".into();
    let ops = world.record.counts.ops;
    world.system(|system| {
        let (sent_bytes, received_bytes) = (request_bytes * ops, request_bytes * ops);
        let interface = "eth0".into();
        system.network = Some(NetworkUse { interface, sent_bytes, received_bytes, ..NetworkUse::default() });
    })
}

/// A cap that the rate has reached, with threads that wait above the device.
fn capped(ops_per_second: Option<f64>, bytes_per_second: Option<f64>) -> InputBuilder {
    clean("read:rnd4k:q8").blocked().queues(0.2).system(|system| {
        system.caps = vec![read_cap(ops_per_second, bytes_per_second)];
    })
}

/// A device whose queue has that many places.
fn with_queue_slots(spec: &str, places: u32, requests: f64) -> InputBuilder {
    let mut world = clean(spec).blocked().queues(requests);
    world.target().device_stack[0].nr_requests = Some(places);
    world
}

/// Makes the rates more even than latencies allow.
fn too_even(world: &mut InputBuilder) {
    super::examples::limited(world, |_| 10_000);
}

/// Makes it an open loop that could not start all operations in time.
fn falls_behind(world: &mut InputBuilder) {
    world.record.workload.rate_ops_per_second = Some(2e5);
    world.record.workload.arrival = "open_loop".into();
    let (missed, due) = (Count(4000), Count(8000));
    world.record.judged.notes.push(Note::new(Finding::FellBehind { missed, due }, Vec::new()));
}

/// A case with a change applied.
fn with(mut world: InputBuilder, change: impl FnOnce(&mut InputBuilder)) -> InputBuilder {
    change(&mut world);
    world
}

cases! {
    queue_depth_1: DeviceLatency Likely,
        clean("read:rnd4k").blocked().queues(0.97).sleeps(&[("__iomap_dio_rw", 0.95)]);
    queue_depth_1_with_experiments: DeviceLatency Confirmed,
        clean("read:rnd4k").blocked().queues(0.97).sleeps(&[("__iomap_dio_rw", 0.95)]).answers(0.98, 0.0);
    deep_queue_with_headroom: DeviceLatency Confirmed,
        clean("read:rnd4k:q32").blocked().queues(31.0).answers(0.8, 0.0);
    remote_queue_depth_1: RemoteLatency Likely,
        clean("read:rnd4k").blocked().remote(0.97).sleeps(&[("request_wait_answer", 0.95)]);
    remote_queue_depth_1_over_a_far_line: RemoteLatency Likely,
        with(clean("read:rnd4k").blocked().remote(0.97).sleeps(&[("request_wait_answer", 0.95)]), |world| {
            let line = Layer::new(LayerKind::Line, "eth0");
            world.target().layers = vec![Layer { round_trip_ns: Some(20_000_000), ..line }];
            world.latency().mean = 61_000_000;
        });
    remote_queue_depth_1_with_experiments: RemoteLatency Confirmed,
        clean("read:rnd4k").blocked().remote(0.97).sleeps(&[("request_wait_answer", 0.95)]).answers(0.98, 0.0);
    queue_depth_128_without_experiments: DeviceOps Likely, clean("read:rnd4k:q128").blocked().queues(120.0);
    device_saturated_by_iops: DeviceOps Confirmed,
        clean("read:rnd4k:q32").blocked().queues(31.0).answers(0.01, 0.0);
    device_saturated_by_bandwidth: DeviceBandwidth Confirmed,
        clean("read:rnd4k:q32").blocked().queues(31.0).answers(0.01, -0.98);
    large_blocks_without_experiments: DeviceBandwidth Likely, clean("read:seq1m:q8").blocked().queues(16.0);
    saturated_bandwidth_in_kvm_guest: DeviceBandwidth Likely, with(
        clean("read:rnd4k:q32").blocked().queues(31.0).answers(0.01, -0.98),
        |world| world.environment.virtualisation = Some("kvm".into()),
    );
    // More depth reached a higher rate, so the target had room, though one operation was as fast as eight.
    headroom_beside_fast_single: DeviceLatency Likely,
        clean("read:seq1m:q8").blocked().queues(8.0).answers(0.268, -1.56).single(0.0);
    // A place for each operation: none waits for another, and no more fit.
    full_without_waiting: DeviceOps Confirmed,
        clean("read:rnd4k:q32").blocked().queues(31.0).answers(0.01, 0.0).single(1.0);
    small_headroom: DeviceLatency Confirmed,
        clean("read:rnd4k:q32").blocked().queues(31.0).answers(0.25, 0.0);
    mostly_iops_bound: DeviceOps Likely,
        clean("read:rnd4k:q32").blocked().queues(31.0).answers(0.01, -0.17);
    iops_and_bandwidth_bound: Mixed Likely,
        clean("read:rnd4k:q32").blocked().queues(31.0).answers(0.01, -0.53);
    saturated_device_with_even_rate: DeviceOps Likely, with(
        clean("read:rnd4k:q32").blocked().queues(31.0).answers(0.01, 0.0),
        too_even,
    );
    open_loop_behind_at_full_depth: ServerSaturated Likely, with(
        clean("read:rnd4k:q8:rate=100000").blocked().remote(7.9).sleeps(&[("request_wait_answer", 0.95)]),
        falls_behind,
    );
    server_starved_of_cpu: ServerSaturated Likely, clean("read:rnd4k:t16")
        .blocked().remote(15.5).sleeps(&[("request_wait_answer", 0.95)]).answers(0.0, 0.0).hogged();
    saturated_server_behind_a_line_without_counts: NotClear Undetermined, with(
        clean("read:rnd4k:t16")
            .blocked().remote(15.5).sleeps(&[("request_wait_answer", 0.95)]).answers(0.0, 0.0),
        |world| world.target().layers = chain(&[LayerKind::Fuse, LayerKind::Daemon, LayerKind::Line]),
    );
    saturated_server: ServerSaturated Confirmed, clean("read:rnd4k:t16")
        .blocked().remote(15.5).sleeps(&[("request_wait_answer", 0.95)]).answers(0.0, 0.0);
    device_saturated_at_queue_depth_1: DeviceOps Confirmed,
        clean("read:rnd4k").blocked().queues(0.98).answers(0.03, 0.0);
    at_the_knee: Mixed Likely, clean("read:rnd4k:q32").blocked().queues(31.0).answers(0.09, 0.0);
    cpu_time_and_page_waits: Mixed Likely, with(
        clean("rewrite:seq128k").spends(0.05, 0.52, 0.0, 0.43).sleeps(&[("folio_wait_bit_common", 0.43)]),
        |world| world.device_frames(|device| device.busy_ns = 30_000_000),
    );
    buffered_stream_without_experiments: RemoteUndetermined Likely, stream(None);
    stream_at_shaper_rate: NetworkBandwidth Likely, shaped(1.02);
    stream_below_shaper_rate: RemoteUndetermined Likely, shaped(2.0);
    stream_at_interface_speed: NetworkBandwidth Likely,
        stream_over(|network, rate| network.speed_bits_per_second = Some((8.4 * rate) as u64));
    full_server_slots: QueueFull Confirmed,
        clean("read:rnd4k:q16").blocked().server(1.9, Some(2)).answers(0.01, 0.0);
    free_server_slots: ServerSaturated Confirmed,
        clean("read:rnd4k:q16").blocked().server(14.0, Some(64)).answers(0.01, 0.0);
    stream_at_line_rate: NetworkBandwidth Likely, stream(Some(1.05));
    stream_at_half_line_rate: RemoteLatency Likely, stream(Some(2.0));
    stream_at_half_peak_rate: RemoteLatency Likely, stream_over(|network, rate| {
        network.peak_sent_bytes_per_second = Some(2.0 * rate);
    });
    stream_near_peak_rate: RemoteUndetermined Likely, stream_over(|network, rate| {
        network.peak_sent_bytes_per_second = Some(1.2 * rate);
    });
    stream_with_higher_peak_received_rate: RemoteUndetermined Likely, stream_over(|network, rate| {
        network.received_bytes = 0;
        network.peak_received_bytes_per_second = Some(2.0 * rate);
    });
    random_writes_at_line_rate: NetworkBandwidth Likely, over_link("write:rnd8k:t3", Some(1.05));
    random_writes_at_half_line_rate: RemoteLatency Likely, over_link("write:rnd8k:t3", Some(2.0));
    large_writes_at_half_line_rate: RemoteLatency Likely, over_link("write:rnd64k:t3", Some(2.0));
    large_writes_near_line_rate: RemoteUndetermined Likely, over_link("write:rnd64k:t3", Some(1.2));
    large_block_rewrite_over_link: Mixed Likely, in_turn("rewrite:seq1m:buffered");
    small_block_rewrite_over_link: RemoteLatency Likely, in_turn("rewrite:seq64k:buffered");
    stat_from_client_cache: MetadataCache Likely,
        on_server("stat:t2", 1).blocked().sleeps(&[("request_wait_answer", 0.9)]);
    unlink_on_server: RemoteLatency Likely, on_server("unlink", 200).blocked().sleeps(&[]);
    link_without_experiments: RemoteUndetermined Likely, link();
    link_with_experiments: NetworkBandwidth Confirmed, link().answers(0.0, -0.95);
    hidden_limit: IoThrottle Likely, clean("read:rnd4k:q8").blocked().queues(0.2);
    hidden_limit_with_experiments: IoThrottle Confirmed,
        clean("read:rnd4k:q8").blocked().queues(0.2).answers(0.0, 0.0);
    iops_limit: IoThrottle Confirmed, capped(Some(101_000.0), None);
    bandwidth_limit: IoThrottle Confirmed, capped(None, Some(4096e5));
    network_device_on_full_line: NetworkBandwidth Confirmed, network_device();
    iops_limit_with_starved_server: IoThrottle Likely,
        capped(Some(101_000.0), None).queues(7.8).hogged().answers(0.0, 0.0);
    full_queue: QueueFull Confirmed,
        with_queue_slots("read:rnd4k:t16", 4, 4.0).sleeps(&[("blk_mq_get_tag", 0.7), ("__iomap_dio_rw", 0.25)]);
    full_lower_queue_with_room_below: QueueFull Confirmed, above_lower(LayerKind::FileSystem, 4.0, Some(4), 1.0);
    full_lower_queue_of_full_device: DeviceOps Confirmed, above_lower(LayerKind::FileSystem, 4.0, Some(4), 3.0);
    full_device_below_a_loop_device_with_hidden_threads: DeviceOps Likely, with(
        above_lower(LayerKind::FileSystem, 4.0, Some(4), 3.0),
        |world| world.record.seen.cpu.as_mut().unwrap().kernel = 0.2,
    );
    idle_device_below_a_loop_device: IoThrottle Likely, above_lower(LayerKind::FileSystem, 0.5, Some(128), 1.0);
    full_program_above_a_device: ServerSaturated Likely, above_lower(LayerKind::Daemon, 2.0, Some(2), 1.0);
    full_queue_with_io_uring: QueueFull Confirmed,
        with_queue_slots("read:rnd4k:q16", 4, 4.0).sleeps(&[("blk_mq_get_tag", 0.7)]);
    tag_waits_below_queue_size: QueueFull Likely,
        clean("read:rnd4k:t16").blocked().queues(2.6).sleeps(&[("blk_mq_get_tag", 0.7)]);
    syncs: FsyncJournal Likely,
        clean("fsync:rnd4k").blocked().sleeps(&[("submit_bio_wait", 0.6), ("jbd2_log_wait_commit", 0.3)]);
    syncs_with_flushes: FsyncJournal Confirmed, with(
        clean("fsync:rnd4k").blocked().sleeps(&[("submit_bio_wait", 0.6), ("jbd2_log_wait_commit", 0.3)]),
        |world| world.device().flushes = world.record.counts.ops,
    );
    throttled_buffered_writers: DirtyThrottling Confirmed,
        clean("write:seq1m:buffered").blocked().sleeps(&[("balance_dirty_pages", 0.9)]);
    shared_file: LockContention Confirmed, clean("write:rnd4k:t16")
        .blocked().queues(1.0).sleeps(&[("ext4_file_write_iter", 0.9), ("__iomap_dio_rw", 0.06)]);
    // Threads that spin for a lock look busy. They do more with a directory each, which shows the lock.
    spinning_on_a_lock: LockContention Likely, with(
        clean("stat:t8:shared").spends(0.1, 0.6, 0.3, 0.0),
        |world| world.record.judged.sensitivity = Some(Sensitivity { separate: separate(1.6), ..Sensitivity::default() }),
    );
    direct_reclaim: MemoryPressure Confirmed,
        clean("read:seq1m:buffered").blocked().sleeps(&[("reclaim_throttle", 0.6)]).system(|system| {
            system.pressure = Some(Pressures { io: 0.4, memory: 0.5, cpu: 0.0 });
        });
    cgroup_at_memory_limit: MemoryPressure Likely,
        clean("write:seq1m:buffered").spends(0.02, 0.7, 0.02, 0.26).system(|system| {
            system.pressure = Some(Pressures { io: 0.4, memory: 0.5, cpu: 0.0 });
            system.reclaim =
                Some(Reclaim { direct_scanned_pages: 0, refaulted_pages: 0, cgroup_limit_hits: 9000 });
        });
    single_bytes_through_stdio: ClientCpu Confirmed,
        clean("putc-write").spends(0.87, 0.05, 0.01, 0.07).sleeps(&[]).system(|system| {
            system.calls = Some(CallUse {
                read_calls: 0,
                write_calls: 1000,
                bytes_per_read_call: None,
                bytes_per_write_call: Some(4096.0),
            });
        });
    single_byte_system_calls: KernelCpu Likely, clean("byte-write").spends(0.2, 0.75, 0.01, 0.04).sleeps(&[]);
    kernel_copies_with_idle_device: KernelCpu Confirmed, with(
        clean("rewrite:seq128k").spends(0.06, 0.9, 0.0, 0.04).sleeps(&[]),
        |world| world.device_frames(|device| device.busy_ns = 30_000_000),
    );
    more_threads_than_cpus: CpuSaturated Likely, clean("write:rnd4k:t32").spends(0.05, 0.2, 0.6, 0.15);
    hog_on_the_cpus: CpuContention Likely,
        clean("read:rnd4k").spends(0.05, 0.2, 0.6, 0.15).system(|system| {
            system.helpers = vec![Helper { name: "hog".into(), pid: 7, is_kernel: false, cpu_share: 0.99, ..Helper::default() }];
        });
    cpu_quota_throttling: CpuQuota Confirmed, with(
        clean("read:rnd4k").spends(0.05, 0.1, 0.0, 0.05).system(|system| {
            system.quota_throttled_ns = Some(3_200_000_000);
            system.quota_cpus = Some(0.2);
        }),
        |world| world.budget().quota = Some(0.8),
    );
    stolen_time: HypervisorSteal Likely,
        with(clean("read:rnd4k").spends(0.1, 0.3, 0.0, 0.3), |world| world.budget().steal = 0.3);
    cached_reads: PageCache Confirmed, with(
        clean("read:seq1m:buffered").spends(0.02, 0.97, 0.01, 0.0).sleeps(&[]),
        |world| {
            world.record.seen.page_cache_share = Some(1.0);
            world.device().bytes_per_app_byte = Some(0.0);
        },
    );
    absorbed_writes: PageCacheAbsorbed Confirmed, with(
        clean("write:seq1m:buffered:sync=none").spends(0.02, 0.97, 0.01, 0.0).sleeps(&[]),
        |world| world.device().bytes_per_app_byte = Some(0.2),
    );
    cached_names: MetadataCache Confirmed, with(
        clean("stat:t4").spends(0.3, 0.6, 0.1, 0.0).sleeps(&[]),
        |world| world.device().bytes_read = 0,
    );
    foreign_io_without_experiments: NoisyNeighbour Likely, with(
        clean("read:rnd4k:q8").blocked().queues(16.0),
        |world| world.device().foreign_share = Some(0.5),
    );
    foreign_io_on_saturated_device: NoisyNeighbour Confirmed, with(
        clean("read:rnd4k:q8").blocked().queues(16.0).answers(0.01, 0.0),
        |world| world.device().foreign_share = Some(0.5),
    );
    cpu_bound_ssh_of_sshfs: HelperCpu Likely, with(
        clean("read:seq1m").blocked().remote(1.0).sleeps(&[("request_wait_answer", 0.9)]).system(|system| {
            system.helpers = vec![Helper { name: "ssh".into(), pid: 7, is_kernel: false, cpu_share: 0.97, ..Helper::default() }];
        }),
        |world| world.target().file_system = "fuse.sshfs".into(),
    );
    fluctuating_low_rate: DeviceUndetermined Likely, comes_and_goes(10, Backing::Devices);
    fluctuating_rate_of_simulated_device: DeviceUndetermined Likely, comes_and_goes(10_000, Backing::Simulated);
    fluctuating_rate_in_kvm_guest: BelowOs Likely, comes_and_goes(10_000, Backing::Devices);
    rate_growing_with_clients: EachClient Likely, four_clients(2000.0);
    rate_flat_with_more_clients: BelowClients Confirmed, four_clients(1000.0);
    dirty_throttling_on_full_link: NetworkBandwidth Likely, shaped(1.05).sleeps(&[("balance_dirty_pages", 0.9)]);
    dirty_throttling_on_slow_server: DirtyThrottling Likely, shaped(4.0).sleeps(&[("balance_dirty_pages", 0.9)]);
    open_loop_at_requested_rate: RequestedRate Confirmed, with(
        clean("read:rnd4k:rate=100000").spends(0.05, 0.1, 0.0, 0.85),
        |world| world.record.workload.rate_ops_per_second = Some(1e5),
    );
    mix_with_long_think_time: ThinkTime Confirmed, pausing(0.4);
    mix_with_short_think_time: NotClear Undetermined, pausing(0.9);
    near_benchmark_loop_ceiling: BenchmarkItself Confirmed, with(
        clean("read:rnd4k:q32").spends(0.8, 0.2, 0.0, 0.0).sleeps(&[]),
        |world| world.record.figures.ceiling_shares = Some(CeilingShares { own_loop: Some(0.9), memory: None }),
    );
    idle_slots_of_busy_loop: BenchmarkItself Likely, with(
        clean("read:rnd4k:q32").spends(0.1, 0.5, 0.0, 0.4).queues(28.0),
        |world| world.record.engine.idle_slots = Some(3.5),
    );
    queue_depth_32_without_experiments: DeviceUndetermined Likely, clean("read:rnd4k:q32").blocked().queues(31.0);
    uncertain_depth_experiment: DeviceUndetermined Likely, with(
        clean("read:rnd4k:q32").blocked().queues(31.0),
        |world| world.record.judged.sensitivity = Some(Sensitivity { depth: depth(0.5, 0.9), ..Sensitivity::default() }),
    );
    server_of_unknown_load: NotClear Undetermined, with(
        clean("read:rnd4k:t16").blocked(),
        |world| world.set_backing(Backing::RemoteOrUserSpace, "fuse"),
    );
}

#[test]
fn no_two_thresholds_share_a_name() {
    let mut names: Vec<_> = crate::thresholds().into_iter().map(|(name, _)| name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

/// Observations behind each limiter and their wording at each length, for reading from top to bottom.
#[test]
fn limiter_verdicts_snapshot() {
    let verdicts: Vec<_> =
        cases().iter().map(|(name, world)| (*name, world.judged_record().judged.verdict.unwrap())).collect();
    let mut report = String::new();
    for limiter in Limiter::ALL {
        let of_it: Vec<_> =
            verdicts.iter().filter(|(_, verdict)| verdict.limiter == Some(*limiter)).collect();
        assert!(!of_it.is_empty(), "no case of {limiter}");
        for (name, verdict) in of_it {
            report.push_str(&format!("{}: {}\n", limiter.code(), name.replace('_', " ")));
            for observation in &verdict.observations {
                report.push_str(&format!("  seen       {}\n", serde_json::to_string(observation).unwrap()));
            }
            for observation in &verdict.contradicting {
                report.push_str(&format!("  contrary   {}\n", serde_json::to_string(observation).unwrap()));
            }
            report.push_str(&format!("  clause     {}\n", wording::verdict_clause(verdict)));
            report.push_str(&format!("  sentence   {}\n", wording::why(&[verdict], 1)));
            report.push_str(&format!("  paragraph  {}\n\n", wording::verdict_paragraph(verdict, 3)));
        }
    }
    insta::assert_snapshot!(report);
}

#[test]
fn network_with_busy_cpus_is_not_clear() {
    // Busy CPUs may be the ends of the link, and its capacity is unknown.
    let busy =
        with(link(), |world| world.record.seen.cpu = Some(CpuShares { user: 0.3, kernel: 0.5, steal: 0.0 }));
    busy.clone().is(Limiter::NotClear, Undetermined);
    busy.answers(0.0, -0.95).is(Limiter::NetworkBandwidth, Confirmed);
}

#[test]
fn hidden_io_limit_on_idle_device_is_io_throttle() {
    let hidden = clean("read:rnd4k:q8").blocked().queues(0.2);
    // Threads that wait in the device have passed the cap.
    let cap = || capped(Some(101_000.0), None);
    assert_ne!(limiter_of(&cap().queues(7.8)), Limiter::IoThrottle);
    // The exception is a device served by software without a CPU: it keeps requests that nothing holds back any more.
    cap().queues(5.0).hogged().is(Limiter::IoThrottle, Likely);
    assert_eq!(limiter_of(&hidden.clone().queues(5.0).hogged().answers(0.0, 0.0)), Limiter::NotClear);
    hidden.clone().queues(7.8).hogged().answers(0.0, 0.0).is(Limiter::DeviceOps, Confirmed);
    // Writes of a new file wait for one another.
    clean("write:seq64k:q8").blocked().queues(0.2).is(Limiter::IoThrottle, Likely);
    // Without an experiment, a device with some work may be waited for.
    clean("write:seq64k:q8").blocked().queues(2.3).is(Limiter::NotClear, Undetermined);
    assert_ne!(limiter_of(&clean("write:seq64k:q8:fresh").blocked().queues(0.2)), Limiter::IoThrottle);
    // Threads that sleep elsewhere are held back by something else.
    let elsewhere = hidden.sleeps(&[("folio_wait_bit", 0.9)]).answers(0.0, 0.0);
    assert_ne!(limiter_of(&elsewhere), Limiter::IoThrottle);
    // A cap that is above the rate, or for the other direction, does not count.
    capped(Some(500_000.0), None).is(Limiter::IoThrottle, Likely);
    let of_writes = capped(Some(100_000.0), None).system(|system| system.caps[0].is_read = false);
    of_writes.is(Limiter::IoThrottle, Likely);
}

#[test]
fn kernel_cpu_time_is_not_cpu_contention() {
    let waits = clean("read:rnd4k").spends(0.05, 0.2, 0.6, 0.15);
    waits.clone().is(Limiter::CpuContention, Likely);
    let by_kernel = with(waits, |world| {
        world.record.seen.cpu = Some(CpuShares { user: 0.01, kernel: 0.6, steal: 0.0 });
    });
    by_kernel.is(Limiter::NotClear, Undetermined);
}

#[test]
fn failed_test_has_no_limiter() {
    let mut failed = clean("read:rnd4k:q32").blocked().queues(31.0).answers(0.01, 0.0);
    failed.record.status = Status::Failed;
    failed.is(Limiter::NotClear, Undetermined);
}

#[test]
fn insufficient_evidence_does_not_select_a_limiter() {
    // Threads that are paced wait for no tag, and a queue that is empty is not full.
    let paced = clean("write:rnd4k:t16").blocked().queues(2.6).sleeps(&[("rq_qos_wait", 0.9)]);
    assert_ne!(limiter_of(&paced), Limiter::QueueFull);
    let mut few = clean("write:rnd4k:t16")
        .blocked()
        .queues(1.0)
        .sleeps(&[("ext4_file_write_iter", 0.9), ("__iomap_dio_rw", 0.06)]);
    few.environment.cpus = 2;
    few.is(Limiter::LockContention, Likely);
    let holder_is_held = clean("write:rnd4k:t2:buffered")
        .blocked()
        .sleeps(&[("ext4_buffered_write_iter", 0.48), ("balance_dirty_pages", 0.47)]);
    assert_ne!(limiter_of(&holder_is_held), Limiter::LockContention);
    // If the device has room for more, others take nothing from us.
    let mut shared = clean("read:rnd4k:q8").blocked().queues(16.0).answers(0.9, 0.0);
    shared.device().foreign_share = Some(0.5);
    shared.is(Limiter::DeviceLatency, Confirmed);
    let mut late = clean("read:rnd4k:q32").spends(0.1, 0.5, 0.0, 0.4).queues(28.0);
    late.record.engine.idle_slots = Some(3.0);
    assert_ne!(limiter_of(&late), Limiter::BenchmarkItself);
    // A loop that sleeps waits for the device.
    let mut asleep = clean("read:rnd4k:q32").spends(0.03, 0.27, 0.0, 0.7).queues(28.0);
    asleep.record.engine.idle_slots = Some(3.5);
    assert_ne!(limiter_of(&asleep), Limiter::BenchmarkItself);
}

#[test]
fn refaults_at_cgroup_limit_are_memory_pressure() {
    // There is no pressure: the data read was evicted shortly before, again and again.
    let again = |hits: u64, refaulted_share: f64| {
        let read = clean("read:seq128k:buffered").blocked().sleeps(&[("folio_wait_bit_common", 0.9)]);
        let pages = read.record.counts.app_bytes_read as f64 / 4096.0 * refaulted_share;
        read.system(|system| {
            system.reclaim = Some(Reclaim {
                direct_scanned_pages: 0,
                refaulted_pages: pages as u64,
                cgroup_limit_hits: hits,
            });
        })
    };
    again(9000, 1.0).is(Limiter::MemoryPressure, Likely);
    // If no group is full, or the data read is new, the test waits for the device.
    assert_ne!(limiter_of(&again(0, 1.0)), Limiter::MemoryPressure);
    assert_ne!(limiter_of(&again(9000, 0.1)), Limiter::MemoryPressure);
    // This many refaults include those of other processes.
    assert_ne!(limiter_of(&again(9000, 2.0)), Limiter::MemoryPressure);
}

#[test]
fn foreign_device_reads_do_not_change_lookup_limiter() {
    let mut stat = clean("stat:t4").spends(0.3, 0.6, 0.1, 0.0).sleeps(&[]);
    stat.device().bytes_read = 1 << 30;
    stat.frames(|frame| frame.own_io.device_read_bytes = 0);
    stat.is(Limiter::MetadataCache, Confirmed);
    stat.frames(|frame| frame.own_io.device_read_bytes = 1 << 30);
    stat.is(Limiter::KernelCpu, Likely);
}

#[test]
fn busy_helper_of_the_target_is_helper_cpu() {
    let ssh =
        clean("read:seq1m").blocked().remote(1.0).sleeps(&[("request_wait_answer", 0.9)]).system(|system| {
            system.helpers = vec![Helper {
                name: "ssh".into(),
                pid: 7,
                is_kernel: false,
                cpu_share: 0.97,
                ..Helper::default()
            }];
        });
    // On another file system, ssh works for someone else.
    assert_ne!(limiter_of(&ssh), Limiter::HelperCpu);
    let mut sshfs = ssh;
    sshfs.target().file_system = "fuse.sshfs".into();
    sshfs.is(Limiter::HelperCpu, Likely);
    // Half of the time on a CPU may leave a thread without a break.
    let helper = |world: &mut InputBuilder, waiting| {
        let helper = &mut world.record.seen.system.as_mut().unwrap().helpers[0];
        (helper.cpu_share, helper.run_delay_share) = (0.6, Some(waiting));
    };
    helper(&mut sshfs, 0.35);
    sshfs.is(Limiter::HelperCpu, Likely);
    helper(&mut sshfs, 0.1);
    assert_ne!(limiter_of(&sshfs), Limiter::HelperCpu);
    // Kernel threads that take turns on one queue count as one, if the queue belongs to the target.
    let queue = |device: &str| {
        let mut read = clean("read:seq1m:q16").blocked().queues(15.0).answers(0.0, -1.0);
        read.target().device_stack[0].kind = DeviceKind::Loop;
        read.target().device_stack[0].name = "loop0".into();
        let thread =
            |name: String, pid| Helper { name, pid, is_kernel: true, cpu_share: 0.45, ..Helper::default() };
        let threads =
            vec![thread(format!("kworker/u8:22-{device}"), 7), thread(format!("kworker/1:3+{device}"), 8)];
        read.system(|system| system.helpers.clone_from(&threads))
    };
    queue("loop0").is(Limiter::HelperCpu, Likely);
    assert_ne!(limiter_of(&queue("loop1")), Limiter::HelperCpu);
    assert_ne!(limiter_of(&queue("loop01")), Limiter::HelperCpu);
    // Ciphers have threads on all CPUs, and none of them is saturated.
    let mut cipher = queue("kcryptd/253:0");
    cipher.target().device_stack[0].kind = DeviceKind::DeviceMapper;
    assert_ne!(limiter_of(&cipher), Limiter::HelperCpu);
    // Together, they may leave no CPU to the test, which is no disturbance by others.
    cipher.environment.cpus_online = 1;
    cipher.record.seen.cpu = Some(CpuShares { user: 0.0, kernel: 0.97, steal: 0.0 });
    cipher.budget().run_queue = 0.3;
    cipher.is(Limiter::HelperCpu, Likely);
    assert!(cipher.findings().iter().all(|(code, _)| *code != "cpu_contention"));
    // A thread of a pool has the name of its last work.
    let mut renamed = cipher.system(|system| {
        for (helper, name) in system.helpers.iter_mut().zip(["events_unbound", "kcryptd-253:0-1"]) {
            helper.name = format!("kworker/u8:{}-{name}", helper.pid);
        }
    });
    renamed.is(Limiter::HelperCpu, Likely);
    renamed.environment.cpus_online = 4;
    assert_ne!(limiter_of(&renamed), Limiter::HelperCpu);
}

fn limiter_of(world: &InputBuilder) -> Limiter {
    world.judged_record().judged.verdict.unwrap().limiter.unwrap()
}

#[test]
fn next_experiment_resolves_an_undecided_question() {
    use Experiment::{Depth, Separate, Single};
    let waits = clean("read:rnd4k:q8").blocked().queues(7.9);
    assert_eq!(waits.next(&[]), Some(Depth));
    assert_eq!(waits.next(&[Depth]), Some(Experiment::Block));
    assert_eq!(waits.next(&[Depth, Experiment::Block]), Some(Single));
    assert_eq!(waits.next(&[Depth, Single, Experiment::Block]), None);
    // Only a saturated target shows its unit. Much headroom needs no second proof.
    assert_eq!(waits.clone().answers(0.9, 0.0).next(&[Depth, Single]), None);
    assert_eq!(waits.clone().answers(0.9, 0.0).next(&[Depth]), None);
    assert_eq!(waits.clone().answers(0.3, 0.0).next(&[Depth]), Some(Single));
    // A readable limit that was reached is known.
    assert_eq!(capped(Some(101_000.0), None).next(&[]), None);
    let one = clean("read:rnd4k").blocked().queues(0.97);
    assert_eq!((one.next(&[Depth]), one.answers(0.9, 0.0).next(&[Depth])), (Some(Experiment::Block), None));
    // Threads that do not wait have shown their limit.
    assert_eq!(clean("read:rnd4k:q8").spends(0.5, 0.5, 0.0, 0.0).next(&[]), None);
    // The exception is the gain from more threads, where there are CPUs for more.
    let busy = clean("read:rnd4k").spends(0.5, 0.5, 0.0, 0.0).sleeps(&[]);
    assert_eq!((busy.next(&[]), busy.next(&[Depth])), (Some(Depth), None));
    let shared = clean("stat:t8:shared").spends(0.1, 0.5, 0.4, 0.0);
    assert_eq!((shared.next(&[]), shared.next(&[Separate])), (Some(Separate), None));
    let mut write = clean("write:rnd4k:q8").blocked().queues(7.9);
    assert_eq!(write.next(&[]), Some(Depth));
    write.plan.has_experiments = false;
    assert_eq!(write.next(&[]), None);
}

#[test]
fn mixed_limiter_ranks_its_parts() {
    let knee = clean("read:rnd4k:q32").blocked().queues(31.0).answers(0.09, 0.0);
    let ranking = knee.judged_record().judged.verdict.unwrap().ranking;
    let limiters: Vec<_> = ranking.iter().map(|ranked| ranked.limiter).collect();
    assert_eq!(limiters, [Limiter::DeviceOps, Limiter::DeviceLatency]);
}
