//! Queues that are full above the device or server.

use model::Limiter;
use model::run::Evidence;

use super::{Found, budget_sentence, occupancy_sentence, waits_for_target};
use crate::reading::Reading;
use crate::wait_sites::Class;

/// Of the looks at sleeping threads, this share found them waiting for a place.
const AT_QUEUE: f64 = 0.3;

/// Threads that wait for a tag, a slot, or a background request.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Found> {
    let queued = reading.waits(Class::Queue);
    if !waits_for_target(reading) || queued <= AT_QUEUE {
        return None;
    }
    let top = reading.case.target().top_device();
    let places = top.and_then(|device| device.nr_requests.map(|places| (device.name.as_str(), places)));
    let held = match (places, reading.system().and_then(|system| system.server_slots)) {
        (Some((name, places)), _) if !reading.is_remote => {
            Some(format!("; /sys/block/{name}/queue/nr_requests is {places}"))
        }
        (_, Some(slots)) => Some(format!("; the way to the server has {slots} places")),
        _ => None,
    };
    let is_held_above = reading.occupancy().is_some_and(|occupancy| occupancy < 0.9);
    let counters = occupancy_sentence(reading)
        .filter(|_| is_held_above)
        .map(|sentence| format!("{sentence}{}", held.unwrap_or_default()));
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        wait_site: reading.wait_sentence(&[Class::Queue]),
        counters,
        probe: reading
            .depth()
            .filter(|depth| *depth < super::saturation::DEPTH_NONE)
            .and_then(|_| reading.probe_sentence()),
        ..Evidence::default()
    };
    Some(
        Found::new(Limiter::QueueFull, queued * reading.budget.blocked, evidence).advice(
            "More depth than the queue holds only waits above it. Raise nr_requests, max_background or the slots of the mount, or use less depth.",
        ),
    )
}
