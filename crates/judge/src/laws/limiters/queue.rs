//! Queues that are full above the device or server.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Count, Figure, Threshold, WaitClass};
use model::layer::LayerKind;
use model::observation::Observation;
use model::run::{Confidence, Flow, Verdict};

use super::evidence::{seen, waits_for_target};
use crate::values::places::Level;
use crate::values::reading::Reading;

/// Share of the samples of sleeping threads that found them waiting for a place in a queue.
const QUEUE_SAMPLES_MIN: f64 = 0.3;
/// A queue that is full has as many requests as places, within this share.
const QUEUE_LENGTH_TOLERANCE: f64 = 0.15;

/// The thresholds that its explanation names.
pub(crate) const THRESHOLDS: &[Threshold] = &[("at_queue", Figure::Share(QUEUE_SAMPLES_MIN))];

/// Returns true if about that many requests are in the device, though more are waited for.
fn is_full_of(reading: &Reading<'_>, places: f64) -> bool {
    let is_near = |at_target: f64| (at_target / places - 1.0).abs() < QUEUE_LENGTH_TOLERANCE;
    reading.at_target.is_some_and(is_near) && reading.waiting() > 1.5 * places
}

/// Threads that wait for a tag, a slot, or a background request.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    let queued = reading.waits(WaitClass::Queue);
    let top = reading.input.target().top_device();
    let places = top.and_then(|device| device.nr_requests.map(|places| (device.name.as_str(), places)));
    let slots = reading.input.server_flow().and_then(|flow| flow.window);
    // A ring's own thread waits for completions, so it shows no wait for a tag or a slot. The counts show the same
    // instead: the device or server has as many requests as places, and more are waited for.
    let room = if reading.is_remote {
        slots.map(|slots| slots as f64)
    } else {
        places.map(|(_, places)| places.into())
    };
    let is_full = reading.is_ring && room.is_some_and(|room| is_full_of(reading, room));
    if !waits_for_target(reading) || (queued <= QUEUE_SAMPLES_MIN && !is_full) {
        return None;
    }
    // Requests that take longer in the queue than alone wait for what is below.
    if reading.gate().is_some_and(Level::is_full_inside) {
        return None;
    }
    let is_short = places.is_some_and(|(_, places)| {
        !reading.is_remote
            && reading.at_target.is_some_and(|at_target| at_target < Flow::FULL_MIN * f64::from(places))
    });
    let queue = match (places, slots) {
        (Some((name, places)), _) if !reading.is_remote => {
            Some(Observation::QueuePlaces { device: name.into(), places: Count(u64::from(places)) })
        }
        (_, Some(slots)) => Some(Observation::ServerPlaces { places: Count(slots) }),
        _ => None,
    };
    let is_held_above = is_full || reading.occupancy().is_some_and(|occupancy| occupancy < 0.9);
    let evidence = seen![
        reading.time_spent(),
        reading.dominant_wait(&[WaitClass::Queue]),
        reading.at_target().filter(|_| is_held_above && !is_short),
        queue.filter(|_| is_held_above),
        reading.answers_if_saturated(),
    ];
    let share = queued.max(f64::from(u8::from(is_full))) * reading.budget.blocked;
    Some(
        Verdict::new(Limiter::QueueFull, share, evidence)
            .unless(reading.at_target().filter(|_| is_short))
            .advise([Advice::RaiseQueue {}]),
    )
}

/// A window of a layer with all places taken, while the requests inside take no longer than one alone. Without another load,
/// nothing shows that what is below has room.
pub(super) fn at_layer(reading: &Reading<'_>) -> Option<Verdict> {
    let gate = reading.gate().filter(|gate| waits_for_target(reading) && !gate.is_full_inside())?;
    let (layer, places) = gate.full?;
    let layer = &reading.input.target().layers[layer];
    let (name, places) = (layer.name.as_str().into(), Count(places));
    let (limiter, window, advice) = match layer.kind {
        LayerKind::Device => {
            (Limiter::QueueFull, Observation::QueuePlaces { device: name, places }, Advice::RaiseQueue {})
        }
        LayerKind::Daemon => (
            Limiter::ServerSaturated,
            Observation::ProgramThreads { program: name, threads: places },
            Advice::MoreProgramThreads {},
        ),
        _ => (Limiter::QueueFull, Observation::ServerPlaces { places }, Advice::RaiseQueue {}),
    };
    let evidence = seen![
        reading.time_spent(),
        reading.dominant_wait(&[WaitClass::Queue]),
        reading.at_level(gate),
        Some(window),
        reading.answers_if_saturated(),
    ];
    let found = Verdict::new(limiter, reading.budget.blocked, evidence).advise([advice]);
    // Not each thread of a program serves requests.
    let is_sure = gate.has_room_inside() && layer.kind != LayerKind::Daemon;
    Some(if is_sure { found } else { found.at_most(Confidence::Likely) })
}
