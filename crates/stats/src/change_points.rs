//! Changes of level in a series.

use crate::interval::mean;

/// Fewest values between two changes. Shorter levels would be found by chance, and their means are imprecise.
pub(crate) const SEGMENT_MIN: usize = 8;
/// Levels that differ by less than this share of the larger one count as one. A throttle is so regular (0.01 %) that
/// every ripple would be a significant change, though 3 % is irrelevant.
pub(crate) const SAME_LEVEL: f64 = 0.03;
/// Least gain of a change: explained sum of squares, in long-run variances, as a multiple of the logarithm of the
/// length. Schwarz's criterion requires 2: the mean, and the position. Twice that makes up for a variance estimated
/// from about 25 batches. A change is then found in one of 25 series without a change.
///
/// Sources: Schwarz, "Estimating the dimension of a model", 1978; Yao, "Estimating the number of change-points via
/// Schwarz' criterion", 1988.
const PENALTY: f64 = 4.0;
/// Batches from which the long-run variance is estimated, if that leaves at least two values for each.
const BATCHES: usize = 25;
/// The median of absolute deviations of a normal distribution, in its standard deviations.
pub(crate) const NORMAL_MAD: f64 = 0.6745;
/// The mean of absolute deviations of a normal distribution, in its standard deviations: the root of 2 / pi.
const NORMAL_MEAN_DEVIATION: f64 = 0.7979;
/// Least long-run deviation, as a share of the estimate from the mean of absolute deviations. Normal noise never lowers
/// the deviation that far. The share is also too small to hide a few changes of level.
const MEAN_SHARE: f64 = 0.5;

/// Returns the positions at which the level of a series changes, ascending: each is the first value of a new level. The
/// method is binary segmentation (Scott and Knott, "A cluster analysis method for grouping means in the analysis of
/// variance", 1974). It takes the position with the largest gain, if that is enough, and then splits both sides alike.
///
/// A change happens within a value, which then belongs to neither level. So both neighbours of the position are
/// excluded from later steps: one such value would make another level of the eight around it.
pub(crate) fn changes(values: &[f64]) -> Vec<usize> {
    let sums = Sums::new(values);
    let penalty = PENALTY * (values.len().max(1) as f64).ln() * long_run_variance(values);
    let mut found = Vec::new();
    let mut open = vec![(0, values.len())];
    while let Some((from, to)) = open.pop() {
        if let Some(at) = sums.best_split(from, to, penalty) {
            found.push(at);
            open.extend([(from, at - 1), (at + 1, to)]);
        }
    }
    found.sort_unstable();
    merge_same_levels(values, found)
}

/// Sums of the values before each position of a series and before its end, less `centre` for each value.
pub(crate) fn sums_before(values: &[f64], centre: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let after_each = values.iter().map(|value| {
        sum += value - centre;
        sum
    });
    std::iter::once(0.0).chain(after_each).collect()
}

/// Prefix sums of a series, so that any mean is one subtraction.
struct Sums {
    /// Sum of the values before each position, less the mean of all for each value: small numbers keep their digits.
    before: Vec<f64>,
}

impl Sums {
    fn new(values: &[f64]) -> Self {
        Self { before: sums_before(values, mean(values)) }
    }

    /// Returns the position where a split reduces the sum of squares most, if by more than `penalty`.
    fn best_split(&self, from: usize, to: usize, penalty: f64) -> Option<usize> {
        let mut best = (penalty, None);
        for at in from + SEGMENT_MIN..(to + 1).saturating_sub(SEGMENT_MIN) {
            let (left, right) = ((at - from) as f64, (to - at) as f64);
            let step =
                (self.before[to] - self.before[at]) / right - (self.before[at] - self.before[from]) / left;
            let gain = left * right / (left + right) * step * step;
            if gain > best.0 {
                best = (gain, Some(at));
            }
        }
        best.1
    }
}

/// Removes changes between equal levels, the smallest first, until none is left.
fn merge_same_levels(values: &[f64], mut changes: Vec<usize>) -> Vec<usize> {
    let level = |changes: &[usize], index: usize| {
        let from = if index == 0 { 0 } else { changes[index - 1] + 1 };
        Level::new(&values[from..changes.get(index).map_or(values.len(), |next| next - 1)])
    };
    let mut levels: Vec<Level> = (0..=changes.len()).map(|index| level(&changes, index)).collect();
    loop {
        let differences = levels.windows(2).map(|pair| pair[0].difference(&pair[1])).enumerate();
        match differences.min_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((index, difference)) if difference < SAME_LEVEL => {
                changes.remove(index);
                levels.remove(index + 1);
                levels[index] = level(&changes, index);
            }
            _ => return changes,
        }
    }
}

/// Mean of the values between two changes.
struct Level {
    mean: f64,
    /// The mean without the value that is farthest from it.
    mean_without_farthest: f64,
}

impl Level {
    fn new(values: &[f64]) -> Self {
        let mean = mean(values);
        let odd = values.iter().map(|value| value - mean).max_by(|a, b| a.abs().total_cmp(&b.abs()));
        // All deviations sum to zero: the other values are low by the excess of the odd value.
        let taken = odd.unwrap_or(0.0) / values.len().saturating_sub(1).max(1) as f64;
        Self { mean, mean_without_farthest: mean - taken }
    }

    /// Difference of two levels, as a share of the higher one. The difference without odd values counts if it is
    /// smaller. Otherwise one odd value among eight, say a stall, would be a separate level in a regular series.
    fn difference(&self, other: &Self) -> f64 {
        let share = |a: f64, b: f64| (a - b).abs() / a.abs().max(b.abs()).max(f64::MIN_POSITIVE);
        share(self.mean, other.mean).min(share(self.mean_without_farthest, other.mean_without_farthest))
    }
}

/// Long-run variance: the variance of the mean of many values, times their number. For independent values it is their
/// variance; positive autocorrelation makes it larger. It is estimated from the differences of successive batch means,
/// as a change of level affects only one of them. The median ignores that one.
fn long_run_variance(values: &[f64]) -> f64 {
    let batch = (values.len() / BATCHES).max(2);
    let means: Vec<f64> = values.chunks_exact(batch).map(mean).collect();
    let differences: Vec<f64> = means.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let centre = median(differences.clone());
    let deviations: Vec<f64> = differences.iter().map(|difference| (difference - centre).abs()).collect();
    // If counts arrive in batches, as from a throttle, most differences are zero, and the median underestimates the
    // noise as zero.
    let by_mean = mean(&deviations) / NORMAL_MEAN_DEVIATION;
    let deviation = (median(deviations) / NORMAL_MAD).max(MEAN_SHARE * by_mean);
    // The variance of a difference is twice that of each value.
    batch as f64 * deviation.powi(2) / 2.0
}

/// The middle value; 0 for no values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noiseless_steps_are_found_exactly() {
        let mut values = vec![100.0; 30];
        values.extend([50.0; 20]);
        values.extend([80.0; 8]);
        assert_eq!(changes(&values), [30, 50]);
    }

    #[test]
    fn ripples_below_three_percent_are_no_change() {
        let values: Vec<f64> = (0..100).map(|i| if i / 20 % 2 == 0 { 100.0 } else { 98.0 }).collect();
        assert_eq!(changes(&values), []);
        let values: Vec<f64> = (0..100).map(|i| if i / 20 % 2 == 0 { 100.0 } else { 96.0 }).collect();
        assert_eq!(changes(&values), [20, 40, 60, 80]);
    }

    #[test]
    fn single_outlier_is_no_level() {
        for at in 0..60 {
            let mut values = vec![100.0; 60];
            values[at] = 20.0;
            assert_eq!(changes(&values), [], "{at}");
        }
    }

    #[test]
    fn sparse_counts_have_no_change() {
        let values: Vec<f64> = (0..200).map(|i| f64::from(u8::from(i % 7 == 3))).collect();
        assert_eq!(changes(&values), []);
    }

    #[test]
    fn short_series_have_no_change() {
        for length in 0..2 * SEGMENT_MIN {
            let values: Vec<f64> = (0..length).map(|i| i as f64).collect();
            assert_eq!(changes(&values), []);
        }
        let values: Vec<f64> =
            (0..2 * SEGMENT_MIN).map(|i| if i < SEGMENT_MIN { 1.0 } else { 2.0 }).collect();
        assert_eq!(changes(&values), [SEGMENT_MIN]);
    }
}
