//! Limit by the time of one operation, at the requested depth.

use model::Limiter;
use model::advice::Advice;
use model::experiment::FACTOR;
use model::figure::{Count, OpsPerSecond, Ratio, WaitClass};
use model::observation::Observation;
use model::run::{Confidence, Verdict};

use super::evidence::{is_at_target, seen};
use crate::values::experiments::{Load, LoadEstimate};
use crate::values::lookups;
use crate::values::places::Level;
use crate::values::reading::Reading;

/// Blocks of at least this size may also be limited by their bytes, where no experiment was made.
pub(super) const LARGE_BYTES: u64 = 64 << 10;

/// Operations that wait for each other take at least this share of the time that they would take one after the other.
const SLOWED_SHARE_MIN: f64 = 0.25;

/// Operations that wait for answers from a target that could serve more at the same time.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    if !is_at_target(reading) {
        return None;
    }
    let limiter = if reading.is_remote { Limiter::RemoteLatency } else { Limiter::DeviceLatency };
    let classes = if reading.is_remote {
        [WaitClass::Remote, WaitClass::Page, WaitClass::Device]
    } else {
        [WaitClass::Device, WaitClass::Page, WaitClass::Sync]
    };
    let evidence = seen![
        reading.time_spent(),
        reading.dominant_wait(&classes),
        reading.at_target().filter(|_| reading.waits_in_target() == Some(true)),
        reading.took_round_trips(),
        reading.network_use().filter(|_| lookups::requests_share(&reading.input) >= Some(1.0)),
    ];
    match reading.load() {
        LoadEstimate::Known { load: Load::Headroom, is_sure, contradicting } => {
            let evidence = seen![evidence, reading.answers_without(&contradicting)];
            let found = Verdict::new(limiter, reading.budget.blocked, evidence)
                .unless(reading.answers_to(&contradicting))
                .unless(slowed(reading))
                .advise(more_depth(reading));
            return Some(if is_sure { found } else { found.at_most(Confidence::Likely) });
        }
        LoadEstimate::Known { .. } => return None,
        LoadEstimate::Untested => {}
    }
    // Without experiments, only one small operation at a time is most likely limited by latency.
    let block_bytes = reading.input.data().map_or(0, |data| data.block_bytes);
    if block_bytes >= LARGE_BYTES || reading.in_flight > 1.0 {
        return None;
    }
    let found = Verdict::new(limiter, reading.budget.blocked, seen![evidence, reading.answers()]);
    Some(found.at_most(Confidence::Likely).advise(depth_advice(reading)))
}

/// Returns where the operations stand, if they wait for each other there.
fn slowed(reading: &Reading<'_>) -> Vec<Observation> {
    let last = reading.places.as_ref().and_then(|places| places.last());
    let waits =
        |level: &&Level| level.is_slowed() && level.times_alone >= Some(SLOWED_SHARE_MIN * reading.in_flight);
    last.filter(waits).map_or(Vec::new(), |level| reading.at_level(level))
}

/// Advice where more depth is not known to bring more.
fn depth_advice(reading: &Reading<'_>) -> Vec<Advice> {
    if reading.has_experiments() {
        return vec![Advice::MeasureLonger {}];
    }
    // A line between the test and its target may be nearly saturated.
    if reading.is_remote {
        return vec![Advice::DepthUntried {}];
    }
    let rate = reading.input.record.figures.rate.overall_ops_per_second.unwrap_or(0.0);
    // Little's law: the rate grows as much as the depth, if each operation takes no longer.
    let depth_advice = Advice::MoreInFlightMight {
        in_flight: Count(reading.in_flight as u64 * u64::from(FACTOR)),
        ops_per_second: OpsPerSecond(rate * f64::from(FACTOR)),
    };
    vec![depth_advice, Advice::DepthUntried {}]
}

/// Returns the advice for a target with room: the gain from more depth, where that was tried.
fn more_depth(reading: &Reading<'_>) -> Vec<Advice> {
    let depth = reading.input.record.judged.sensitivity.as_ref().and_then(|known| known.depth.as_ref());
    match (reading.gain(), depth) {
        (Some(gain), Some(depth)) => vec![
            Advice::ChangeGave { change: depth.change.as_str().into(), times: Ratio(gain.value) },
            Advice::MoreDepth {},
        ],
        _ => vec![Advice::DepthUntried {}],
    }
}
