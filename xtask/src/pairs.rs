//! Comparison of two things on a noisy machine: many short runs in turn, a ratio for each pair, their median.
//!
//! A disturbance of both halves of a pair (clock speed, a neighbour, a filling cache) cancels in its ratio. A
//! disturbance of one half spoils one ratio, which the median tolerates. The order within a pair alternates (AB BA AB
//! …), so that a drift does not favour the one that always comes first.

use anyhow::Result;

/// Fewest pairs that support a claim.
pub const PAIRS_MIN: usize = 15;
/// Pairs of a quick comparison, whose interval holds the true median with probability 0.875.
pub const PAIRS_QUICK: usize = 4;

/// A median with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Median {
    /// Middle value.
    pub value: f64,
    /// Lower end of the interval that holds the true median.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Probability that the interval holds the true median: at least 0.95, or less if there are too few values.
    pub coverage: f64,
}

/// Returns the median of the values with its interval from order statistics, or `None` without values.
///
/// The true median lies between the k-th smallest and the k-th largest of n values with probability 1 − 2·P(X < k). X
/// is binomial(n, ½); the distribution of the values does not matter. The largest k that leaves 0.95 is taken (Conover,
/// Practical Nonparametric Statistics, 3.2). Fewer than six values cannot reach 0.95. The interval is then their whole
/// range, and `coverage` says how little that means.
pub fn median(values: &[f64]) -> Option<Median> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    let n = sorted.len();
    let value = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
    // P(X = 0), then P(X = k) = P(X = k - 1) · (n - k + 1) / k.
    let mut point = 0.5_f64.powi(n as i32);
    let mut below = point;
    let mut interval = Median { value, low: first, high: last, coverage: (1.0 - 2.0 * below).max(0.0) };
    for k in 1..n / 2 {
        point *= (n - k + 1) as f64 / k as f64;
        below += point;
        let coverage = 1.0 - 2.0 * below;
        if coverage < 0.95 {
            break;
        }
        interval = Median { value, low: sorted[k], high: sorted[n - 1 - k], coverage };
    }
    Some(interval)
}

/// Runs both in turn, `pairs` times, and returns the ratio a / b of each pair.
///
/// Both return the compared value in the same unit: a rate, or a time. One pair before the first is discarded: it loads
/// programs and caches.
///
/// # Errors
/// The first error of either.
pub fn alternate(
    pairs: usize,
    mut a: impl FnMut() -> Result<f64>,
    mut b: impl FnMut() -> Result<f64>,
) -> Result<Vec<f64>> {
    let mut ratios = Vec::with_capacity(pairs);
    for pair in 0..=pairs {
        let (first, second);
        if pair % 2 == 0 {
            first = a()?;
            second = b()?;
        } else {
            second = b()?;
            first = a()?;
        }
        if pair > 0 {
            ratios.push(first / second);
        }
    }
    Ok(ratios)
}

/// Runs one pair, cut into alternating slices. It is for long runs, during which the machine may change.
///
/// Both get the number of a slice and return its time in seconds. The result is the speed of a relative to b. Even and
/// odd pairs start with different sides.
///
/// # Errors
/// The first error of either.
pub fn interleave(
    slices: usize,
    pair: usize,
    mut a: impl FnMut(usize) -> Result<f64>,
    mut b: impl FnMut(usize) -> Result<f64>,
) -> Result<f64> {
    let (mut a_seconds, mut b_seconds) = (0.0, 0.0);
    for slice in 0..slices {
        if (pair + slice).is_multiple_of(2) {
            a_seconds += a(slice)?;
            b_seconds += b(slice)?;
        } else {
            b_seconds += b(slice)?;
            a_seconds += a(slice)?;
        }
    }
    Ok(b_seconds / a_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_matches_published_tables() {
        // Conover, table A3: of 15 ordered values the 4th and 12th enclose the median with 0.9648.
        let values: Vec<f64> = (1..=15).map(f64::from).collect();
        let median = median(&values).unwrap();
        assert_eq!((median.value, median.low, median.high), (8.0, 4.0, 12.0));
        assert!((median.coverage - 0.9648).abs() < 1e-4, "{median:?}");
        // Of 20 values, the 6th and 15th, with 0.9586.
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        let median = super::median(&values).unwrap();
        assert_eq!((median.value, median.low, median.high), (10.5, 6.0, 15.0));
        assert!((median.coverage - 0.9586).abs() < 1e-4, "{median:?}");
    }

    #[test]
    fn median_of_few_values_has_lower_coverage() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(Median { value: 3.0, low: 3.0, high: 3.0, coverage: 0.0 }));
        let five = median(&[5.0, 1.0, 3.0, 2.0, 4.0]).unwrap();
        assert_eq!((five.low, five.high, five.coverage), (1.0, 5.0, 0.9375));
        let six = median(&[5.0, 1.0, 3.0, 2.0, 4.0, 6.0]).unwrap();
        assert_eq!((six.low, six.high, six.coverage), (1.0, 6.0, 0.96875));
    }

    #[test]
    fn interval_covers_true_median_at_stated_rate() {
        // 2,000 samples of 15 from a skewed distribution whose median is known: u² of uniform u, median ¼.
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut uniform = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let held = (0..2000).filter(|_| {
            let values: Vec<f64> = (0..15).map(|_| uniform().powi(2)).collect();
            let median = median(&values).unwrap();
            (median.low..=median.high).contains(&0.25)
        });
        let share = held.count() as f64 / 2000.0;
        // Three standard errors of a share of 0.9648 are 0.0124.
        assert!((share - 0.9648).abs() < 0.0124, "{share}");
    }

    #[test]
    fn pairs_alternate_and_cancel_a_drift() {
        use std::cell::RefCell;
        let order = RefCell::new(String::new());
        let clock = RefCell::new(0.0);
        // A machine that becomes slower with every run; b is twice as fast as a.
        let measure = |name: char, speed: f64| {
            order.borrow_mut().push(name);
            *clock.borrow_mut() += 1.0;
            Ok(speed / (1.0 + *clock.borrow() / 100.0))
        };
        let ratios = alternate(16, || measure('a', 1.0), || measure('b', 2.0)).unwrap();
        assert_eq!(ratios.len(), 16);
        assert!(order.borrow().starts_with("abbaabba"), "{}", order.borrow());
        let median = median(&ratios).unwrap();
        assert!((median.value - 0.5).abs() < 0.002, "{median:?}");
    }

    #[test]
    fn slices_alternate_and_cancel_a_drift_within_the_pair() {
        use std::cell::RefCell;
        let order = RefCell::new(String::new());
        // Every slice takes longer than the one before; b takes half as long as a.
        let measure = |name: char, seconds: f64| {
            order.borrow_mut().push(name);
            Ok(seconds * (100.0 + order.borrow().len() as f64))
        };
        let ratio = interleave(16, 0, |_| measure('a', 2.0), |_| measure('b', 1.0)).unwrap();
        assert!((ratio - 0.5).abs() < 1e-9, "{ratio}");
        assert!(order.borrow().starts_with("abbaabba"), "{}", order.borrow());
        let seen = RefCell::new(Vec::new());
        let note = |slice: usize| {
            seen.borrow_mut().push(slice);
            Ok(1.0)
        };
        interleave(4, 1, |_| Ok(1.0), note).unwrap();
        assert_eq!(seen.into_inner(), [0, 1, 2, 3]);
    }

    #[test]
    fn error_ends_the_pairs() {
        assert!(alternate(15, || Ok(1.0), || anyhow::bail!("no")).is_err());
    }
}
