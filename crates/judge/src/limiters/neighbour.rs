//! Others' I/O on the same device.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Figure, Name, Share, Threshold, WaitClass};
use model::observation::Observation;
use model::run::{Confidence, Verdict};

use super::{seen, waits_for_target};
use crate::experiments::Load;
use crate::reading::Reading;

/// From this share of the device's bytes on, others are named before the device.
const FOREIGN: f64 = 0.25;
/// Operations in flight from which on a device may be full without anybody having tried more.
const MANY: f64 = 4.0;
/// Requests in the device for each that we wait for, from which on somebody else's are there too.
const MORE: f64 = 1.25;

/// The thresholds that its explanation names.
pub(super) const THRESHOLDS: &[Threshold] = &[
    ("neighbour", Figure::Share(FOREIGN)),
    ("neighbour_depth", Figure::Count(MANY as u64)),
    ("neighbour_requests", Figure::Ratio(MORE)),
];

/// A device that others use as well.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    let input = &reading.input;
    let device = input.device()?;
    let foreign = device.foreign_share.filter(|share| *share >= FOREIGN)?;
    // Journals are written by threads of the kernel, as others' bytes are.
    let writes_journal = input.has_mount_option("data=journal") || reading.waits(WaitClass::Sync) > 0.3;
    if !waits_for_target(reading) || input.writes_behind() || writes_journal {
        return None;
    }
    // Nobody tried: few at a time may be waited for one by one, whoever else is there.
    let is_tried = reading.gain().is_some();
    if !is_tried
        && (reading.in_flight < MANY || reading.occupancy().is_none_or(|occupancy| occupancy <= MORE))
    {
        return None;
    }
    // A device with room for more is not what others take from us.
    // What more depth gained may have been taken from the others, but no more than they had.
    if reading.gain().is_some_and(|gain| gain.low > 1.0 / (1.0 - foreign)) {
        return None;
    }
    let is_full = reading.load().is(Load::Full);
    let more = reading.occupancy().filter(|occupancy| *occupancy > MORE);
    let name = || Name::from(device.name.as_str());
    let evidence = seen![
        reading.time_spent(),
        reading.slept_in(&[WaitClass::Device, WaitClass::Page]),
        Some(Observation::ForeignBytes { device: name(), foreign_share: Share(foreign) }),
        more.and_then(|_| reading.at_target()),
        if is_tried { reading.answers() } else { Vec::new() },
    ];
    Some(
        Verdict::new(Limiter::NoisyNeighbour, reading.budget.blocked * foreign, evidence)
            .at_most(if is_full { Confidence::Confirmed } else { Confidence::Likely })
            .advise([Advice::FindOthers { device: name() }]),
    )
}
