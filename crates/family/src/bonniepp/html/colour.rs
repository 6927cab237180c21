//! The place of each cell between the worst and the best of its column.

/// Hue of the worst, in degrees: red.
const WORST_HUE: f64 = 0.0;
/// Hue of the best, in degrees: green.
const BEST_HUE: f64 = 120.0;
/// Least ratio of the best to the worst of a column. The family widens smaller ranges, so that nearly equal values do
/// not look like day and night.
const LEAST_RATIO: f64 = 2.0;

/// The better end of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Better {
    /// Rates.
    High,
    /// Latencies, and costs of a unit of work.
    Low,
}

/// Comparison of one cell with its column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shade {
    /// Hue from red, the worst, to green, the best.
    pub hue_degrees: u32,
    /// True if no other value is better.
    pub is_best: bool,
    /// True if no other value is worse.
    pub is_worst: bool,
}

/// Returns a shade for each value: `None` for a missing value, and for all values if no two of them differ.
pub(super) fn shades(values: &[Option<f64>], better: Better) -> Vec<Option<Shade>> {
    let usable = |value: &Option<f64>| value.filter(|value| value.is_finite() && *value > 0.0);
    let (low, high) = values
        .iter()
        .filter_map(usable)
        .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    if low >= high {
        return vec![None; values.len()];
    }
    let spread = (LEAST_RATIO * low / high).sqrt().max(1.0);
    let (from, to) = (low / spread, high * spread);
    let shade = |value: f64| {
        let share = (value - from) / (to - from);
        let (goodness, best, worst) = match better {
            Better::High => (share, high, low),
            Better::Low => (1.0 - share, low, high),
        };
        let hue = WORST_HUE + (BEST_HUE - WORST_HUE) * goodness.clamp(0.0, 1.0);
        Shade { hue_degrees: hue.round() as u32, is_best: value == best, is_worst: value == worst }
    };
    values.iter().map(|value| usable(value).map(shade)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hues(values: &[f64], better: Better) -> Vec<u32> {
        let values: Vec<_> = values.iter().copied().map(Some).collect();
        shades(&values, better).into_iter().map(|shade| shade.unwrap().hue_degrees).collect()
    }

    #[test]
    fn best_value_is_green_and_worst_is_red() {
        assert_eq!(hues(&[100.0, 550.0, 1000.0], Better::High), [0, 60, 120]);
        assert_eq!(hues(&[100.0, 550.0, 1000.0], Better::Low), [120, 60, 0]);
    }

    #[test]
    fn nearly_equal_values_have_middle_hues() {
        let hues = hues(&[100.0, 101.0], Better::High);
        assert!(hues.iter().all(|hue| (45..60).contains(hue)), "{hues:?}");
    }

    #[test]
    fn incomparable_values_have_no_colour() {
        for values in [&[Some(5.0), None][..], &[Some(5.0), Some(5.0)], &[Some(5.0), Some(0.0)], &[], &[None]]
        {
            assert!(shades(values, Better::High).iter().all(Option::is_none), "{values:?}");
        }
        let shades = shades(&[Some(1.0), None, Some(4.0), Some(4.0)], Better::High);
        let ends: Vec<_> =
            shades.iter().map(|shade| shade.map(|shade| (shade.is_best, shade.is_worst))).collect();
        assert_eq!(ends, [Some((false, true)), None, Some((true, false)), Some((true, false))]);
    }

    proptest! {
        #[test]
        fn hues_stay_between_red_and_green(values in prop::collection::vec(any::<Option<f64>>(), 0..9)) {
            for better in [Better::High, Better::Low] {
                let shades = shades(&values, better);
                prop_assert_eq!(shades.len(), values.len());
                prop_assert!(shades.iter().flatten().all(|shade| shade.hue_degrees <= 120));
            }
        }
    }
}
