//! Modes of latencies.

use fastrand::Rng;
use hdrhistogram::Histogram;
use stats::{Mode, modes};

use crate::noise::normal;

/// Modes of `count` latencies, in the buckets of a histogram.
fn modes_of(rng: &mut Rng, count: usize, latency_ns: impl Fn(&mut Rng) -> f64) -> Vec<Mode> {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 2).unwrap();
    (0..count).for_each(|_| histogram.saturating_record(latency_ns(rng).max(0.0) as u64));
    let buckets = histogram.iter_recorded();
    modes(&buckets.map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value())).collect::<Vec<_>>())
}

fn lognormal(rng: &mut Rng, median_ns: f64, sigma: f64) -> f64 {
    median_ns * (sigma * normal(rng)).exp()
}

fn exponential(rng: &mut Rng, mean_ns: f64) -> f64 {
    -(1.0 - rng.f64()).ln() * mean_ns
}

type Latency = fn(&mut Rng) -> f64;

#[test]
fn unimodal_latency_is_not_split() {
    let kinds: [(&str, Latency); 9] = [
        ("normal", |rng| 1e5 + 1e4 * normal(rng)),
        ("wide normal", |rng| 1e6 + 2.5e5 * normal(rng)),
        ("lognormal", |rng| lognormal(rng, 8e4, 0.3)),
        ("wide lognormal", |rng| lognormal(rng, 8e4, 1.2)),
        ("exponential", |rng| exponential(rng, 3e5)),
        ("quick exponential", |rng| exponential(rng, 300.0)),
        ("uniform", |rng| 1e6 * rng.f64()),
        ("narrow uniform", |rng| 1e6 + 1e5 * rng.f64()),
        ("heavy tail", |rng| 5e4 / (1.0 - rng.f64()).powf(0.7)),
    ];
    for (name, latency) in kinds {
        for (count, attempts) in [(1000, 200), (10_000, 40), (100_000, 4), (1_000_000, 1)] {
            for seed in 0..attempts {
                let found = modes_of(&mut Rng::with_seed(seed), count, latency);
                assert_eq!(found, [], "{name}, {count} samples, seed {seed}");
            }
        }
    }
}

#[test]
fn clock_granularity_does_not_create_modes() {
    for (step_ns, mean_ns) in [(40.0, 120.0), (1000.0, 3000.0), (1000.0, 1e5), (1e4, 1e5), (4e6, 6e6)] {
        for count in [1000, 100_000] {
            for seed in 0..10 {
                let mut rng = Rng::with_seed(seed);
                // For a clock with steps, an operation starts anywhere between two steps.
                let seen =
                    |latency_ns: f64, rng: &mut Rng| ((latency_ns / step_ns + rng.f64()).floor()) * step_ns;
                let of_normal =
                    modes_of(&mut rng, count, |rng| seen(mean_ns * (1.0 + 0.3 * normal(rng)), rng));
                let of_exponential = modes_of(&mut rng, count, |rng| seen(exponential(rng, mean_ns), rng));
                let of_constant = modes_of(&mut rng, count, |rng| seen(mean_ns * 1.1, rng));
                for found in [of_normal, of_exponential, of_constant] {
                    assert_eq!(found, [], "{step_ns} {mean_ns} {count} {seed}");
                }
            }
        }
    }
}

#[test]
fn two_latency_modes_are_separated() {
    for (count, attempts) in [(1000, 100), (10_000, 20), (1_000_000, 1)] {
        for (seed, sigma) in (0..attempts).flat_map(|seed| [(seed, 0.05), (seed, 0.2)]) {
            let mut rng = Rng::with_seed(seed);
            let found = modes_of(&mut rng, count, |rng| {
                let median_ns = if rng.f64() < 0.05 { 2e7 } else { 2e6 };
                lognormal(rng, median_ns, sigma)
            });
            let [quick, slow] = found[..] else { panic!("{count} samples, seed {seed}: {found:?}") };
            assert!((slow.share - 0.05).abs() < 0.025 && (quick.share + slow.share - 1.0).abs() < 1e-9);
            assert!((quick.at_ns as f64 / 2e6 - 1.0).abs() < 0.05, "{quick:?}");
            assert!((slow.at_ns as f64 / 2e7 - 1.0).abs() < 0.15, "{slow:?}");
        }
    }
}

#[test]
fn throttled_operations_form_a_separate_mode() {
    for seed in 0..20 {
        let mut rng = Rng::with_seed(seed);
        let found = modes_of(&mut rng, 30_000, |rng| match rng.f64() {
            ..0.016 => 1.01e8 + 2e5 * normal(rng),
            _ => lognormal(rng, 7.6e4, 0.25),
        });
        let [quick, slow] = found[..] else { panic!("seed {seed}: {found:?}") };
        assert!(
            (quick.at_ns as f64 / 7.6e4 - 1.0).abs() < 0.03
                && (slow.at_ns as f64 / 1.01e8 - 1.0).abs() < 0.03
        );
        assert!((slow.share - 0.016).abs() < 0.004, "{}", slow.share);
    }
}

#[test]
fn three_modes_are_found_and_a_rare_one_ignored() {
    let mut rng = Rng::with_seed(1);
    let found = modes_of(&mut rng, 100_000, |rng| {
        let median_ns = match rng.f64() {
            ..0.002 => 1e8,
            ..0.3 => 1e5,
            ..0.5 => 1e6,
            _ => 1e4,
        };
        lognormal(rng, median_ns, 0.2)
    });
    let shares: Vec<f64> = found.iter().map(|mode| (mode.share * 100.0).round()).collect();
    assert_eq!(shares, [50.0, 30.0, 20.0]);
}
