//! Limits below the guest's kernel, which are visible only as variation of the rate.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Figure, Share, Threshold, WaitClass};
use model::observation::Observation;
use model::run::{Confidence, Verdict};
use model::target::Backing;

use super::evidence::{seen, waits_for_target};
use crate::values::reading::Reading;

/// Coefficient of variation of the rates per second, above which no device alone explains the rate.
const UNSTABLE: f64 = 0.3;
/// Minimum of requests in the device per operation waited for, if no layer above the device limits them.
const IN_TARGET_MIN: f64 = 0.7;
/// Minimum number of seconds for that.
const SECONDS_MIN: usize = 4;
/// Minimum number of operations per second. Smaller counts vary by chance.
const OPS_MIN: f64 = 100.0;
/// Share of other processes in the device's bytes above which they may be the cause.
const FOREIGN_SHARE_MIN: f64 = 0.1;

/// The thresholds that its explanation names.
pub(crate) const THRESHOLDS: &[Threshold] = &[
    ("unstable", Figure::Share(UNSTABLE)),
    ("unstable_seconds", Figure::Count(SECONDS_MIN as u64)),
    ("unstable_ops", Figure::Count(OPS_MIN as u64)),
    ("below_foreign", Figure::Share(FOREIGN_SHARE_MIN)),
    ("well_in_target", Figure::Ratio(IN_TARGET_MIN)),
];

/// Threads that wait in the device, at a varying rate, although no other process of this machine uses the device.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    let input = &reading.input;
    let is_simulated = input.target().backing == Backing::Simulated;
    let is_virtual = input.environment.virtualisation.is_some() && !is_simulated;
    let is_in_device = reading.occupancy().is_some_and(|occupancy| occupancy >= IN_TARGET_MIN);
    let foreign = input.device()?.foreign_share.unwrap_or(0.0);
    if !is_virtual || !waits_for_target(reading) || !is_in_device || foreign >= FOREIGN_SHARE_MIN {
        return None;
    }
    // A change from one level to another is a limit that set in, and is reported as a change.
    let steady = input.record.figures.steady.as_ref()?;
    let rates = rates_of_seconds(reading);
    if !steady.change_points.is_empty() && steady.is_steady || rates.len() < SECONDS_MIN {
        return None;
    }
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    if mean < OPS_MIN {
        return None;
    }
    let spread = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (rates.len() - 1) as f64;
    let variation = spread.sqrt() / mean;
    if variation.is_nan() || variation <= UNSTABLE {
        return None;
    }
    let evidence = seen![
        reading.time_spent(),
        reading.dominant_wait(&[WaitClass::Device, WaitClass::Page, WaitClass::Sync]),
        reading.at_target(),
        Some(Observation::RateVaried { variation: Share(variation) }),
    ];
    Some(
        Verdict::new(Limiter::BelowOs, reading.budget.blocked, evidence)
            .at_most(Confidence::Likely)
            .advise([Advice::RepeatLater {}]),
    )
}

fn rates_of_seconds(reading: &Reading<'_>) -> Vec<f64> {
    let mut seconds: Vec<(f64, f64)> = Vec::new();
    for interval in &reading.input.record.figures.intervals {
        let second = (interval.start_ns / 1_000_000_000) as usize;
        seconds.resize(seconds.len().max(second + 1), (0.0, 0.0));
        seconds[second].0 += interval.ops as f64;
        seconds[second].1 += interval.length_ns as f64 / 1e9;
    }
    // The last second may be incomplete.
    seconds.into_iter().filter(|(_, length)| *length > 0.9).map(|(ops, length)| ops / length).collect()
}
