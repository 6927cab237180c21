//! Readable limits on I/O, and the rates that they hold.

use model::figure::{BytesPerSecond, Figure, Name, OpsPerSecond, Threshold};
use model::observation::Observation;
use model::run::Cap;
use model::target::DeviceKind;
use model::workload::DataVerb;

use super::input::JudgeInput;

/// A rate within this share of a limit is held by it, if the rate is not known more exactly.
const CAP_TOLERANCE: f64 = 0.08;
/// The same for a rate that is known well.
const CAP_TOLERANCE_KNOWN: f64 = 0.02;
/// The kernel's throttle counts in slices of 100 ms (`DFL_THROTL_SLICE` in block/blk-throttle.c).
const SLICES_PER_SECOND: f64 = 10.0;

/// The thresholds that explanations name.
pub(crate) const THRESHOLDS: &[Threshold] =
    &[("at_cap", Figure::Share(CAP_TOLERANCE)), ("at_cap_known", Figure::Share(CAP_TOLERANCE_KNOWN))];

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
pub(crate) fn is_of_top(input: &JudgeInput<'_>, cap: &Cap) -> bool {
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
