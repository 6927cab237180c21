//! The bytes of a test at each layer of the I/O path: requested, in calls, in device requests, sent.

use model::numbers::{amount, latency, percent, thousands};
use model::printable::printable;
use model::run::{CallUse, NetworkUse, PhaseRecord};
use model::size;

/// If the request sizes of two layers differ by this factor, one of them merges or splits requests.
const SIZE_FACTOR_MIN: f64 = 1.5;
/// The text omits the sleep of calls whose threads sleep for less than this share of the time.
const ASLEEP_MIN: f64 = 0.05;
/// Calls that move less than this share of the bytes do not belong to the test: a ring makes its own.
const CALLS_SHARE_MIN: f64 = 0.5;

/// Operations that crossed the layers.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerPath {
    /// The layers as text: "8,041,234 putc → 1,964 write calls of 4 KiB → 260 requests of 31 KiB to vda".
    pub text: String,
    /// True if a layer changes the requests, so that the row differs from its label.
    pub changes_label: bool,
}

/// Returns the sizes of all layers; `None` if no layer below the test has counters.
pub fn layer_path(phase: &PhaseRecord) -> Option<LayerPath> {
    let mut parts = vec![requested_operations(phase)];
    let mut sizes: Vec<f64> = phase.workload.block_bytes.map(|bytes| bytes as f64).into_iter().collect();
    let mut changes_label = false;
    for (count, mean_bytes, word) in calls(phase) {
        parts.push(format!("{} {word} calls of {}", thousands(count), size::binary(mean_bytes as u64)));
        sizes.push(mean_bytes);
    }
    if let Some(device) = &phase.seen.device {
        let name = printable(&device.name);
        match device.mean_request_bytes.filter(|mean| mean.is_finite() && *mean > 0.0) {
            Some(mean_bytes) => {
                let size = size::binary(mean_bytes as u64);
                parts.push(format!("{} requests of {size} to {name}", thousands(device.operations)));
                sizes.push(mean_bytes);
            }
            None => {
                parts.push(format!("no request to {name}"));
                changes_label = true;
            }
        }
    }
    // The traffic of other processes is no layer of the test.
    let app_bytes = phase.counts.app_bytes_read as f64 + phase.counts.app_bytes_written as f64;
    let carries = |network: &&NetworkUse| {
        network.sent_bytes as f64 + network.received_bytes as f64 >= app_bytes * CALLS_SHARE_MIN
    };
    let network = phase.seen.system.as_ref().and_then(|system| system.network.as_ref());
    if let Some(network) = network.filter(|_| phase.seen.device.is_none()).filter(carries) {
        let [sent, received] = [network.sent_bytes, network.received_bytes].map(size::decimal);
        parts.push(format!("{sent} sent, {received} received over {}", printable(&network.interface)));
        changes_label = true;
    }
    changes_label |= sizes.windows(2).any(|pair| {
        let (smaller, larger) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
        larger >= smaller.max(1.0) * SIZE_FACTOR_MIN
    });
    (parts.len() > 1).then(|| LayerPath { text: parts.join(" → "), changes_label })
}

/// Formats the test's operations.
fn requested_operations(phase: &PhaseRecord) -> String {
    let count = amount(phase.counts.ops as f64).unwrap_or_default();
    match phase.workload.verb.split_once('-') {
        Some(("byte", _)) => format!("{count} one-byte calls"),
        Some((call @ ("putc" | "getc"), _)) => format!("{count} {call}"),
        _ => match phase.workload.block_bytes {
            Some(bytes) => format!("{count} operations of {}", size::binary(bytes)),
            None => format!("{count} operations"),
        },
    }
}

/// Returns the calls that moved the test's bytes: their number, their mean bytes, and their word.
pub fn calls(phase: &PhaseRecord) -> Vec<(u64, f64, &'static str)> {
    let Some(calls) = phase.seen.system.as_ref().and_then(|system| system.calls.as_ref()) else {
        return Vec::new();
    };
    let CallUse { read_calls, write_calls, bytes_per_read_call, bytes_per_write_call } = calls;
    let counted = [
        (*read_calls, *bytes_per_read_call, phase.counts.app_bytes_read, "read"),
        (*write_calls, *bytes_per_write_call, phase.counts.app_bytes_written, "write"),
    ];
    let of_test = counted.into_iter().filter_map(|(count, mean_bytes, app_bytes, word)| {
        let mean_bytes = mean_bytes.filter(|mean| mean.is_finite() && *mean > 0.0)?;
        let is_of_test = app_bytes > 0 && count as f64 * mean_bytes >= app_bytes as f64 * CALLS_SHARE_MIN;
        is_of_test.then_some((count, mean_bytes, word))
    });
    of_test.collect()
}

/// Formats the mean time of each call of an operation, with the share that its thread slept where that is known.
/// Example: "write 74.4 µs (60 % asleep), fdatasync 59.0 µs". Returns `None` where there is only one call.
pub fn steps(phase: &PhaseRecord) -> Option<String> {
    let known = phase.figures.steps.iter().filter_map(|step| {
        let mean = step.latency_ns.as_ref()?.mean;
        let asleep = step.waiting_ns.zip(step.elapsed_ns.filter(|elapsed_ns| *elapsed_ns > 0));
        let asleep = asleep.map(|(waiting_ns, elapsed_ns)| (waiting_ns as f64 / elapsed_ns as f64).min(1.0));
        let asleep = asleep.filter(|share| *share >= ASLEEP_MIN);
        let suffix = asleep.map_or(String::new(), |share| format!(" ({} asleep)", percent(share)));
        Some(format!("{} {}{suffix}", printable(&step.name), latency(mean)))
    });
    let known: Vec<_> = known.collect();
    (known.len() > 1).then(|| known.join(", "))
}
