//! Configured limits on I/O.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Figure, Threshold, WaitClass};
use model::layer::LayerKind;
use model::run::{Cap, Confidence, Verdict};
use model::target::DeviceKind;
use model::workload::DataVerb;

use super::evidence::{seen, waits_for_target};
use crate::laws::traps::direct;
use crate::values::caps::{is_of_top, limit_tolerance, reached};
use crate::values::experiments::{Load, LoadEstimate, Unit};
use crate::values::places::Level;
use crate::values::reading::Reading;

/// If threads sleep outside the device in more than this share of samples, something else there holds them back.
const ELSEWHERE_SAMPLES_MAX: f64 = 0.3;
/// Operations are held above a device that has less than this share of them.
const HALF_IDLE_MAX: f64 = 0.5;
/// A device that has at most this share of the operations in flight is all but idle.
const IDLE_SHARE_MAX: f64 = 0.1;
/// A rate this close to a limit is held by it, wherever requests wait. No device gives such a rate by chance.
const CAP_TOLERANCE_EXACT: f64 = 0.005;

/// The thresholds that its explanation names.
pub(crate) const THRESHOLDS: &[Threshold] = &[
    ("elsewhere", Figure::Share(ELSEWHERE_SAMPLES_MAX)),
    ("half_idle", Figure::Share(HALF_IDLE_MAX)),
    ("all_but_idle", Figure::Share(IDLE_SHARE_MAX)),
    ("at_cap_exactly", Figure::Share(CAP_TOLERANCE_EXACT)),
];

/// A readable limit that the rate has reached.
pub(super) fn readable_limit(reading: &Reading<'_>) -> Option<Verdict> {
    if !waits_for_target(reading) {
        return None;
    }
    // Operations in a device have passed its limits. The exception is a device that is served by software without a CPU.
    let is_in_device = reading.waits_in_target() == Some(true);
    let has_no_cpu = reading.is_short_of_cpus() && reading.load().is(Load::Saturated);
    let tolerance = limit_tolerance(&reading.input);
    let target = reading.input.target();
    let near = |cap: &Cap| {
        let layer = target.layer_of_device(&cap.device);
        let is_held =
            reading.places.as_ref().zip(layer).and_then(|(places, layer)| places.waits_above(layer));
        let is_passed = match is_held {
            Some(is_held) => !is_held,
            // With read-ahead and writeback, pages are in the device while no thread waits.
            None => is_in_device && is_of_top(&reading.input, cap) && !reading.is_stream(),
        };
        if is_passed && !has_no_cpu { CAP_TOLERANCE_EXACT } else { tolerance }
    };
    let (source, allowed) = reached(&reading.input, near)?;
    let is_above = reading.waits_above_target() == Some(true);
    let evidence = seen![
        reading.time_spent(),
        reading.at_target().filter(|_| is_above),
        reading.dominant_wait(&[WaitClass::Dirty]).filter(|_| reading.waits(WaitClass::Dirty) > 0.0),
        Some(allowed),
        reading.answers_if_saturated(),
    ];
    Some(
        Verdict::new(Limiter::IoThrottle, reading.budget.blocked, evidence)
            .unless(reading.at_target().filter(|_| has_no_cpu && is_in_device))
            .advise([Advice::RaiseLimit { source }]),
    )
}

/// Returns true if I/O that should be direct was not.
fn is_not_direct(reading: &Reading<'_>) -> bool {
    direct::o_direct_ineffective(&reading.input).is_some()
}

/// Requests that wait above a device with few requests, at a rate that no experiment changes.
pub(super) fn inferred_limit(reading: &Reading<'_>) -> Option<Verdict> {
    let data = reading.input.data_in_files()?;
    // With read-ahead and writeback, pages are in the device while no thread waits, and the other way round. Writes
    // that extend a file wait for one another in the file system.
    let is_direct = data.direct && !data.fresh && data.verb != DataVerb::Fsync;
    if !waits_for_target(reading) || reading.is_remote || !is_direct {
        return None;
    }
    if let Some(found) = inferred_lower_limit(reading) {
        return Some(found);
    }
    let occupancy = reading.occupancy().filter(|_| reading.waits_above_target() == Some(true))?;
    if reading.gate().is_some_and(Level::is_full_inside) {
        return None;
    }
    // Threads that are seen at locks, journals or pages under writeback are held back there.
    let elsewhere: f64 = [
        WaitClass::Page,
        WaitClass::Sync,
        WaitClass::Lock,
        WaitClass::Queue,
        WaitClass::Dirty,
        WaitClass::Paced,
    ]
    .iter()
    .map(|class| reading.waits(*class))
    .sum();
    if elsewhere > ELSEWHERE_SAMPLES_MAX || is_not_direct(reading) {
        return None;
    }
    let load = reading.load();
    if load.is(Load::Headroom) || load.is(Load::Between) {
        return None;
    }
    let evidence = seen![reading.time_spent(), reading.at_target(), reading.answers_if_saturated()];
    let share = reading.budget.blocked * (1.0 - occupancy);
    let found = Verdict::new(Limiter::IoThrottle, share, evidence).advise([limit_advice(reading)]);
    // Without an experiment, a lock or a slow path above the device looks the same, unless the device has next to nothing
    // to do.
    Some(match load {
        LoadEstimate::Known { is_sure: true, .. } => found,
        LoadEstimate::Untested if occupancy > IDLE_SHARE_MAX => found.at_most(Confidence::Undetermined),
        _ => found.at_most(Confidence::Likely),
    })
}

/// Requests that wait below a loop device, above a device with few. A loop device passes on all that it has, unless a limit holds
/// it back, or its own threads, which have another rule.
fn inferred_lower_limit(reading: &Reading<'_>) -> Option<Verdict> {
    let places = reading.places.as_ref()?;
    let gate = places.gate().filter(|gate| gate.full.is_none())?;
    let above = places.at(gate.depth.checked_sub(1)?)?;
    let target = reading.input.target();
    let kind_of = |at: &usize| target.layers[*at].kind;
    let is_loop =
        |at: &usize| target.device_of_layer(*at).is_some_and(|device| device.kind == DeviceKind::Loop);
    let is_between_devices = above.layers.iter().all(is_loop)
        && gate.layers.iter().all(|at| kind_of(at) == LayerKind::Device)
        && gate.passed.iter().all(|at| kind_of(at) != LayerKind::Daemon);
    let inside_max = match reading.load() {
        LoadEstimate::Known { load: Load::Headroom, .. } => return None,
        LoadEstimate::Known { .. } => HALF_IDLE_MAX,
        LoadEstimate::Untested => IDLE_SHARE_MAX,
    };
    if !is_between_devices || gate.inside >= inside_max * gate.above {
        return None;
    }
    let evidence = seen![reading.time_spent(), reading.at_level(gate), reading.answers_if_saturated()];
    let found = Verdict::new(Limiter::IoThrottle, reading.budget.blocked, evidence);
    Some(found.at_most(Confidence::Likely).advise([limit_advice(reading)]))
}

/// Returns the advice to find a limit of the unit that it counts.
fn limit_advice(reading: &Reading<'_>) -> Advice {
    match reading.unit() {
        Some((Unit::Bytes, true)) => Advice::FindLimitOfBytes {},
        Some((Unit::Operations, true)) => Advice::FindLimitOfOperations {},
        _ => Advice::FindLimit {},
    }
}
