//! Configured limits on I/O.

use model::Limiter;
use model::advice::Advice;
use model::figure::{BytesPerSecond, Figure, Name, OpsPerSecond, Threshold, WaitClass};
use model::layer::LayerKind;
use model::observation::Observation;
use model::run::{Cap, Confidence, Verdict};
use model::target::DeviceKind;
use model::workload::DataVerb;

use super::{seen, waits_for_target};
use crate::JudgeInput;
use crate::experiments::{Load, LoadEstimate, Unit};
use crate::places::Level;
use crate::reading::Reading;
use crate::traps::direct;

/// A rate within this share of a limit is held by it, if the rate is not known more exactly.
const CAP_TOLERANCE: f64 = 0.08;
/// The same for a rate that is known well.
const CAP_TOLERANCE_KNOWN: f64 = 0.02;
/// If threads sleep outside the device in more than this share of samples, something else there holds them back.
const ELSEWHERE_SAMPLES_MAX: f64 = 0.3;
/// Operations are held above a device that has less than this share of them.
const HALF_IDLE_MAX: f64 = 0.5;
/// A device that has at most this share of the operations in flight is all but idle.
const IDLE_SHARE_MAX: f64 = 0.1;
/// A rate this close to a limit is held by it, wherever requests wait. No device gives such a rate by chance.
const CAP_TOLERANCE_EXACT: f64 = 0.005;

/// The kernel's throttle counts in slices of 100 ms (`DFL_THROTL_SLICE` in block/blk-throttle.c).
const SLICES_PER_SECOND: f64 = 10.0;

/// The thresholds that its explanation names.
pub(super) const THRESHOLDS: &[Threshold] = &[
    ("at_cap", Figure::Share(CAP_TOLERANCE)),
    ("at_cap_known", Figure::Share(CAP_TOLERANCE_KNOWN)),
    ("elsewhere", Figure::Share(ELSEWHERE_SAMPLES_MAX)),
    ("half_idle", Figure::Share(HALF_IDLE_MAX)),
    ("all_but_idle", Figure::Share(IDLE_SHARE_MAX)),
    ("at_cap_exactly", Figure::Share(CAP_TOLERANCE_EXACT)),
];

/// Returns the largest distance of a rate from a limit that holds it, as a share of the limit.
pub(crate) fn limit_tolerance(input: &JudgeInput<'_>) -> f64 {
    input.half_width().map_or(CAP_TOLERANCE, |half| (1.5 * half).clamp(CAP_TOLERANCE_KNOWN, CAP_TOLERANCE))
}

/// Returns the requests or bytes a second of a limit's device in its direction; `None` if it does not count.
fn passed(input: &JudgeInput<'_>, cap: &Cap) -> Option<f64> {
    let load = input.record.seen.load.as_ref().filter(|load| load.ops > 0)?;
    let flow = load.flow_of(input.target().layer_of_device(&cap.device)? as u32)?;
    let count = match (cap.is_read, cap.ops_per_second) {
        (true, Some(_)) => flow.reads,
        (true, None) => flow.read_bytes,
        (false, Some(_)) => flow.writes,
        (false, None) => flow.written_bytes,
    };
    // Per operation, at the steady rate: a limit lets the first tenth of a second's requests pass at once.
    Some(count as f64 / load.ops as f64 * input.record.figures.rate.steady_or_whole()?)
}

/// Returns the operations or bytes a second of the test in the direction of a limit.
fn requested(input: &JudgeInput<'_>, cap: &Cap) -> Option<f64> {
    let data = input.data_in_files().filter(|data| if cap.is_read { data.reads() } else { data.writes() })?;
    let ops = input.record.figures.rate.steady_or_whole()?;
    let [read, written] =
        [input.record.counts.app_bytes_read, input.record.counts.app_bytes_written].map(|bytes| bytes as f64);
    let of_way = if cap.is_read { read } else { written };
    // A rewrite reads and writes each block once, at the same rate.
    let ops = if data.verb == DataVerb::Rw { ops * of_way / (read + written).max(1.0) } else { ops };
    Some(if cap.ops_per_second.is_some() { ops } else { ops * data.block_bytes as f64 })
}

/// Returns the rate to compare with a limit: that of its device, or of the test.
pub(crate) fn rate_at(input: &JudgeInput<'_>, cap: &Cap) -> Option<f64> {
    passed(input, cap).or_else(|| requested(input, cap))
}

/// Returns true for a limit of the uppermost device. A partition has the limits of its disk.
fn is_of_top(input: &JudgeInput<'_>, cap: &Cap) -> bool {
    input.target().top_device().is_some_and(|top| {
        top.name == cap.device
            || top.kind == DeviceKind::Partition && top.backing_devices.contains(&cap.device)
    })
}

/// Returns the rates that a limit may hold: whole operations pass in each slice, so fewer may than it allows.
fn ends(cap: &Cap, limit: f64) -> [f64; 2] {
    let whole = (limit / SLICES_PER_SECOND).floor() * SLICES_PER_SECOND;
    [limit, if cap.ops_per_second.is_some() && whole > 0.0 { whole } else { limit }]
}

/// Returns a readable limit that is reached: its source, and the observation. `near` is the largest distance from a limit, as a
/// share.
pub(crate) fn reached<'a>(input: &JudgeInput<'a>, near: impl Fn(&Cap) -> f64) -> Option<(Name, Observation)> {
    let caps = &input.record.seen.system.as_ref()?.caps;
    let found = |cap: &'a Cap| {
        let limit = cap.per_second()?;
        let passed = passed(input, cap);
        // Others may use the uppermost device, too. Merged requests count once there, and each counts for the limit.
        let own = requested(input, cap).filter(|_| passed.is_none() || is_of_top(input, cap));
        let near_any = |rate: &f64| ends(cap, limit).iter().any(|end| (rate / end - 1.0).abs() <= near(cap));
        let rate = passed.into_iter().chain(own).find(near_any)?;
        Some((cap, (limit, rate)))
    };
    // The deepest one holds back the others.
    let place = |cap: &Cap| input.target().layer_of_device(&cap.device);
    let (cap, (limit, rate)) = caps.iter().filter_map(found).max_by_key(|(cap, _)| place(cap))?;
    let (source, device) = (Name::from(cap.source.as_str()), cap.device.as_str().into());
    let allowed = match cap.ops_per_second {
        Some(_) => Observation::OperationsAllowed {
            source: source.clone(),
            device,
            ops_per_second: OpsPerSecond(limit),
            reached_ops_per_second: OpsPerSecond(rate),
        },
        None => Observation::BytesAllowed {
            source: source.clone(),
            device,
            bytes_per_second: BytesPerSecond(limit),
            reached_bytes_per_second: BytesPerSecond(rate),
        },
    };
    Some((source, allowed))
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::read_cap;

    #[test]
    fn whole_operations_pass_in_each_slice() {
        assert_eq!(ends(&read_cap(Some(127.0), None), 127.0), [127.0, 120.0]);
        assert_eq!(ends(&read_cap(Some(7.0), None), 7.0), [7.0, 7.0]);
        assert_eq!(ends(&read_cap(None, Some(127.0)), 127.0), [127.0, 127.0]);
    }
}
