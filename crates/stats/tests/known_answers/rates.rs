//! Rates, levels and intervals.

use fastrand::Rng;
use stats::{Tick, analyse, interval_of_mean};

use crate::noise::{autoregression, percent, ticks, ticks_with};

/// The rate of a phase with a single level.
const RATE: f64 = 10_000.0;

#[test]
fn rate_interval_covers_true_rate() {
    for count in [100, 200] {
        for rho in [0.0, 0.3, 0.6] {
            let covered = percent(2000, |rng| {
                let interval = analyse(&ticks(rng, rho, count, |_| RATE)).interval.unwrap();
                (interval.low..=interval.high).contains(&RATE)
            });
            println!("coverage of a rate, {count} ticks, rho {rho}: {covered:.1} %");
            assert!((90.0..=99.0).contains(&covered), "{count} ticks, rho {rho}: {covered} %");
        }
    }
}

#[test]
fn mean_interval_covers_true_mean() {
    for (count, rho, least) in
        [(3, 0.0, 93.0), (5, 0.0, 93.0), (8, 0.3, 85.0), (12, 0.3, 85.0), (20, 0.3, 90.0)]
    {
        let covered = percent(2000, |rng| {
            let interval = interval_of_mean(&autoregression(rng, rho, count)).unwrap();
            interval.low <= 0.0 && interval.high >= 0.0
        });
        println!("coverage of a mean, {count} values, rho {rho}: {covered:.1} %");
        assert!((least..=99.5).contains(&covered), "{count} values, rho {rho}: {covered} %");
    }
}

#[test]
fn steady_rate_has_one_level() {
    for (count, rho, most) in [(100, 0.0, 6.0), (100, 0.3, 6.0), (300, 0.3, 6.0), (1200, 0.3, 6.0)] {
        let false_changes =
            percent(1000, |rng| analyse(&ticks(rng, rho, count, |_| RATE)).segments.len() > 1);
        println!("false changes, {count} ticks, rho {rho}: {false_changes:.1} %");
        assert!(false_changes <= most, "{count} ticks, rho {rho}: {false_changes} %");
    }
    let refused = percent(1000, |rng| analyse(&ticks(rng, 0.3, 100, |_| RATE)).steady.is_none());
    println!("a steady rate of 100 ticks refused: {refused:.1} %");
    assert!(refused <= 12.0, "{refused} %");
}

#[test]
fn step_of_ten_percent_is_found_and_located() {
    let step =
        |rng: &mut Rng| analyse(&ticks(rng, 0.3, 100, |index| if index < 50 { RATE } else { 0.9 * RATE }));
    let found = percent(1000, |rng| step(rng).segments.len() > 1);
    let located =
        percent(1000, |rng| step(rng).segments.iter().any(|segment| segment.from.abs_diff(50) <= 3));
    println!("step of -10 % found: {found:.1} %, within 3 ticks: {located:.1} %");
    assert!(found >= 95.0 && located >= 75.0, "found {found} %, located {located} %");
}

#[test]
fn rate_before_throttle_onset_is_excluded() {
    for attempt in 0..500 {
        let mut rng = Rng::with_seed(attempt);
        let at = rng.usize(10..60);
        let part = rng.f64();
        // The throttle sets in within a tick, which has part in both levels.
        let level = |index| match index {
            _ if index < at => RATE,
            _ if index == at => 0.2 * RATE + part * 0.8 * RATE,
            _ => 0.2 * RATE,
        };
        let analysis = analyse(&ticks_with(&mut rng, 0.3, 0.01, 120, level));
        let last = analysis.segments.last().unwrap();
        assert!(last.from.abs_diff(at) <= 3, "{attempt}: {} instead of {at}", last.from);
        assert!((analysis.rate / (0.2 * RATE) - 1.0).abs() < 0.01, "{attempt}: {}", analysis.rate);
        assert!(analysis.steady.is_some_and(|steady| steady.end == 120), "{attempt}");
    }
}

#[test]
fn warm_up_is_excluded_from_the_rate() {
    let warming = |rng: &mut Rng| {
        analyse(&ticks(rng, 0.3, 150, |index| RATE * (1.0 - 0.6 * (-(index as f64) / 15.0).exp())))
    };
    let found = percent(500, |rng| warming(rng).segments.len() > 1);
    let steady = percent(500, |rng| warming(rng).steady.is_some());
    let errors = (0..500).map(|seed| warming(&mut Rng::with_seed(seed)));
    let errors: Vec<f64> = errors
        .filter(|warm| warm.steady.is_some())
        .map(|warm| (warm.rate / RATE - 1.0).abs() * 100.0)
        .collect();
    let error = errors.iter().sum::<f64>() / errors.len() as f64;
    println!("warm-up found: {found:.1} %, then steady: {steady:.1} %, error of the rate {error:.2} %");
    assert!(found >= 99.0 && steady >= 50.0, "found {found} %, steady {steady} %");
    assert!(error < 2.0, "{error} %");
}

#[test]
fn unsteady_rate_is_refused() {
    let refused = |attempts: u64, series: &dyn Fn(&mut Rng) -> Vec<Tick>| {
        percent(attempts, |rng| analyse(&series(rng)).steady.is_none())
    };
    let switching = refused(500, &|rng| {
        let lengths: Vec<usize> = (0..20).map(|_| rng.usize(10..25)).collect();
        let levels: Vec<f64> = lengths
            .iter()
            .enumerate()
            .flat_map(|(index, length)| vec![if index % 2 == 0 { RATE } else { RATE / 2.0 }; *length])
            .collect();
        ticks(rng, 0.3, 100, |index| levels[index])
    });
    let late = refused(500, &|rng| ticks(rng, 0.3, 200, |index| if index < 140 { RATE } else { 0.6 * RATE }));
    let drifting =
        refused(1000, &|rng| ticks(rng, 0.3, 100, |index| RATE * (1.0 - 0.2 * index as f64 / 100.0)));
    let slightly =
        refused(1000, &|rng| ticks(rng, 0.3, 100, |index| RATE * (1.0 - 0.08 * index as f64 / 100.0)));
    println!("refused: switching {switching:.1} %, late step {late:.1} %");
    println!("refused: drift of -20 % {drifting:.1} %, of -8 % {slightly:.1} %");
    assert!(switching >= 98.0, "switching {switching} %");
    assert!(late >= 98.0, "late step {late} %");
    assert!(drifting >= 80.0, "drift of a fifth {drifting} %");
    assert!(slightly >= 50.0, "drift of 8 % {slightly} %");
}

#[test]
fn token_bucket_credit_biases_slope_less_than_mean() {
    let (rate, attempts) = (5000.0, 200);
    let errors = (0..attempts).map(|attempt| {
        let mut rng = Rng::with_seed(attempt);
        // Tokens come in lots. Credit from before the start is used up at once.
        let (lot, credit) = (100.0 + 150.0 * rng.f64(), 100.0 + 300.0 * rng.f64());
        let allowed = |tick: u32| credit + (rate * 0.1 * f64::from(tick) / lot).floor() * lot;
        let first = Tick { length_s: 0.1, count: allowed(1) };
        let others = (2..=60).map(|tick| Tick { length_s: 0.1, count: allowed(tick) - allowed(tick - 1) });
        let analysis = analyse(&std::iter::once(first).chain(others).collect::<Vec<_>>());
        ((analysis.rate / rate - 1.0).abs() * 100.0, (allowed(60) / 6.0 / rate - 1.0).abs() * 100.0)
    });
    let errors: Vec<(f64, f64)> = errors.collect();
    let slope = errors.iter().map(|error| error.0).sum::<f64>() / attempts as f64;
    let whole = errors.iter().map(|error| error.1).sum::<f64>() / attempts as f64;
    let worst = errors.iter().map(|error| error.0).fold(0.0, f64::max);
    println!(
        "throttle: mean error of the slope {slope:.3} %, of the count {whole:.3} %, worst slope {worst:.3} %"
    );
    assert!(slope < 0.25 * whole && worst < 0.6, "slope {slope} %, worst {worst} %, count {whole} %");
}
