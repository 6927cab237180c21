//! Compares the counters of a test's layers with each other, and with the log of the rig's server.

use std::ops::AddAssign;

use model::layer::{Layer, LayerKind};
use model::run::{Flow, Load, PhaseRecord};
use rig::{Direction, RequestLog};

use super::corpus::AtServer;

/// Largest difference of bytes or requests of adjacent layers, as a share.
const DIFFERENCE_MAX: f64 = 0.01;
/// Largest excess of the requests in flight of a layer over those of the layer above, as a factor. Device mapper and md
/// count time in ticks, so that a difference of a quarter of a request is none.
const EXCESS_MAX: f64 = 1.05;
const EXCESS_REQUESTS: f64 = 0.25;
/// Largest difference between counters and the log of a server, as a share.
const LOG_DIFFERENCE_MAX: f64 = 0.1;
/// Part of the log that is compared, which holds whole periods of a stall, and the part after it: the test fades out.
const WINDOW_NS: u64 = 3_500_000_000;
const FADE_NS: u64 = 300_000_000;

impl AtServer {
    /// Compares the last part of a log with the only test of a run.
    pub(super) fn new(log: &RequestLog, phase: &PhaseRecord, layers: &[Layer]) -> Option<Self> {
        let load = phase.seen.load.as_ref()?;
        let sampled = |flow| Some((flow, Flow::sampled_in_flight(flow)?));
        let (flow, in_flight) = load.flows.iter().rev().find_map(sampled)?;
        let direction = if load.is_read() { Direction::Read } else { Direction::Write };
        let log = log.in_direction(direction);
        let end_ns = log.requests.iter().map(|request| request.answered_ns).max()?.checked_sub(FADE_NS)?;
        let start_ns = end_ns.checked_sub(WINDOW_NS)?;
        let overlap = |request: &rig::Request| {
            request.answered_ns.min(end_ns).saturating_sub(request.arrived_ns.max(start_ns)) as f64
        };
        let logged = log.requests.iter().map(overlap).sum::<f64>() / WINDOW_NS as f64;
        let times = log.between(start_ns, end_ns).times_ns();
        let mean_ns = times.iter().sum::<u64>() as f64 / times.len().max(1) as f64;
        // The layer above counts the requests; without one, the operations of the test are the requests.
        let above = layers.iter().position(|layer| layer.below.contains(&flow.layer));
        let above = above.and_then(|at| load.flow_of(at as u32));
        let requests = above.map_or(load.ops as f64, |flow| load.counts(flow)[1]);
        let counted_ns = in_flight * load.elapsed_ns as f64 / requests.max(1.0);
        Some(Self { in_flight: [logged, in_flight], request_ns: [mean_ns, counted_ns] })
    }

    /// Returns the numbers in words.
    pub(super) fn words(&self) -> String {
        let [in_flight, time] = [self.in_flight, self.request_ns.map(|ns| ns / 1e6)]
            .map(|[logged, counted]| format!("{counted:.2} and by the log {logged:.2}"));
        format!("{in_flight} in flight, for {time} ms")
    }

    fn is_near(&self) -> bool {
        let is_near = |[logged, counted]: [f64; 2]| (counted / logged - 1.0).abs() <= LOG_DIFFERENCE_MAX;
        is_near(self.in_flight) && is_near(self.request_ns)
    }
}

/// Comparisons, and those that agree.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Agreement {
    rows: u32,
    agree: u32,
}

impl Agreement {
    fn add(&mut self, agrees: bool) {
        self.rows += 1;
        self.agree += u32::from(agrees);
    }

    fn is_whole(self) -> bool {
        self.rows == self.agree
    }
}

impl AddAssign for Agreement {
    fn add_assign(&mut self, other: Self) {
        self.rows += other.rows;
        self.agree += other.agree;
    }
}

impl std::fmt::Display for Agreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.agree, self.rows)
    }
}

/// Comparisons of layers and their counters.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Agreements {
    /// Rows whose layers are those that were built.
    pub layers: Agreement,
    /// Pairs of a layer and all below it: the same bytes and, where nothing is split, the same requests.
    pub amounts: Agreement,
    /// The same pairs: no more requests in flight below.
    pub in_flight: Agreement,
    /// Servers: number and time of the requests as in the log.
    pub server: Agreement,
}

impl AddAssign for Agreements {
    fn add_assign(&mut self, other: Self) {
        self.layers += other.layers;
        self.amounts += other.amounts;
        self.in_flight += other.in_flight;
        self.server += other.server;
    }
}

impl Agreements {
    /// True if nothing disagrees.
    pub(super) fn is_whole(self) -> bool {
        let Self { layers, amounts, in_flight, server } = self;
        [layers, amounts, in_flight, server].into_iter().all(Agreement::is_whole)
    }
}

impl std::fmt::Display for Agreements {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { layers, amounts, in_flight, server } = self;
        writeln!(f, "- The layers were found in {layers} rows.")?;
        writeln!(f, "- Bytes and requests of adjacent devices agree to 1 % in {amounts} pairs.")?;
        writeln!(f, "- A device has no more requests in flight than that above it in {in_flight} pairs.")?;
        writeln!(
            f,
            "- Number and time of the requests at a server are within 10 % of its log in {server} rows."
        )
    }
}

/// Compares the layers of a test with those that were built, and their counters with each other. The counters are left out
/// if a cache answers some requests, or if other programs make some.
pub(super) fn compare(
    phase: &PhaseRecord,
    layers: &[Layer],
    has_layers: Option<bool>,
    is_alone: bool,
    server: Option<AtServer>,
) -> Agreements {
    let mut found = Agreements::default();
    has_layers.iter().for_each(|has_layers| found.layers.add(*has_layers));
    if !is_alone {
        return found;
    }
    if let Some(load) = &phase.seen.load {
        for (at, layer) in (0..).zip(layers) {
            let Some([bytes, requests, time_ns]) = device_counts(load, layers, at) else { continue };
            let below = devices_below(layers, layer);
            // Two devices on one disk: its counts are those of both.
            if below.iter().any(|at| devices_above(layers, *at) > 1) {
                continue;
            }
            let counts: Option<Vec<_>> = below.iter().map(|at| device_counts(load, layers, *at)).collect();
            let Some(counts) = counts.filter(|counts| !counts.is_empty()) else { continue };
            let sum = |count: usize| counts.iter().map(|counts| counts[count]).sum::<f64>();
            let is_same = |one: f64, other: f64| (one / other - 1.0).abs() <= DIFFERENCE_MAX;
            let is_small = phase.workload.block_bytes == Some(4096);
            let requests_agree = !is_small || is_same(sum(1), requests);
            found.amounts.add(is_same(sum(0), bytes) && requests_agree);
            let resolution_ns = EXCESS_REQUESTS * load.elapsed_ns as f64;
            let most_ns = (time_ns * EXCESS_MAX).max(time_ns + resolution_ns);
            found.in_flight.add(sum(2) <= most_ns);
        }
    }
    server.iter().for_each(|server| found.server.add(server.is_near()));
    found
}

/// Returns bytes, requests and the sum of their times of a device that counts.
fn device_counts(load: &Load, layers: &[Layer], at: u32) -> Option<[f64; 3]> {
    let flow = load.flow_of(at)?;
    (layers.get(at as usize)?.kind == LayerKind::Device).then(|| load.counts(flow))
}

/// Returns the number of devices that pass on to this one.
fn devices_above(layers: &[Layer], at: u32) -> usize {
    let devices = layers.iter().filter(|layer| layer.kind == LayerKind::Device);
    devices.filter(|layer| devices_below(layers, layer).contains(&at)).count()
}

/// Returns the next devices below a layer, through layers that are none and answer nothing themselves.
fn devices_below(layers: &[Layer], above: &Layer) -> Vec<u32> {
    let below = above.below.iter().filter_map(|at| Some((*at, layers.get(*at as usize)?)));
    let below = below.filter(|(_, layer)| layer.kind.properties().early.is_empty());
    let devices = below.flat_map(|(at, layer)| match layer.kind {
        LayerKind::Device => vec![at],
        _ => devices_below(layers, layer),
    });
    devices.collect()
}
