//! Course of a phase: its steady part, the changes of its rate, and the precision of the rate.

use std::ops::Range;

use model::plan::PrecisionGoal;
use model::run::{
    ChangePoint, EFFECTIVE_SAMPLES_MIN, Ends, Interval, Latency, LatencyIntervals, Mode, RoundRecord, Steady,
};
use stats::{Analysis, STEADY_TICKS, Tick, VALUES_MIN};

/// Percentiles that the document has a place for.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Facts about the rate of a phase, from its intervals.
#[derive(Debug)]
pub struct SteadyState {
    /// Result for the document.
    pub steady: Steady,
    /// Slope of the steady part in operations per second, or of everything if no part is steady.
    pub ops_per_second: f64,
    /// Ends of the 95 % interval of that slope.
    pub ci95: Option<(f64, f64)>,
    /// Number of independent values that tell as much about the rate as the intervals do.
    pub independent: f64,
    /// True if the rate is constant from the beginning to the end, as far as so short a time can show.
    pub is_level: bool,
}

impl SteadyState {
    /// Analyses the work of all workers together until `end_ns`. Returns `None` if there are too few
    /// intervals to tell.
    pub fn from_intervals(intervals: &[Interval], end_ns: u64) -> Option<Self> {
        let intervals = finished_intervals(intervals, end_ns);
        let Analysis { segments, steady, rate, interval, independent } = stats::analyse(&ticks(intervals));
        if segments.is_empty() {
            return None;
        }
        let start_ns = |tick: usize| intervals.get(tick).map_or(end_ns, |interval| interval.start_ns);
        let end_of = |tick: usize| {
            tick.checked_sub(1)
                .and_then(|last| intervals.get(last))
                .map_or(0, |last| last.start_ns + last.length_ns)
        };
        let change_points = segments.windows(2).map(|pair| ChangePoint {
            at_ns: start_ns(pair[1].from),
            before_ops_per_second: pair[0].rate,
            after_ops_per_second: pair[1].rate,
            bytes: intervals[..pair[1].from].iter().map(|interval| interval.bytes).sum(),
        });
        let part: Range<usize> =
            steady.clone().or_else(|| segments.last().map(|last| last.from..last.to)).unwrap_or_default();
        Some(Self {
            steady: Steady {
                is_steady: steady.is_some(),
                from_ns: start_ns(part.start),
                to_ns: end_of(part.end),
                change_points: change_points.collect(),
            },
            is_level: segments.len() == 1 && interval.is_some() && intervals.len() < STEADY_TICKS,
            ops_per_second: rate,
            ci95: interval.map(|interval| (interval.low, interval.high)),
            independent,
        })
    }

    /// Returns the state of a test that rounds have found steady at a rate, in the time of these rounds. Changes within
    /// them are small enough by the rule of the rounds.
    pub fn from_rounds(intervals: &[Interval], time: &Range<u64>, ops_per_second: f64) -> Option<Self> {
        let before = |end_ns: u64| intervals.iter().take_while(|interval| interval.start_ns < end_ns).count();
        let inside = intervals.get(before(time.start)..before(time.end))?;
        let state = Self::from_intervals(inside, time.end)?;
        // The mean of the rounds is the number, and the interval is the slope's, in the same proportion.
        let proportion = ops_per_second / state.ops_per_second;
        Some(Self {
            steady: Steady {
                is_steady: true,
                from_ns: time.start,
                to_ns: time.end,
                change_points: Vec::new(),
            },
            ops_per_second,
            ci95: state.ci95.map(|(low, high)| (low * proportion, high * proportion)),
            ..state
        })
    }

    /// Returns true if the rate never changed.
    pub fn is_one_level(&self) -> bool {
        self.steady.change_points.is_empty()
    }

    /// Returns the intervals of the steady part, or all if no part is steady.
    pub fn part<'a>(&self, intervals: &'a [Interval]) -> &'a [Interval] {
        let Steady { is_steady, from_ns, to_ns, .. } = self.steady;
        let before = |end_ns: u64| intervals.iter().take_while(|interval| interval.start_ns < end_ns).count();
        if is_steady { intervals.get(before(from_ns)..before(to_ns)).unwrap_or(intervals) } else { intervals }
    }
}

/// Precision of the rate of a phase while it goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Precision {
    /// Time from which the rate has been steady, from the start of the phase.
    pub since_ns: u64,
    /// Half of the 95 % interval of the rate, as a share of it.
    pub half_width: f64,
}

/// Returns the precision of the rate of a phase until now. Returns `None` while the rate is not steady, or
/// has too few effective samples.
pub fn precision(intervals: &[Interval], elapsed_ns: u64) -> Option<Precision> {
    let intervals = finished_intervals(intervals, elapsed_ns);
    let Analysis { steady, rate, interval, independent, .. } = stats::analyse(&ticks(intervals));
    let interval = interval.filter(|_| independent >= EFFECTIVE_SAMPLES_MIN);
    let since_ns = intervals.get(steady?.start)?.start_ns;
    Some(Precision { since_ns, half_width: interval?.half_width() / rate })
}

/// Returns the intervals that had ended by `end_ns`.
fn finished_intervals(intervals: &[Interval], end_ns: u64) -> &[Interval] {
    let ended =
        intervals.iter().take_while(|interval| interval.start_ns + interval.length_ns <= end_ns).count();
    &intervals[..ended]
}

fn ticks(intervals: &[Interval]) -> Vec<Tick> {
    let tick =
        |interval: &Interval| Tick { length_s: interval.length_ns as f64 / 1e9, count: interval.ops as f64 };
    intervals.iter().map(tick).collect()
}

/// Returns the 95 % interval of the operations per second of rounds; `None` if there are too few rounds.
pub fn from_rounds(rounds: &[RoundRecord]) -> Option<(f64, f64)> {
    let times = times_of(rounds);
    if times.len() < VALUES_MIN {
        return None;
    }
    // Rounds do the same work, so their times vary around a mean.
    let interval = stats::interval_of_mean(&times)?;
    (interval.low > 0.0).then(|| (1e9 / interval.high, 1e9 / interval.low))
}

/// Returns the number of independent rounds that tell as much about the rate as these.
pub fn independent_rounds(rounds: &[RoundRecord]) -> f64 {
    stats::independent(&times_of(rounds))
}

/// Returns the time of an operation in each round, in nanoseconds.
fn times_of(rounds: &[RoundRecord]) -> Vec<f64> {
    whole_rounds(rounds).map(|round| round.elapsed_ns as f64 / round.ops as f64).collect()
}

/// Returns true if rounds have shown the rate as precisely as requested.
pub fn rounds_suffice(rounds: &[RoundRecord], measured_ns: u64, precision_goal: PrecisionGoal) -> bool {
    let precision = || {
        from_rounds(rounds).is_some_and(|(low, high)| (high - low) <= precision_goal.precision * (high + low))
    };
    measured_ns >= precision_goal.time_min_ns
        && independent_rounds(rounds) >= EFFECTIVE_SAMPLES_MIN
        && precision()
}

/// Returns the rounds that visited every file. A round that was cut short visited other files, and is no
/// repetition.
fn whole_rounds(rounds: &[RoundRecord]) -> impl Iterator<Item = &RoundRecord> {
    let most = rounds.iter().map(|round| round.ops).max().unwrap_or(0);
    rounds.iter().filter(move |round| round.ops == most && most > 0)
}

/// Adds the intervals of its percentiles and its modes to a latency. Drops percentiles that lie in too few
/// intervals of the phase.
pub fn with_intervals(
    latency: Latency,
    buckets: &[(u64, u64)],
    intervals: &[Interval],
    seed: u64,
) -> Latency {
    let histograms: Vec<_> = intervals.iter().map(|interval| interval.histogram.clone()).collect();
    let found = stats::quantiles(&histograms, &QUANTILES, seed);
    let end = |index: usize| found.get(index).and_then(Option::as_ref);
    let kept = |value: Option<u64>, index: usize| value.filter(|_| end(index).is_some());
    let ci95 = |index: usize| {
        end(index).and_then(|quantile| quantile.interval_ns).map(|(low, high)| Ends { low, high })
    };
    let intervals = LatencyIntervals { p50: ci95(0), p90: ci95(1), p99: ci95(2), p99_9: ci95(3) };
    let modes = stats::modes(buckets);
    Latency {
        p50: kept(latency.p50, 0),
        p90: kept(latency.p90, 1),
        p99: kept(latency.p99, 2),
        p99_9: kept(latency.p99_9, 3),
        ci95: Some(intervals).filter(|found| found.p50.is_some()),
        modes: modes.into_iter().map(|mode| Mode { at_ns: mode.at_ns, share: mode.share }).collect(),
        ..latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK_NS: u64 = 100_000_000;

    fn intervals(ops: impl IntoIterator<Item = u64>) -> Vec<Interval> {
        let interval = |(index, ops): (usize, u64)| Interval {
            start_ns: index as u64 * TICK_NS,
            length_ns: TICK_NS,
            ops,
            bytes: ops * 4096,
            histogram: vec![(1_000 + ops, ops)],
            frame: None,
        };
        ops.into_iter().enumerate().map(interval).collect()
    }

    #[test]
    fn unfinished_interval_is_ignored() {
        let so_far = intervals([500; 40].into_iter().chain([3]));
        let precision = precision(&so_far, 4_050_000_000).unwrap();
        assert!(precision.half_width < 1e-6, "{precision:?}");
        assert_eq!(super::precision(&so_far[..15], 1_500_000_000), None);
    }

    #[test]
    fn rate_after_a_step_is_used_as_steady() {
        let all = intervals([1000; 30].into_iter().chain([200; 40]));
        let state = SteadyState::from_intervals(&all, 7_000_000_000).unwrap();
        assert!(state.steady.is_steady && !state.is_one_level() && !state.is_level);
        assert!((state.ops_per_second - 2000.0).abs() < 1.0, "{state:?}");
        let [point] = &state.steady.change_points[..] else { panic!("{:?}", state.steady) };
        assert_eq!((point.at_ns, point.bytes), (3_000_000_000, 30 * 1000 * 4096));
        assert!(state.part(&all).iter().all(|interval| interval.ops == 200));
    }

    #[test]
    fn short_phases_are_level_and_not_steady() {
        let state = SteadyState::from_intervals(&intervals([500; 12]), 1_200_000_000).unwrap();
        assert!(state.is_level && !state.steady.is_steady);
        assert!(SteadyState::from_intervals(&[], 0).is_none());
    }

    #[test]
    fn file_rounds_suffice_once_their_rate_is_precise() {
        let round = |elapsed_ns| RoundRecord::on_time(1000, elapsed_ns);
        let rounds =
            [99, 100, 101, 100, 100, 99, 101, 100, 99, 101, 100, 100].map(|ms| round(ms * 1_000_000));
        let (low, high) = from_rounds(&rounds).unwrap();
        assert!(low < 10_000.0 && high > 10_000.0 && high - low < 300.0, "{low} {high}");
        let precision_goal = PrecisionGoal { precision: 0.02, time_min_ns: 400_000_000 };
        assert!(rounds_suffice(&rounds, 500_000_000, precision_goal));
        assert!(!rounds_suffice(&rounds, 300_000_000, precision_goal), "too early");
        assert!(!rounds_suffice(&rounds[..4], 500_000_000, precision_goal), "too few");
        // A round that was cut short says nothing about the others.
        let cut = [&rounds[..4], &[RoundRecord::on_time(10, 90_000_000)]].concat();
        assert!(!rounds_suffice(&cut, 500_000_000, precision_goal));
    }
}
