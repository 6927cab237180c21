//! A target that can do no more, by operations or by bytes; and the knee before it.

use model::Limiter;
use model::advice::Advice;
use model::experiment::FACTOR;
use model::figure::{BytesPerSecond, Figure, OpsPerSecond, Share, Threshold, WaitClass};
use model::observation::Observation;
use model::run::{Confidence, PhaseRecord, Trust, Verdict};

use super::evidence::{is_at_target, seen};
use super::latency::LARGE_BYTES;
use crate::values::experiments::{Load, LoadEstimate, Unit};
use crate::values::places::Level;
use crate::values::reading::Reading;

/// Smallest share of the requested bytes that must have crossed the network.
const NETWORK_SHARE_MIN: f64 = 0.7;
/// Operations in flight that fill most targets.
const DEEP_IN_FLIGHT: f64 = 64.0;
/// Bytes in flight that fill most targets.
const DEEP_BYTES: f64 = (8 << 20) as f64;
/// On a machine whose CPUs are this busy, an end of the connection may be the limit: ciphers, daemons, interrupts.
const CPUS_BUSY: f64 = 0.7;
/// Parts of a mix have at least this share.
const PART_MIN: f64 = 0.05;

/// The thresholds that its explanation names.
pub(crate) const THRESHOLDS: &[Threshold] = &[
    ("network", Figure::Share(NETWORK_SHARE_MIN)),
    ("deep", Figure::Count(DEEP_IN_FLIGHT as u64)),
    ("deep_bytes", Figure::MemoryBytes(DEEP_BYTES as u64)),
    ("ends_busy", Figure::Share(CPUS_BUSY)),
    ("large_blocks", Figure::MemoryBytes(LARGE_BYTES)),
    ("clearly_more", Figure::Ratio(HIGHER_RATE_FACTOR)),
];

/// If a device moved this many times as many bytes in another test, its limit is not in bytes.
const HIGHER_RATE_FACTOR: f64 = 1.3;

/// Stores in each direct test the highest rate of the run's direct tests in the same direction, if it is clearly
/// higher. Returns true if anything is new.
pub(crate) fn share_device_peaks(rows: &mut [PhaseRecord]) -> bool {
    /// Returns the direction of a direct test that only reads or only writes, and its rate.
    fn moved(row: &PhaseRecord) -> Option<(bool, f64)> {
        let is_valid = row.judged.verdict.as_ref().is_some_and(|verdict| verdict.trust != Trust::Invalid);
        let is_one_way = (row.counts.app_bytes_read > 0) != (row.counts.app_bytes_written > 0);
        let has_device_rate = row.workload.direct == Some(true) && row.seen.device.is_some();
        let rate = row.figures.rate.bytes_per_second.filter(|_| is_valid && is_one_way && has_device_rate)?;
        Some((row.counts.app_bytes_read > 0, rate))
    }
    let most = |is_read: bool| {
        let rates = rows.iter().filter_map(moved).filter(|(reads, _)| *reads == is_read);
        rates.map(|(_, rate)| rate).reduce(f64::max)
    };
    let most = [most(false), most(true)];
    let mut is_new = false;
    for row in rows {
        let Some((is_read, rate)) = moved(row) else { continue };
        let more = most[usize::from(is_read)].filter(|most| *most >= HIGHER_RATE_FACTOR * rate);
        if let Some(device) = &mut row.seen.device {
            is_new |= device.other_bytes_per_second != more;
            device.other_bytes_per_second = more;
        }
    }
    is_new
}

/// Returns the rate of another test that moved clearly more in the same direction.
fn faster_test(reading: &Reading<'_>) -> Option<Observation> {
    let device = reading.input.record.seen.device.as_ref()?;
    let bytes_per_second = BytesPerSecond(device.other_bytes_per_second?);
    Some(Observation::OtherMovedMore { device: device.name.as_str().into(), bytes_per_second })
}

/// A device, server or network that gives all that it has.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    if !is_at_target(reading) {
        return None;
    }
    let full = reading.gate().filter(|gate| gate.is_full_inside());
    let (is_tried, is_sure) = match reading.load() {
        LoadEstimate::Known { load: Load::Between, .. } | LoadEstimate::Untested if full.is_some() => {
            (true, false)
        }
        LoadEstimate::Known { load: Load::Saturated, is_sure, .. } => (true, is_sure),
        LoadEstimate::Known { load: Load::Between, .. } => return Some(knee(reading)),
        LoadEstimate::Known { load: Load::Headroom, .. } => return None,
        LoadEstimate::Untested => (false, false),
    };
    let input = &reading.input;
    let block_bytes = input.data().map_or(0, |data| data.block_bytes);
    let unit = reading.unit();
    let is_bandwidth = counts_bytes(reading);
    let network = if reading.is_remote && is_bandwidth { network(reading) } else { Vec::new() };
    let is_network = !network.is_empty();
    let is_busy = reading.waits_in_target() == Some(true);
    // Without experiments, only a load that fills most targets is likely to fill this one.
    let bytes_in_flight = reading.in_flight * block_bytes as f64;
    let is_deep = reading.in_flight >= DEEP_IN_FLIGHT || bytes_in_flight >= DEEP_BYTES;
    let late = open_loop_lag(reading);
    let waits_for_server = reading.is_remote && reading.waits(WaitClass::Remote) > 0.5;
    if !(is_tried || is_busy || is_network || waits_for_server || !late.is_empty()) {
        return None;
    }
    let is_open = !is_tried && !is_deep && late.is_empty();
    let limiter = match (reading.is_remote, is_network) {
        (true, _) if is_open => Limiter::RemoteUndetermined,
        (false, _) if is_open => Limiter::DeviceUndetermined,
        (true, true) => Limiter::NetworkBandwidth,
        (true, false) => Limiter::ServerSaturated,
        (false, _) if is_bandwidth => Limiter::DeviceBandwidth,
        (false, _) => Limiter::DeviceOps,
    };
    let evidence = evidence(reading, limiter, network, full, late);
    let advice = advice(reading, limiter, is_tried);
    let blocked = reading.budget.blocked;
    let is_both = matches!(unit, Some((Unit::Both, _))) && faster_test(reading).is_none();
    let by_bytes = reading.byte_share().filter(|_| is_both && !reading.is_remote && !is_open);
    if let Some(by_bytes) = by_bytes {
        let parts = [
            (Limiter::DeviceBandwidth, blocked * by_bytes),
            (Limiter::DeviceOps, blocked * (1.0 - by_bytes)),
        ];
        return Some(Verdict::mixed(parts, evidence));
    }
    let found = Verdict::new(limiter, blocked, evidence).advise(advice);
    Some(found.at_most(greatest_confidence(reading, limiter, is_sure, is_network)))
}

/// Returns the advice on a saturated target. `is_tried` is true if experiments show that it is saturated.
fn advice(reading: &Reading<'_>, limiter: Limiter, is_tried: bool) -> Option<Advice> {
    // If experiments confirm the device's own limit, nothing is left to try.
    match limiter {
        Limiter::NetworkBandwidth => Some(Advice::FasterLink {}),
        Limiter::ServerSaturated => Some(Advice::LookAtServer {}),
        _ if is_tried => None,
        _ if reading.is_inconclusive() => Some(Advice::MeasureLonger {}),
        _ => Some(Advice::DepthUntried {}),
    }
}

/// Returns the greatest confidence in the limiter of a saturated target. More depth shows the load if it `is_sure`. The bytes
/// crossed the network if it `is_network`.
fn greatest_confidence(
    reading: &Reading<'_>,
    limiter: Limiter,
    is_sure: bool,
    is_network: bool,
) -> Confidence {
    let (input, unit) = (&reading.input, reading.unit());
    // The line to a server may be the limit, and only its bytes tell.
    if limiter == Limiter::ServerSaturated && input.has_line() && !has_network(reading) {
        return Confidence::Undetermined;
    }
    // The kernel does not report the capacity of a link. Blocks of another size show it, where they were tried.
    let cpus = input.record.seen.cpu.as_ref().map_or(0.0, |cpu| cpu.user + cpu.kernel);
    if is_network && cpus > CPUS_BUSY && unit.is_none() {
        return Confidence::Undetermined;
    }
    // A guest cannot see whose limit a virtual disk has. Without experiments, nothing is confirmed.
    let is_of_one_unit = unit.is_some_and(|(unit, is_sure)| is_sure && unit != Unit::Both);
    if is_sure && is_of_one_unit && !input.is_on_virtual_disk() {
        Confidence::Confirmed
    } else {
        Confidence::Likely
    }
}

/// Returns the observations that show a saturated target. `full` is the layer at which the operations wait, if it is a lower
/// one.
fn evidence(
    reading: &Reading<'_>,
    limiter: Limiter,
    network: Vec<Observation>,
    full: Option<&Level>,
    late: Vec<Observation>,
) -> Vec<Observation> {
    let classes = if reading.is_remote {
        [WaitClass::Remote, WaitClass::Page, WaitClass::Device]
    } else {
        [WaitClass::Device, WaitClass::Page, WaitClass::Sync]
    };
    let is_busy = reading.waits_in_target() == Some(true);
    let in_target = reading.at_target().filter(|_| is_busy && network.is_empty());
    let full = full.map_or(Vec::new(), |gate| reading.at_level(gate));
    let is_below = reading.input.is_on_virtual_disk() && in_target.is_some();
    seen![
        reading.time_spent(),
        reading.dominant_wait(&classes),
        network,
        in_target.filter(|_| full.is_empty()),
        full,
        faster_test(reading).filter(|_| limiter == Limiter::DeviceOps),
        is_below.then_some(Observation::VirtualDisk {}),
        late,
        reading.answers(),
    ]
}

/// Returns true if the bytes of an interface were counted.
fn has_network(reading: &Reading<'_>) -> bool {
    reading.system().is_some_and(|system| system.network.is_some())
}

/// Returns true if a saturated target counts bytes. Without experiments, the usual unit for blocks of that size decides.
fn counts_bytes(reading: &Reading<'_>) -> bool {
    let block_bytes = reading.input.data().map_or(0, |data| data.block_bytes);
    match reading.unit() {
        Some((Unit::Bytes, _)) => true,
        Some((Unit::Operations, _)) => false,
        // The same device moved more bytes in another test.
        Some((Unit::Both, _)) | None if faster_test(reading).is_some() => false,
        Some((Unit::Both, _)) => reading.byte_share() > Some(0.5),
        // The kernel makes its own requests out of those of a stream.
        None => block_bytes >= LARGE_BYTES || reading.is_stream(),
    }
}

/// Returns the rates of an open loop that could not start its operations in time, with all its slots in flight.
fn open_loop_lag(reading: &Reading<'_>) -> Vec<Observation> {
    let record = reading.input.record;
    let Some(requested) =
        record.workload.rate_ops_per_second.filter(|_| !reading.input.keeps_requested_rate())
    else {
        return Vec::new();
    };
    let started = record.figures.rate.overall_ops_per_second.map(OpsPerSecond);
    seen![
        started.map(|ops_per_second| Observation::RateStarted { ops_per_second }),
        Some(Observation::RateRequested { ops_per_second: OpsPerSecond(requested) }),
    ]
}

/// Returns the verdict between latency and saturation: both hold the test back.
fn knee(reading: &Reading<'_>) -> Verdict {
    let evidence = seen![
        reading.time_spent(),
        reading.dominant_wait(&[WaitClass::Device, WaitClass::Page, WaitClass::Sync, WaitClass::Remote]),
        reading.at_target(),
        reading.answers(),
    ];
    let by_depth = reading.gain().map(|gain| gain.value.ln() / f64::from(FACTOR).ln());
    let own = by_depth.unwrap_or(0.5);
    let own = own.clamp(PART_MIN, 1.0 - PART_MIN);
    let counts_bytes = counts_bytes(reading);
    let (latency, saturated) = match (reading.is_remote, counts_bytes) {
        (true, true) if !network(reading).is_empty() => (Limiter::RemoteLatency, Limiter::NetworkBandwidth),
        (true, _) => (Limiter::RemoteLatency, Limiter::ServerSaturated),
        (false, true) => (Limiter::DeviceLatency, Limiter::DeviceBandwidth),
        (false, false) => (Limiter::DeviceLatency, Limiter::DeviceOps),
    };
    let blocked = reading.budget.blocked;
    // A ring's thread that works more than it waits is the other half.
    if reading.on_cpu() > blocked {
        let waits = if own > 0.5 { latency } else { saturated };
        let parts = [(Limiter::KernelCpu, reading.on_cpu()), (waits, blocked)];
        return Verdict::mixed(parts, evidence).advise([Advice::MoreThreads {}]);
    }
    let parts = [(latency, blocked * own), (saturated, blocked * (1.0 - own))];
    Verdict::mixed(parts, evidence)
}

/// Returns the bytes that crossed the network for the requested bytes, by direction; nothing where they are few.
pub(super) fn network(reading: &Reading<'_>) -> Vec<Observation> {
    let Some(network) = reading.system().and_then(|system| system.network.as_ref()) else {
        return Vec::new();
    };
    let record = reading.input.record;
    let seconds = reading.input.seconds().max(1e-9);
    let crossed = |requested: u64, crossed: u64| {
        let share = crossed as f64 / requested as f64;
        let rate = BytesPerSecond(crossed as f64 / seconds);
        (requested > 0 && share >= NETWORK_SHARE_MIN)
            .then(|| (network.interface.as_str().into(), rate, Share(share)))
    };
    let received = crossed(record.counts.app_bytes_read, network.received_bytes);
    let sent = crossed(record.counts.app_bytes_written, network.sent_bytes);
    seen![
        received.map(|(interface, bytes_per_second, requests_share)| Observation::Received {
            interface,
            bytes_per_second,
            requests_share
        }),
        sent.map(|(interface, bytes_per_second, requests_share)| Observation::Sent {
            interface,
            bytes_per_second,
            requests_share
        }),
    ]
}
