//! Confidence interval of a share, from the number of its samples.

use statrs::function::beta::checked_beta_reg;

use crate::Interval;

/// Probability beyond each end of a 95 % interval.
const TAIL: f64 = 0.025;
/// More samples than these count as these. The interval then reaches a percent to each side, and its function is not
/// computed exactly for many more.
const SAMPLES_MAX: f64 = 10_000.0;
/// Halvings of the range of an end, down to the last digits.
const HALVINGS: u32 = 50;

/// 95 % interval of a share that `found` of `samples` independent samples showed. Its coverage is at least 95 %, also
/// near 0 and 1, where intervals from the variance fall short. See Clopper and Pearson, "The use of confidence or
/// fiducial limits illustrated in the case of the binomial", Biometrika 26, 1934.
///
/// Correlated samples count as fewer, so the numbers need not be whole. Returns `None` without samples, or if a number
/// is not finite, is below 0, or does not fit the other.
pub fn interval_of_share(found: f64, samples: f64) -> Option<Interval> {
    let is_valid = found >= 0.0 && samples > 0.0 && found <= samples && samples.is_finite();
    let share = Some(found / samples).filter(|share| is_valid && share.is_finite())?;
    let samples = samples.min(SAMPLES_MAX);
    let (found, missed) = (samples * share, samples * (1.0 - share));
    let low = quantile(found, missed + 1.0, TAIL).unwrap_or(0.0);
    let high = quantile(found + 1.0, missed, 1.0 - TAIL).unwrap_or(1.0);
    Some(Interval { low: low.min(share), high: high.max(share) })
}

/// Quantile of the beta distribution; `None` if a shape is 0, where all of it is at one end.
fn quantile(a: f64, b: f64, below: f64) -> Option<f64> {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        let is_below = checked_beta_reg(a, b, middle).ok()? < below;
        *(if is_below { &mut low } else { &mut high }) = middle;
    }
    Some(f64::midpoint(low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Probability of exactly `found` of `samples`.
    fn probability(found: u32, samples: u32, share: f64) -> f64 {
        let ways = (0..found).fold(1.0, |ways, k| ways * f64::from(samples - k) / f64::from(k + 1));
        ways * share.powi(found as i32) * (1.0 - share).powi((samples - found) as i32)
    }

    #[test]
    fn share_interval_ends_match_tables() {
        let near = |found, samples, low: f64, high: f64| {
            let interval = interval_of_share(found, samples).unwrap();
            assert!((interval.low - low).abs() < 5e-4 && (interval.high - high).abs() < 5e-4, "{interval:?}");
        };
        near(5.0, 10.0, 0.1871, 0.8129);
        near(0.0, 10.0, 0.0, 0.3085);
        near(81.0, 263.0, 0.2527, 0.3676);
        // The least number of samples that makes one half certain.
        assert!(
            interval_of_share(6.0, 6.0).unwrap().low > 0.5 && interval_of_share(5.0, 5.0).unwrap().low < 0.5
        );
    }

    #[test]
    fn share_interval_has_promised_coverage() {
        for samples in [7, 40, 150] {
            for share in [0.03, 0.31, 0.5, 0.82, 0.995] {
                let covers = |found: &u32| {
                    let interval = interval_of_share(f64::from(*found), f64::from(samples)).unwrap();
                    (interval.low..=interval.high).contains(&share)
                };
                let covered: f64 =
                    (0..=samples).filter(covers).map(|found| probability(found, samples, share)).sum();
                assert!(covered >= 0.95, "{samples} {share}: {covered}");
            }
        }
    }

    proptest! {
        #[test]
        fn share_interval_of_any_numbers_does_not_panic(found in any::<f64>(), samples in any::<f64>()) {
            let _ = interval_of_share(found, samples);
        }

        #[test]
        fn share_interval_contains_share(samples in 0.5f64..1e7, part in 0.0f64..=1.0) {
            let interval = interval_of_share(samples * part, samples).unwrap();
            let share = samples * part / samples;
            prop_assert!(interval.low <= share && share <= interval.high && interval.high <= 1.0);
        }
    }
}
