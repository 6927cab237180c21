//! A rate that was asked for and kept.

use model::Limiter;
use model::numbers::amount;
use model::run::{Confidence, Evidence};

use super::{Found, budget_sentence};
use crate::reading::Reading;

/// A rate that is lower than asked for by this share was not kept, whatever was started: it is the share of operations
/// that may be missed.
const SHORT_MAX: f64 = 0.01;

/// An open loop that kept its rate says nothing about what would be possible: its latencies do.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Found> {
    let input = &reading.input;
    let asked = input.record.workload.rate_ops_per_second.filter(|_| input.rate_is_given())?;
    let rate = input.record.rate.whole_ops_per_second?;
    let told = |rate: f64| amount(rate).unwrap_or_default();
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        counters: Some(format!("{} operations/s were started", told(rate))),
        visible_cap: Some(format!("{} operations/s were asked for", told(asked))),
        ..Evidence::default()
    };
    let share = 1.0 - reading.on_cpu();
    let found = Found::new(Limiter::RateLimitAsked, share, evidence)
        .advice("The rate was given; read the latencies. Leave rate= away to see what the target can do.");
    // All that was due was started, and took longer than it should have: something else held it back as well.
    let is_kept = rate
        >= asked * (1.0 - SHORT_MAX) - deviations(input.record.ops, &input.record.workload.arrival) * asked;
    Some(if is_kept { found } else { found.at_most(Confidence::Likely) })
}

/// Three standard deviations of the arrivals, as a share of them: none where the gaps are equal, and the square root of
/// their number in a Poisson process.
fn deviations(ops: u64, arrival: &str) -> f64 {
    if arrival == "open_loop_poisson" { 3.0 / (ops.max(1) as f64).sqrt() } else { 0.0 }
}
