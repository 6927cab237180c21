//! Evidence that several rules look at.

use model::figure::Share;
use model::observation::Observation;
use model::target::Backing;

use crate::values::places::Level;
use crate::values::reading::Reading;
use crate::values::shares::{ASLEEP_SHARE_MIN, RING_BLOCKED};

/// Above this share of a ceiling, a number is about the client and not about the storage. By then the loop's own time
/// is more than two thirds of the whole.
pub(crate) const CEILING_SHARE_MIN: f64 = 0.7;

/// Collects observations in a list: each part is an `Option` or a list of them.
macro_rules! seen {
    ($($part:expr),+ $(,)?) => {{
        let mut seen = Vec::new();
        $(seen.extend($part);)+
        seen
    }};
}
pub(crate) use seen;

/// CPUs that the test may use.
pub(crate) fn cpus(reading: &Reading<'_>) -> f64 {
    f64::from(reading.input.environment.cpus.max(1))
}

/// Returns true if threads wait in a device or server, or if the place of their wait does not show.
pub(crate) fn is_at_target(reading: &Reading<'_>) -> bool {
    let is_there = reading.input.target().backing != Backing::Memory;
    // A device that is idle while threads wait is not what they wait for.
    let is_full = || reading.gate().is_some_and(Level::is_full_inside);
    let is_idle = !reading.is_remote && reading.waits_in_target() == Some(false) && !is_full();
    waits_for_target(reading) && is_there && !is_idle
}

/// Returns true if threads wait for the target.
pub(crate) fn waits_for_target(reading: &Reading<'_>) -> bool {
    let least = if reading.is_ring { RING_BLOCKED } else { ASLEEP_SHARE_MIN };
    reading.budget.blocked >= least
}

/// Returns the rate over that of the same calls on memory, where it is high enough to say something.
pub(crate) fn near_memory(reading: &Reading<'_>) -> Option<Observation> {
    let share = reading
        .input
        .record
        .figures
        .ceiling_shares
        .as_ref()?
        .memory
        .filter(|share| *share > CEILING_SHARE_MIN)?;
    Some(Observation::NearMemory { memory_share: Share(share.min(9.99)) })
}

/// The share of the time in which the device was not idle.
pub(crate) fn device_busy(reading: &Reading<'_>) -> Option<Observation> {
    let device = reading.input.record.seen.device.as_ref()?;
    let busy_share = Share(reading.device_busy?);
    Some(Observation::DeviceBusy { device: device.name.as_str().into(), busy_share })
}
