//! Levels of short series, such as a test over many runs: how often a change is found, with and without a true one.

use fastrand::Rng;
use stats::{SHORT_SERIES_MIN, levels_of_short_series};

use crate::noise::{autoregression, normal, percent};

/// Lengths of series, in runs.
const LENGTHS: [usize; 6] = [SHORT_SERIES_MIN, 8, 10, 15, 30, 100];

/// Percentage of series of that length in which a change is found.
fn found(attempts: u64, length: usize, noise: impl Fn(&mut Rng) -> Vec<f64>) -> f64 {
    percent(attempts, |rng| {
        let values: Vec<f64> = noise(rng);
        assert_eq!(values.len(), length);
        levels_of_short_series(&values).len() > 1
    })
}

#[test]
fn series_without_change_has_no_step() {
    for length in LENGTHS {
        // A run differs from the next by 10 %, so the smallest difference that counts hides nothing.
        let attempts = if length < 50 { 1000 } else { 200 };
        let share = found(attempts, length, |rng| (0..length).map(|_| 100.0 + 10.0 * normal(rng)).collect());
        println!("length {length}: {share:.1} % (asked for: at most 5)");
        assert!(share <= 2.5, "length {length}: {share} %");
    }
}

#[test]
fn outliers_are_not_reported_as_changes() {
    for length in [SHORT_SERIES_MIN, 10, 15, 16, 30] {
        // One run of ten is slow, by anything up to half.
        let slow = |rng: &mut Rng| if rng.f64() < 0.1 { 1.0 - 0.5 * rng.f64() } else { 1.0 };
        let share =
            found(600, length, |rng| (0..length).map(|_| (100.0 + normal(rng)) * slow(rng)).collect());
        println!("length {length}: {share:.1} %");
        assert!(share <= 5.0, "length {length}: {share} %");
    }
}

#[test]
fn autocorrelated_noise_keeps_false_changes_rare() {
    for length in [10, 30] {
        let share = found(600, length, |rng| {
            autoregression(rng, 0.3, length).into_iter().map(|value| 100.0 + 10.0 * value).collect()
        });
        println!("length {length}: {share:.1} % where neighbours correlate by 0.3");
        assert!(share <= 12.0, "length {length}: {share} %");
    }
}

#[test]
fn step_is_found_at_its_position() {
    // Runs before and after the step, its height in standard deviations of the noise, and the percentage to be found.
    for (before, after, height, asked) in [
        (4, 2, 40.0, 90.0),
        (6, 2, 10.0, 75.0),
        (5, 5, 5.0, 80.0),
        (10, 3, 6.0, 90.0),
        (17, 3, 6.0, 85.0),
        (30, 5, 4.0, 90.0),
        (50, 50, 2.0, 85.0),
    ] {
        let attempts = if before < 50 { 300 } else { 60 };
        let share = percent(attempts, |rng| {
            let level = |at: usize| if at < before { 100.0 } else { 100.0 - 2.0 * height };
            let values: Vec<f64> = (0..before + after).map(|at| level(at) + 2.0 * normal(rng)).collect();
            let levels = levels_of_short_series(&values);
            levels.len() == 2 && levels[1].from.abs_diff(before) <= if height < 4.0 { 3 } else { 1 }
        });
        println!("{before} and {after} runs, step of {height} noises: {share:.0} % (asked for: {asked})");
        assert!(share >= asked, "{before} and {after} runs, step of {height} noises: {share} %");
    }
}

#[test]
fn level_between_two_others_is_found() {
    for (length, share_of_noise) in [(12, 0.02), (30, 0.04)] {
        let share = percent(200, |rng| {
            let third = length / 3;
            let level = |at: usize| if (third..2 * third).contains(&at) { 80.0 } else { 100.0 };
            let values: Vec<f64> =
                (0..length).map(|at| level(at) * (1.0 + share_of_noise * normal(rng))).collect();
            let levels = levels_of_short_series(&values);
            levels.len() == 3 && levels[1].from.abs_diff(third) <= 1
        });
        println!("{length} runs: {share:.0} %");
        assert!(share >= 85.0, "{length} runs: {share} %");
    }
}
