//! Random series with known properties.

use fastrand::Rng;
use stats::Tick;

/// A number of the standard normal distribution (Box and Muller, 1958).
pub fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

/// A series of mean 0 and variance 1 in which neighbours correlate by `rho`.
pub fn autoregression(rng: &mut Rng, rho: f64, count: usize) -> Vec<f64> {
    let mut value = normal(rng);
    let step = |_| {
        let this = value;
        value = rho * value + (1.0 - rho * rho).sqrt() * normal(rng);
        this
    };
    (0..count).map(step).collect()
}

/// Ticks of 0.1 s with the rate that `level` gives for each. Its noise is 5 %, and neighbours correlate by `rho`.
pub fn ticks(rng: &mut Rng, rho: f64, count: usize, level: impl Fn(usize) -> f64) -> Vec<Tick> {
    ticks_with(rng, rho, 0.05, count, level)
}

/// Same as [`ticks`], with another coefficient of variation.
pub fn ticks_with(rng: &mut Rng, rho: f64, cv: f64, count: usize, level: impl Fn(usize) -> f64) -> Vec<Tick> {
    let noise = autoregression(rng, rho, count);
    let rate = |(index, noise): (usize, f64)| level(index) * (1.0 + cv * noise);
    noise.into_iter().enumerate().map(|at| Tick { length_s: 0.1, count: (rate(at) * 0.1).max(0.0) }).collect()
}

/// Percentage of attempts in which something happens, each with a different seed.
pub fn percent(attempts: u64, happens: impl Fn(&mut Rng) -> bool) -> f64 {
    let times = (0..attempts).filter(|seed| happens(&mut Rng::with_seed(*seed))).count();
    times as f64 / attempts as f64 * 100.0
}
