//! Work of the layers under a test, a row each: the test itself, then each layer before those below it.

use model::Target;
use model::layer::{Layer, LayerKind};
use model::numbers::latency;
use model::run::{Flow, Helper, Load, PhaseRecord};

use crate::numbers::percent;
use crate::printable;

/// A program's threads that take or want less than this share of a CPU are not worth a note.
const CPU_SHARE_MIN: f64 = 0.01;

/// Work of a layer. Figures that its kind does not count are `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LayerRow {
    /// Name of the layer.
    pub name: String,
    /// Layers above it, on the longest way from the test.
    pub depth: usize,
    /// Bytes a second.
    pub bytes_per_second: Option<f64>,
    /// Its bytes over those of the test.
    pub bytes_share: Option<f64>,
    /// Requests a second.
    pub requests_per_second: Option<f64>,
    /// Mean size of a request.
    pub request_bytes: Option<f64>,
    /// Mean number of requests in flight.
    pub in_flight: Option<f64>,
    /// Mean time of a request.
    pub request_ns: Option<f64>,
    /// The same with one operation in flight.
    pub alone_ns: Option<f64>,
    /// Facts without a column.
    pub note: String,
}

/// Returns the rows; none for a test without bytes, or where no layer counts.
pub(crate) fn rows(phase: &PhaseRecord, target: &Target) -> Vec<LayerRow> {
    let Some(load) = phase.seen.load.as_ref().filter(|load| load.read_bytes + load.written_bytes > 0) else {
        return Vec::new();
    };
    let single = phase.judged.sensitivity.as_ref().and_then(|answers| answers.single.as_ref());
    let alone = single.and_then(|single| single.load.as_ref());
    let depths = depths(&target.layers);
    let layer = |(at, layer): (u32, &Layer)| {
        let depth = depths[at as usize];
        let mut row = LayerRow { name: printable(&layer.name), depth, ..LayerRow::default() };
        if let Some(flow) = load.flow_of(at) {
            row.fill(layer.kind, flow, load);
        }
        let helpers = phase.seen.system.iter().flat_map(|system| &system.helpers);
        let workers =
            helpers.filter(|helper| layer.kind == LayerKind::Device && works_for(helper, &layer.name));
        row.add_note(workers_note(workers));
        if layer.kind == LayerKind::Line {
            row.add_note(layer.kind.properties().word.to_owned());
            row.add_note(round_trip(layer).unwrap_or_default());
        }
        row.add_note(layer.hidden.as_deref().map_or(String::new(), printable));
        row.alone_ns = alone.and_then(|load| load.request_ns(load.flow_of(at)?));
        row
    };
    let test = LayerRow {
        in_flight: phase.figures.latency_ns.as_ref().map(|all| all.mean as f64 * per_ns(load.ops, load)),
        request_ns: phase.figures.latency_ns.as_ref().map(|latency| latency.mean as f64),
        alone_ns: single.map(|single| 1e9 / single.after_ops_per_second),
        bytes_share: None,
        ..LayerRow::with_rates(requested(load), load.ops as f64, load)
    };
    let test = LayerRow { name: "test".into(), ..test };
    let calls = wording::calls(phase).into_iter().filter(|(count, ..)| *count != load.ops);
    let calls = calls.map(|(count, mean_bytes, word)| LayerRow {
        name: format!("{word} calls"),
        ..LayerRow::with_rates(count as f64 * mean_bytes, count as f64, load)
    });
    std::iter::once(test).chain(calls).chain((0..).zip(&target.layers).map(layer)).collect()
}

/// Returns the shortest round trip to the servers behind a network interface in words, where TCP measured one.
pub(crate) fn round_trip(layer: &Layer) -> Option<String> {
    layer.round_trip_ns.map(|time_ns| format!("round trip {}", latency(time_ns)))
}

/// Returns the bytes of the test.
fn requested(load: &Load) -> f64 {
    load.read_bytes as f64 + load.written_bytes as f64
}

fn per_ns(count: u64, load: &Load) -> f64 {
    count as f64 / load.elapsed_ns.max(1) as f64
}

impl LayerRow {
    fn with_rates(bytes: f64, requests: f64, load: &Load) -> Self {
        let seconds = load.elapsed_ns.max(1) as f64 / 1e9;
        Self {
            bytes_per_second: Some(bytes / seconds),
            bytes_share: Some(bytes / requested(load)),
            requests_per_second: Some(requests / seconds),
            request_bytes: (requests > 0.0).then(|| bytes / requests),
            ..Self::default()
        }
    }

    fn add_note(&mut self, note: String) {
        let notes = [std::mem::take(&mut self.note), note];
        self.note = notes.into_iter().filter(|note| !note.is_empty()).collect::<Vec<_>>().join(", ");
    }

    fn fill(&mut self, kind: LayerKind, flow: &Flow, load: &Load) {
        let (name, depth) = (std::mem::take(&mut self.name), self.depth);
        *self = match kind {
            LayerKind::Device | LayerKind::Remote if flow.samples == 0 => {
                let [bytes, requests, time_ns] = load.counts(flow);
                let request_ns = load.request_ns(flow);
                let in_flight = request_ns.map(|_| time_ns / load.elapsed_ns.max(1) as f64);
                let note = window_note(flow, load);
                Self { in_flight, request_ns, note, ..Self::with_rates(bytes, requests, load) }
            }
            LayerKind::Fuse | LayerKind::Remote | LayerKind::FileSystem => {
                Self { in_flight: flow.sampled_in_flight(), ..Self::default() }
            }
            LayerKind::Daemon => Self { note: daemon_note(flow, load), ..Self::default() },
            // Packets are no requests.
            LayerKind::Line => {
                let [bytes, ..] = load.counts(flow);
                Self { requests_per_second: None, ..Self::with_rates(bytes, 0.0, load) }
            }
            _ => Self::default(),
        };
        (self.name, self.depth) = (name, depth);
    }
}

/// Returns the number of layers above each, on the longest way. Each layer comes before those below it.
fn depths(layers: &[Layer]) -> Vec<usize> {
    let mut depths = vec![1; layers.len()];
    for (at, layer) in layers.iter().enumerate() {
        for below in &layer.below {
            let deeper = depths[at] + 1;
            if let Some(depth) = depths.get_mut(*below as usize) {
                *depth = deeper.max(*depth);
            }
        }
    }
    depths
}

/// Returns a note on a queue whose places are all taken: "its 64 places are taken".
fn window_note(flow: &Flow, load: &Load) -> String {
    let full = flow.window.filter(|_| flow.is_full(load.elapsed_ns));
    full.map_or(String::new(), |places| format!("its {places} places are taken"))
}

/// Returns true for a thread of the kernel whose name ends in a device or begins with it: "kworker/u8:1-loop0",
/// "md127_raid5". A worker has the name of its last work.
fn works_for(helper: &Helper, device: &str) -> bool {
    let name = helper.name.as_str();
    let is_last = name.strip_suffix(device).is_some_and(|rest| rest.ends_with(['-', '+']));
    helper.is_kernel && (is_last || name.strip_prefix(device).is_some_and(|rest| rest.starts_with('_')))
}

/// Returns the CPU time of a device's threads in the kernel: "workers 12 % of a CPU".
fn workers_note<'a>(workers: impl Iterator<Item = &'a Helper>) -> String {
    let [on, waiting] = workers.fold([0.0, 0.0], |[on, waiting], worker| {
        [on + worker.cpu_share, waiting + worker.run_delay_share.unwrap_or_default()]
    });
    let note = cpu_note(on, waiting);
    if note.is_empty() { note } else { format!("workers {note}") }
}

/// Returns the threads of a program and their CPU time: "1 thread, 12 % of a CPU".
fn daemon_note(flow: &Flow, load: &Load) -> String {
    let [on, waiting] = [flow.cpu_ns, flow.run_delay_ns].map(|time_ns| per_ns(time_ns, load));
    let threads = flow.window.map(|count| format!("{count} thread{}", if count == 1 { "" } else { "s" }));
    let times = Some(cpu_note(on, waiting)).filter(|note| !note.is_empty());
    threads.into_iter().chain(times).collect::<Vec<_>>().join(", ")
}

/// Returns CPU time: "12 % of a CPU, waited for a CPU 3 % of the time".
fn cpu_note(on: f64, waiting: f64) -> String {
    let on_text = format!("{} of a CPU", percent(on));
    match (on >= CPU_SHARE_MIN, waiting >= CPU_SHARE_MIN) {
        (_, true) => format!("{on_text}, waited for a CPU {} of the time", percent(waiting)),
        (true, false) => on_text,
        (false, false) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use model::run::Helper;

    use super::works_for;

    #[test]
    fn kernel_threads_belong_to_the_device_in_their_name() {
        let works = |name: &str, device| {
            works_for(&Helper { name: name.into(), is_kernel: true, ..Helper::default() }, device)
        };
        assert!(works("kworker/u8:1-loop0", "loop0") && works("md127_raid5", "md127"));
        assert!(!works("kworker/u8:1-loop10", "loop0") && !works("md127_raid5", "md12"));
    }
}
