//! Compares groups of runs: the ratio, its interval, and its significance.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::interval::{Interval, mean, student, variance};
use crate::permutation::{p_min_of_groups, p_min_of_pairs, p_of_groups, p_of_pairs};

/// Chance of a false claim of change among all rows.
pub const SIGNIFICANCE: f64 = 0.05;
/// Chance of finding a change of the planned size.
const POWER: f64 = 0.8;
/// Seed for drawing permutations of runs, so that the same runs always give the same p.
const SEED: u64 = 0x5eed;
/// Multiples of the smallest p, up to the largest p that settles, from which p counts as continuous.
const STEPS_MAX: f64 = 100.0;
/// Extra share that the permutation test needs over Student's t, divided by the number of runs, or of steps of p. With
/// it, simulations find the change four times of five (`tests/known_answers/comparisons.rs`); without it, three times
/// of five.
const FEW_RUNS_EXTRA: f64 = 0.35;
const FEW_STEPS_EXTRA: f64 = 0.08;
/// Most runs that are proposed. Beyond that, reducing the noise is the better way.
const RUNS_MAX: usize = 1000;
/// Fewest proposed runs, as a multiple of the runs that did not settle a row.
const MORE_RUNS_FACTOR: f64 = 1.5;

/// Relation of a quantity in one group of runs to that in another. The unit is a whole run: values within a run are
/// correlated, and do not show differences between runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Geometric mean of the second group over that of the first: 1.05 is 5 % more.
    pub ratio: f64,
    /// 95 % interval of the ratio, from Student's t on logarithms. For groups it is Welch's ("The generalization of
    /// `Student's' problem", Biometrika 34, 1947). For pairs it is that of the ratios (Kalibera and Jones, "Rigorous
    /// benchmarking in reasonable time", 2013). `None` with fewer than two runs on a side.
    pub interval: Option<Interval>,
    /// p of the exact permutation test on logarithms, not yet corrected for the number of rows. `None` with fewer than
    /// two runs on a side.
    pub p: Option<f64>,
    /// Runs of the smaller side, or pairs.
    pub runs: usize,
    /// True if runs were paired.
    pub are_pairs: bool,
    /// Contribution of one run of each side to the variance of the logarithm of the ratio.
    variance_of_one: Option<f64>,
    /// Number of runs that counts: the harmonic mean if the sides differ in size.
    runs_counted: f64,
    /// Smallest p that this number of runs can have.
    p_min: f64,
    /// Best possible resolution of the ratio, as a share.
    resolution: f64,
}

/// Compares groups of runs that were made one after the other. Values are rates or times of whole runs, all above 0.
/// The ratio of the means is only precise to `resolution`, a share. Discrete values may all be equal, but are not
/// exact. So the interval reaches at least as far as the resolution.
///
/// Returns `None` if a group is empty, or if a value is not above 0 and finite.
pub fn compare_groups(before: &[f64], after: &[f64], resolution: f64) -> Option<Change> {
    let (before, after) = (logarithms(before)?, logarithms(after)?);
    let difference = mean(&after) - mean(&before);
    let (first, second) = (before.len() as f64, after.len() as f64);
    let has_spread = before.len() > 1 && after.len() > 1;
    let spread = has_spread.then(|| {
        let (of_first, of_second) = (variance(&before) / first, variance(&after) / second);
        let error = of_first + of_second;
        let degrees = if error > 0.0 {
            error.powi(2) / (of_first.powi(2) / (first - 1.0) + of_second.powi(2) / (second - 1.0))
        } else {
            first + second - 2.0
        };
        (student(degrees) * error.sqrt(), variance(&before) + variance(&after))
    });
    Some(Change {
        ratio: finite(difference.exp())?,
        interval: spread.and_then(|(half, _)| interval_around(difference, half.max(resolution))),
        p: if has_spread { p_of_groups(&before, &after, SEED) } else { None },
        runs: before.len().min(after.len()),
        are_pairs: false,
        variance_of_one: spread.map(|(_, variance)| variance),
        runs_counted: 2.0 / (1.0 / first + 1.0 / second),
        p_min: p_min_of_groups(before.len(), after.len()),
        resolution,
    })
}

/// Compares runs made in pairs: one of each side, next to each other in time, so that slow drift is the same in both.
/// Values as for [`compare_groups`].
///
/// Returns `None` without a pair, or if a value is not above 0 and finite.
pub fn compare_pairs(pairs: &[(f64, f64)], resolution: f64) -> Option<Change> {
    let (before, after): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
    let (before, after) = (logarithms(&before)?, logarithms(&after)?);
    let differences: Vec<_> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    let difference = mean(&differences);
    let count = differences.len() as f64;
    let spread = (differences.len() > 1).then(|| variance(&differences));
    let half = spread.map(|variance| student(count - 1.0) * (variance / count).sqrt());
    Some(Change {
        ratio: finite(difference.exp())?,
        interval: half.and_then(|half| interval_around(difference, half.max(resolution))),
        p: if differences.len() > 1 { p_of_pairs(&differences, SEED) } else { None },
        runs: differences.len(),
        are_pairs: true,
        variance_of_one: spread,
        runs_counted: count,
        p_min: p_min_of_pairs(differences.len()),
        resolution,
    })
}

/// Limits for the size of a change, as shares: 0.03 is 3 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margins {
    /// A smaller change in either direction is as good as none.
    pub equivalent: f64,
    /// A smaller change is never reported, however narrow its interval: a reboot of the machine causes as much.
    pub floor: f64,
}

/// Decision on whether a quantity changed. There is no fourth one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It changed by the ratio, with the confidence of the interval.
    Changed,
    /// If it changed, then by less than the margin.
    Equivalent,
    /// These runs are too few for either. With `runs` of each side, or pairs, a change as large as the margin would be
    /// found four times of five. It is `None` if that would take more than a thousand.
    CannotTell {
        /// Number of runs needed.
        runs: Option<usize>,
    },
}

/// The answer for one change among others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdjustedDecision {
    /// The answer.
    pub answer: Decision,
    /// The p after the correction for all rows; `None` if there is none before it.
    pub p: Option<f64>,
    /// Smallest change, as a share, that as many runs with this spread would find four times of five. `None` with too
    /// few runs.
    pub detectable: Option<f64>,
    /// True if this number of runs can settle this number of rows at all.
    pub can_be_decided: bool,
}

/// Judges a family of rows. The chance of any false claim of change among them is 5 % at most (Holm, "A simple
/// sequentially rejective multiple test procedure", 1979).
///
/// A row changed if the corrected p is at most 0.05, its interval excludes 1, and it changed by more than the floor. A
/// row is equivalent if its interval is within the margin. That makes two one-sided tests (Schuirmann, 1987), with the
/// 95 % interval that is shown instead of the usual 90 %.
pub fn judge(changes: &[Change], margins: Margins) -> Vec<AdjustedDecision> {
    let corrected = holm(&changes.iter().map(|change| change.p).collect::<Vec<_>>());
    // A row without p is never significant. If no row has one, each reports the number of runs that all of them need.
    let rows = match corrected.iter().flatten().count() {
        0 => changes.len(),
        with_p => with_p,
    };
    let judged = |(change, p): (&Change, Option<f64>)| {
        let is_significant = p.is_some_and(|p| p <= SIGNIFICANCE);
        let log_floor = (1.0 + margins.floor).ln();
        let answer = match change.interval {
            Some(interval) if is_within(&interval, margins.equivalent) => Decision::Equivalent,
            Some(Interval { low, high })
                if is_significant && (low > 1.0 || high < 1.0) && change.ratio.ln().abs() >= log_floor =>
            {
                Decision::Changed
            }
            _ => Decision::CannotTell { runs: runs_needed(change, rows, margins) },
        };
        let can_be_decided = change.p.is_some() && change.p_min * rows as f64 <= SIGNIFICANCE;
        let detectable = detectable(change, rows, margins).filter(|_| can_be_decided);
        AdjustedDecision { answer, p, detectable, can_be_decided }
    };
    changes.iter().zip(corrected).map(judged).collect()
}

/// Runs of each side, or pairs, from which a change can be claimed at all among `rows` rows. That is 6 and 6 for up to
/// 23 rows, and 9 pairs for up to 12.
pub fn runs_to_decide(rows: usize, are_pairs: bool) -> usize {
    let p_max = SIGNIFICANCE / rows.max(1) as f64;
    (2..RUNS_MAX).find(|runs| p_min(*runs, are_pairs) <= p_max).unwrap_or(RUNS_MAX)
}

/// Smallest p that `runs` runs on each side, or as many pairs, can have.
fn p_min(runs: usize, are_pairs: bool) -> f64 {
    if are_pairs { p_min_of_pairs(runs) } else { p_min_of_groups(runs, runs) }
}

/// Corrects values of p for their number (Holm, 1979, as in [`judge`]). The smallest is multiplied by the number of values, the next by one less, and
/// so on. No result is less than that of a smaller p.
pub fn holm(values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<_> =
        values.iter().enumerate().filter_map(|(index, p)| p.map(|p| (index, p))).collect();
    // No p is negative, and the bits of such numbers are in the order of the numbers.
    order.sort_by_cached_key(|(_, p)| p.to_bits());
    let mut corrected = vec![None; values.len()];
    let (count, mut largest) = (order.len(), 0f64);
    for (rank, (index, p)) in order.into_iter().enumerate() {
        largest = largest.max(p * (count - rank) as f64).min(1.0);
        corrected[index] = Some(largest);
    }
    corrected
}

/// Distance of a change from zero, in standard errors, at which it is found with [`POWER`] among `rows` rows. It is
/// Student's t at the largest p that the runs can have and that settles the first of the rows. For one row and many
/// runs it is 2.8. For few runs it is more, as their spread is not known well, and as p is discrete.
fn errors_to_find(rows: usize, runs: usize, are_pairs: bool) -> Option<f64> {
    let (p_min, p_max) = (p_min(runs, are_pairs), SIGNIFICANCE / rows.max(1) as f64);
    if p_min > p_max {
        return None;
    }
    // p is a multiple of its smallest value. With many multiples, it is nearly continuous.
    let steps = (p_max / p_min).floor();
    let p = if steps < STEPS_MAX { steps * p_min } else { p_max };
    let degrees = if are_pairs { runs as f64 - 1.0 } else { 2.0 * runs as f64 - 2.0 };
    let student = StudentsT::new(0.0, 1.0, degrees.max(1.0)).ok()?;
    let more = 1.0 + FEW_RUNS_EXTRA / runs as f64 + FEW_STEPS_EXTRA / steps.max(1.0);
    Some((student.inverse_cdf(1.0 - p / 2.0) + student.inverse_cdf(POWER)) * more)
}

/// Smallest change that can be found. A change within the margin is called equivalent, however narrow its interval.
fn detectable(change: &Change, rows: usize, margins: Margins) -> Option<f64> {
    let runs = change.runs_counted.floor() as usize;
    let error = (change.variance_of_one? / change.runs_counted).sqrt();
    let found = (errors_to_find(rows, runs, change.are_pairs)? * error).exp() - 1.0;
    finite(found.max(margins.equivalent).max(change.resolution))
}

fn runs_needed(change: &Change, rows: usize, margins: Margins) -> Option<usize> {
    let settling = runs_to_decide(rows, change.are_pairs);
    let Some(variance) = change.variance_of_one else { return Some(settling) };
    let margin = (1.0 + margins.equivalent).ln();
    let runs_min = settling.max((change.runs as f64 * MORE_RUNS_FACTOR).ceil() as usize);
    // Each further run adds little, so the first number that is enough is as good as any.
    (runs_min..=RUNS_MAX).find(|runs| {
        errors_to_find(rows, *runs, change.are_pairs)
            .is_some_and(|errors| errors * (variance / *runs as f64).sqrt() <= margin)
    })
}

fn is_within(interval: &Interval, margin: f64) -> bool {
    interval.low.ln() >= -(1.0 + margin).ln() && interval.high.ln() <= (1.0 + margin).ln()
}

fn interval_around(difference: f64, half: f64) -> Option<Interval> {
    let (low, high) = ((difference - half).exp(), (difference + half).exp());
    (low.is_finite() && high.is_finite()).then_some(Interval { low, high })
}

fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    let is_sound = |value: &&f64| value.is_finite() && **value > 0.0;
    (!values.is_empty() && values.iter().all(|value| is_sound(&value)))
        .then(|| values.iter().map(|value| value.ln()).collect())
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// Geometric mean of the values of one side, and its 95 % interval as if its runs were independent. There is no
/// interval for fewer than two values. Returns `None` without values, or if one is not above 0 and finite.
pub fn centre(values: &[f64]) -> Option<(f64, Option<Interval>)> {
    let logs = logarithms(values)?;
    let centre = mean(&logs);
    let half = (logs.len() > 1)
        .then(|| student(logs.len() as f64 - 1.0) * (variance(&logs) / logs.len() as f64).sqrt());
    Some((finite(centre.exp())?, half.and_then(|half| interval_around(centre, half))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MARGINS: Margins = Margins { equivalent: 0.03, floor: 0.02 };

    fn around_100(share: f64, count: usize) -> Vec<f64> {
        (0..count).map(|index| 100.0 * (1.0 + share * (index as f64 - (count as f64 - 1.0) / 2.0))).collect()
    }

    fn times(values: &[f64], factor: f64) -> Vec<f64> {
        values.iter().map(|value| value * factor).collect()
    }

    #[test]
    fn runs_needed_grow_with_number_of_rows() {
        let groups = [1, 6, 7, 23, 24].map(|rows| runs_to_decide(rows, false));
        assert_eq!(groups, [4, 5, 6, 6, 7]);
        let pairs = [1, 12, 13].map(|rows| runs_to_decide(rows, true));
        assert_eq!(pairs, [6, 9, 10]);
    }

    #[test]
    fn holm_correction_matches_textbook_example() {
        let corrected = holm(&[Some(0.01), Some(0.04), None, Some(0.03), Some(0.005)]);
        let expected = [Some(0.03), Some(0.06), None, Some(0.06), Some(0.02)];
        for (corrected, expected) in corrected.iter().zip(expected) {
            assert_eq!(corrected.map(|p| (p * 1e6).round()), expected.map(|p: f64| (p * 1e6).round()));
        }
        assert!((errors_to_find(1, 500, false).unwrap() - 2.8).abs() < 0.02);
        assert_eq!(errors_to_find(24, 6, false), None);
    }

    #[test]
    fn comparison_is_changed_equivalent_or_undecided() {
        let before = around_100(0.004, 6);
        let compared = |factor, rows| {
            let row = compare_groups(&before, &times(&before, factor), 0.0).unwrap();
            (row, judge(&vec![row; rows], MARGINS)[0])
        };
        let (change, judged) = compared(1.05, 1);
        assert!((change.ratio - 1.05).abs() < 1e-9 && judged.answer == Decision::Changed, "{change:?}");
        assert!(change.interval.is_some_and(|ends| ends.low > 1.03 && ends.high < 1.07));
        // The same in 23 rows, and no longer in 24.
        assert_eq!(compared(1.05, 23).1.answer, Decision::Changed);
        assert_eq!(compared(1.05, 24).1.answer, Decision::CannotTell { runs: Some(9) });
        assert_eq!(compared(1.0, 1).1.answer, Decision::Equivalent);
        // Significantly different, but by less than matters.
        assert_eq!(compared(1.015, 1).1.answer, Decision::Equivalent);
        let spread = around_100(0.05, 6);
        let row = compare_groups(&spread, &times(&spread, 1.04), 0.0).unwrap();
        let Decision::CannotTell { runs: Some(runs) } = judge(&[row], MARGINS)[0].answer else { panic!() };
        // A spread of 9.4 %: 15.7 (9.4 / 3)².
        assert!((150..165).contains(&runs), "{runs}");
    }

    #[test]
    fn comparison_of_single_runs_is_undecided() {
        let change = compare_groups(&[100.0], &[200.0], 0.0).unwrap();
        assert!((change.ratio - 2.0).abs() < 1e-9 && change.p.is_none() && change.interval.is_none());
        let judged = judge(&[change; 11], MARGINS);
        assert_eq!(judged[0].answer, Decision::CannotTell { runs: Some(6) });
        assert_eq!(judged[0].detectable, None);
    }

    #[test]
    fn paired_comparison_cancels_drift() {
        let drifting: Vec<_> = (0..9).map(|index| 100.0 * 1.1f64.powi(index)).collect();
        let noise = [1.001, 0.999, 1.002, 1.0, 0.998, 1.001, 0.999, 1.0, 1.0];
        let pairs: Vec<_> =
            drifting.iter().zip(noise).map(|(rate, noise)| (*rate, rate * 1.04 * noise)).collect();
        let paired = compare_pairs(&pairs, 0.0).unwrap();
        assert_eq!(judge(&[paired; 12], MARGINS)[0].answer, Decision::Changed);
        let after: Vec<_> = pairs.iter().map(|(_, after)| *after).collect();
        let unpaired = compare_groups(&drifting, &after, 0.0).unwrap();
        assert!(matches!(judge(&[unpaired], MARGINS)[0].answer, Decision::CannotTell { .. }));
    }

    #[test]
    fn constant_values_are_equivalent_or_changed() {
        let change = compare_groups(&[5.0; 6], &[5.0; 6], 0.0).unwrap();
        assert_eq!((change.ratio, change.p), (1.0, Some(1.0)));
        assert_eq!(judge(&[change], MARGINS)[0].answer, Decision::Equivalent);
        let change = compare_groups(&[5.0; 6], &[10.0; 6], 0.0).unwrap();
        assert_eq!(judge(&[change], MARGINS)[0].answer, Decision::Changed);
    }

    #[test]
    fn interval_is_no_narrower_than_resolution() {
        let change = compare_groups(&[1000.0; 6], &[950.01; 6], 0.001).unwrap();
        let ends = change.interval.unwrap();
        assert!(ends.low < 0.95 && 0.95 < ends.high && ends.half_width() < 0.0011, "{ends:?}");
        assert_eq!(judge(&[change], MARGINS)[0].detectable, Some(0.03), "what is less is called the same");
        let pairs = compare_pairs(&[(1000.0, 950.01); 6], 0.001).unwrap();
        assert!(pairs.interval.is_some_and(|ends| (ends.low / 0.95001 - 0.999).abs() < 1e-4));
    }

    #[test]
    fn comparison_of_invalid_values_is_none() {
        for bad in [&[][..], &[0.0], &[-1.0, 2.0], &[f64::NAN, 1.0]] {
            assert_eq!(compare_groups(bad, &[1.0, 2.0], 0.0), None);
            assert_eq!(centre(bad), None);
        }
        assert_eq!(compare_pairs(&[], 0.0), None);
    }

    proptest! {
        #[test]
        fn comparison_is_finite_and_symmetric(
            before in prop::collection::vec(1e-3..1e12f64, 1..8), after in prop::collection::vec(1e-3..1e12f64, 1..8),
        ) {
            let change = compare_groups(&before, &after, 0.0).unwrap();
            let judged = judge(&[change], MARGINS)[0];
            prop_assert!(change.ratio.is_finite());
            prop_assert!(change.interval.is_none_or(|ends| ends.low <= change.ratio && change.ratio <= ends.high));
            prop_assert!(judged.p.is_none_or(|p| (0.0..=1.0).contains(&p)));
            prop_assert!(judged.detectable.is_none_or(f64::is_finite));
            let back = compare_groups(&after, &before, 0.0).unwrap();
            prop_assert!((change.ratio * back.ratio - 1.0).abs() < 1e-6);
        }
    }
}
