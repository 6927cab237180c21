use engine::recorder::INTERVAL_NS;
use model::request::Request;
use model::run::{Latency, OperationSamples, RoundRecord};
use observe::Root;

use super::*;

/// Returns the plan of one test, for that many clients.
pub fn plan(test: &str, count: u32) -> Plan {
    let temp = tempfile::tempdir().unwrap();
    let root = Root::system();
    let target = observe::target(&root, temp.path()).unwrap();
    let request = Request {
        tests: vec![test.into()],
        size: Some(model::size::Size::Bytes(1 << 20)),
        allow: vec![model::request::Allow::LowSpace],
        ..Request::default()
    };
    let plan = model::plan::plan(&request, &target, &observe::machine(&root)).unwrap();
    Plan { clients: Some(model::plan::Clients { count, number: None, clients_on_file_system: 1 }), ..plan }
}

/// Returns a client that made `ops` operations in each of its intervals, each of 100 us.
fn client(plan: &Plan, ops: &[u64]) -> Measured {
    let phase = &plan.phases[0];
    let mut record = untried(phase, 1, Status::Done, "");
    record.reason = None;
    let interval = |(index, ops): (usize, &u64)| Interval {
        start_ns: index as u64 * INTERVAL_NS,
        length_ns: INTERVAL_NS,
        ops: *ops,
        bytes: ops * 4096,
        histogram: vec![(100_000, *ops)],
        frame: None,
    };
    let all: u64 = ops.iter().sum();
    let elapsed_ns = ops.len() as u64 * INTERVAL_NS;
    record.figures.intervals = ops.iter().enumerate().map(interval).collect();
    record.counts = Counts { ops: all, bytes: all * 4096, elapsed_ns, passes: 1.0, ..Counts::default() };
    record.counts.start_delay_ns = Some(ops.len() as u64 * 1000);
    let rate = all as f64 * 1e9 / elapsed_ns as f64;
    record.figures.rate = Rate {
        ops_per_second: Some(rate),
        overall_ops_per_second: Some(rate),
        first_done_ns: elapsed_ns,
        last_done_ns: elapsed_ns,
        ..Rate::default()
    };
    let flat = Latency {
        min: 90_000,
        mean: 100_000,
        p50: None,
        p90: None,
        p99: None,
        p99_9: None,
        chosen: Vec::new(),
        max: 110_000,
        ci95: None,
        modes: vec![],
    };
    record.figures.latency_ns = Some(flat);
    Measured {
        record,
        start_ns: 0,
        latencies: vec![(100_000, all)],
        steps: vec![],
        left_bytes: 0,
        names_unknown: false,
    }
}

fn summed(plan: &Plan, clients: &[(&str, &Measured, u64)]) -> PhaseRecord {
    let origin_ns = clients.iter().map(|(_, _, start_ns)| *start_ns).min().unwrap_or(0);
    let mut aggregate = ClientAggregate::new(origin_ns, clients.len());
    // They arrive in any order.
    for (number, (name, measured, start_ns)) in clients.iter().enumerate().rev() {
        aggregate.add(number as u32, name, (*measured).clone(), *start_ns);
    }
    aggregate.sum(plan, &plan.phases[0], 1, 0).0
}

const START_NS: u64 = 5_000_000_000;

#[test]
fn headline_rate_covers_time_with_all_clients_active() {
    let plan = plan("read:rnd4k:q4", 2);
    // The second client is done after 1 s; the first goes on alone for another second, and faster.
    let (long, short) = (client(&plan, &[[10; 10], [20; 10]].concat()), client(&plan, &[30; 10]));
    let record = summed(&plan, &[("ada", &long, START_NS), ("bob", &short, START_NS)]);
    let together = record.figures.together.as_ref().unwrap();
    assert_eq!((together.window_ns, together.window_ops_per_second), (1_000_000_000, Some(400.0)));
    assert_eq!(record.figures.rate.ops_per_second.map(f64::round), Some(400.0));
    assert_eq!(record.figures.rate.bytes_per_second.map(f64::round), Some(400.0 * 4096.0));
    assert_eq!(record.figures.rate.overall_ops_per_second, Some(300.0), "600 operations in 2 s");
    assert_eq!(together.last_ops_per_second, Some(300.0));
    assert_eq!((record.counts.ops, record.counts.elapsed_ns), (600, 2_000_000_000));
    assert_eq!((record.counts.start_ns, record.counts.start_delay_ns), (START_NS, Some(20_000)));
    assert_eq!(together.start_skew_ns, Some(10_000));
    assert_eq!((together.slowest.as_deref(), together.slowest_ops_per_second), (Some("ada"), Some(150.0)));
    assert_eq!((together.fastest.as_deref(), together.fastest_ops_per_second), (Some("bob"), Some(300.0)));
    assert_eq!(together.median_ops_per_second, Some(225.0));
    let spread = together.spread.unwrap();
    assert!((spread - 106.066 / 225.0).abs() < 1e-5, "{spread}");
    let intervals: Vec<_> = record.figures.intervals.iter().map(|interval| interval.ops).collect();
    assert_eq!(intervals, [[40; 10], [20; 10]].concat());
    assert_eq!(record.figures.intervals[0].histogram, [(100_000, 40)]);
    let latency = record.figures.latency_ns.as_ref().unwrap();
    assert_eq!((latency.min, latency.max), (90_000, 110_000));
    assert_eq!(buckets(record.figures.histogram.as_deref()).iter().map(|bucket| bucket.1).sum::<u64>(), 600);
    assert_eq!(record.label, format!("{} ×2", plan.phases[0].workload.label()));
    assert_eq!((record.status, record.hosts.len()), (Status::Done, 2));
    assert_eq!(record.hosts[1].rate.ops_per_second, Some(300.0));
}

#[test]
fn late_client_is_shifted_on_the_time_axis() {
    let plan = plan("read:rnd4k:q4", 2);
    let both = [client(&plan, &[10; 10]), client(&plan, &[10; 10])];
    let record = summed(&plan, &[("ada", &both[0], START_NS), ("bob", &both[1], START_NS + 300_000_000)]);
    let intervals: Vec<_> = record.figures.intervals.iter().map(|interval| interval.ops).collect();
    assert_eq!(intervals, [[10; 3].as_slice(), &[20; 7], &[10; 3]].concat());
    let together = record.figures.together.as_ref().unwrap();
    assert_eq!((together.window_ns, together.window_ops_per_second), (700_000_000, Some(200.0)));
    assert_eq!(record.counts.elapsed_ns, 1_300_000_000);
}

#[test]
fn partial_edge_intervals_count_by_their_share() {
    let plan = plan("read:rnd4k:q4", 2);
    let both = [client(&plan, &[10; 10]), client(&plan, &[40; 10])];
    // The window lasts from 50 ms to 1,000 ms of the first client.
    let parts = [("ada", &both[0], START_NS), ("bob", &both[1], START_NS + 50_000_000)];
    let together = summed(&plan, &parts).figures.together.unwrap();
    assert_eq!(together.window_ns, 950_000_000);
    assert!((together.window_ops_per_second.unwrap() - 500.0).abs() < 1e-9, "{together:?}");
}

#[test]
fn durable_writes_count_until_the_last_sync() {
    let plan = plan("write:seq4k:buffered", 2);
    let mut both = [client(&plan, &[10; 10]), client(&plan, &[10; 10])];
    for (measured, sync_ns) in both.iter_mut().zip([500_000_000, 1_000_000_000]) {
        measured.record.counts.elapsed_ns += sync_ns;
        let rate = &mut measured.record.figures.rate;
        rate.into_cache_ops_per_second = rate.overall_ops_per_second;
        rate.durable_ops_per_second = Some(100.0 * 1e9 / measured.record.counts.elapsed_ns as f64);
        rate.ops_per_second = rate.durable_ops_per_second;
    }
    let record = summed(&plan, &[("ada", &both[0], START_NS), ("bob", &both[1], START_NS)]);
    assert_eq!(record.figures.rate.ops_per_second, Some(100.0), "200 operations in 2 s");
    assert_eq!(record.figures.rate.into_cache_ops_per_second, Some(200.0));
    assert_eq!(record.figures.together.unwrap().last_ops_per_second, Some(100.0));
}

#[test]
fn rounds_count_until_their_first_client_is_done() {
    let plan = plan("create:files=100", 2);
    let with_rounds = |rounds: &[(u64, u64)]| {
        let ops: u64 = rounds.iter().map(|round| round.0).sum();
        let mut measured = client(&plan, &[ops]);
        measured.record.figures.rounds =
            rounds.iter().map(|(ops, ms)| RoundRecord::on_time(*ops, ms * 1_000_000)).collect();
        measured
    };
    // In the first round, the second client takes twice as long. Its third round has no partner.
    let ada = with_rounds(&[(100, 100), (100, 100)]);
    let bob = with_rounds(&[(100, 200), (100, 100), (50, 10)]);
    let record = summed(&plan, &[("ada", &ada, START_NS), ("bob", &bob, START_NS)]);
    // 100 + 50 operations in 100 ms, and 200 in 100 ms.
    assert_eq!(record.figures.rate.ops_per_second, Some(1750.0));
    assert_eq!(record.counts.elapsed_ns, 300_000_000);
    let rounds: Vec<_> = record.figures.rounds.iter().map(|round| (round.ops, round.elapsed_ns)).collect();
    assert_eq!(rounds, [(200, 200_000_000), (200, 100_000_000)]);
}

#[test]
fn separate_rounds_count_until_the_last_client_ends() {
    let plan = plan("stat:files=100", 2);
    let with_round = |late_ms: u64| {
        let mut measured = client(&plan, &[100]);
        let start_delay_ns = late_ms * 1_000_000;
        measured.record.figures.rounds =
            vec![RoundRecord { start_delay_ns, ..RoundRecord::on_time(100, 1_000_000) }];
        measured
    };
    let rates = |late_ms| {
        let parts = [with_round(0), with_round(late_ms)];
        let record = summed(&plan, &[("ada", &parts[0], START_NS), ("bob", &parts[1], START_NS)]);
        let together = record.figures.together.unwrap();
        (record.figures.rate.ops_per_second, together.window_ns, together.window_ops_per_second)
    };
    // 200 operations in 1 ms, or in 4 ms of which no client saw the other.
    assert_eq!(rates(0), (Some(200_000.0), 1_000_000, Some(200_000.0)));
    assert_eq!(rates(3), (Some(50_000.0), 0, None));
}

#[test]
fn totals_have_status_and_reason_of_worst_client() {
    let plan = plan("read:rnd4k:q4", 3);
    let mut parts = [client(&plan, &[10; 10]), client(&plan, &[10; 10])];
    parts[1].record.status = Status::Failed;
    parts[1].record.reason = Some("cannot read it".into());
    let record = summed(&plan, &[("ada", &parts[0], START_NS), ("bob", &parts[1], START_NS)]);
    assert_eq!((record.status, record.reason.as_deref()), (Status::Failed, Some("bob: cannot read it")));
    assert_eq!(record.label, format!("{} ×2 of 3", plan.phases[0].workload.label()));
    let together = record.figures.together.unwrap();
    assert_eq!((together.clients, together.clients_planned), (2, 3));
    let none = summed(&plan, &[]);
    assert_eq!(
        (none.status, none.reason.as_deref()),
        (Status::Failed, Some("none of the 3 clients measured it"))
    );
}

#[test]
fn huge_counts_are_summed_without_panic() {
    let plan = plan("read:rnd4k:q4", 2);
    let mut wild = client(&plan, &[10; 10]);
    let huge = 999_999_999_999_999_999;
    wild.record.counts.ops = huge;
    wild.record.counts.elapsed_ns = huge;
    wild.record.figures.intervals[3].start_ns = huge;
    wild.record.figures.intervals[4].length_ns = huge;
    wild.record.figures.intervals[5].ops = huge;
    wild.record.figures.intervals[6].histogram = vec![(huge, huge), (0, huge)];
    wild.record.figures.rate.first_done_ns = huge;
    wild.latencies = vec![(huge, huge), (0, 0)];
    let record = summed(&plan, &[("ada", &wild, huge), ("bob", &wild, 0), ("eve", &wild, u64::MAX)]);
    assert!(record.counts.ops >= huge);
}

#[test]
fn many_clients_have_merged_intervals_and_exact_totals() {
    let plan = plan("read:rnd4k:q4", 1000);
    let one = client(&plan, &[10; 300]);
    let mut aggregate = ClientAggregate::new(START_NS, 1000);
    (0..1000).for_each(|number| aggregate.add(number, &format!("n{number}"), one.clone(), START_NS));
    let (record, parts) = aggregate.sum(&plan, &plan.phases[0], 1, 0);
    assert_eq!(record.figures.intervals.len(), 300);
    assert!(record.figures.intervals.iter().all(|interval| interval.ops == 10_000));
    assert_eq!(record.figures.rate.ops_per_second.map(f64::round), Some(100_000.0));
    for part in parts {
        let own = &part.measured.record.figures.intervals;
        assert!(own.len() <= KEPT_MAX / 1000 && own.iter().map(|interval| interval.ops).sum::<u64>() == 3000);
        assert!(own.iter().all(|interval| interval.length_ns == 15 * INTERVAL_NS), "{own:?}");
    }
}

#[test]
fn open_loop_lag_is_judged_on_the_total() {
    let plan = plan("read:rnd4k:rate=100", 2);
    let (mut slow, fast) = (client(&plan, &[10; 10]), client(&plan, &[100; 10]));
    let noted = |slow: &Measured| {
        let record = summed(&plan, &[("ada", slow, START_NS), ("bob", &fast, START_NS)]);
        record.judged.notes.iter().any(|note| matches!(note.finding, Finding::FellBehind { .. }))
    };
    slow.record.judged.notes = notes::fell_behind(5, 100).into_iter().collect();
    assert!(!slow.record.judged.notes.is_empty() && !noted(&slow), "5 of 1,105");
    slow.record.judged.notes = notes::fell_behind(50, 100).into_iter().collect();
    assert!(noted(&slow), "50 of 1,150");
}

#[test]
fn wait_channel_samples_are_summed_over_clients() {
    let plan = plan("mix:mail", 2);
    let with = |samples: u64| {
        let mut client = client(&plan, &[100]);
        let site = |symbol: &str, of: &[(&str, u64)]| WaitChannel {
            of: model::run::SampledThreads::Workers,
            class: None,
            symbol: symbol.into(),
            share: 0.5,
            samples,
            operations: (of.iter())
                .map(|(operation, samples)| OperationSamples {
                    operation: (*operation).into(),
                    samples: *samples,
                })
                .collect(),
        };
        client.record.seen.wait_channels =
            vec![site("running", &[("read", samples)]), site("jbd2_log_wait_commit", &[("create", samples)])];
        client
    };
    let sum = summed(&plan, &[("ada", &with(10), 0), ("bob", &with(30), 0)]);
    let sites = &sum.seen.wait_channels;
    assert_eq!(sites.len(), 2);
    assert!(sites.iter().all(|site| site.samples == 40 && site.share == 0.5), "{sites:?}");
    let create = sites.iter().find(|site| site.symbol == "jbd2_log_wait_commit").unwrap();
    assert_eq!((create.operations.len(), create.operations[0].samples), (1, 40));
    // Other tests have no operations, and each client keeps its samples to itself.
    let mut other = with(10);
    other.record.seen.wait_channels.iter_mut().for_each(|site| site.operations.clear());
    assert!(summed(&plan, &[("ada", &other, 0)]).seen.wait_channels.is_empty());
}

#[test]
fn bytes_of_a_shared_device_are_counted_once() {
    let plan = plan("read:rnd4k:q4", 2);
    let of = |foreign_share: Option<f64>| {
        let mut client = client(&plan, &[10; 10]);
        client.record.seen.device = Some(DeviceUse {
            name: "vda".into(),
            bytes_read: 1000,
            bytes_written: 0,
            operations: 10,
            flushes: 0,
            mean_request_bytes: Some(100.0),
            bytes_per_app_byte: Some(2.5),
            leaf_amplification: None,
            foreign_share,
            other_bytes_per_second: None,
        });
        client
    };
    let device_of = |names: [&str; 2], shares: [Option<f64>; 2]| {
        let clients = shares.map(of);
        let parts = [(names[0], &clients[0], START_NS), (names[1], &clients[1], START_NS)];
        summed(&plan, &parts).seen.device
    };
    let device = device_of(["local#1", "local#2"], [Some(0.6), Some(0.6)]).unwrap();
    assert!((device.foreign_share.unwrap() - 0.2).abs() < 1e-9, "{device:?}");
    assert_eq!((device.bytes_read, device.bytes_per_app_byte), (1000, Some(1.25)));
    let unknown = device_of(["local#1", "local#2"], [Some(0.6), None]).unwrap();
    assert_eq!(unknown.foreign_share, None);
    assert_eq!(device_of(["ada", "bob"], [Some(0.6), Some(0.6)]), None);
}

#[test]
fn rows_with_lost_clients_are_excluded_from_knee() {
    let of = |clients: u32, live: usize| {
        let plan = plan("read:rnd4k:q4", clients);
        let one = client(&plan, &[100 / clients as u64; 10]);
        let parts: Vec<_> = (0..live).map(|_| ("ada", &one, START_NS)).collect();
        summed(&plan, &parts)
    };
    let knee = |rows: [PhaseRecord; 3]| crate::knee(&rows.iter().collect::<Vec<_>>());
    assert!(knee([of(1, 1), of(2, 2), of(4, 4)]).is_some());
    assert!(knee([of(1, 1), of(2, 2), of(4, 1)]).is_none());
}
