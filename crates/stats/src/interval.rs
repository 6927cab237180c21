//! Confidence interval of the mean of an autocorrelated series.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// 95 % interval of a value, in the unit of that value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Half of the width, in the unit of the ends.
    pub fn half_width(&self) -> f64 {
        self.high / 2.0 - self.low / 2.0
    }
}

/// Fewest values that [`interval_of_mean`] accepts: the interval from two is 13 times their standard error.
pub const VALUES_MIN: usize = 3;
/// Fewest values for an estimate of the correlation of neighbours. With fewer, the correction for the bias of that
/// estimate is larger than the estimate.
const CORRELATED_MIN: usize = 8;
/// Number of batches for batch means. Ten are the usual compromise: few batches leave their spread unknown, and short
/// ones are still correlated. See Schmeiser, "Batch size effects in the analysis of simulation output", Operations
/// Research 30, 1982.
const BATCHES: usize = 10;
/// Fewest values that are cut into batches: two for each batch.
const BATCHED_MIN: usize = 2 * BATCHES;
/// Number of later values that may compensate for one that is too large.
const NEGATIVE_CORRELATION_LAGS: usize = 5;
/// Least share of such a value that the next ones compensate for. If they compensate for all of it, the sum is a half.
/// One series in eight of a hundred independent values shows a quarter by chance, and batch means alone cover it as
/// well.
const NEGATIVE_CORRELATION_MIN: f64 = 0.25;
/// Largest accepted correlation of neighbours. Anything above is a trend, and would make the interval infinite.
const CORRELATION_MAX: f64 = 0.98;

/// 95 % interval of the mean of a series in the order of time, in the unit of its values.
///
/// - 3 to 7 values: Student's t as if they were independent, because so few values show no correlation.
/// - 8 to 19 values: the same with the variance corrected for the correlation of neighbours, if that is positive.
/// - From 20 values: the wider of that interval and of t with 9 degrees of freedom on ten batch means. Each alone is
///   too narrow for some series. With neighbours that correlate by 0.6, a plain interval covers the true mean in 68 %
///   of runs instead of 95 %. If values compensate for each other, only the batch means count.
///
/// Returns `None` with fewer than [`VALUES_MIN`] values, or if a value is not finite.
pub fn interval_of_mean(values: &[f64]) -> Option<Interval> {
    let half = half_width(values)?;
    let mean = mean(values);
    let (low, high) = (mean - half, mean + half);
    (low.is_finite() && high.is_finite()).then_some(Interval { low, high })
}

/// 95 % prediction interval of one more value, if it comes from the same source as these independent ones. It is
/// Student's t on their logarithms (Whitmore, "Prediction limits for a univariate normal observation", The American
/// Statistician 40, 1986). Returns `None` with fewer than [`VALUES_MIN`] values, or if a value is not above 0 and
/// finite.
pub fn prediction_interval(values: &[f64]) -> Option<Interval> {
    let count = values.len() as f64;
    if values.len() < VALUES_MIN || values.iter().any(|value| !(*value > 0.0 && value.is_finite())) {
        return None;
    }
    let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let half = student(count - 1.0) * (variance(&logarithms) * (1.0 + 1.0 / count)).sqrt();
    let middle = mean(&logarithms);
    let (low, high) = ((middle - half).exp(), (middle + half).exp());
    high.is_finite().then_some(Interval { low, high })
}

/// Half of the width of the interval of the mean; see [`interval_of_mean`].
pub(crate) fn half_width(values: &[f64]) -> Option<f64> {
    let count = values.len();
    if count < VALUES_MIN {
        return None;
    }
    let half = if count < CORRELATED_MIN {
        student(count as f64 - 1.0) * (variance(values) / count as f64).sqrt()
    } else if count < BATCHED_MIN {
        autoregressive_half_width(values, 0.0)
    } else if is_negatively_correlated(values) {
        batch_means_half_width(values)
    } else {
        autoregressive_half_width(values, -CORRELATION_MAX).max(batch_means_half_width(values))
    };
    half.is_finite().then_some(half)
}

/// Half width for a first-order autoregressive series. The variance of its mean is `(1 + r) / (1 - r)` times that of
/// independent values. Here `r` is the correlation of neighbours, at least `correlation_min`. Its estimate is too low
/// by `(1 + 4 r) / n`, so that is added (Marriott and Pope, "Bias in the estimation of autocorrelations", Biometrika
/// 41, 1954).
fn autoregressive_half_width(values: &[f64], correlation_min: f64) -> f64 {
    let count = values.len() as f64;
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if squares == 0.0 {
        return 0.0;
    }
    let inflation = inflation(values, mean, squares, correlation_min);
    let degrees = (count / inflation).min(count) - 1.0;
    student(degrees) * (variance(values) * inflation / count).sqrt()
}

/// Variance of the mean as a multiple of that of independent values. The parameter `squares` is the sum of squares
/// around `mean`, and not 0.
fn inflation(values: &[f64], mean: f64, squares: f64, correlation_min: f64) -> f64 {
    let products: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    let estimate = products / squares;
    let bias = (1.0 + 4.0 * estimate) / values.len() as f64;
    let correlation = (estimate + bias).clamp(correlation_min, CORRELATION_MAX);
    (1.0 + correlation) / (1.0 - correlation)
}

/// Effective sample size: number of independent values that would give the same variance of the mean; at most the
/// number of values. Fewer than 8 values show no correlation, and all of them count.
pub fn independent(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if values.len() < CORRELATED_MIN || squares == 0.0 || is_negatively_correlated(values) {
        return count;
    }
    count / inflation(values, mean, squares, 0.0)
}

/// True if the next values compensate for one that is too large. A limit that admits operations in batches gives two
/// batches in one interval, then none in another. The mean is then more precise than the spread of single values
/// suggests. The correlation of neighbours need not show that.
fn is_negatively_correlated(values: &[f64]) -> bool {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let products = |lag: usize| -> f64 {
        values.iter().zip(&values[lag..]).map(|(one, other)| (one - mean) * (other - mean)).sum()
    };
    let sum: f64 = (1..=NEGATIVE_CORRELATION_LAGS).map(products).sum();
    squares > 0.0 && sum < -NEGATIVE_CORRELATION_MIN * squares
}

/// Half width from the spread of batch means, which are less correlated than their values.
fn batch_means_half_width(values: &[f64]) -> f64 {
    let bound = |batch: usize| batch * values.len() / BATCHES;
    let means: [f64; BATCHES] = std::array::from_fn(|batch| mean(&values[bound(batch)..bound(batch + 1)]));
    student(BATCHES as f64 - 1.0) * (variance(&means) / BATCHES as f64).sqrt()
}

/// 97.5 % quantile of Student's t, with at least one degree of freedom. Degrees need not be whole.
pub(crate) fn student(degrees: f64) -> f64 {
    student_at(0.975, degrees)
}

/// Quantile of Student's t at a probability above 0.5, with at least one degree of freedom.
pub(crate) fn student_at(probability: f64, degrees: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees.max(1.0))
        .map_or(f64::INFINITY, |student| student.inverse_cdf(probability))
}

/// The mean; 0 for no values.
pub(crate) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Unbiased sample variance; needs at least two values.
pub(crate) fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_t_quantiles_match_published_tables() {
        let table = [(1.0, 12.7062), (2.0, 4.3027), (9.0, 2.2622), (30.0, 2.0423), (1000.0, 1.9623)];
        for (degrees, quantile) in table {
            assert!((student(degrees) - quantile).abs() < 1e-4, "{degrees}: {}", student(degrees));
        }
        assert!((student(1.5) - 6.0).abs() < 1.0 && student(-3.0) == student(1.0));
    }

    #[test]
    fn three_values_give_the_interval_of_students_t() {
        let interval = interval_of_mean(&[9.0, 10.0, 11.0]).unwrap();
        // The standard deviation is 1, and t(2) is 4.3027.
        assert!((interval.half_width() - 4.3027 / 3f64.sqrt()).abs() < 1e-3);
        assert!((interval.low + interval.high - 20.0).abs() < 1e-9);
    }

    #[test]
    fn prediction_interval_covers_95_percent() {
        let mut random = fastrand::Rng::with_seed(7);
        // The sum of twelve uniform values is close to normal.
        let mut draw = || (0.1 * ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0)).exp();
        let trials = 4000;
        let inside = (0..trials).filter(|_| {
            let values: [f64; 6] = std::array::from_fn(|_| draw());
            let (interval, next) = (prediction_interval(&values).unwrap(), draw());
            (interval.low..=interval.high).contains(&next)
        });
        let share = inside.count() as f64 / f64::from(trials);
        // Four standard deviations of a share of 0.95 in 4,000.
        assert!((share - 0.95).abs() < 0.014, "{share}");
        assert_eq!((prediction_interval(&[1.0, 2.0]), prediction_interval(&[1.0, 0.0, 2.0])), (None, None));
    }

    #[test]
    fn interval_of_few_or_infinite_values_is_none() {
        for values in [&[][..], &[1.0], &[1.0, 2.0], &[1.0, f64::NAN, 2.0], &[1.0, f64::INFINITY, 3.0]] {
            assert_eq!(interval_of_mean(values), None);
        }
        assert_eq!(interval_of_mean(&[f64::MAX, -f64::MAX, f64::MAX]), None);
        assert_eq!(interval_of_mean(&[5.0; 40]), Some(Interval { low: 5.0, high: 5.0 }));
    }

    #[test]
    fn operations_shifted_between_ticks_do_not_widen_interval() {
        let mut values = vec![500.0; 40];
        values[20..24].copy_from_slice(&[848.0, 598.0, 554.0, 0.0]);
        assert!(is_negatively_correlated(&values));
        assert!(half_width(&values).unwrap() < 20.0, "{:?}", half_width(&values));
        // No later value compensates for this loss.
        values[20..24].copy_from_slice(&[500.0, 500.0, 500.0, 0.0]);
        assert!(!is_negatively_correlated(&values));
    }

    #[test]
    fn autocorrelation_reduces_effective_sample_size() {
        let trend: Vec<f64> = (0..100).map(f64::from).collect();
        let shuffled: Vec<f64> = (0..100).map(|i| f64::from(i * 37 % 100)).collect();
        assert!(independent(&trend) < 3.0 && independent(&shuffled) > 60.0);
        assert_eq!((independent(&[1.0, 2.0, 3.0]), independent(&[5.0; 40])), (3.0, 40.0));
    }

    #[test]
    fn trend_has_wider_interval_than_shuffled_values() {
        let trend: Vec<f64> = (0..100).map(f64::from).collect();
        let shuffled: Vec<f64> = (0..100).map(|i| f64::from(i * 37 % 100)).collect();
        let (of_trend, of_shuffled) = (half_width(&trend).unwrap(), half_width(&shuffled).unwrap());
        assert!(of_trend > 2.0 * of_shuffled, "{of_trend} {of_shuffled}");
    }
}
