//! Percentiles and their intervals.

use fastrand::Rng;
use hdrhistogram::Histogram;
use stats::quantiles;

use crate::noise::{autoregression, percent};

/// Intervals of a phase with `each` exponential latencies each, whose mean varies as `levels` says.
fn exponential(rng: &mut Rng, levels: &[f64], each: usize) -> Vec<Vec<(u64, u64)>> {
    let buckets = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 2).unwrap();
    let interval = |level: &f64| {
        let latency = |_| buckets.highest_equivalent((-(1.0 - rng.f64()).ln() * 1e5 * level) as u64);
        let mut values: Vec<u64> = (0..each).map(latency).collect();
        values.sort_unstable();
        values.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u64)).collect()
    };
    levels.iter().map(interval).collect()
}

#[test]
fn percentile_intervals_have_nominal_coverage() {
    let buckets = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 2).unwrap();
    let truth = |share: f64| buckets.highest_equivalent((-(1.0 - share).ln() * 1e5) as u64);
    for share in [0.5, 0.99] {
        let covered = percent(200, |rng| {
            let intervals = exponential(rng, &[1.0; 100], 50);
            let found = quantiles(&intervals, &[share], rng.u64(..))[0].unwrap();
            let (low, high) = found.interval_ns.unwrap();
            (low..=high).contains(&truth(share))
        });
        println!("coverage of the {share} quantile: {covered:.1} %");
        assert!(covered >= 90.0, "{share}: {covered} %");
    }
}

#[test]
fn autocorrelation_widens_percentile_intervals() {
    let mut rng = Rng::with_seed(1);
    let noise = autoregression(&mut rng, 0.7, 200);
    let levels: Vec<f64> = noise.iter().map(|noise| (0.3 * noise).exp()).collect();
    let mut shuffled = exponential(&mut rng, &levels, 50);
    let width = |intervals: &[Vec<(u64, u64)>]| {
        let (low, high) = quantiles(intervals, &[0.5], 1)[0].unwrap().interval_ns.unwrap();
        high - low
    };
    let alike = width(&shuffled);
    rng.shuffle(&mut shuffled);
    assert!(alike as f64 > 1.3 * width(&shuffled) as f64, "{alike} {}", width(&shuffled));
}

#[test]
fn same_seed_gives_same_interval() {
    let intervals = exponential(&mut Rng::with_seed(1), &[1.0; 700], 10);
    let found = quantiles(&intervals, &[0.5, 0.9, 0.99], 7);
    assert_eq!(found, quantiles(&intervals, &[0.5, 0.9, 0.99], 7));
    assert!(found.iter().all(Option::is_some));
}
