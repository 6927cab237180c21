//! The largest difference between groups that were measured side by side.

use crate::interval::{Interval, half_width, mean, student_at};

/// Fewest times at which both groups have a value.
const TIMES_MIN: usize = 5;
/// Probability that the interval misses the ratio.
const MISSED: f64 = 0.05;

/// The two groups that differ most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contrast {
    /// Index of the group with the lower values.
    pub low: usize,
    /// Index of the group with the higher values.
    pub high: usize,
    /// Geometric mean of the ratio of their values.
    pub ratio: f64,
    /// Interval of that ratio. It holds for all pairs of groups at once (Bonferroni), as this pair is the extreme one.
    pub interval: Interval,
}

/// Compares groups by their values at several times, each by several observers: `values[time][observer][group]`. Only values
/// of one observer at one time are compared, so neither a drift nor a slow observer counts. Returns `None` if no two groups
/// have values at enough times.
pub fn largest_contrast(values: &[Vec<Vec<Option<f64>>>]) -> Option<Contrast> {
    let groups = values.iter().flatten().map(Vec::len).max().unwrap_or(0);
    let pairs = || (0..groups).flat_map(|high| (0..high).map(move |low| (low, high)));
    let log_ratios = |low: usize, high: usize| -> Vec<f64> {
        let of_observer = |observer: &Vec<Option<f64>>| {
            let value = |group: usize| observer.get(group).copied().flatten().filter(|value| *value > 0.0);
            Some((value(high)? / value(low)?).ln())
        };
        let at_time = |observers: &Vec<Vec<Option<f64>>>| {
            let logs: Vec<f64> = observers.iter().filter_map(of_observer).collect();
            (!logs.is_empty()).then(|| mean(&logs))
        };
        values.iter().filter_map(at_time).collect()
    };
    let known = pairs().map(|(low, high)| (low, high, log_ratios(low, high)));
    let known: Vec<_> = known.filter(|(_, _, logs)| logs.len() >= TIMES_MIN).collect();
    let (low, high, logs) =
        known.iter().max_by(|one, other| mean(&one.2).abs().total_cmp(&mean(&other.2).abs()))?;
    let degrees = logs.len() as f64 - 1.0;
    let wider = student_at(1.0 - MISSED / 2.0 / known.len() as f64, degrees)
        / student_at(1.0 - MISSED / 2.0, degrees);
    let (middle, half) = (mean(logs), half_width(logs)? * wider);
    let (low, high, middle) = if middle < 0.0 { (*high, *low, -middle) } else { (*low, *high, middle) };
    let interval = Interval { low: (middle - half).exp(), high: (middle + half).exp() };
    interval.high.is_finite().then_some(Contrast { low, high, ratio: middle.exp(), interval })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns values of groups with these means, each with noise of a tenth. `drift` is the factor from one time to the next.
    fn noisy_values(means: &[f64], times: i32, drift: f64, seed: u64) -> Vec<Vec<Vec<Option<f64>>>> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut value =
            |mean: f64, time: i32| Some(mean * drift.powi(time) * (1.0 + 0.2 * (random.f64() - 0.5)));
        (0..times).map(|time| vec![means.iter().map(|mean| value(*mean, time)).collect()]).collect()
    }

    #[test]
    fn slow_group_is_found_despite_drift() {
        let found = largest_contrast(&noisy_values(&[1.0, 1.1, 2.5, 1.0], 16, 0.8, 1)).unwrap();
        assert_eq!(found.high, 2);
        assert!(
            found.interval.low < 2.5 && 2.5 < found.interval.high && found.interval.low > 2.0,
            "{found:?}"
        );
    }

    #[test]
    fn equal_groups_rarely_differ_clearly() {
        let claims = |seed: &u64| {
            largest_contrast(&noisy_values(&[1.0; 8], 16, 1.0, *seed))
                .is_some_and(|found| found.interval.low > 1.0)
        };
        let false_claims = (0..400).filter(claims).count();
        assert!(false_claims <= 32, "{false_claims} of 400");
    }

    #[test]
    fn observers_are_not_compared_with_each_other() {
        let slow_observer = vec![vec![Some(1.0), Some(1.0), None], vec![None, Some(9.0), Some(9.0)]];
        let found = largest_contrast(&vec![slow_observer; 8]).unwrap();
        assert_eq!(found.ratio, 1.0);
        let apart = vec![vec![Some(1.0), None], vec![None, Some(9.0)]];
        assert_eq!(largest_contrast(&vec![apart; 8]), None);
    }
}
