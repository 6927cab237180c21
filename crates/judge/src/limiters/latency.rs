//! The time of one operation, times the depth that was asked for.

use model::Limiter;
use model::numbers::amount;
use model::run::{Confidence, Evidence};

use super::{Found, budget_sentence, occupancy_sentence, waits_for_target};
use crate::reading::Reading;
use crate::wait_sites::Class;

/// A pause that lengthens turns by at least this share of itself: the time of an operation sets the rate.
pub(crate) const DELAY_ALL: f64 = 0.7;
/// A rate that follows the depth at least so far has room for more.
pub(crate) const DEPTH_ALL: f64 = 0.5;
/// Blocks from this size on may as well be held back by their bytes, which nobody tried.
const LARGE_BYTES: u64 = 64 << 10;
/// Operations in flight up to which few targets are full.
const FEW: f64 = 4.0;

/// Operations that wait for answers, of a target that could give more at the same time.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Found> {
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
        [Class::Remote, Class::Page, Class::Device]
    } else {
        [Class::Device, Class::Page, Class::Sync]
    };
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        wait_site: reading.wait_sentence(&classes),
        counters: occupancy_sentence(reading).filter(|_| reading.waits_in_target() == Some(true)),
        probe: reading.probe_sentence().filter(|_| is_tried),
        ..Evidence::default()
    };
    let depth = reading.in_flight as u64;
    let rate = input.record.rate.whole_ops_per_second.unwrap_or(0.0);
    let gain = match reading.sensitivity().and_then(|known| known.depth.as_ref()).filter(|_| is_tried) {
        Some(sensed) => format!(
            "{} in flight gave {:.1} times as much ({} operations/s)",
            depth * 4,
            sensed.after_ops_per_second / sensed.before_ops_per_second,
            amount(sensed.after_ops_per_second).unwrap_or_default()
        ),
        // Little's law: as many times as much, if each takes no longer.
        None => format!(
            "{} in flight would give up to {} operations/s if each took no longer (Little's law)",
            depth * 4,
            amount(rate * 4.0).unwrap_or_default()
        ),
    };
    let found = Found::new(limiter, reading.budget.blocked, evidence).advice(match is_tried {
        true => format!("The target answers {depth} at a time and is not full: {gain}."),
        false => {
            format!("The time of an operation sets the rate: {gain}. {}", super::saturation::untried(reading))
        }
    });
    Some(if is_tried { found } else { found.at_most(Confidence::Likely) })
}
