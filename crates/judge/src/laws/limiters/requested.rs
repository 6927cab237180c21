//! Limits by a requested rate or by requested pauses.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Figure, OpsPerSecond, Share, Threshold};
use model::observation::Observation;
use model::run::{Confidence, Verdict};

use super::evidence::seen;
use crate::values::reading::Reading;

/// A rate that is lower than requested by more than this share was not kept, whatever was started. It is the share of
/// operations that may be missed.
const RATE_SHORTFALL_MAX: f64 = 0.01;

/// Pauses that take more than this share of the threads' time hold the rate back.
const PAUSED_MIN: f64 = 0.5;

/// The thresholds that its explanation names.
pub(crate) const THRESHOLDS: &[Threshold] =
    &[("short_max", Figure::Share(RATE_SHORTFALL_MAX)), ("paused_min", Figure::Share(PAUSED_MIN))];

/// The rate of an open loop that kept up says nothing about the possible maximum; its latencies do.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    let input = &reading.input;
    let requested = input.record.workload.rate_ops_per_second.filter(|_| input.keeps_requested_rate())?;
    let rate = input.record.figures.rate.overall_ops_per_second?;
    let evidence = seen![
        reading.time_spent(),
        Some(Observation::RateStarted { ops_per_second: OpsPerSecond(rate) }),
        Some(Observation::RateRequested { ops_per_second: OpsPerSecond(requested) }),
    ];
    let share = 1.0 - reading.on_cpu();
    let found = Verdict::new(Limiter::RequestedRate, share, evidence).advise([Advice::LeaveRateAway {}]);
    // If the rate is lower although all due operations were started, they took too long: something else also held them
    // back.
    let is_kept = rate
        >= requested * (1.0 - RATE_SHORTFALL_MAX)
            - deviations(input.record.counts.ops, &input.record.workload.arrival) * requested;
    Some(if is_kept { found } else { found.at_most(Confidence::Likely) })
}

/// Pauses between flows say nothing about the possible maximum; latencies do.
pub(super) fn pauses(reading: &Reading<'_>) -> Option<Verdict> {
    let input = &reading.input;
    let mix = input.files()?.mix().filter(|_| !input.keeps_requested_rate())?;
    let latency = input.record.figures.latency_ns.as_ref()?;
    let counts = &input.record.counts;
    let spent_ns = latency.mean as f64 * counts.ops as f64;
    let paused = 1.0 - spent_ns / (reading.threads * counts.elapsed_ns as f64);
    let is_paused = mix.flows.iter().any(|flow| flow.think_ms > 0) && paused > PAUSED_MIN;
    let rate = input.record.figures.rate.overall_ops_per_second.map(OpsPerSecond);
    let evidence = seen![
        reading.time_spent(),
        rate.map(|ops_per_second| Observation::RateStarted { ops_per_second }),
        Some(Observation::Paused { share: Share(paused) }),
    ];
    is_paused.then(|| Verdict::new(Limiter::ThinkTime, paused, evidence))
}

/// Three standard deviations of the number of arrivals, as a share of it. The deviation is 0 for equal gaps, and the
/// square root of the number in a Poisson process.
fn deviations(ops: u64, arrival: &str) -> f64 {
    if arrival == "open_loop_poisson" { 3.0 / (ops.max(1) as f64).sqrt() } else { 0.0 }
}
