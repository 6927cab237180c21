//! The rate of a phase: its steady part, its value there, and its interval.

use std::ops::Range;

use crate::change_points::{NORMAL_MAD, SAME_LEVEL, SEGMENT_MIN, changes, median};
use crate::interval::{Interval, half_width, independent, mean};

/// One interval of a phase, directly after the one before it. A value that is not finite or below zero counts as zero.
/// A tick without length contributes nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tick {
    /// Length, in seconds.
    pub length_s: f64,
    /// Operations or bytes completed in it.
    pub count: f64,
}

/// A part of a phase in which the rate had one level.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// First tick.
    pub from: usize,
    /// The tick after the last.
    pub to: usize,
    /// Rate per second. The ticks next to the ends belong partly to other levels and do not count for this rate.
    pub rate: f64,
}

/// Result of the analysis of a phase's rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// Levels of the rate, in the order of time and without gaps. A last tick less than half as long as the others is
    /// in none: mostly, the end of the phase cut it short.
    pub segments: Vec<Segment>,
    /// Steady ticks: the last segment without its beginning, if it is long enough and does not drift. `None` if the
    /// phase should have run longer.
    pub steady: Option<Range<usize>>,
    /// Rate per second of the steady ticks; of all ticks if none are steady.
    pub rate: f64,
    /// Range of that rate with 95 % confidence. `None` with fewer than eight observations.
    pub interval: Option<Interval>,
    /// Effective sample size: number of independent observations that would give the same precision.
    pub independent: f64,
}

/// Fewest operations of an observation. Below that, several ticks form one observation: the noise of few operations is
/// not normal, and a difference of one is a large one.
const COUNT_WANTED: f64 = 10.0;
/// Most ticks of one observation.
const GROUP_LEN_MAX: usize = 5;
/// A last tick shorter than this share of the usual length is left out.
const COMPLETE_TICK_SHARE: f64 = 0.5;
/// Least share of the phase that a steady segment covers: one that began later may be an episode.
const STEADY_SHARE: f64 = 0.4;
/// Fewest ticks of a steady segment: with fewer, the interval is wide and a drift stays hidden.
pub const STEADY_TICKS: usize = 20;
/// Drift from end to end, as a share of the rate, that is always accepted as steady.
const DRIFT: f64 = 0.05;
/// Drift by chance, in half widths of the interval of the rate. Without a true drift, a fitted one has a standard
/// deviation of 3.5 standard errors of the mean. That is this many half widths.
const DRIFT_HALF_WIDTHS: f64 = 1.7;
/// Largest half width of the interval of a steady rate, as a share of the rate. A rate may switch between two levels
/// too often for each to be found. Its interval is a third and more, which would accept any drift.
const HALF_WIDTH_MAX: f64 = 0.25;
/// Most observations that the beginning of a level takes.
const TRANSIENT_MAX: usize = 4;
/// Values this many standard deviations from the others are not part of a drift.
const FAR: f64 = 3.0;
/// Width of the interval of a slope, as a multiple of that of a mean. A slope weighs the middle more than the ends,
/// which widens it by the root of 6/5.
const SLOPE_WIDENING: f64 = 1.0954;

/// Finds the levels of a rate, its steady part, and the rate there with its interval.
///
/// The rate is the least-squares slope of the cumulative count. That is a mean in which the middle weighs most. Bursts
/// at the ends, such as a throttle's credit at the start, shift it less than they shift the count over the time.
///
/// A segment is steady if it is the last and covers 40 % of the phase and 20 ticks. Its drift is at most 5 %, or within
/// chance. Half of its interval is at most a quarter of the rate.
///
/// With noise of 5 % in which neighbours correlate by 0.3, 4 of 100 steady phases of 100 ticks are called not steady.
/// Of 100 phases that drift by 20 %, 93 are. If neighbours correlate by 0.6 and more, fewer than 100 ticks show false
/// levels in one phase of four. The interval holds nevertheless, and more ticks settle it.
pub fn analyse(ticks: &[Tick]) -> Analysis {
    let ticks: Vec<Tick> = complete_ticks(ticks).iter().map(sound).collect();
    let observations = observe(&ticks);
    let rates: Vec<f64> = observations.iter().map(|observation| observation.rate).collect();
    let mut bounds = vec![0];
    bounds.extend(changes(&rates));
    bounds.push(observations.len());
    let levels = levels(&observations, &ticks, bounds);

    let everything = 0..ticks.len();
    let steady = levels.last().and_then(|level| {
        let (inner, observed) = level.inner(&observations);
        is_steady(&rates[observed.clone()], level.ticks.len(), ticks.len()).then_some((inner, observed))
    });
    // A phase too short to be called steady may still have one level, which begins as others do.
    let only_level = levels.first().filter(|_| levels.len() == 1).map(|level| level.inner(&observations));
    let (span, observed) = steady.clone().or(only_level).unwrap_or((everything, 0..rates.len()));
    let rate = slope(&ticks[span]);
    let segments = levels.iter().map(|level| Segment {
        from: level.ticks.start,
        to: level.ticks.end,
        rate: slope(&ticks[level.inner(&observations).0]),
    });
    Analysis {
        segments: segments.collect(),
        steady: steady.map(|(ticks, _)| ticks),
        rate,
        interval: interval(&rates[observed.clone()], rate),
        independent: independent(&rates[observed]),
    }
}

/// Returns the levels between these observations. Two of the same rate become one. A burst and the pause after it are
/// odd values at the beginning of a level, and not a separate level.
fn levels(observations: &[Observation], ticks: &[Tick], mut bounds: Vec<usize>) -> Vec<Level> {
    if ticks.is_empty() {
        return Vec::new();
    }
    loop {
        let levels: Vec<Level> =
            bounds.windows(2).map(|pair| Level::new(observations, pair[0]..pair[1], ticks.len())).collect();
        let rates: Vec<f64> = levels.iter().map(|level| slope(&ticks[level.inner(observations).0])).collect();
        let same = rates.windows(2).position(|pair| {
            (pair[0] - pair[1]).abs() < SAME_LEVEL * pair[0].max(pair[1]).max(f64::MIN_POSITIVE)
        });
        match same {
            Some(index) => bounds.remove(index + 1),
            None => return levels,
        };
    }
}

/// Leaves out a last tick that is too short to be compared with the others.
fn complete_ticks(ticks: &[Tick]) -> &[Tick] {
    let usual_s = median(ticks.iter().map(|tick| sound(tick).length_s).collect());
    match ticks {
        [before @ .., last] if sound(last).length_s < COMPLETE_TICK_SHARE * usual_s => before,
        all => all,
    }
}

/// Returns the tick with numbers fit for arithmetic.
fn sound(tick: &Tick) -> Tick {
    /// Larger than any measured length or count, and its square is far from overflow.
    const VALUE_MAX: f64 = 1e15;
    /// Shorter than the resolution of any clock.
    const SHORTEST_S: f64 = 1e-9;
    let finite = |value: f64| if value.is_finite() { value.clamp(0.0, VALUE_MAX) } else { 0.0 };
    match finite(tick.length_s) {
        ..SHORTEST_S => Tick { length_s: 0.0, count: 0.0 },
        length_s => Tick { length_s, count: finite(tick.count) },
    }
}

/// Ticks that are observed together, and their rate.
struct Observation {
    ticks: Range<usize>,
    rate: f64,
}

/// Merges as many neighbours as an observation needs to hold enough operations.
fn observe(ticks: &[Tick]) -> Vec<Observation> {
    let total: f64 = ticks.iter().map(|tick| tick.count).sum();
    // Without ticks or operations this is not a number or infinite, and either ends at a bound.
    let group_len =
        (COUNT_WANTED * ticks.len() as f64 / total).ceil().clamp(1.0, GROUP_LEN_MAX as f64) as usize;
    let rate = |range: Range<usize>| {
        let (count, length_s) = ticks[range]
            .iter()
            .fold((0.0, 0.0), |(count, length_s), tick| (count + tick.count, length_s + tick.length_s));
        (length_s > 0.0).then(|| count / length_s)
    };
    let mut observations: Vec<Observation> = Vec::new();
    let mut from = 0;
    for to in 1..=ticks.len() {
        if to - from >= group_len.max(1)
            && let Some(rate) = rate(from..to)
        {
            observations.push(Observation { ticks: from..to, rate });
            from = to;
        }
    }
    // The rest is too short for a separate observation.
    let start = observations.pop().map_or(0, |last| last.ticks.start);
    observations.extend(rate(start..ticks.len()).map(|rate| Observation { ticks: start..ticks.len(), rate }));
    observations
}

/// A segment, in observations and in ticks.
struct Level {
    observed: Range<usize>,
    ticks: Range<usize>,
}

impl Level {
    fn new(observations: &[Observation], observed: Range<usize>, ticks: usize) -> Self {
        let start =
            |index: usize| observations.get(index).map_or(ticks, |observation| observation.ticks.start);
        let from = if observed.start == 0 { 0 } else { start(observed.start) };
        Self { ticks: from..start(observed.end), observed }
    }

    /// Returns the ticks and observations that are at this level for certain. A change happens within one of the
    /// observations next to it, which is a mixture of both levels. The start of a phase is such a change: workers start
    /// one after the other, and a throttle spends its saved credit.
    fn inner(&self, observations: &[Observation]) -> (Range<usize>, Range<usize>) {
        let (mut ticks, mut observed) = (self.ticks.clone(), self.observed.clone());
        if observed.len() >= SEGMENT_MIN {
            // A throttle that spends its saved credit pauses after it.
            let rates: Vec<f64> = observations[observed.clone()].iter().map(|one| one.rate).collect();
            let (middle, reach) = (median(rates.clone()), reach(&rates));
            let is_far = |rate: &&f64| (**rate - middle).abs() > reach.max(SAME_LEVEL * middle);
            let transient = 1 + rates[1..].iter().take(TRANSIENT_MAX - 1).take_while(is_far).count();
            observed.start += transient;
            ticks.start = observations[observed.start - 1].ticks.end;
        }
        if observed.end < observations.len() {
            observed.end -= 1;
            ticks.end = observations[observed.end].ticks.start;
        }
        (ticks, observed)
    }
}

/// True if `ticks` ticks of `of_ticks`, with these rates, are a steady part of the phase.
fn is_steady(rates: &[f64], ticks: usize, of_ticks: usize) -> bool {
    let mean = mean(rates);
    if ticks < STEADY_TICKS || (ticks as f64) < STEADY_SHARE * of_ticks as f64 || mean <= 0.0 {
        return false;
    }
    let Some(interval) = interval(rates, mean) else { return false };
    let half_width = interval.half_width() / mean;
    half_width <= HALF_WIDTH_MAX
        && drift(&winsorized(rates)).abs() / mean <= (DRIFT_HALF_WIDTHS * half_width).max(DRIFT)
}

/// Returns the winsorized values: those far from the others are clamped. One interval without an operation would tilt
/// the line through all of them. Such an interval follows the burst with which a limit begins.
fn winsorized(values: &[f64]) -> Vec<f64> {
    let (middle, reach) = (median(values.to_vec()), reach(values));
    values.iter().map(|value| value.clamp(middle - reach, middle + reach)).collect()
}

/// Largest distance of values from their median, outliers excluded.
fn reach(values: &[f64]) -> f64 {
    let middle = median(values.to_vec());
    FAR * median(values.iter().map(|value| (value - middle).abs()).collect()) / NORMAL_MAD
}

/// Rise or fall, from end to end, of a line through these values.
fn drift(values: &[f64]) -> f64 {
    let points: Vec<_> = values.iter().enumerate().map(|(index, value)| (index as f64, *value)).collect();
    least_squares(&points).map_or(0.0, |slope| slope * values.len() as f64)
}

/// Rate per second: the slope of a line through the cumulative count before the first tick and at the end of each.
fn slope(ticks: &[Tick]) -> f64 {
    let mut points = vec![(0.0, 0.0)];
    let (mut time_s, mut count) = (0.0, 0.0);
    for tick in ticks {
        (time_s, count) = (time_s + tick.length_s, count + tick.count);
        points.push((time_s, count));
    }
    least_squares(&points).unwrap_or(0.0).max(0.0)
}

/// Slope of the least-squares line; `None` if all points have the same abscissa.
fn least_squares(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let (sum_x, sum_y) = points.iter().fold((0.0, 0.0), |sums, point| (sums.0 + point.0, sums.1 + point.1));
    let (mean_x, mean_y) = (sum_x / count, sum_y / count);
    // Sums around the means, in a second pass: differences of large sums would lose their digits.
    let (mut squares, mut products) = (0.0, 0.0);
    for (x, y) in points {
        squares += (x - mean_x).powi(2);
        products += (x - mean_x) * (y - mean_y);
    }
    let slope: f64 = products / squares;
    slope.is_finite().then_some(slope)
}

/// Interval around a rate, as wide as that of a slope over these observations.
fn interval(rates: &[f64], rate: f64) -> Option<Interval> {
    let has_enough = rates.len() >= SEGMENT_MIN && rates.iter().any(|rate| *rate > 0.0);
    let half = half_width(rates).filter(|_| has_enough)? * SLOPE_WIDENING;
    Some(Interval { low: (rate - half).max(0.0), high: rate + half })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(counts: &[f64]) -> Vec<Tick> {
        counts.iter().map(|count| Tick { length_s: 0.1, count: *count }).collect()
    }

    #[test]
    fn constant_rate_is_exact() {
        let analysis = analyse(&ticks(&[100.0; 50]));
        assert_eq!(analysis.steady, Some(1..50));
        assert_eq!(analysis.segments.len(), 1);
        let interval = analysis.interval.unwrap();
        for value in [analysis.rate, analysis.segments[0].rate, interval.low, interval.high] {
            assert!((value - 1000.0).abs() < 1e-6, "{value}");
        }
    }

    #[test]
    fn burst_and_pause_at_start_are_no_drift() {
        let mut counts = [500.0; 60];
        counts[..2].copy_from_slice(&[1028.0, 0.0]);
        let analysis = analyse(&ticks(&counts));
        assert_eq!(analysis.steady, Some(2..60));
        let interval = analysis.interval.unwrap();
        assert!((analysis.rate - 5000.0).abs() < 1e-6 && interval.half_width() < 1e-6, "{analysis:?}");
    }

    #[test]
    fn burst_and_pause_at_start_are_no_level() {
        let mut counts = [170.0; 21];
        (counts[0], counts[1], counts[15], counts[20]) = (509.0, 0.0, 168.0, 233.0);
        let analysis = analyse(&ticks(&counts));
        assert_eq!((analysis.segments.len(), analysis.steady), (1, Some(2..21)));
        assert!((analysis.rate - 1700.0).abs() < 20.0, "{}", analysis.rate);
    }

    #[test]
    fn twenty_ticks_can_be_steady_and_fewer_cannot() {
        assert_eq!(analyse(&ticks(&[100.0; 20])).steady, Some(1..20));
        assert_eq!(analyse(&ticks(&[100.0; 19])).steady, None);
    }

    #[test]
    fn empty_idle_and_invalid_series_are_analysed() {
        let none = Analysis { segments: vec![], steady: None, rate: 0.0, interval: None, independent: 0.0 };
        assert_eq!(analyse(&[]), none);
        let one = analyse(&ticks(&[7.0]));
        assert_eq!((one.steady, one.interval), (None, None));
        assert!((one.rate - 70.0).abs() < 1e-9);
        let idle = analyse(&ticks(&[0.0; 100]));
        assert_eq!(
            idle,
            Analysis {
                segments: vec![Segment { from: 0, to: 100, rate: 0.0 }],
                independent: 19.0,
                ..none.clone()
            }
        );
        let broken = [Tick { length_s: f64::NAN, count: 1.0 }, Tick { length_s: 0.0, count: f64::INFINITY }];
        assert_eq!(
            analyse(&broken),
            Analysis { segments: vec![Segment { from: 0, to: 2, rate: 0.0 }], ..none }
        );
    }

    #[test]
    fn last_tick_counts_only_if_long_enough() {
        let mut cut = ticks(&[100.0; 40]);
        cut.push(Tick { length_s: 0.01, count: 90.0 });
        let analysis = analyse(&cut);
        assert_eq!((analysis.segments[0].to, analysis.steady), (40, Some(1..40)));
        assert!((analysis.rate - 1000.0).abs() < 1e-6);
        cut[40] = Tick { length_s: 0.06, count: 60.0 };
        assert_eq!(analyse(&cut).steady, Some(1..41));
    }

    #[test]
    fn slow_devices_are_observed_over_several_ticks() {
        // One operation every 0.3 s. A burst of 3 instead would be a change.
        let slow: Vec<f64> = (0..120).map(|i| f64::from(u8::from(i % 3 == 0))).collect();
        let counts: Vec<usize> = observe(&ticks(&slow)).iter().map(|o| o.ticks.len()).collect();
        assert_eq!(counts, [5; 24]);
        let analysis = analyse(&ticks(&slow));
        assert_eq!(analysis.steady, Some(5..120));
        assert!((analysis.rate / (10.0 / 3.0) - 1.0).abs() < 0.01, "{}", analysis.rate);
        let uneven: Vec<usize> = observe(&ticks(&[4.0; 11])).iter().map(|o| o.ticks.len()).collect();
        assert_eq!(uneven, [3, 3, 5]);
    }

    #[test]
    fn tick_of_level_change_is_not_steady() {
        let mut counts = vec![1000.0; 24];
        counts.push(600.0);
        counts.extend([200.0; 40]);
        let analysis = analyse(&ticks(&counts));
        assert_eq!(analysis.steady.as_ref().map(|steady| steady.end), Some(65));
        assert!((analysis.rate - 2000.0).abs() < 1e-6, "{}", analysis.rate);
        assert_eq!(analysis.segments.len(), 2);
        assert!((24..=25).contains(&analysis.segments[1].from));
    }
}
