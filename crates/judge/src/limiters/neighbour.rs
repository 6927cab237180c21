//! Others' I/O on the same device.

use model::Limiter;
use model::numbers::percent;
use model::run::Evidence;

use super::{Found, budget_sentence, occupancy_sentence, waits_for_target};
use crate::reading::Reading;
use crate::wait_sites::Class;

/// From this share of the device's bytes on, others are named before the device.
const FOREIGN: f64 = 0.25;
/// Requests in the device for each that we wait for, from which on somebody else's are there too.
const MORE: f64 = 1.25;

/// A device that others use as well.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Found> {
    let case = &reading.case;
    let device = case.device()?;
    let foreign = device.foreign_share.filter(|share| *share >= FOREIGN)?;
    if !waits_for_target(reading) || case.writes_behind() {
        return None;
    }
    // A device with room for more is not what others take from us.
    let has_room = reading.depth().is_some_and(|depth| depth >= super::latency::DEPTH_ALL)
        && reading.delay().is_none_or(|delay| delay >= super::latency::DELAY_ALL);
    if has_room {
        return None;
    }
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
        probe: reading
            .depth()
            .filter(|depth| *depth < super::latency::DEPTH_ALL)
            .and_then(|_| reading.probe_sentence()),
        ..Evidence::default()
    };
    Some(Found::new(Limiter::NoisyNeighbour, reading.budget.blocked * foreign, evidence).advice(format!(
        "Find who else uses {} (iotop, pidstat -d), and run it again when it is quiet.",
        device.name
    )))
}
