//! I/O of other processes on the same device.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Figure, Name, Share, Threshold, WaitClass};
use model::observation::Observation;
use model::run::{Confidence, Verdict};

use super::evidence::{seen, waits_for_target};
use crate::values::experiments::Load;
use crate::values::reading::Reading;

/// If others have at least this share of the device's bytes, they are named before the device.
const FOREIGN_SHARE_MIN: f64 = 0.25;
/// Fewest operations in flight with which a device may be saturated, where no experiment was made.
const IN_FLIGHT_MIN: f64 = 4.0;
/// Requests in the device per operation that we wait for, above which others have requests there too.
const REQUESTS_PER_OP_MIN: f64 = 1.25;

/// The thresholds that its explanation names.
pub(crate) const THRESHOLDS: &[Threshold] = &[
    ("neighbour", Figure::Share(FOREIGN_SHARE_MIN)),
    ("neighbour_depth", Figure::Count(IN_FLIGHT_MIN as u64)),
    ("neighbour_requests", Figure::Ratio(REQUESTS_PER_OP_MIN)),
];

/// A device that others use as well.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    let input = &reading.input;
    let device = input.device()?;
    let foreign = device.foreign_share.filter(|share| *share >= FOREIGN_SHARE_MIN)?;
    // Kernel threads write journals, so these bytes look like foreign I/O.
    let writes_journal = reading.waits(WaitClass::Sync) > 0.3;
    if !waits_for_target(reading) || input.amplifies_writes() || writes_journal {
        return None;
    }
    // If the device has headroom, foreign I/O costs the test nothing. More depth may gain the foreign part, but no more
    // than that.
    let gain_max = 1.0 / (1.0 - foreign);
    if reading.gain().is_some_and(|gain| gain.low > gain_max) {
        return None;
    }
    // Without a clear answer, latency may limit a few operations at a time, even without foreign I/O.
    let is_tried = reading.gain().is_some_and(|gain| gain.high <= gain_max);
    if !is_tried
        && (reading.in_flight < IN_FLIGHT_MIN
            || reading.occupancy().is_none_or(|occupancy| occupancy <= REQUESTS_PER_OP_MIN))
    {
        return None;
    }
    let is_saturated = reading.load().is(Load::Saturated);
    let more = reading.occupancy().filter(|occupancy| *occupancy > REQUESTS_PER_OP_MIN);
    let name = || Name::from(device.name.as_str());
    let evidence = seen![
        reading.time_spent(),
        reading.dominant_wait(&[WaitClass::Device, WaitClass::Page]),
        Some(Observation::ForeignBytes { device: name(), foreign_share: Share(foreign) }),
        more.and_then(|_| reading.at_target()),
        if is_tried { reading.answers() } else { Vec::new() },
    ];
    Some(
        Verdict::new(Limiter::NoisyNeighbour, reading.budget.blocked * foreign, evidence)
            .at_most(if is_saturated { Confidence::Confirmed } else { Confidence::Likely })
            .advise([Advice::FindOthers { device: name() }]),
    )
}
