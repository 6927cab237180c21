//! Distance of a repeat of a test from its rate, from short repeats of all tests of a run.
//!
//! The spread of one test is that of its repeats and of those of other tests, which have the weight of four repeats.
//! It is a scaled inverse chi-squared prior (Gelman et al., *Bayesian Data Analysis*, 3rd edition, 2.6), whose scale is that of
//! the other tests. The next repeat then has Student's t distribution.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Weight of the other tests, in repeats. Forty runs on a noisy virtual disk chose it: with three, the range is wider than the
/// repeats are apart.
const OTHERS_WEIGHT: f64 = 4.0;
/// Fewest repeats of other tests that show a spread.
const OTHERS_MIN: usize = 3;
/// Fewest repeats of a test alone that show its spread.
const OWN_MIN: f64 = 3.0;
/// Share of repeats within the range.
const WITHIN: f64 = 0.9;
/// Standard deviation of a normal distribution over its median distance from the mean.
const DEVIATION_OF_MEDIAN: f64 = 1.4826;

/// Returns the largest distance of nine of ten repeats of a test from its rate, as a natural logarithm. Returns `None` if too few
/// were repeated.
///
/// `test` and each of the `others` are natural logarithms of the rates of repeats over the rate of their test. The others count with
/// their weight.
pub fn repeat_distance<'a>(test: &[f64], others: impl Iterator<Item = &'a [f64]>) -> Option<f64> {
    let spread = scale(others);
    let weight = if spread.is_some() { OTHERS_WEIGHT } else { 0.0 };
    let squares: f64 = test.iter().map(|ratio| ratio * ratio).sum();
    let degrees = test.len() as f64 + weight;
    let variance = (squares + weight * spread.unwrap_or(0.0).powi(2)) / degrees;
    let student = StudentsT::new(0.0, 1.0, degrees).ok()?;
    let half = student.inverse_cdf(f64::midpoint(1.0, WITHIN)) * variance.sqrt();
    (degrees >= OWN_MIN && half.is_finite()).then_some(half)
}

/// Returns the standard deviation of the repeats of tests; `None` for too few. It comes from the median, in which each test
/// counts once: one that does not repeat changes no other, however often it was repeated.
fn scale<'a>(tests: impl Iterator<Item = &'a [f64]>) -> Option<f64> {
    let repeated: Vec<_> = tests.filter(|ratios| !ratios.is_empty()).collect();
    let weighted = |ratios: &&'a [f64]| {
        let weight = 1.0 / ratios.len() as f64;
        ratios.iter().map(move |ratio| (ratio.abs(), weight))
    };
    let mut distances: Vec<(f64, f64)> = repeated.iter().flat_map(weighted).collect();
    if distances.len() < OTHERS_MIN {
        return None;
    }
    distances.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let (half, mut sum) = (repeated.len() as f64 / 2.0, 0.0);
    let middle = distances.into_iter().find(|(_, weight)| {
        sum += weight;
        sum > half - f64::EPSILON
    });
    middle.map(|(distance, _)| DEVIATION_OF_MEDIAN * distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_repeats_alone_have_a_range() {
        let alone = |log_ratios: &[f64]| repeat_distance(log_ratios, [].into_iter());
        // Student's t at 95 % with three degrees of freedom.
        let three = alone(&[0.01, -0.01, 0.01]);
        assert!((three.unwrap() - 0.023_534).abs() < 1e-5, "{three:?}");
        assert_eq!(alone(&[0.01, 0.01]), None);
    }

    #[test]
    fn test_that_does_not_repeat_widens_no_other() {
        let steady = &[0.01, -0.01, 0.01][..];
        let others = [steady, steady, &[3.0; 7]];
        let [half, other] =
            [steady, others[2]].map(|test| repeat_distance(test, others[..2].iter().copied()));
        assert_eq!(half, repeat_distance(steady, others.into_iter()));
        assert!(half.unwrap() < 0.03 && other.unwrap() > 2.0, "{half:?} {other:?}");
    }

    #[test]
    fn nine_of_ten_repeats_lie_within_their_range() {
        let mut random = fastrand::Rng::with_seed(7);
        // A sum of twelve is close enough to a normal distribution.
        let mut normal = |scale: f64| scale * ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0);
        let (mut inside, runs) = (0, 2000);
        for _ in 0..runs {
            // Each row has an error of its own, which all its repeats share.
            let tests: Vec<_> = (0..8)
                .map(|_| {
                    let own = normal(0.02);
                    vec![normal(0.02) - own, normal(0.02) - own, normal(0.02) - own]
                })
                .collect();
            let (mut kept, next) = (tests.clone(), tests[0][2]);
            kept[0].pop();
            inside += usize::from(
                next.abs() <= repeat_distance(&kept[0], kept[1..].iter().map(Vec::as_slice)).unwrap(),
            );
        }
        let share = f64::from(u32::try_from(inside).unwrap()) / f64::from(runs);
        assert!((0.88..0.96).contains(&share), "{share}");
    }
}
