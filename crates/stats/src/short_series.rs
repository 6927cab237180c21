//! Changes of level in a short series, such as that of one test over many runs.
//!
//! `change_points` needs eight values on each side of a change, and a series long enough to show the correlation of
//! neighbours. A handful of runs offers neither. So this module takes values to be independent; in return, its
//! significance level is stricter.

use fastrand::Rng;

use crate::change_points::{SAME_LEVEL, sums_before};
use crate::interval::mean;

/// Fewest values in which a change is reported. With fewer, the spread is known so poorly that almost nothing is
/// significant.
pub const SHORT_SERIES_MIN: usize = 6;
/// Fewest values of a level. One value that differs may be odd; a second one shows that the level stays.
const LEVEL_MIN: usize = 2;
/// Fewest values of a temporary level. Two would not show that it lasts: if one run of ten is odd, one series of 15
/// runs in eight has two odd neighbours.
const PASSING_MIN: usize = 3;
/// False alarms: a change is found in one of this many series without a change. A list shows dozens of series, so the
/// usual one of twenty would put a false change into each list.
const FALSE_ALARM_DIVISOR: f64 = 100.0;
/// Simulated series without a change. The share of them that look as changed is then known to a third of itself.
const NOISE_SERIES: usize = 1999;
/// Number of values from which the series itself serves as its noise model, odd values included. It is then compared
/// with its own values in random order. With fewer there are too few orders: the last two of ten differ from the others
/// in one of 23.
const SHUFFLED_MIN: usize = 16;
/// Number of tests on a series: one change, and a temporary level.
const TESTS_PER_SERIES: f64 = 2.0;
/// Longer series skip the second test: its work grows with the square of the length.
const TWICE_MAX: usize = 100;

/// A part of a series with one level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// First value of the part.
    pub from: usize,
    /// First value after the part.
    pub to: usize,
    /// Mean of its values, in their unit.
    pub mean: f64,
}

/// Returns the levels of a series of 6 to about 100 values in the order of time. The levels tile the series. There is
/// one level if the series does not change, or is shorter than [`SHORT_SERIES_MIN`]. There is none without values, or
/// if one is not finite.
///
/// The first test is whether the series changes once. The position is taken at which two means explain most of the sum
/// of squares around one mean. The share that they explain is compared with that of the best position in series without
/// a change. This follows Worsley, "On the likelihood ratio test for a shift in location of normal populations", 1979.
/// There it is a table, here a simulation with a fixed seed.
///
/// The simulated series are normal noise, or, from 16 values up, the values themselves in random order. Each is split
/// at its own best position, which corrects for the choice of the position.
///
/// If the series does not change once, the second test compares a part in its middle with both ends. One split does not
/// show a temporary level (Olshen and others, "Circular binary segmentation", 2004). Parts between changes are tested
/// in the same way. Levels that differ by less than 3 % are one.
///
/// Values are taken to be independent. If neighbours correlate by 0.3, false changes are four to eight times as
/// frequent.
pub fn levels_of_short_series(values: &[f64]) -> Vec<Level> {
    let largest = values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
        return Vec::new();
    }
    // Squares of very large or very small numbers overflow or vanish.
    let scale = if largest > 0.0 { largest } else { 1.0 };
    let scaled: Vec<f64> = values.iter().map(|value| value / scale).collect();
    let mut changes = vec![0, scaled.len()];
    let mut open = vec![(0, scaled.len())];
    while let Some((from, to)) = open.pop() {
        let found = changes_within(&scaled[from..to]);
        let mut start = from;
        for at in found.iter().map(|at| from + at).chain([to]) {
            if !found.is_empty() {
                open.push((start, at));
            }
            start = at;
        }
        changes.extend(found.iter().map(|at| from + at));
    }
    changes.sort_unstable();
    changes.dedup();
    merge_same(&scaled, &mut changes);
    let level =
        |pair: &[usize]| Level { from: pair[0], to: pair[1], mean: mean(&scaled[pair[0]..pair[1]]) * scale };
    changes.windows(2).map(level).collect()
}

/// Returns one change, two, or none.
fn changes_within(values: &[f64]) -> Vec<usize> {
    if values.len() < SHORT_SERIES_MIN {
        return Vec::new();
    }
    for best in [best_single_change, best_two_changes] {
        let counts = |cut: &Cut| cut.difference(values) >= SAME_LEVEL && is_rare(values, cut, best);
        if let Some(cut) = best(values).filter(counts) {
            return [Some(cut.at), cut.until].into_iter().flatten().collect();
        }
    }
    Vec::new()
}

/// A series cut into the values between two places and all others.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// Start of the inner part.
    at: usize,
    /// End of the inner part; `None` if that is the end of the series.
    until: Option<usize>,
    /// Share of the squares around one mean that two means remove, 0 to 1.
    explained: f64,
}

impl Cut {
    fn new(sums: &Sums, at: usize, until: Option<usize>) -> Self {
        let count = sums.before.len() - 1;
        let to = until.unwrap_or(count);
        let (inside, outside) = ((to - at) as f64, (count - (to - at)) as f64);
        let sum_inside = sums.before[to] - sums.before[at];
        let mean_inside = sum_inside / inside;
        let mean_outside = (sums.before[count] - sum_inside) / outside;
        let step = mean_inside - mean_outside;
        Self { at, until, explained: inside * outside / count as f64 * step * step / sums.squares }
    }

    /// Difference of both parts, as a share of the larger.
    fn difference(&self, values: &[f64]) -> f64 {
        let (before, rest) = values.split_at(self.at);
        let (inside, after) = rest.split_at(self.until.map_or(rest.len(), |until| until - self.at));
        difference(inside, &[before, after].concat())
    }
}

/// Difference of the levels of two parts, as a share of the larger level: by means or by medians, whichever is less. A
/// few odd values move the means. If values come in two kinds, one more value of a kind moves the medians.
fn difference(a: &[f64], b: &[f64]) -> f64 {
    let share = |a: f64, b: f64| (a - b).abs() / a.abs().max(b.abs()).max(f64::MIN_POSITIVE);
    let median = |values: &[f64]| middle(values).unwrap_or(0.0);
    share(mean(a), mean(b)).min(share(median(a), median(b)))
}

/// The median, in the unit of the values; `None` without values. If two values are in the middle, it is their mean.
pub fn middle(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let low = sorted.get(sorted.len().checked_sub(1)? / 2)?;
    Some(low / 2.0 + sorted.get(sorted.len() / 2)? / 2.0)
}

/// Prefix sums of a series, less its mean for each value, and the sum of squares around that mean.
struct Sums {
    before: Vec<f64>,
    squares: f64,
}

impl Sums {
    fn new(values: &[f64]) -> Self {
        let centre = mean(values);
        Self {
            before: sums_before(values, centre),
            squares: values.iter().map(|value| (value - centre).powi(2)).sum(),
        }
    }
}

fn best_single_change(values: &[f64]) -> Option<Cut> {
    let sums = Sums::new(values);
    best((LEVEL_MIN..=values.len() - LEVEL_MIN).map(|at| Cut::new(&sums, at, None)))
}

fn best_two_changes(values: &[f64]) -> Option<Cut> {
    if values.len() > TWICE_MAX {
        return None;
    }
    let (sums, last) = (Sums::new(values), values.len() - LEVEL_MIN);
    best((LEVEL_MIN..last).flat_map(|at| {
        let sums = &sums;
        (at + PASSING_MIN..=last).map(move |until| Cut::new(sums, at, Some(until)))
    }))
}

fn best(cuts: impl Iterator<Item = Cut>) -> Option<Cut> {
    cuts.max_by(|a, b| a.explained.total_cmp(&b.explained))
}

/// True if hardly any series without a change is explained as well by its own best cut. The rank among them, counting
/// the series itself, is a p-value that holds for any number of them. See Phipson and Smyth, "Permutation p-values
/// should never be zero", 2010.
fn is_rare(values: &[f64], cut: &Cut, best: fn(&[f64]) -> Option<Cut>) -> bool {
    let may_pass = ((NOISE_SERIES + 1) as f64 / FALSE_ALARM_DIVISOR / TESTS_PER_SERIES) as usize - 1;
    let mut rng = Rng::with_seed(values.len() as u64);
    let mut noise = values.to_vec();
    let as_good = (0..NOISE_SERIES).filter(|_| {
        if values.len() < SHUFFLED_MIN {
            noise.fill_with(|| normal(&mut rng));
        } else {
            rng.shuffle(&mut noise);
        }
        // The same values in an order with the same split are equal, but for rounding.
        best(&noise).is_some_and(|of_noise| of_noise.explained >= cut.explained * (1.0 - 1e-9))
    });
    // Once there are too many, the rest cannot change the answer.
    as_good.take(may_pass + 1).count() <= may_pass
}

/// Returns a number of the standard normal distribution (Box and Muller, 1958). The crate statrs draws from its own
/// only with another generator than the one used here.
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

/// Removes changes between levels that are the same, the smallest first, until none is left.
fn merge_same(values: &[f64], changes: &mut Vec<usize>) {
    loop {
        let inner = (1..changes.len() - 1).map(|at| {
            let (from, middle, to) = (changes[at - 1], changes[at], changes[at + 1]);
            (at, difference(&values[from..middle], &values[middle..to]))
        });
        match inner.min_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((at, difference)) if difference < SAME_LEVEL => drop(changes.remove(at)),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(values: &[f64]) -> Vec<usize> {
        levels_of_short_series(values).iter().map(|level| level.from).collect()
    }

    #[test]
    fn levels_begin_where_the_rate_changes() {
        let values = [100.0, 101.0, 99.0, 100.5, 80.0, 80.5, 79.0];
        let levels = levels_of_short_series(&values);
        assert_eq!(levels.iter().map(|level| (level.from, level.to)).collect::<Vec<_>>(), [(0, 4), (4, 7)]);
        assert!(
            (levels[0].mean - 100.125).abs() < 1e-9 && (levels[1].mean - 79.833).abs() < 1e-3,
            "{levels:?}"
        );
    }

    #[test]
    fn temporary_level_is_found() {
        let mut values = [100.0, 101.0, 99.0, 100.0, 60.0, 61.0, 59.5, 60.0, 100.5, 99.0, 100.0, 101.0];
        assert_eq!(places(&values), [0, 4, 8]);
        values[8..].fill(30.0);
        assert_eq!(places(&values), [0, 4, 8]);
    }

    #[test]
    fn level_needs_two_values() {
        let mut values = vec![100.0, 101.0, 99.5, 100.5, 99.0, 100.0, 70.0];
        assert_eq!(places(&values), [0]);
        values.push(70.5);
        assert_eq!(places(&values), [0, 6]);
        for at in 0..12 {
            let mut values: Vec<f64> = (0..12).map(|i| 100.0 + f64::from(i % 3)).collect();
            values[at] = 20.0;
            assert_eq!(places(&values), [0], "{at}");
        }
    }

    #[test]
    fn step_below_three_percent_is_ignored() {
        let step = |to: f64| [[100.0; 5], [to; 5]].concat();
        assert_eq!(places(&step(97.5)), [0]);
        assert_eq!(places(&step(96.5)), [0, 5]);
    }

    #[test]
    fn series_below_six_values_has_no_step() {
        assert_eq!(levels_of_short_series(&[]), []);
        assert_eq!(levels_of_short_series(&[1.0, f64::NAN]), []);
        assert_eq!(places(&[0.0; 8]), [0]);
        assert_eq!(places(&[100.0, 100.0, 100.0, 50.0, 50.0]), [0]);
        assert_eq!(places(&[100.0, 100.0, 100.0, 100.0, 50.0, 50.0]), [0, 4]);
    }
}
