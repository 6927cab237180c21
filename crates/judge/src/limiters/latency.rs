//! The time of one operation, times the depth that was asked for.

use model::Limiter;
use model::advice::Advice;
use model::experiment::FACTOR;
use model::figure::{Count, Figure, OpsPerSecond, Threshold, WaitClass};
use model::run::{Confidence, Verdict};

use super::{seen, waits_for_target};
use crate::reading::Reading;

/// A pause that lengthens turns by at least this share of itself: the time of an operation sets the rate.
pub(crate) const DELAY_ALL: f64 = 0.7;
/// A rate that follows the depth at least so far has room for more.
pub(crate) const DEPTH_ALL: f64 = 0.5;
/// Blocks from this size on may as well be held back by their bytes, which nobody tried.
pub(super) const LARGE_BYTES: u64 = 64 << 10;
/// Operations in flight up to which few targets are full.
const FEW: f64 = 4.0;

/// The thresholds that its explanation names.
pub(super) const THRESHOLDS: &[Threshold] = &[
    ("delay_all", Figure::Ratio(DELAY_ALL)),
    ("depth_all", Figure::Ratio(DEPTH_ALL)),
    ("few", Figure::Count(FEW as u64)),
];

/// Operations that wait for answers, of a target that could give more at the same time.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    let input = &reading.input;
    if !waits_for_target(reading) || reading.waits_in_target() == Some(false) && !reading.is_remote {
        return None;
    }
    let is_tried = match (reading.delay(), reading.depth()) {
        // With one at a time, a pause leaves the target idle, whatever limits it.
        (Some(delay), Some(depth)) => {
            if depth < DEPTH_ALL || (delay < DELAY_ALL && reading.in_flight > 1.0) {
                return None;
            }
            true
        }
        (None, Some(depth)) if depth >= DEPTH_ALL => true,
        (None, None) => false,
        (Some(delay), None) if delay >= DELAY_ALL && reading.in_flight > 1.0 => false,
        _ => return None,
    };
    let block_bytes = input.data().map_or(0, |data| data.block_bytes);
    // Nobody tried: what is small and not many at a time is most likely waited for one by one. Where it was tried and the
    // answer is uncertain, only one at a time is left to say so.
    let depth_max = if reading.sensitivity().is_some() { 1.0 } else { FEW };
    if !is_tried && (block_bytes >= LARGE_BYTES || reading.in_flight > depth_max) {
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
        reading.slept_in(&classes),
        reading.at_target().filter(|_| reading.waits_in_target() == Some(true)),
        if is_tried { reading.answers() } else { Vec::new() },
    ];
    let found = Verdict::new(limiter, reading.budget.blocked, evidence);
    if is_tried {
        return Some(found.advise([Advice::MoreDepth {}]));
    }
    let rate = input.record.rate.whole_ops_per_second.unwrap_or(0.0);
    // Little's law: as many times as much, if each takes no longer.
    let might = Advice::MoreInFlightMight {
        in_flight: Count(reading.in_flight as u64 * u64::from(FACTOR)),
        ops_per_second: OpsPerSecond(rate * f64::from(FACTOR)),
    };
    Some(found.at_most(Confidence::Likely).advise([might, super::saturation::untried(reading)]))
}
