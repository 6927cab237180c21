//! Experiments after the tests: the same load with one thing changed, and the effect on its rate.
//!
//! The rate of an experiment never becomes a result. The program's driver chooses the experiments and their order.

use std::ops::Range;

use model::experiment::{self, Experiment};
use model::order::{TestOrder, Time};
use model::plan::PlannedPhase;
use model::run::{Interval, Load, PhaseRecord, Response, ReturnVisit, Status};
use model::workload::{CacheMode, DataWork};

use crate::data_phase::Part;
use crate::session::{MeasureOptions, Session};
use crate::side::Side;

/// Runs of an experiment that changes the load; true for runs with the change. An even drift affects both
/// kinds equally.
const CHANGE_SEQUENCE: [bool; experiment::RUNS] = [false, true, true, false];
/// Time of each such run; the upper end is for loads with few operations.
const CHANGED_NS: Range<u64> = 850_000_000..2_000_000_000;
/// Time of a return visit.
const VISIT_NS: Range<u64> = 1_200_000_000..2_000_000_000;
/// Shortest time of a return visit that ends with the write limit.
const VISIT_NS_MIN: u64 = 600_000_000;
/// Least share of its files with which a test on files is run again. Its rate hardly depends on their number.
const VISITED_SHARE_MIN: f64 = 1.0 / 32.0;
/// Operations of each slot that suffice for a rate. Slots of a device with one latency end together: one end more or
/// less is a fortieth.
const CHANGED_OPS: f64 = 40.0;
/// Fewer operations of each slot than these show no rate between two times.
const FEW_OPS: f64 = 8.0;
/// Part of an operation for which a slot may wait at the end of the whole run, on average.
const EDGE_SLOTS: f64 = 0.25;
/// Beginning of a run that is no part of its rate: limits begin with a burst, and not all threads are awake.
const START_NS: u64 = 200_000_000;
/// Possible error of a rate that was observed only once, as a share of it.
const SINGLE_RATE_ERROR: f64 = 0.15;

/// Makes an experiment on a phase that gave `record`, as [`Side::experiment`] does.
pub fn respond(
    session: &mut Session,
    experiment: Experiment,
    phase: &PlannedPhase,
    record: &PhaseRecord,
    kept_bytes: u64,
) -> Option<Response> {
    let cache = session.plan().cache;
    let variant = experiment.variant(phase, cache).filter(|variant| session.fits(variant))?;
    let plain = experiment::unchanged(phase, cache)?;
    let in_flight = f64::from(variant.phase.workload.in_flight().max(plain.workload.in_flight()));
    let time_ns = time_for(record, in_flight, CHANGED_NS)?;
    let bytes = bytes_of(record, time_ns).saturating_add(kept_bytes);
    if writes(phase) && session.left_bytes() < bytes {
        return None;
    }
    let mut rates = [const { None }; CHANGE_SEQUENCE.len()];
    let mut load = None;
    for (rate, is_changed) in rates.iter_mut().zip(CHANGE_SEQUENCE) {
        let part = session.next_part(phase)?;
        let phase = if is_changed { &variant.phase } else { &plain };
        let time = Time { measured_ns: time_ns, budget_ns: time_ns.saturating_mul(4) };
        let short = run_for(session, phase, record.repetition, time, part);
        if short.status != Status::Done || has_paused(&short) {
            return None;
        }
        *rate = Some(rate_of(phase, &short)?);
        if is_changed {
            load = Load::sum(load, short.seen.load);
        }
    }
    let [before, after, again, behind] = rates.map(|rate| rate.unwrap_or_default());
    let changed = RateChange::compute([before, behind], [after, again]);
    // The value is the exponent with which the rate follows a factor. For a separate change, it is the factor by
    // which the rate changes.
    let (value, half_width) = match experiment {
        Experiment::Separate => {
            let times = changed.log_ratio.exp();
            (times, changed.half_width * times)
        }
        Experiment::Depth | Experiment::Single | Experiment::Block => {
            let log_factor = variant.factor.ln();
            (changed.log_ratio / log_factor, changed.half_width / log_factor.abs())
        }
    };
    Some(Response {
        value,
        half_width: Some(half_width),
        before_ops_per_second: changed.before,
        after_ops_per_second: changed.after,
        change: variant.change,
        load,
    })
}

/// Runs a test that gave `record` again, as [`Side::return_visit`] does.
pub fn revisit(
    session: &mut Session,
    phase: &PlannedPhase,
    record: &PhaseRecord,
    budget_ns: u64,
) -> Option<PhaseRecord> {
    let unchanged = experiment::unchanged(phase, session.plan().cache)?;
    // With another name, it draws other places.
    let unchanged = PlannedPhase { id: format!("{}~again", phase.id), ..unchanged };
    let mut time_ns = time_for(record, phase.workload.in_flight().into(), VISIT_NS)?;
    let written = written_bytes_per_second(record);
    if written > 0.0 {
        time_ns = time_ns.min((session.left_bytes() as f64 * 1e9 / written) as u64);
    }
    if time_ns < VISIT_NS_MIN {
        return None;
    }
    // The part is the same, unless something below this system keeps it.
    let part = match session.is_cached_below {
        true => session.next_part(phase)?,
        false => session.part_of(phase),
    };
    let time = Time { measured_ns: time_ns, budget_ns: budget_ns.min(time_ns.saturating_mul(4)) };
    Some(run_for(session, &unchanged, record.repetition, time, part))
}

/// Runs a load for a time.
fn run_for(
    session: &mut Session,
    phase: &PlannedPhase,
    repetition: u32,
    time: Time,
    part: Part,
) -> PhaseRecord {
    let mut phase = phase.clone();
    if session.ends_with_slice(part) {
        phase.stop.passes = Some(1);
    }
    phase.stop.time_ns = Some(time.measured_ns);
    phase.stop.bytes = writes(&phase).then(|| session.left_bytes());
    let is_stream = phase.workload.data().is_some_and(|data| data.is_stream() && !data.writes());
    // The test has left the stream in the page cache, so it would no longer come from its device.
    let cache = match session.plan().cache {
        CacheMode::AsIs if is_stream => CacheMode::Cold,
        cache => cache,
    };
    let options = MeasureOptions { precision_goal: None, rounds: None, part, cache, fills: None };
    session.measure(&phase, &TestOrder::new(0, repetition, time), options, &mut |_| {})
}

/// Returns the return visit to a test with `record` that gave the record `visit`. It is `None` if it did not finish, had too
/// few files, or has no rate.
pub fn return_visit_of(
    phase: &PlannedPhase,
    record: &PhaseRecord,
    visit: &PhaseRecord,
) -> Option<ReturnVisit> {
    let has_files = visit.workload.files as f64 >= VISITED_SHARE_MIN * record.workload.files as f64;
    if visit.status != Status::Done || has_paused(visit) || !has_files {
        return None;
    }
    let budget = visit.seen.budget.as_ref();
    Some(ReturnVisit {
        start_ns: visit.counts.start_ns,
        ops_per_second: rate_of(phase, visit)?.per_second,
        latency_mean_ns: visit.figures.latency_ns.as_ref().map(|latency| latency.mean),
        kernel_share: budget.map(|budget| budget.kernel + budget.run_queue),
    })
}

/// Returns true if this process or the machine did not run for a part of it.
fn has_paused(record: &PhaseRecord) -> bool {
    let system = record.seen.system.as_ref();
    system.is_some_and(|system| system.not_running_ns.is_some() || system.suspended_ns.is_some())
}

fn writes(phase: &PlannedPhase) -> bool {
    phase.workload.data().is_some_and(DataWork::writes)
}

/// Returns the time of a short run of a test that gave `record`, in a range; `None` if that has no rate.
fn time_for(record: &PhaseRecord, in_flight: f64, range_ns: Range<u64>) -> Option<u64> {
    let time_ns = (CHANGED_OPS * in_flight * 1e9 / record.figures.rate.steady_or_whole()?) as u64;
    Some(time_ns.clamp(range_ns.start, range_ns.end))
}

/// Returns the bytes that a return visit to this test writes at most.
pub fn return_visit_bytes(record: &PhaseRecord) -> u64 {
    (written_bytes_per_second(record) * VISIT_NS.end as f64 / 1e9) as u64
}

fn written_bytes_per_second(record: &PhaseRecord) -> f64 {
    let written_share = record.counts.app_bytes_written as f64 / record.counts.bytes.max(1) as f64;
    record.figures.rate.bytes_per_second.unwrap_or(0.0) * written_share
}

/// Returns the bytes that all runs of an experiment write at most, each of this time. A change at most multiplies the rate by
/// its factor.
fn bytes_of(record: &PhaseRecord, time_ns: u64) -> u64 {
    let rate = record.figures.rate.bytes_per_second.unwrap_or(0.0);
    let times = experiment::RUNS as f64 * f64::from(1 + experiment::FACTOR) / 2.0;
    (rate * times * time_ns as f64 / 1e9) as u64
}

/// Returns the rate of a short run; `None` if it has none.
fn rate_of(phase: &PlannedPhase, record: &PhaseRecord) -> Option<Rate> {
    if record.workload.order.is_some() {
        // Rounds have gaps between them that are not measured.
        let per_second = record.figures.rate.ops_per_second.filter(|rate| *rate > 0.0)?;
        return Some(Rate { per_second, error: SINGLE_RATE_ERROR, ..Rate::default() });
    }
    // On a virtual clock no thread wakes up late, and every interval is whole.
    let from_ns = if phase.engine.has_virtual_clock() { 0 } else { START_NS };
    let rate = &record.figures.rate;
    let per_slot = record.counts.ops as f64 / f64::from(phase.workload.in_flight());
    if per_slot < FEW_OPS {
        // The operations of all slots begin together, and may end together: only the whole run has no edge.
        let per_second = record.counts.ops as f64 * 1e9 / rate.last_done_ns.max(1) as f64;
        let error = SINGLE_RATE_ERROR.min(EDGE_SLOTS / per_slot);
        return (per_second > 0.0).then_some(Rate { per_second, error, ..Rate::default() });
    }
    Rate::compute(within(&record.figures.intervals, from_ns..rate.first_done_ns))
}

/// A rate, and the spread of its parts around it.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    per_second: f64,
    /// Number of operations behind the rate.
    ops: f64,
    /// Number of pairs of intervals, because neighbours resemble each other. No further correction is made:
    /// so few pairs cannot show how much they do.
    pairs: usize,
    /// Sum of the squared distances of the pairs from their mean, as shares of it.
    squares: f64,
    /// Possible error as a share, where the pairs are too few.
    error: f64,
}

impl Rate {
    fn compute(intervals: &[Interval]) -> Option<Self> {
        let rates: Vec<_> =
            intervals.iter().map(|interval| interval.ops as f64 * 1e9 / interval.length_ns as f64).collect();
        let ops: f64 = intervals.iter().map(|interval| interval.ops as f64).sum();
        let length_ns: f64 = intervals.iter().map(|interval| interval.length_ns as f64).sum();
        Some(Self { ops, per_second: ops * 1e9 / length_ns, ..Self::from_rates(&rates)? })
    }

    /// Computes the rate and its spread from the rates of neighbouring intervals.
    fn from_rates(rates: &[f64]) -> Option<Self> {
        let per_second = rates.iter().sum::<f64>() / rates.len() as f64;
        let pairs: Vec<f64> = rates.chunks_exact(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect();
        let mean = pairs.iter().sum::<f64>() / pairs.len().max(1) as f64;
        let squares = pairs.iter().map(|pair| ((pair - mean) / mean).powi(2)).sum();
        (per_second > 0.0).then_some(Self {
            per_second,
            ops: f64::INFINITY,
            pairs: pairs.len(),
            squares,
            error: SINGLE_RATE_ERROR,
        })
    }
}

/// Returns half of the 95 % interval of the mean of rates of the same load, as a share of it. It follows from
/// the spread of the parts around each rate.
fn half_width(rates: [Rate; 2]) -> f64 {
    let pairs: usize = rates.iter().map(|rate| rate.pairs).sum();
    let degrees: usize = rates.iter().map(|rate| rate.pairs.saturating_sub(1)).sum();
    // Student's t at 97.5 %, from two degrees of freedom on.
    let t = [4.303, 3.182, 2.776, 2.571].get(degrees.wrapping_sub(2)).copied();
    match t.or((degrees > 5).then_some(2.447)) {
        Some(t) => {
            let squares: f64 = rates.iter().map(|rate| rate.squares).sum();
            // The time of each rate may contain one operation more or less.
            let edges: f64 = rates.iter().map(|rate| rate.ops.recip().powi(2)).sum();
            (t * t * squares / degrees as f64 / pairs as f64 + edges / 4.0).sqrt()
        }
        None => rates.iter().map(|rate| rate.error).fold(0.0, f64::max),
    }
}

/// Change of a rate, from two runs without the changed thing and two with it.
struct RateChange {
    /// Operations per second without the change.
    before: f64,
    /// Operations per second with the change.
    after: f64,
    /// Logarithm of `after` over `before`.
    log_ratio: f64,
    /// Half of the 95 % interval of that logarithm.
    half_width: f64,
}

impl RateChange {
    /// Computes the change from rates without and with it; rates at the same index come from neighbouring
    /// runs.
    fn compute(without: [Rate; 2], with: [Rate; 2]) -> Self {
        let mean = |rates: [Rate; 2]| (rates[0].per_second * rates[1].per_second).sqrt();
        let (before, after) = (mean(without), mean(with));
        let of_pair = |pair: usize| (with[pair].per_second / without[pair].per_second).ln();
        // The width combines the uncertainty of both means with the distance between the two pairs.
        let apart = (of_pair(0) - of_pair(1)) / 2.0;
        let squares =
            [half_width(without), half_width(with), apart].iter().map(|half| half * half).sum::<f64>();
        Self { before, after, log_ratio: (after / before).ln(), half_width: squares.sqrt() }
    }
}

/// Returns the whole intervals within a time.
fn within(intervals: &[Interval], time_ns: Range<u64>) -> &[Interval] {
    let first = intervals.iter().take_while(|interval| interval.start_ns < time_ns.start).count();
    let end = |interval: &&Interval| interval.start_ns + interval.length_ns <= time_ns.end;
    let count = intervals[first..].iter().take_while(end).count();
    let within = &intervals[first..first + count];
    // The end of a run cuts its last interval, in which the operations in flight end: a rate of nothing but these.
    match within {
        [whole @ .., before, last] if last.length_ns < before.length_ns / 2 => &within[..=whole.len()],
        _ => within,
    }
}

#[cfg(test)]
mod tests {
    use model::run::Interval;

    use super::{Rate, RateChange, SINGLE_RATE_ERROR, half_width, within};

    fn even(per_second: f64) -> Rate {
        Rate::from_rates(&[per_second; 6]).unwrap()
    }

    #[test]
    fn interval_cut_by_the_end_has_no_rate() {
        let interval = |at: u64, length_ns, ops| Interval {
            start_ns: at * 100_000_000,
            length_ns,
            ops,
            bytes: 0,
            histogram: Vec::new(),
            frame: None,
        };
        let mut intervals: Vec<_> = (0..10).map(|at| interval(at, 100_000_000, 265)).collect();
        intervals.push(interval(10, 10_000, 8));
        let rate = Rate::compute(within(&intervals, 0..u64::MAX)).unwrap();
        assert!((rate.per_second - 2650.0).abs() < 0.01, "{}", rate.per_second);
        assert_eq!(within(&intervals[..10], 200_000_000..900_000_000).len(), 7);
    }

    #[test]
    fn change_is_separated_from_drift() {
        // Each run gives a tenth less than the one before, and the change doubles the rate.
        let of_run = |run: i32| 1000.0 * 0.9f64.powi(run);
        let changed = RateChange::compute(
            [even(of_run(0)), even(of_run(3))],
            [even(2.0 * of_run(1)), even(2.0 * of_run(2))],
        );
        assert!((changed.log_ratio - 2f64.ln()).abs() < 1e-9, "{}", changed.log_ratio.exp());
        // By pairs, the rate is 1.8 and 2.2 times as high.
        assert!((changed.half_width - 0.1054).abs() < 1e-3, "{}", changed.half_width);
        assert!((changed.after / changed.before - 2.0).abs() < 1e-9);
    }

    #[test]
    fn half_width_follows_agreement_of_interval_pairs() {
        assert_eq!(half_width([even(5.0); 2]), 0.0);
        let short = Rate::from_rates(&[1.0, 2.0]).unwrap();
        assert_eq!(half_width([short; 2]), SINGLE_RATE_ERROR);
        // A whole run with few operations has less.
        assert_eq!(half_width([Rate { error: 0.04, ..short }; 2]), 0.04);
        // Operations that a limit moves from one interval to its neighbour are no spread.
        let lots = Rate::from_rates(&[0.0, 10.0, 10.0, 0.0, 4.0, 6.0]).unwrap();
        assert_eq!(half_width([lots; 2]), 0.0);
        // Pairs of 10, 11 and 9: a tenth around their mean, six of them with four degrees of freedom.
        let uneven = Rate::from_rates(&[9.0, 11.0, 10.0, 12.0, 8.0, 10.0]).unwrap();
        let half = half_width([uneven; 2]);
        assert!((half - 2.776 * 0.1 / 6f64.sqrt()).abs() < 1e-9, "{half}");
        let few = Rate { ops: 20.0, ..even(5.0) };
        assert!((half_width([few; 2]) - 0.05 / 2f64.sqrt()).abs() < 1e-9);
        let changed = RateChange::compute([uneven; 2], [uneven; 2]);
        assert!((changed.half_width - half * 2f64.sqrt()).abs() < 1e-9, "{}", changed.half_width);
        assert_eq!(Rate::from_rates(&[0.0; 6]).map(|rate| rate.per_second), None);
    }
}
