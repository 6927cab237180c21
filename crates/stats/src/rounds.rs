//! Steady state of a drive over rounds. The rule is that of SNIA's "Solid State Storage Performance Test Specification"
//! (PTS), version 2.0.2. It is in section 2.1.24, "Steady State".
//!
//! A drive is steady in a round if the last five rounds, the measurement window, meet two conditions. The largest and
//! the smallest value differ by at most 20 % of the mean. A straight line through the values by least squares rises or
//! falls by at most 10 % of the mean over the window.

/// Rounds of the measurement window.
pub const WINDOW_ROUNDS: usize = 5;
/// Largest difference between two values of a steady window, as a share of the mean.
pub const EXCURSION_MAX: f64 = 0.2;
/// Largest rise or fall of the line through a steady window, as a share of the mean.
pub const SLOPE_MAX: f64 = 0.1;

/// Statistics of a measurement window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Mean of the values; above 0.
    pub mean: f64,
    /// Largest value less the smallest, as a share of the mean.
    pub excursion: f64,
    /// Rise of the line from the first round to the last, as a share of the mean; below 0 where it falls.
    pub slope: f64,
}

impl Window {
    /// Returns true if the drive is steady in the last round of the window.
    pub fn is_steady(&self) -> bool {
        self.excursion <= EXCURSION_MAX && self.slope.abs() <= SLOPE_MAX
    }
}

/// Returns the statistics of the window that ends with the last of these values. Returns `None` if there are fewer
/// values than that, or if they have no positive mean.
pub fn window(values: &[f64]) -> Option<Window> {
    let values = values.get(values.len().checked_sub(WINDOW_ROUNDS)?..)?;
    let mean = values.iter().sum::<f64>() / WINDOW_ROUNDS as f64;
    let ends = values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
    // Least squares on rounds numbered from -2 to 2, whose squares sum up to 10.
    let middle = (WINDOW_ROUNDS - 1) as f64 / 2.0;
    let numbers = || (0..WINDOW_ROUNDS).map(|round| round as f64 - middle);
    let squares: f64 = numbers().map(|number| number * number).sum();
    let per_round = numbers().zip(values).map(|(number, value)| number * value).sum::<f64>() / squares;
    let found = Window {
        mean,
        excursion: (ends.1 - ends.0) / mean,
        slope: per_round * (WINDOW_ROUNDS - 1) as f64 / mean,
    };
    let is_finite = [found.mean, found.excursion, found.slope].iter().all(|value| value.is_finite());
    (is_finite && mean > 0.0).then_some(found)
}

/// Returns the number of the first round, from 1, in which a drive with these values is steady.
pub fn steady_round(values: &[f64]) -> Option<usize> {
    let is_steady = |round: &usize| window(&values[..*round]).is_some_and(|window| window.is_steady());
    (WINDOW_ROUNDS..=values.len()).find(is_steady)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn least_squares_line_matches_hand_calculation() {
        // The sum of number times value is -2*100 - 1*104 + 0 + 1*98 + 2*108 = 10, so 1 a round and 4 over the window.
        let found = window(&[9.0, 100.0, 104.0, 90.0, 98.0, 108.0]).unwrap();
        assert!(close(found.mean, 100.0) && close(found.excursion, 0.18) && close(found.slope, 0.04));
        assert!(found.is_steady());
        // Both limits belong to the steady side, and each of them alone makes it unsteady.
        let line = |rise: f64| [0.0, 0.25, 0.5, 0.75, 1.0].map(|part| 128.0 - rise / 2.0 + part * rise);
        assert!(window(&line(12.0)).unwrap().is_steady());
        assert!(!window(&line(14.0)).unwrap().is_steady(), "the slope");
        assert!(!window(&[85.0, 107.0, 100.0, 107.0, 85.0]).unwrap().is_steady(), "the excursion");
    }

    #[test]
    fn drive_is_steady_after_five_steady_rounds() {
        // Three fast rounds, one in between, then slow ones: the window has to leave the fast ones behind.
        let fading = [400.0, 400.0, 400.0, 250.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0];
        assert_eq!(steady_round(&fading), Some(9));
        assert_eq!(steady_round(&fading[..8]), None);
        assert_eq!(steady_round(&[7.0; 5]), Some(5));
        assert_eq!(steady_round(&[7.0; 4]), None);
        assert_eq!(steady_round(&[0.0; 9]), None, "nothing was done");
    }

    proptest! {
        #[test]
        fn steady_window_of_any_values_is_finite_or_none(values in prop::collection::vec(any::<f64>(), 0..12)) {
            if let Some(found) = window(&values) {
                prop_assert!(found.mean > 0.0 && found.excursion.is_finite() && found.slope.is_finite());
            }
            let round = steady_round(&values);
            prop_assert!(round.is_none_or(|round| (WINDOW_ROUNDS..=values.len()).contains(&round)));
        }

        #[test]
        fn excursion_and_slope_do_not_depend_on_unit(
            values in prop::collection::vec(1.0f64..1e6, 5..12),
            factor in 1e-3f64..1e3,
        ) {
            let scaled: Vec<_> = values.iter().map(|value| value * factor).collect();
            let (one, other) = (window(&values).unwrap(), window(&scaled).unwrap());
            prop_assert!((one.excursion - other.excursion).abs() < 1e-9 && (one.slope - other.slope).abs() < 1e-9);
            // The line through the values never rises by more than they differ: 1.2 times, for five values.
            prop_assert!(one.slope.abs() <= one.excursion * 1.2 + 1e-9);
        }
    }
}
