//! How much is done: when each phase ends, its part of the write limit, and about how long everything takes.

use super::precondition::has_rounds;
use super::{Clients, Dataset, Plan, PlannedPhase, ROUNDS_MAX, ROUNDS_MIN, Stop};
use crate::experiment::RETURN_VISIT_NS;
use crate::request::Seconds;
use crate::size;
use crate::target::Target;
use crate::user_error::UserError;
use crate::workload::{Access, Arrival, CacheMode, DataVerb, DataWork, Engine, OpenRate, Work, Workload};

/// Bytes of the file that shows, before the first test, if the target compresses.
pub const PROBE_BYTES: u64 = 1 << 20;
/// Approximate duration of the experiments on one test. They are two changes, each in four runs of 0.9 s with steps before
/// and after them.
pub const EXPERIMENTS_NS: u64 = 8_500_000_000;
/// Most bytes that a run without a preset writes, unless `--write-limit` is set.
pub const WRITE_LIMIT_BYTES: u64 = 40_000_000_000;
/// Largest write limit: a pebibyte takes a year at 30 MB/s.
pub const WRITE_LIMIT_BYTES_MAX: u64 = 1 << 50;

/// Returns the stop rule of a phase before the write limit is shared out: its counts if it has any, else the time.
pub(super) fn stop_of(
    workload: &Workload,
    engine: Engine,
    time: Seconds,
    cache: CacheMode,
    target: &Target,
) -> Stop {
    let (ops, bytes, passes) = match &workload.work {
        Work::Data(data) => (data.ops, data.bytes, data.passes),
        Work::Files(files) => (None, None, files.passes),
    };
    // A requested count is the stop rule; time would cut it short.
    let counted = ops.is_some() || bytes.is_some() || passes.is_some();
    let once = match &workload.work {
        Work::Data(data) => {
            // Uncached reads leave nothing behind. Not every file system drops what was written.
            let is_dropped = data.uncached && !data.writes();
            let buffered = !data.direct && !is_dropped && engine.needs_files();
            // A second pass would read what the first left in memory.
            let rereads = data.reads() && cache != CacheMode::Warm && cache != CacheMode::AsIs;
            // A second pass would replace blocks that wait in memory, and only the last version would become durable.
            let absorbs = data.writes() && data.syncs_at_end();
            // A skewed test has no passes: it finds its hot blocks in memory, as it should.
            // A second pass would find nothing to discard.
            data.verb == DataVerb::Discard || buffered && (rereads || absorbs) && !data.is_skewed()
        }
        // A second round would find the inodes of the files removed before it, and search past them.
        Work::Files(files) => {
            !workload.is_continuous() && files.takes_inodes() && target.delays_inode_reuse()
        }
    };
    let passes = passes.or((once && !counted).then_some(1));
    Stop { time_ns: (!counted).then(|| time.as_ns()), ops, bytes, passes }
}

/// Returns the most bytes that this number of rounds of a test on files writes.
fn rounds_bytes_max(workload: &Workload, rounds: u64) -> u64 {
    workload.files().map_or(0, |files| files.rounds_bytes_max(rounds, workload.threads))
}

/// Returns the weight of a phase when the write limit is shared out.
fn write_weight(phase: &PlannedPhase) -> u64 {
    match &phase.workload.work {
        Work::Data(_) if !phase.engine.needs_files() => 0,
        Work::Data(data) if !data.writes() || data.verb == DataVerb::Discard => 0,
        Work::Data(data) => match (data.verb, data.access) {
            (DataVerb::Fsync, _) => 1,
            (verb, _) if verb.is_bytes() => 1,
            (_, Access::Random) => 3,
            (_, Access::Sequential) => 6,
        },
        Work::Files(files) => u64::from(files.writes_data()),
    }
}

/// Returns the most bytes that a phase writes before anything is measured.
fn prepared_bytes_max(phase: &PlannedPhase) -> u64 {
    let threads = phase.workload.threads;
    phase.workload.files().map_or(0, |files| files.prepared_bytes_max(threads))
}

/// Returns the most bytes that a planned phase writes.
pub(super) fn bytes_max(phase: &PlannedPhase) -> u64 {
    let measured_bytes = phase.stop.bytes.filter(|_| write_weight(phase) > 0).unwrap_or(0);
    measured_bytes.saturating_add(prepared_bytes_max(phase))
}

/// Gives every phase that writes its part of the limit as a stop rule. Returns the most bytes that each client can
/// write.
///
/// Repetitions and clients have equal shares of the limit. The layout, `extra_bytes`, which a repetition writes
/// untimed, and requested counts are subtracted first. The rest is shared by weight. Bytes that one phase cannot use go
/// to the others.
pub(super) fn share_write_limit(
    phases: &mut [PlannedPhase],
    dataset: Option<&Dataset>,
    repetitions: u32,
    clients: Option<Clients>,
    limit: u64,
    extra_bytes: u64,
) -> Result<u64, UserError> {
    let repetitions = u64::from(repetitions);
    let clients = clients.map_or(1, |clients| u64::from(clients.count.max(1)));
    let sets: u64 = phases.iter().map(prepared_bytes_max).sum();
    let layout =
        dataset.map_or(0, Dataset::layout_bytes_max).saturating_add(sets).saturating_add(extra_bytes);
    let mut open: Vec<_> = (0..phases.len()).filter(|index| write_weight(&phases[*index]) > 0).collect();
    let mut parts = vec![0; phases.len()];
    let mut left = (limit / clients / repetitions).checked_sub(layout);
    let mut needed = layout;
    // Requested counts are not negotiable.
    open.retain(|index| {
        let Some(asked) =
            write_cap(&phases[*index], dataset).filter(|_| phases[*index].stop.time_ns.is_none())
        else {
            needed = needed.saturating_add(write_bytes_min(&phases[*index]));
            return true;
        };
        needed = needed.saturating_add(asked);
        left = left.and_then(|left| left.checked_sub(asked));
        parts[*index] = asked;
        false
    });
    let refused = || {
        let needed = needed.saturating_mul(repetitions).saturating_mul(clients);
        UserError::new(
            format!("stay within the write limit of {}", size::decimal(limit)),
            format!("files and tests need at least {}", size::decimal(needed)),
        )
        .help(format!("use --write-limit {}GB, or fewer or smaller tests", needed.div_ceil(1_000_000_000)))
    };
    let mut left = left.ok_or_else(refused)?;
    while !open.is_empty() {
        let weights: u64 = open.iter().map(|index| write_weight(&phases[*index])).sum();
        let share = |index: usize| {
            let weight = write_weight(&phases[index]);
            (u128::from(left) * u128::from(weight) / u128::from(weights)) as u64
        };
        let cap = |index: usize| write_cap(&phases[index], dataset).unwrap_or(u64::MAX);
        // One that needs more than its share comes first, so that all have what they need wherever that is possible.
        let is_fixed = |index: &usize| write_bytes_min(&phases[*index]) > share(*index);
        let is_capped = |index: &usize| cap(*index) < share(*index);
        match open.iter().position(is_fixed).or_else(|| open.iter().position(is_capped)) {
            Some(position) => {
                let index = open.remove(position);
                parts[index] = if is_capped(&index) { cap(index) } else { write_bytes_min(&phases[index]) };
                left = left.checked_sub(parts[index]).ok_or_else(refused)?;
            }
            None => {
                open.iter().for_each(|index| parts[*index] = share(*index));
                break;
            }
        }
    }
    for (phase, part) in phases.iter_mut().zip(&parts) {
        if write_weight(phase) == 0 {
            continue;
        }
        phase.stop.bytes = phase.stop.bytes.or(Some(*part));
    }
    Ok(parts.iter().fold(layout, |sum, part| sum.saturating_add(*part)).saturating_mul(repetitions))
}

/// Returns the most bytes that a phase writes by its counts; `None` if only time ends it.
fn write_cap(phase: &PlannedPhase, dataset: Option<&Dataset>) -> Option<u64> {
    let stop = phase.stop;
    let by_passes = |passes: u64| match &phase.workload.work {
        Work::Data(_) => dataset.map(|set| passes.saturating_mul(set.size_bytes_max)),
        Work::Files(_) => Some(rounds_bytes_max(&phase.workload, passes)),
    };
    let by_ops = stop.ops.zip(phase.workload.data()).map(|(ops, data)| ops.saturating_mul(data.block_bytes));
    // Whichever limit comes first ends the phase.
    [stop.bytes, by_ops, stop.passes.and_then(by_passes)].into_iter().flatten().min()
}

/// Returns the fewest bytes with which a phase can run at all.
fn write_bytes_min(phase: &PlannedPhase) -> u64 {
    let workload = &phase.workload;
    match &workload.work {
        Work::Data(data) => data.block_bytes * u64::from(workload.in_flight()),
        Work::Files(_) => rounds_bytes_max(workload, 1),
    }
    .min(
        phase
            .stop
            .ops
            .map_or(u64::MAX, |ops| ops.saturating_mul(workload.data().map_or(u64::MAX, |d| d.block_bytes))),
    )
    .min(phase.stop.bytes.unwrap_or(u64::MAX))
}

/// Rounds up to whole seconds, as people would write them.
pub(super) fn whole_seconds(ns: u64) -> u64 {
    ns.div_ceil(1_000_000_000).saturating_mul(1_000_000_000)
}

/// Nanoseconds that a byte takes on a fast target: 2 GB/s.
const FAST_NS_PER_BYTE: f64 = 0.5;
/// Nanoseconds that a byte takes on a slow one: a hard disk writes 150 MB/s.
const SLOW_NS_PER_BYTE: f64 = 6.5;
/// Shortest time, and usual longest time, to make a block durable.
const FAST_SYNC_NS: f64 = 50_000.0;
const SLOW_SYNC_NS: f64 = 2_000_000.0;
/// Time of an operation on a fast and on a slow solid-state disk.
const FAST_OP_NS: f64 = 20_000.0;
const SLOW_OP_NS: f64 = 200_000.0;
/// Approximate time to check the target and to measure skye's own cost.
const STARTUP_NS: f64 = 1_500_000_000.0;
/// Approximate time between two tests, the shortest and the usual longest. The devices' counters are sampled over a tenth
/// of a second, and then come files and threads.
const BETWEEN_TESTS_NS: (f64, f64) = (120_000_000.0, 300_000_000.0);

/// Returns the estimated duration, and how far the real one may lie from it.
///
/// The estimate is the measured time, plus the usual time for making and undoing files, laying out and filling data and
/// experiments. The uncertainties of tests add up as squares. Where laying out is slow, tests take longer as well, so
/// that uncertainty is added in full.
pub(super) fn estimate(plan: &Plan) -> (u64, u64) {
    let Plan { phases, precision_goal, repetitions, .. } = plan;
    let (dataset, precondition) = (plan.dataset.as_ref(), plan.precondition.as_ref());
    let moved = |bytes: u64| (bytes as f64 * FAST_NS_PER_BYTE, bytes as f64 * SLOW_NS_PER_BYTE);
    // Simulated time costs almost no real time.
    let is_real = |phase: &&PlannedPhase| !phase.engine.has_virtual_clock();
    // The shortest and the longest time of a test that ends by a count.
    let counted = |phase: &PlannedPhase, data: &DataWork| {
        let whole = data.range_of(dataset.map_or(0, |dataset| dataset.size_bytes_max));
        let stop = phase.stop;
        let limits = [
            stop.bytes,
            stop.ops.map(|ops| ops.saturating_mul(data.block_bytes)),
            stop.passes.map(|passes| (whole.end - whole.start).saturating_mul(passes)),
        ];
        let bytes = limits.into_iter().flatten().min().unwrap_or(0);
        let ops = bytes as f64 / data.block_bytes.max(1) as f64;
        if let Arrival::Open { rate: OpenRate::PerSecond(rate), .. } = data.arrival {
            let time_ns = ops / rate.max(1) as f64 * 1e9;
            return (time_ns, time_ns);
        }
        let ((fast, slow), in_flight) = (moved(bytes), f64::from(phase.workload.in_flight().max(1)));
        (fast.max(ops * FAST_OP_NS / in_flight), slow.max(ops * SLOW_OP_NS / in_flight))
    };
    let measured = |phase: &PlannedPhase| {
        let longest = phase.stop.time_ns.unwrap_or(10_000_000_000) as f64;
        let shortest =
            precision_goal.map_or(longest, |precision_goal| longest.min(precision_goal.time_min_ns as f64));
        match &phase.workload.work {
            Work::Files(_) => (shortest + 1e9, longest * 2.0 + 1e9),
            // This test writes what is not laid out, or reads all there is. If it ends by a count, time does not end it.
            Work::Data(data) if data.fresh || data.zones.is_some() => {
                let whole = data.range_of(dataset.map_or(0, |dataset| dataset.size_bytes_max));
                let zoned = (data.zones.is_some()).then_some((whole.end - whole.start) / data.every);
                let bytes = zoned.or(phase.stop.bytes).unwrap_or(0);
                let (mut fast, mut slow) = moved(bytes);
                if data.syncs_each() {
                    let syncs = (bytes / data.block_bytes / u64::from(data.sync_every.unwrap_or(1))) as f64;
                    (fast, slow) = (fast.max(syncs * FAST_SYNC_NS), slow.max(syncs * SLOW_SYNC_NS));
                }
                match phase.stop.time_ns {
                    Some(_) => (fast.min(shortest), slow.min(longest)),
                    None => (fast, slow),
                }
            }
            // A test ends in the round in which it is steady.
            Work::Data(_) if precondition.is_some() && has_rounds(phase) => {
                (longest * f64::from(ROUNDS_MIN) / f64::from(ROUNDS_MAX), longest)
            }
            Work::Data(data) if phase.stop.time_ns.is_none() => counted(phase, data),
            Work::Data(_) => (shortest, longest),
        }
    };
    let parts = phases.iter().filter(is_real).map(measured);
    let filled_bytes = precondition.zip(dataset).map_or(0, |(fill, dataset)| fill.bytes_max(dataset));
    let laid_out_bytes = dataset.map_or(0, Dataset::layout_bytes_max);
    let (fast, slow) = moved(laid_out_bytes.saturating_add(filled_bytes));
    let (mut middle, mut squares) = ((fast + slow) / 2.0, 0.0);
    for (low, high) in parts.map(|(low, high)| (low + BETWEEN_TESTS_NS.0, high + BETWEEN_TESTS_NS.1)) {
        middle += (low + high) / 2.0;
        squares += ((high - low) / 2.0_f64).powi(2);
    }
    let each = f64::from(*repetitions);
    let probed = experiments_ns(plan) as f64;
    let startup_ns = if phases.iter().any(|phase| is_real(&phase)) { STARTUP_NS } else { 0.0 };
    // Some tests need no experiments.
    let spread = (squares * each * each + (probed / 4.0).powi(2)).sqrt() + (slow - fast) / 2.0 * each;
    ((middle * each + probed * 0.75 + startup_ns) as u64, spread as u64)
}

/// Returns the estimated time of the work before the first test: laying out, and finding out about the machine.
pub(super) fn preparation_ns(plan: &Plan) -> u64 {
    let bytes = plan.dataset.as_ref().map_or(0, Dataset::layout_bytes_max) as f64;
    (bytes * (FAST_NS_PER_BYTE + SLOW_NS_PER_BYTE) / 2.0 + STARTUP_NS) as u64
}

/// Returns the approximate duration of the return visits and experiments to expect, which are those on blocks. Experiments on
/// tests on files or of single bytes do not take long.
pub(super) fn experiments_ns(plan: &Plan) -> u64 {
    let is_probed = |phase: &&PlannedPhase| {
        let may_be = |data: &DataWork| plan.has_experiments && !data.verb.is_bytes();
        let is_long = phase.stop.time_ns.is_some_and(|time_ns| time_ns >= super::EXPERIMENT_PHASE_NS_MIN);
        is_long && phase.engine.needs_files() && phase.workload.data().is_some_and(may_be)
    };
    let count = |is: &dyn Fn(&&PlannedPhase) -> bool| plan.phases.iter().filter(is).count() as u64;
    count(&is_probed) * EXPERIMENTS_NS + count(&|phase| plan.may_revisit(phase)) * RETURN_VISIT_NS
}

#[cfg(test)]
mod tests {
    use crate::plan::fixtures::{on_disk, planned, request_for};
    use crate::request::{Request, Seconds};
    use crate::size::Size;
    use crate::target::Backing;

    #[test]
    fn byte_tests_stop_after_one_pass_by_default() {
        let plan = on_disk(&["byte-write", "byte-read", "putc-write", "getc-read:ops=10", "write"]);
        let stops: Vec<_> = plan.phases.iter().map(|phase| (phase.stop.passes, phase.stop.ops)).collect();
        assert_eq!(
            stops,
            [(Some(1), None), (Some(1), None), (Some(1), None), (None, Some(10)), (None, None)]
        );
        let bytes: Vec<_> = plan.phases.iter().map(|phase| phase.stop.bytes).collect();
        let [Some(byte), None, Some(putc), None, Some(blocks)] = bytes[..] else { panic!("{bytes:?}") };
        assert!(byte == putc && blocks / byte == 6, "{bytes:?}");
    }

    #[test]
    fn file_tests_write_their_set_once_plus_each_round() {
        let most = |tests: &[&str]| {
            let request = Request { probe: Some(false), ..request_for(tests) };
            planned(&request, Backing::Devices, None).unwrap().bytes_to_write_max >> 10
        };
        assert_eq!(most(&["append:files=10:chunk=1k:passes=5"]), 10 + 5 * 10);
        assert_eq!(most(&["append:files=10:size=1m:chunk=1k:passes=5"]), 10 * 1025 + 10 * 1024 + 5 * 10);
        assert_eq!(most(&["truncate:files=10:size=64k:passes=5"]), 2 * 10 * 64 + 5 * 10 * 32);
        assert_eq!(most(&["copy:files=10:size=64k:passes=5"]), 3 * 10 * 64 + 5 * 10 * 64);
    }

    #[test]
    fn skewed_test_is_limited_by_time_not_passes() {
        let plan =
            on_disk(&["read:rnd4k:buffered", "read:rnd4k:buffered:zipf=1", "write:rnd4k:buffered:hot=9/1"]);
        let passes: Vec<_> = plan.phases.iter().map(|phase| phase.stop.passes).collect();
        assert_eq!(passes, [Some(1), None, None]);
        assert!(plan.phases[1..].iter().all(|phase| phase.stop.time_ns.is_some()));
    }

    #[test]
    fn discarded_data_is_rewritten_for_the_next_test() {
        let most = |tests: &[&str], probe| {
            let request =
                Request { size: Some(Size::Bytes(1 << 30)), probe: Some(probe), ..request_for(tests) };
            planned(&request, Backing::Devices, None).unwrap().bytes_to_write_max >> 30
        };
        assert_eq!(most(&["discard"], true), 1, "the layout");
        assert_eq!(most(&["discard", "read"], false), 2);
        assert_eq!(most(&["discard", "discard:t2", "read"], false), 3);
        assert_eq!(most(&["read", "discard"], false), 1);
        assert_eq!(most(&["read", "discard"], true), 2, "an experiment may read it");
        assert_eq!(most(&["discard", "read:compress=50"], false), 2, "other files");
        let plan = on_disk(&["discard", "discard:ops=9"]);
        let stops: Vec<_> = plan.phases.iter().map(|phase| (phase.stop.passes, phase.stop.bytes)).collect();
        assert_eq!(stops, [(Some(1), None), (None, None)]);
    }

    #[test]
    fn suggested_write_limit_is_sufficient() {
        let tests = ["create:files=1000:size=1m", "write:seq1m", "write:seq128k", "write:seq64k"];
        let limited = |limit| {
            let request = Request {
                size: Some(Size::Bytes(64 << 20)),
                write_limit: Some(Size::Bytes(limit)),
                probe: Some(false),
                ..request_for(&tests)
            };
            planned(&request, Backing::Devices, None).map(|plan| plan.bytes_to_write_max)
        };
        let refused = limited(1_000_000_000).unwrap_err();
        assert!(refused.contains("need at least 2.17 GB; use --write-limit 3GB"), "{refused}");
        for limit in [2_180_000_000, 3_000_000_000, 20_000_000_000] {
            assert!(limited(limit).unwrap() <= limit);
        }
    }

    #[test]
    fn more_tests_than_the_maximum_are_refused() {
        let refused = planned(&request_for(&["read"; 4097]), Backing::Devices, None).unwrap_err();
        assert!(refused.contains("4097 tests are requested, and the maximum is 4096"), "{refused}");
    }

    #[test]
    fn time_between_tests_counts_in_the_estimate() {
        let request = |repeat| Request {
            size: Some(Size::Bytes(1 << 20)),
            time: Some(Seconds(0.001)),
            repeat: Some(repeat),
            allow: vec![crate::request::Allow::LowSpace],
            ..request_for(&["read:rnd4k"])
        };
        let estimate = |repeat| planned(&request(repeat), Backing::Devices, None).unwrap().estimate_ns;
        let each_ms = (estimate(1000) - estimate(1)) / 999 / 1_000_000;
        assert!((150..300).contains(&each_ms), "{each_ms} ms");
    }

    #[test]
    fn uncertain_duration_widens_the_estimate() {
        let range_s = |tests: &[&str], time: Option<f64>| {
            let request = Request {
                size: Some(Size::Bytes(4 << 30)),
                time: time.map(Seconds),
                probe: Some(false),
                ..request_for(tests)
            };
            let plan = planned(&request, Backing::Devices, None).unwrap();
            let (middle, spread) = (plan.estimate_ns, plan.estimate_spread_ns);
            [middle - spread, middle + spread].map(|ns| ns as f64 / 1e9)
        };
        // 4.3 GB that are counted take 2 to 28 s, after 1.6 to 1.8 s of preparation.
        let [low, high] = range_s(&["write:fresh:sync=each"], None);
        assert!((3.0..4.0).contains(&low) && (28.0..31.0).contains(&high), "{low} {high}");
        // A timed test takes its time. Several tests do not all take the longest time.
        let [low, high] = range_s(&["read:rnd4k:engine=null"], Some(5.0));
        assert!((high - low) < 0.2 && (6.6..6.7).contains(&low), "{low} {high}");
        let [one, four] = [1, 4].map(|tests| {
            let all = ["q1", "q2", "q4", "q8"].map(|depth| format!("read:rnd4k:{depth}:engine=null"));
            let all: Vec<&str> = all.iter().take(tests).map(String::as_str).collect();
            let [low, high] = range_s(&all, None);
            high - low
        });
        assert!((four / one - 2.0).abs() < 0.01, "{one} {four}");
    }

    #[test]
    fn remaining_bytes_add_up_to_announced_bytes() {
        let tests = ["rw:rnd4k:q8", "write:seq1m", "create:files=9:size=1m", "discard:seq1m", "read"];
        let request = Request { probe: Some(true), repeat: Some(3), ..request_for(&tests) };
        let plan = planned(&request, Backing::Devices, None).unwrap();
        let laid_out_bytes = plan.dataset.as_ref().unwrap().layout_bytes_max();
        let to_come = |index, repetition| plan.remaining_bytes_max(index, repetition);
        assert_eq!(to_come(0, 1), plan.bytes_to_write_max - laid_out_bytes);
        assert_eq!(to_come(0, 1) - to_come(0, 2), plan.bytes_to_write_max / 3);
        assert_eq!(to_come(0, 3) - to_come(1, 3), plan.phases[0].stop.bytes.unwrap());
        assert_eq!(to_come(2, 3) - to_come(3, 3), plan.phases[2].stop.bytes.unwrap() + (9 << 20));
    }
}
