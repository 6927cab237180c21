//! Properties that hold for every input.

use proptest::collection::vec;
use proptest::prelude::*;
use stats::{STEADY_TICKS, Tick, analyse, interval_of_mean, levels_of_short_series, modes, quantiles};

/// Usual numbers, and numbers that should never come.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => 0.0..1e6f64,
        2 => (0u8..4).prop_map(f64::from),
        1 => any::<f64>(),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::MAX), Just(-1.0), Just(1e-300)],
    ]
}

fn tick() -> impl Strategy<Value = Tick> {
    let length_s = prop_oneof![9 => Just(0.1), 1 => number()];
    (length_s, number()).prop_map(|(length_s, count)| Tick { length_s, count })
}

/// Histograms of latencies, valid and invalid.
fn histogram() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let upper_ns = prop_oneof![9 => 0u64..100_000_000, 1 => any::<u64>()];
    let count = prop_oneof![9 => 0u64..1000, 1 => any::<u64>()];
    vec((upper_ns, count), 0..30)
}

proptest! {
    #[test]
    fn segments_cover_the_phase_and_rates_are_finite(ticks in vec(tick(), 0..150)) {
        let analysis = analyse(&ticks);
        let mut at = 0;
        for segment in &analysis.segments {
            prop_assert_eq!(segment.from, at);
            prop_assert!(segment.to > at && segment.rate.is_finite() && segment.rate >= 0.0);
            at = segment.to;
        }
        prop_assert!(at <= ticks.len() && at + 1 >= ticks.len());
        prop_assert!(analysis.rate.is_finite() && analysis.rate >= 0.0);
        if let Some(interval) = analysis.interval {
            prop_assert!(0.0 <= interval.low && interval.low <= analysis.rate);
            prop_assert!(analysis.rate <= interval.high && interval.high.is_finite());
        }
        if let Some(steady) = analysis.steady {
            let last = analysis.segments.last().unwrap();
            prop_assert!(last.to - last.from >= STEADY_TICKS && last.from <= steady.start && steady.end == last.to);
            prop_assert!(analysis.interval.is_some());
        }
    }

    #[test]
    fn rate_scales_with_its_unit(counts in vec(100.0..200.0f64, 30..120)) {
        let scaled = |factor: f64| {
            let ticks: Vec<_> = counts.iter().map(|count| Tick { length_s: 0.1, count: count * factor }).collect();
            analyse(&ticks)
        };
        let (operations, bytes) = (scaled(1.0), scaled(4096.0));
        prop_assert_eq!(&operations.steady, &bytes.steady);
        prop_assert!((operations.rate * 4096.0 / bytes.rate - 1.0).abs() < 1e-9);
    }

    #[test]
    fn means_lie_in_their_finite_intervals(values in vec(number(), 0..60)) {
        if let Some(interval) = interval_of_mean(&values) {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            prop_assert!(interval.low.is_finite() && interval.high.is_finite());
            prop_assert!(interval.low <= mean && mean <= interval.high);
            prop_assert!(interval.half_width() >= 0.0);
        }
    }

    #[test]
    fn levels_of_short_series_cover_all_values(values in vec(number(), 0..14)) {
        let levels = levels_of_short_series(&values);
        prop_assert_eq!(levels.is_empty(), values.is_empty() || !values.iter().all(|value| value.is_finite()));
        let mut at = 0;
        for level in &levels {
            prop_assert!(level.from == at && level.to > at && level.mean.is_finite());
            at = level.to;
        }
        prop_assert!(levels.is_empty() || at == values.len());
    }

    #[test]
    fn percentiles_ascend_and_lie_in_their_intervals(intervals in vec(histogram(), 0..40), seed in any::<u64>()) {
        let found: Vec<_> = quantiles(&intervals, &[0.1, 0.5, 0.9, 0.99], seed).into_iter().flatten().collect();
        for quantile in &found {
            if let Some((low, high)) = quantile.interval_ns {
                prop_assert!(low <= quantile.value_ns && quantile.value_ns <= high);
            }
            prop_assert!(intervals.iter().flatten().any(|(upper, count)| *upper == quantile.value_ns && *count > 0));
        }
        prop_assert!(found.is_sorted_by_key(|quantile| quantile.value_ns));
    }

    #[test]
    fn modes_are_none_or_their_shares_sum_to_one(histogram in histogram()) {
        let found = modes(&histogram);
        prop_assert!(found.len() != 1 && found.is_sorted_by_key(|mode| mode.at_ns));
        let sum: f64 = found.iter().map(|mode| mode.share).sum();
        prop_assert!(found.is_empty() || (sum - 1.0).abs() < 1e-6);
        prop_assert!(found.iter().all(|mode| mode.share > 0.0));
    }
}
