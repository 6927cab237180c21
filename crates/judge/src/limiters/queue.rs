//! Queues that are full above the device or server.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Count, Figure, Threshold, WaitClass};
use model::layer::LayerKind;
use model::observation::Observation;
use model::run::{Flow, Load, Verdict};

use super::{seen, waits_for_target};
use crate::reading::Reading;

/// Share of the samples of sleeping threads that found them waiting for a place in a queue.
const QUEUE_SAMPLES_MIN: f64 = 0.3;
/// If less than this share of a queue's places is taken, threads do not wait for the queue.
const QUEUE_FILL_MIN: f64 = 0.85;
/// A queue that is full has as many requests as places, within this share.
const QUEUE_LENGTH_TOLERANCE: f64 = 0.15;

/// Largest time of a request in a full queue over that of one alone, if what is below has room.
const ROOM_TIMES_MAX: f64 = 1.25;
/// The smallest, if what is below is full.
const FULL_TIMES_MIN: f64 = 1.5;

/// The thresholds that its explanation names.
pub(super) const THRESHOLDS: &[Threshold] =
    &[("at_queue", Figure::Share(QUEUE_SAMPLES_MIN)), ("filled", Figure::Share(QUEUE_FILL_MIN))];

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
    let layer = top.and_then(|device| reading.input.target().layer_of_device(&device.name));
    let times = layer.and_then(|layer| times_alone(reading, layer as u32));
    if times.is_some_and(|times| times >= FULL_TIMES_MIN) {
        return None;
    }
    let is_short = places.is_some_and(|(_, places)| {
        !reading.is_remote
            && reading.at_target.is_some_and(|at_target| at_target < QUEUE_FILL_MIN * f64::from(places))
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

/// Returns the time of a request in a layer over that of one alone; `None` without an experiment, or with few requests.
fn times_alone(reading: &Reading<'_>, layer: u32) -> Option<f64> {
    let record = reading.input.record;
    let alone = record.judged.sensitivity.as_ref()?.single.as_ref()?.load.as_ref()?;
    let request_ns = |load: &Load| load.request_ns(load.flow_of(layer)?);
    Some(request_ns(record.seen.load.as_ref()?)? / request_ns(alone)?)
}

/// A device whose queue is full, at any layer, with requests that take no longer than alone: what is below has room for more.
/// The counts of the layers show it wherever the threads wait.
pub(super) fn at_layer(reading: &Reading<'_>) -> Option<Verdict> {
    let layers = &reading.input.target().layers;
    let load = reading.input.record.seen.load.as_ref().filter(|_| waits_for_target(reading))?;
    let is_full = |flow: &&Flow| {
        let is_device = layers.get(flow.layer as usize).is_some_and(|layer| layer.kind == LayerKind::Device);
        let places = flow.window.filter(|_| is_device).map(|places| places as f64);
        let has_all_taken = places.zip(flow.in_flight(load.elapsed_ns)).is_some_and(|(places, in_flight)| {
            in_flight >= QUEUE_FILL_MIN * places && load.in_flight_max as f64 >= 1.5 * places
        });
        has_all_taken && times_alone(reading, flow.layer).is_some_and(|times| times <= ROOM_TIMES_MAX)
    };
    // The deepest one holds back the others.
    let flow = load.flows.iter().rfind(is_full)?;
    let device = layers.get(flow.layer as usize)?.name.as_str().into();
    let evidence = seen![
        reading.time_spent(),
        Some(Observation::QueuePlaces { device, places: Count(flow.window?) }),
        reading.answers_if_saturated(),
    ];
    Some(Verdict::new(Limiter::QueueFull, reading.budget.blocked, evidence).advise([Advice::RaiseQueue {}]))
}
