//! Others' I/O on the same device.

use model::Limiter;
use model::numbers::percent;
use model::run::{Confidence, Evidence};

use super::{Found, budget_sentence, occupancy_sentence, waits_for_target};
use crate::reading::Reading;
use crate::wait_sites::Class;

/// From this share of the device's bytes on, others are named before the device.
const FOREIGN: f64 = 0.25;
/// Operations in flight from which on a device may be full without anybody having tried more.
const MANY: f64 = 4.0;
/// Requests in the device for each that we wait for, from which on somebody else's are there too.
const MORE: f64 = 1.25;

/// A device that others use as well.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Found> {
    let input = &reading.input;
    let device = input.device()?;
    let foreign = device.foreign_share.filter(|share| *share >= FOREIGN)?;
    // Journals are written by threads of the kernel, as others' bytes are.
    let writes_journal = input.has_mount_option("data=journal") || reading.waits(Class::Sync) > 0.3;
    if !waits_for_target(reading) || input.writes_behind() || writes_journal {
        return None;
    }
    // Nobody tried: few at a time may be waited for one by one, whoever else is there.
    let is_tried = reading.depth().is_some();
    if !is_tried
        && (reading.in_flight < MANY || reading.occupancy().is_none_or(|occupancy| occupancy <= MORE))
    {
        return None;
    }
    // A device with room for more is not what others take from us.
    let has_room = reading.depth().is_some_and(|depth| depth >= super::latency::DEPTH_ALL)
        && reading.delay().is_none_or(|delay| delay >= super::latency::DELAY_ALL);
    if has_room {
        return None;
    }
    let is_full = reading.depth().is_some_and(|depth| depth <= super::saturation::DEPTH_NONE);
    let more = reading.occupancy().filter(|occupancy| *occupancy > MORE);
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        wait_site: reading.wait_sentence(&[Class::Device, Class::Page]),
        counters: Some(match more.and_then(|_| occupancy_sentence(reading)) {
            Some(sentence) => {
                format!("{} of the bytes on {} were not ours; {sentence}", percent(foreign), device.name)
            }
            None => format!("{} of the bytes on {} were not ours", percent(foreign), device.name),
        }),
        probe: reading.probe_of_depth_below(super::latency::DEPTH_ALL),
        ..Evidence::default()
    };
    Some(
        Found::new(Limiter::NoisyNeighbour, reading.budget.blocked * foreign, evidence)
            .at_most(if is_full { Confidence::Confirmed } else { Confidence::Likely })
            .advice(format!(
                "Find who else uses {} (iotop, pidstat -d), and run it again when it is quiet.",
                device.name
            )),
    )
}
