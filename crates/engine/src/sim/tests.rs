use super::*;
use crate::failure::{Cause, Failure};
use crate::pacing::{ClosedLoop, OpenLoop};
use crate::pattern::Pattern;
use crate::recorder::{Delta, Recorder, Shape};
use crate::sample::Sample;
use crate::verb::{self, Steps};
use crate::worker::{Layout, Limits, Stamping, WorkerParts};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

const START_NS: u64 = 5_000_000_007;
const CPUS: u32 = 4;

/// Workers on a device, and the length of the run.
#[derive(Clone, Copy)]
struct Setup<'a> {
    device: &'a str,
    seed: u64,
    workers: u32,
    depth: u32,
    block_bytes: usize,
    seconds: f64,
}

const SETUP: Setup<'_> = Setup { device: "", seed: 1, workers: 1, depth: 1, block_bytes: 4096, seconds: 2.0 };

/// Result of a run.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    /// Operations of each worker.
    ops: Vec<u64>,
    /// Latencies of all operations, and delays of their starts.
    latencies: BTreeMap<u64, u64>,
    queueing: BTreeMap<u64, u64>,
    steps: Vec<BTreeMap<u64, u64>>,
    /// Worker, start and end, operations of each delta.
    deltas: Vec<(usize, u64, u64, u64)>,
    /// Seconds after the start, and the machine's activity until then.
    frames: Vec<(f64, Frame)>,
    failures: Vec<Option<Failure>>,
    end_s: f64,
}

impl Outcome {
    fn total(&self) -> u64 {
        self.ops.iter().sum()
    }

    fn rate(&self) -> f64 {
        self.total() as f64 / self.end_s
    }

    fn sum(&self, part: impl Fn(&DeviceFrame) -> u64) -> u64 {
        self.frames.iter().map(|(_, frame)| part(&frame.devices[0])).sum()
    }

    /// Requests that ended in the interval that starts `tenth` tenths of a second after the start.
    fn requests(&self, tenth: usize) -> u64 {
        self.frames[tenth].1.devices[0].reads + self.frames[tenth].1.devices[0].writes
    }

    fn slowest_ns(&self) -> u64 {
        *self.latencies.keys().next_back().unwrap()
    }
}

fn run<P: Pacing, V: Verb + Copy>(setup: Setup<'_>, verb: V, pacing: impl Fn(u32) -> P) -> Outcome {
    let device = SimDevice::from_toml(setup.device).unwrap();
    let world = Rc::new(RefCell::new(SimSystem::new(&device, CPUS, setup.seed).unwrap()));
    let clock = SimClock::default();
    let stop = AtomicBool::new(false);
    let mut readers = Vec::new();
    let workers = (0..setup.workers)
        .map(|worker| {
            let (recorder, reader) = Recorder::new(Shape::from_verb(&verb, P::IS_OPEN));
            readers.push(reader);
            Worker::new(WorkerParts {
                engine: SimEngine::new(&world, &clock, setup.depth, setup.block_bytes),
                clock: clock.clone(),
                pacing: pacing(worker),
                verb,
                pattern: Pattern::new(0, 1 << 30, true, 1, u64::MAX),
                layout: Layout::dense(1 << 30, setup.block_bytes as u64),
                stamping: Stamping {
                    seed: 1,
                    first_file: 0,
                    generation: 0,
                    interval_bytes: 4096,
                    verifier: None,
                    sample: Sample::NONE,
                },
                limits: Limits { deadline_ns: START_NS + (setup.seconds * 1e9) as u64, stop: &stop },
                recorder,
            })
        })
        .collect();
    let mut outcome = Outcome { ops: vec![0; readers.len()], ..Outcome::default() };
    let take = |outcome: &mut Outcome| {
        for (worker, reader) in readers.iter().enumerate() {
            reader.drain(|delta: &Delta| {
                outcome.ops[worker] += delta.ops;
                outcome.deltas.push((worker, delta.start_ns, delta.end_ns, delta.ops));
                let add = |sum: &mut BTreeMap<u64, u64>, latencies: &crate::recorder::Latencies| {
                    latencies
                        .buckets()
                        .for_each(|(upper_ns, count)| *sum.entry(upper_ns).or_default() += count);
                };
                add(&mut outcome.latencies, &delta.latencies);
                delta.queueing.iter().for_each(|queueing| add(&mut outcome.queueing, queueing));
                outcome.steps.resize_with(delta.steps.len(), BTreeMap::new);
                outcome.steps.iter_mut().zip(&delta.steps).for_each(|(sum, step)| add(sum, step));
            });
        }
    };
    let ended = drive(workers, &clock, &world, START_NS, &mut |now_ns, frame| {
        take(&mut outcome);
        outcome.frames.push(((now_ns - START_NS) as f64 / 1e9, frame));
    });
    take(&mut outcome);
    let world = world.borrow();
    assert_eq!((world.in_flight, world.next_ns()), (0, u64::MAX), "something was left in flight");
    outcome.failures = ended.iter().map(|ended| ended.result.err()).collect();
    let end_ns = ended.iter().map(|ended| ended.end_ns).max().unwrap();
    outcome.end_s = (end_ns - START_NS) as f64 / 1e9;
    outcome
}

fn closed<V: Verb + Copy>(setup: Setup<'_>, verb: V) -> Outcome {
    run(setup, verb, |_| ClosedLoop)
}

#[track_caller]
fn assert_near(found: f64, expected: f64, part: f64) {
    assert!((found / expected - 1.0).abs() <= part, "{found}, not {expected}");
}

/// Largest distance of the counts from a distribution. A bucket's upper end is exact, whatever its width.
fn distance(counts: &BTreeMap<u64, u64>, below: impl Fn(f64) -> f64) -> f64 {
    let total: u64 = counts.values().sum();
    let mut sum = 0;
    let distances = counts.iter().map(|(upper_ns, count)| {
        sum += count;
        (sum as f64 / total as f64 - below(*upper_ns as f64)).abs()
    });
    distances.fold(0.0, f64::max)
}

const FIXED_100_US: &str = "latency = { kind = \"fixed\", mean_us = 100 }\n";

#[test]
fn closed_loop_rate_matches_depth_latency_and_caps() {
    for (parallelism, depth, caps, expected) in [
        (1, 1, "", 1e4),
        (1, 16, "", 1e4),
        (4, 3, "", 3e4),
        (4, 4, "", 4e4),
        (4, 64, "", 4e4),
        (64, 32, "", 32e4),
        (4, 64, "ops_per_second = 30_000", 3e4),
        (4, 1, "ops_per_second = 30_000", 1e4),
        (4, 1, "ops_per_second = 3_000", 3e3),
        (4, 64, "bytes_per_second = 100_000_000", 1e8 / 4096.0),
        (4, 2, "bytes_per_second = 100_000_000", 2e4),
        (1, 1, "bytes_per_second = 4_096_000", 1e3),
        (4, 64, "ops_per_second = 30_000\nbytes_per_second = 100_000_000", 1e8 / 4096.0),
        (4, 64, "ops_per_second = 20_000\nbytes_per_second = 100_000_000", 2e4),
        (4, 64, "write_bytes_per_second = 1_000_000", 4e4),
    ] {
        let device = format!("{FIXED_100_US}parallelism = {parallelism}\n{caps}");
        let outcome = closed(Setup { device: &device, depth, seconds: 5.0, ..SETUP }, verb::Read);
        assert_near(outcome.rate(), expected, 0.001);
        // Little: all requests are always in flight. 0.78 % is the width of a bucket.
        let mean_ns = f64::from(depth) / expected * 1e9;
        let sum: f64 = outcome.latencies.iter().map(|(ns, count)| *ns as f64 * *count as f64).sum();
        assert_near(sum / outcome.total() as f64, mean_ns, 0.009);
    }
    let device = format!("{FIXED_100_US}parallelism = 8\nwrite_bytes_per_second = \"40MB\"");
    let outcome = closed(Setup { device: &device, depth: 8, ..SETUP }, verb::Write);
    assert_near(outcome.rate(), 40e6 / 4096.0, 0.001);
    assert_eq!(outcome.sum(|device| device.written_bytes), outcome.total() * 4096);
}

#[test]
fn latencies_are_drawn_from_their_distributions() {
    let setup = Setup { seconds: 50.0, ..SETUP };
    let draws = |latency: &str| {
        let device = format!("latency = {{ {latency} }}");
        closed(Setup { device: &device, ..setup }, verb::Read)
    };
    // Kolmogorov and Smirnov: below 1.95 / sqrt(n) in 999 of 1,000 samples of the same distribution. The samples must
    // be independent, and these are: they come one after the other on one server.
    let exponential = draws("kind = \"exponential\", mean_us = 100");
    let distance = distance(&exponential.latencies, |ns| 1.0 - (-ns / 1e5).exp());
    assert!(distance < 1.95 / (exponential.total() as f64).sqrt(), "{distance}");
    // Means to five standard errors: the standard deviation of one value is sqrt(e^(s^2) - 1) of the mean.
    let lognormal = draws("kind = \"lognormal\", mean_us = 100, sigma = 1.0");
    let error = 5.0 * (std::f64::consts::E - 1.0).sqrt() / (lognormal.total() as f64).sqrt();
    assert_near(lognormal.rate(), 1e4, error);
    // Half of the values lie below the median, m / e^(s^2 / 2). The tolerance is five standard errors of a half, plus a
    // bucket at the density of 1 / sqrt(2 pi).
    let median_ns = 1e5 / 0.5f64.exp();
    let below: u64 = lognormal.latencies.range(..=median_ns as u64).map(|(_, count)| count).sum();
    assert!((below as f64 / lognormal.total() as f64 - 0.5).abs() < 0.0035 + 0.4 * 0.0078);
    let bimodal = draws("kind = \"bimodal\", mean_us = 50, slow_us = 550, slow_share = 0.1");
    assert_eq!(bimodal.latencies.len(), 2);
    let slow = *bimodal.latencies.values().next_back().unwrap() as f64 / bimodal.total() as f64;
    assert!((slow - 0.1).abs() < 5.0 * 0.3 / (bimodal.total() as f64).sqrt(), "{slow}");
}

#[test]
fn same_seed_gives_same_run() {
    let device = "parallelism = 3\ncpu_ns_per_op = 700\nstalls = [{ at_s = 0.3, length_ms = 50 }]\n\
                  latency = { kind = \"lognormal\", mean_us = 100, sigma = 0.5 }";
    let mix = Steps::mix(50, true, 7);
    let run = |seed| closed(Setup { device, seed, workers: 3, depth: 5, ..SETUP }, mix);
    let first = run(1);
    assert_eq!(first, run(1));
    let other = run(2);
    assert!(
        first.latencies != other.latencies && first.deltas != other.deltas && first.frames != other.frames
    );
}

#[test]
fn throttle_limits_rate_from_its_start_time() {
    // Blocks of 10^6 bytes: 100 a second, then 20. The change comes when half of a block has passed.
    let device = format!(
        "{FIXED_100_US}bytes_per_second = \"100MB\"\nthrottles = [{{ at_s = 2.505, bytes_per_second = \"20MB\" }}]"
    );
    let setup = Setup { device: &device, depth: 4, block_bytes: 1_000_000, seconds: 5.0, ..SETUP };
    let outcome = closed(setup, verb::Read);
    let per_tenth: Vec<_> = (0..50).map(|tenth| outcome.requests(tenth)).collect();
    assert!(per_tenth[..25].iter().all(|requests| *requests == 10), "{per_tenth:?}");
    assert!(per_tenth[25..].iter().all(|requests| *requests == 2), "{per_tenth:?}");
    // 250 blocks until 2.5 s, half of one until 2.505 s, and its rest until 2.53 s. Then one block every 50 ms.
    assert_near(outcome.end_s, 5.03 + 3.0 * 0.05, 1e-6);
    // A cap that was unlimited can be throttled, and stays so when the other cap changes.
    let throttles =
        "throttles = [{ at_s = 1, ops_per_second = 500 }, { at_s = 1.5, bytes_per_second = 4096 }]";
    let device = format!("{FIXED_100_US}{throttles}");
    let outcome = closed(Setup { device: &device, ..SETUP }, verb::Read);
    assert_eq!([9, 10, 14, 16].map(|tenth| outcome.requests(tenth)), [1000, 50, 50, 0]);
}

#[test]
fn stall_is_a_gap_with_requests_in_flight() {
    // Half of the request that began at 1.0 s is served before the stall, the other half after it.
    let device = "latency = { kind = \"fixed\", mean_us = 1000 }\n\
                  stalls = [{ at_s = 1.0005, length_ms = 250 }]";
    let outcome = closed(Setup { device, ..SETUP }, verb::Read);
    assert_eq!([9, 10, 11, 12, 13].map(|tenth| outcome.requests(tenth)), [100, 0, 0, 50, 100]);
    assert_eq!(outcome.total(), 1750);
    assert!(outcome.slowest_ns().abs_diff(251_000_000) < 2_000_000, "{}", outcome.slowest_ns());
    assert_eq!(outcome.frames[11].1.devices[0].busy_ns, 100_000_000);
    // One tenth of each second is lost, and caps do not make up for it.
    let stalls = "stalls = [{ at_s = 0.25, length_ms = 100, every_s = 1 }]";
    let device = format!("{FIXED_100_US}ops_per_second = 5000\n{stalls}");
    let outcome = closed(Setup { device: &device, seconds: 10.0, ..SETUP }, verb::Read);
    assert_near(outcome.rate(), 4500.0, 0.001);
    let always =
        "stalls = [{ at_s = 0, length_ms = 60, every_s = 0.1 }, { at_s = 9, length_ms = 5, every_s = 0.01 }]";
    let device = SimDevice::from_toml(&format!("{FIXED_100_US}{always}")).unwrap();
    let refused = SimSystem::new(&device, 1, 1).unwrap_err();
    assert_eq!(refused, "its stalls take 110 % of the time; use shorter or less frequent stalls");
}

const CACHE: &str = "latency = { kind = \"fixed\", mean_us = 100 }\n\
                     flush_latency = { kind = \"fixed\", mean_us = 1000 }\n\
                     cache = { bytes = 100_000_000, latency_us = 50, drain_bytes_per_second = 10_000_000 }\n";

#[test]
fn full_cache_accepts_writes_at_drain_rate() {
    let setup = Setup { device: CACHE, block_bytes: 100_000, seconds: 4.0, ..SETUP };
    let outcome = closed(setup, verb::Write);
    // 2 GB a second, less the drain of 10 MB a second, fill 100 MB in 50.25 ms. After that, the k-th block enters once
    // k is the capacity plus the drained blocks. The 1,010th enters at 0.1 s and ends a little later.
    assert_eq!(outcome.requests(0), 1009);
    assert!((1..40).all(|tenth| outcome.requests(tenth) == 10), "{:?}", outcome.frames);
    let fast: u64 = outcome.latencies.range(..60_000).map(|(_, count)| count).sum();
    assert_near(fast as f64, 0.050_25 / 50e-6, 0.001);
    // Reads do not pass the cache.
    let outcome = closed(setup, verb::Read);
    assert_near(outcome.rate(), 1e4, 0.001);
}

#[test]
fn flush_waits_for_empty_cache() {
    // The block drains in 10 ms from its admission. The flush takes another millisecond, and the next write comes after
    // it.
    let setup = Setup { device: CACHE, block_bytes: 100_000, seconds: 4.4, ..SETUP };
    let outcome = closed(setup, Steps::WRITE_DURABLY);
    assert_eq!((outcome.total(), outcome.sum(|device| device.flushes)), (400, 400));
    assert!(outcome.slowest_ns().abs_diff(11_000_000) < 100_000);
    assert!(outcome.steps[1].keys().all(|ns| ns.abs_diff(10_950_000) < 100_000), "{:?}", outcome.steps);
    // Without a cache a flush has nothing to wait for.
    let device = format!("{FIXED_100_US}flush_latency = {{ kind = \"fixed\", mean_us = 900 }}");
    let outcome = closed(Setup { device: &device, ..SETUP }, Steps::WRITE_DURABLY);
    assert_eq!(outcome.total(), 2000);
}

#[test]
fn injected_error_fails_request_and_others_complete() {
    for (error, cause) in [
        ("EIO", Cause::Errno(Errno::IO)),
        ("ENOSPC", Cause::Errno(Errno::NOSPC)),
        ("short", Cause::Short { got_bytes: 2048, wanted_bytes: 4096 }),
    ] {
        let device =
            format!("{FIXED_100_US}parallelism = 2\nerrors = [{{ after_ops = 100, error = \"{error}\" }}]");
        let outcome = closed(Setup { device: &device, depth: 8, ..SETUP }, verb::Write);
        let failure = outcome.failures[0].unwrap();
        assert_eq!((failure.call, failure.cause), ("write", cause));
        // Requests end in pairs: one more ends with the failing request, and six are still in flight.
        assert_eq!((outcome.total(), outcome.sum(|device| device.writes)), (107, 108));
        let moved = 107 * 4096 + if error == "short" { 2048 } else { 0 };
        assert_eq!(outcome.sum(|device| device.written_bytes), moved);
        assert_near(outcome.end_s, 54.0 * 100e-6, 1e-9);
    }
    // Exactly `after_ops` requests succeed before, and the next fault is left for the next phase.
    for after_ops in [0, 1, 100] {
        let errors = format!("{{ after_ops = {after_ops}, error = \"EIO\" }}");
        let device = format!("{FIXED_100_US}errors = [{errors}, {errors}]");
        let outcome = closed(Setup { device: &device, ..SETUP }, verb::Read);
        assert_eq!((outcome.total(), outcome.sum(|device| device.reads)), (after_ops, after_ops + 1));
        assert_eq!(outcome.failures[0].unwrap().call, "read");
    }
}

#[test]
fn workers_share_the_device_fairly() {
    let device = format!("{FIXED_100_US}parallelism = 8");
    let outcome = closed(Setup { device: &device, workers: 4, depth: 8, ..SETUP }, verb::Read);
    assert_near(outcome.rate(), 8e4, 0.001);
    assert!(outcome.ops.iter().all(|ops| ops.abs_diff(40_000) <= 8), "{:?}", outcome.ops);
    // 32 in flight over 80,000 a second.
    assert!(outcome.slowest_ns().abs_diff(400_000) < 4_000, "{}", outcome.slowest_ns());
}

#[test]
fn worker_rate_is_limited_by_its_cpu() {
    let device = format!("{FIXED_100_US}parallelism = 64\ncpu_ns_per_op = 10_000");
    for (workers, depth, expected) in [(1, 1, 1e5 / 11.0), (1, 64, 1e5), (2, 64, 2e5), (4, 1, 4e5 / 11.0)] {
        let outcome = closed(Setup { device: &device, workers, depth, ..SETUP }, verb::Read);
        assert_near(outcome.rate(), expected, 0.001);
        let sum = |part: fn(&Frame) -> u64| outcome.frames.iter().map(|(_, frame)| part(frame)).sum::<u64>();
        let (kernel_ns, all_ns) = (sum(|frame| frame.cpu.kernel_ns), outcome.end_s * 1e9 * f64::from(CPUS));
        assert_eq!(kernel_ns, outcome.total() * 10_000);
        assert_eq!(sum(|frame| frame.workers.cpu_ns), kernel_ns);
        assert_near((kernel_ns + sum(|frame| frame.cpu.idle_ns)) as f64, all_ns, 1e-9);
        // No frame has more CPU time than the CPUs have: a submitted call counts when it is worked off.
        let most_ns = outcome.frames.iter().map(|(_, frame)| frame.cpu.kernel_ns).max().unwrap();
        assert!(most_ns <= u64::from(workers) * INTERVAL_NS, "{most_ns}");
    }
}

#[test]
fn frame_totals_equal_completed_requests_and_bytes() {
    // A request takes 1 ms in all; 500 of them a second keep one server busy half of the time.
    let device = "parallelism = 16\nlatency = { kind = \"fixed\", mean_us = 1000 }";
    let setup = Setup { device, depth: 16, seconds: 20.0, ..SETUP };
    let fixed = run(setup, verb::Read, |_| OpenLoop::new(500.0, false, 0, 1, 1));
    assert_eq!(fixed.total(), 10_000);
    assert_eq!(fixed.sum(|device| device.busy_ns), 10_000 * 1_000_000);
    // Little: mean in flight is throughput times latency, whatever the arrivals.
    let poisson = run(setup, verb::Write, |_| OpenLoop::new(5000.0, true, 0, 1, 1));
    assert_near(poisson.total() as f64, 1e5, 0.02);
    let queue = poisson.sum(|device| device.in_flight_ns) as f64 / (poisson.end_s * 1e9);
    assert_near(queue, poisson.rate() * 1e-3, 0.001);
    let busy_s = poisson.sum(|device| device.busy_ns) as f64 / 1e9;
    // The device is idle with the probability that no request came for a millisecond: e^-5.
    assert_near(busy_s / poisson.end_s, 1.0 - (-5.0f64).exp(), 0.002);
    let closed = closed(Setup { depth: 20, workers: 2, ..setup }, Steps::REWRITE);
    let queue = closed.sum(|device| device.in_flight_ns) as f64 / (closed.end_s * 1e9);
    assert_near(queue, 40.0, 0.001);
    for outcome in [&fixed, &poisson, &closed] {
        let requests = outcome.sum(|device| device.reads + device.writes);
        assert_eq!(requests, outcome.total() * if outcome.steps.is_empty() { 1 } else { 2 });
        assert_eq!(outcome.sum(|device| device.read_bytes + device.written_bytes), requests * 4096);
        let mut last_s = 0.0;
        for (at_s, frame) in &outcome.frames {
            let (device, own) = (&frame.devices[0], &frame.own_io);
            assert!(
                device.busy_ns as f64 <= (at_s - last_s) * 1e9 + 0.5 && device.busy_ns <= device.in_flight_ns
            );
            assert_eq!((own.read_calls, own.write_calls), (device.reads, device.writes));
            assert_eq!(
                (own.device_read_bytes, own.device_written_bytes),
                (device.read_bytes, device.written_bytes)
            );
            last_s = *at_s;
        }
        assert_near(last_s, outcome.end_s, 1e-9);
    }
}

#[test]
fn ten_simulated_minutes_have_all_operations_and_frames() {
    let device = "latency = { kind = \"fixed\", mean_us = 1000 }";
    let outcome = closed(Setup { device, seconds: 600.0, ..SETUP }, verb::Read);
    assert_eq!((outcome.total(), outcome.frames.len()), (600_000, 6000));
    assert!(outcome.frames.iter().all(|(_, frame)| frame.devices[0].reads == 100));
}

#[test]
fn poisson_queueing_times_match_m_d_1_theory() {
    // Half of the capacity of one server with a fixed service time: M/D/1, where the slot is the server.
    let (service_ns, load) = (100_000.0, 0.5);
    let setup = Setup { device: FIXED_100_US, seconds: 400.0, ..SETUP };
    let outcome = run(setup, verb::Read, |_| OpenLoop::new(5000.0, true, 0, 1, 3));
    // Erlang, "The theory of probabilities and telephone conversations", 1909. The signs of its terms alternate. Beyond
    // 15 service times, less than 10^-8 is left.
    let waits_less = |ns: f64| {
        let waits = ns / service_ns;
        if waits > 15.0 {
            return 1.0;
        }
        let term = |k: u32| {
            let power = load * (f64::from(k) - waits);
            let factorial: f64 = (1..=k).map(f64::from).product();
            power.powi(k as i32) / factorial * (-power).exp()
        };
        (1.0 - load) * (0..=waits as u32).map(term).sum::<f64>()
    };
    assert_near(waits_less(service_ns * 0.999_999), 0.5 * 0.5f64.exp(), 1e-5);
    // Waits are not independent, but busy periods are. A period counts towards a value with an error of at most its
    // length, the number N of its requests. So the variance of a share of n requests is at most E[N^2] / E[N] / n.
    //
    // N follows Borel's distribution: mean 1 / (1 - r) = 2, variance r / (1 - r)^3 = 4. The bound is thus 4 / n instead
    // of at most 1 / 4n, as if only every 16th request counted. Kolmogorov and Smirnov as above.
    let count: u64 = outcome.queueing.values().sum();
    assert_near(count as f64, 2e6, 0.01);
    let distance = distance(&outcome.queueing, waits_less);
    assert!(distance < 1.95 / (count as f64 / 16.0).sqrt(), "{distance} over {count}");
    // The server is as busy as the load says.
    assert_near(outcome.sum(|device| device.busy_ns) as f64 / 1e9 / outcome.end_s, load, 0.01);
    // With equal distances no request waits.
    let outcome = run(setup, verb::Read, |_| OpenLoop::new(5000.0, false, 0, 1, 3));
    assert_eq!(outcome.total(), 2_000_000);
    assert!(outcome.queueing.keys().all(|ns| *ns <= 1), "{:?}", outcome.queueing);
}

#[test]
fn write_rate_drops_once_spare_blocks_are_used() {
    let device = "write_bytes_per_second = 400_000_000\nlatency = { mean_us = 1 }\n\
                  wear = [{ after_bytes = 1_200_000_000, write_bytes_per_second = 50_000_000 },\
                          { after_bytes = 800_000_000, write_bytes_per_second = 100_000_000 }]";
    // 800 MB at 400 MB/s take 2 s, the next 400 MB at 100 MB/s take 4 s, and 200 MB at 50 MB/s another 4 s.
    let setup = Setup { device, depth: 4, block_bytes: 100_000, seconds: 10.0, ..SETUP };
    let outcome = closed(setup, verb::Write);
    assert_near(outcome.total() as f64 * 1e5, 1.4e9, 1e-3);
    for (from_s, to_s, bytes_per_second) in [(0, 2, 4e8), (2, 6, 1e8), (6, 10, 5e7)] {
        let tenths = from_s * 10 + 1..to_s * 10 - 1;
        let seconds = tenths.len() as f64 / 10.0;
        let requests: u64 = tenths.map(|tenth| outcome.requests(tenth)).sum();
        assert_near(requests as f64 * 1e5 / seconds, bytes_per_second, 0.02);
    }
    // Reads do not age a drive.
    let setup = Setup { device, block_bytes: 1_000_000, seconds: 1.0, ..SETUP };
    assert_near(closed(setup, verb::Read).rate(), 1e6, 0.01);
    // The age is that of the drive, whichever test it came in.
    let device = SimDevice::from_toml(device).unwrap();
    let mut world = SimSystem::new(&device, 1, 1).unwrap();
    world.set_age(799_999_999);
    world.begin(0);
    assert_eq!(world.transfer(0, true, 100_000_000), SECOND / 4);
    assert_eq!(world.transfer(SECOND, true, 100_000_000), 2 * SECOND);
    assert_eq!(world.age_bytes(), 999_999_999);
}

#[test]
fn cache_fill_carries_over_to_the_next_phase() {
    let device = SimDevice::from_toml(CACHE).unwrap();
    let mut world = SimSystem::new(&device, 1, 1).unwrap();
    world.begin(SECOND / NS);
    // The cache is filled with bytes that take 10 s to drain; after 4 s, 6 s are left.
    assert_eq!(world.transfer(0, true, 100_000_000), 50_000_000);
    world.begin(5 * SECOND / NS);
    assert_eq!(world.drained, 6 * SECOND);
    assert_eq!(world.flush(0), 6 * SECOND + SECOND / 1000);
}
