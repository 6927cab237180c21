//! A target that can do no more, by operations or by bytes; and the knee before it.

use model::Limiter;
use model::advice::Advice;
use model::figure::{BytesPerSecond, Figure, Share, Threshold, WaitClass};
use model::observation::Observation;
use model::run::{Confidence, Verdict};
use model::target::{Device, DeviceKind};
use model::workload::Probing;

use super::latency::LARGE_BYTES;
use super::{seen, waits_for_target};
use crate::reading::Reading;

/// A pause that lengthens turns by no more than this share of itself only shortens a wait.
const DELAY_NONE: f64 = 0.35;
/// A rate that follows the depth no further has nothing more to give.
pub(crate) const DEPTH_NONE: f64 = 0.25;
/// A rate that follows the size of blocks this far is one of bytes.
pub(super) const BY_BYTES: f64 = -0.7;
/// A rate that follows it no further than this is one of operations.
pub(super) const BY_OPS: f64 = -0.3;
/// In between, it is rather the one or the other.
const EITHER: f64 = -0.6;
/// The same over a network, whose packets cost something by themselves.
const BY_BYTES_REMOTE: f64 = -0.6;
/// Of the bytes asked for, so many crossed the network.
const NETWORK: f64 = 0.7;
/// Operations in flight that fill most targets.
const DEEP: f64 = 64.0;
/// Bytes in flight that fill most targets.
const DEEP_BYTES: f64 = (8 << 20) as f64;
/// A machine whose CPUs are this busy may be what holds the other end of a connection back: ciphers, daemons, interrupts.
const CPUS_BUSY: f64 = 0.7;
/// Parts of a mix below this share are none.
const PART_MIN: f64 = 0.05;

/// The thresholds that its explanation names.
pub(super) const THRESHOLDS: &[Threshold] = &[
    ("delay_none", Figure::Ratio(DELAY_NONE)),
    ("depth_none", Figure::Ratio(DEPTH_NONE)),
    ("by_bytes", Figure::Ratio(BY_BYTES)),
    ("by_ops", Figure::Ratio(BY_OPS)),
    ("either", Figure::Ratio(EITHER)),
    ("by_bytes_remote", Figure::Ratio(BY_BYTES_REMOTE)),
    ("network", Figure::Share(NETWORK)),
    ("deep", Figure::Count(DEEP as u64)),
    ("deep_bytes", Figure::MemoryBytes(DEEP_BYTES as u64)),
    ("ends_busy", Figure::Share(CPUS_BUSY)),
    ("large_blocks", Figure::MemoryBytes(LARGE_BYTES)),
];

/// A device, server or network that gives all that it has.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    if !waits_for_target(reading) {
        return None;
    }
    let input = &reading.input;
    // A device that is idle while threads wait is not what they wait for.
    if !reading.is_remote && reading.waits_in_target() == Some(false) {
        return None;
    }
    // With one at a time, a pause leaves the target idle, whatever limits it: only depth can tell.
    let is_full = match (reading.delay().filter(|_| reading.in_flight > 1.0), reading.depth()) {
        (Some(delay), Some(depth)) => Some(delay <= DELAY_NONE && depth < super::latency::DEPTH_ALL),
        (Some(delay), None) => Some(delay <= DELAY_NONE),
        (None, Some(depth)) => Some(depth <= DEPTH_NONE),
        (None, None) => None,
    };
    if is_full == Some(false) {
        return knee(reading);
    }
    let block_bytes = input.data().map_or(0, |data| data.block_bytes);
    let threshold = if reading.is_remote { BY_BYTES_REMOTE } else { BY_BYTES };
    let by_bytes = reading.block().map(|block| block < EITHER);
    let is_one_of_both = reading.block().is_some_and(|block| block < threshold || block > BY_OPS);
    // What nobody tried is most likely as blocks of that size usually are.
    let is_bandwidth = by_bytes.unwrap_or(block_bytes >= LARGE_BYTES);
    let network = if reading.is_remote && is_bandwidth { network(reading) } else { Vec::new() };
    let is_network = !network.is_empty();
    let is_tried = is_full.is_some();
    // It was tried, and the answers are uncertain: nothing is likely then.
    if !is_tried && reading.sensitivity().is_some() {
        return None;
    }
    let is_busy = reading.waits_in_target() == Some(true);
    // Nobody tried: only so much at once that few targets could take more is likely to fill one.
    let bytes_in_flight = reading.in_flight * block_bytes as f64;
    let is_deep = reading.in_flight >= DEEP || bytes_in_flight >= DEEP_BYTES;
    if !is_tried && !is_deep && !is_network {
        return None;
    }
    let waits_for_server = reading.is_remote && reading.waits(WaitClass::Remote) > 0.5;
    if !(is_tried || is_busy || is_network || waits_for_server) {
        return None;
    }
    let limiter = match (reading.is_remote, is_network) {
        (true, true) => Limiter::NetworkBandwidth,
        (true, false) => Limiter::ServerSaturated,
        (false, _) if is_bandwidth => Limiter::DeviceBandwidth,
        (false, _) => Limiter::DeviceOps,
    };
    let classes = if reading.is_remote {
        [WaitClass::Remote, WaitClass::Page, WaitClass::Device]
    } else {
        [WaitClass::Device, WaitClass::Page, WaitClass::Sync]
    };
    let below = is_virtual_disk(reading);
    let in_target = reading.at_target().filter(|_| is_busy && !is_network);
    let virtual_disk = (below && in_target.is_some()).then_some(Observation::VirtualDisk {});
    // A pause that costs something for sure, or depth that brings something for sure, says that there is room.
    let contrary: Vec<_> = seen![
        reading.delay_surely_above(DELAY_NONE).filter(|_| reading.in_flight > 1.0),
        reading.depth_surely_above(DELAY_NONE),
    ];
    let evidence = seen![
        reading.time_spent(),
        reading.slept_in(&classes),
        network,
        in_target,
        virtual_disk,
        if is_tried { reading.answers_without(&contrary) } else { Vec::new() },
    ];
    // Of the device's own limit, confirmed by experiments, there is nothing to try.
    let advice = match limiter {
        Limiter::NetworkBandwidth => Some(Advice::FasterLink {}),
        Limiter::ServerSaturated => Some(Advice::LookAtServer {}),
        _ => (!is_tried).then(|| untried(reading)),
    };
    let found = Verdict::new(limiter, reading.budget.blocked, evidence).advise(advice).unless(contrary);
    // The kernel does not tell how much a link could carry; blocks of another size do, where they were tried.
    let cpus = input.record.cpu.as_ref().map_or(0.0, |cpu| cpu.user + cpu.kernel);
    if limiter == Limiter::NetworkBandwidth && cpus > CPUS_BUSY && reading.block().is_none() {
        return Some(found.at_most(Confidence::Undetermined));
    }
    // Nobody can see from inside whose limit a virtual disk has; and what was not tried is not confirmed.
    let is_sure = is_tried && is_one_of_both && !below;
    Some(if is_sure { found } else { found.at_most(Confidence::Likely) })
}

/// A way to find out more about a row on which nothing was tried.
pub(super) fn untried(reading: &Reading<'_>) -> Advice {
    let input = &reading.input;
    let changes = input.data().is_some_and(|data| data.writes())
        || input.files().is_some_and(|files| files.verb.changes());
    if changes && input.plan.probe != Probing::Writes {
        Advice::DepthUntriedWrites {}
    } else {
        Advice::DepthUntried {}
    }
}

/// Between latency and saturation: both hold it back. `None` where the answers conflict.
fn knee(reading: &Reading<'_>) -> Option<Verdict> {
    let evidence = seen![
        reading.time_spent(),
        reading.slept_in(&[WaitClass::Device, WaitClass::Page, WaitClass::Sync, WaitClass::Remote]),
        reading.at_target(),
        reading.answers(),
    ];
    // A pause tells which share of a turn is the operation's own; one that took longer than asked for, as short ones do,
    // tells too much, and then depth does.
    let by_delay = reading.delay().filter(|share| *share <= 1.0);
    let own = by_delay.or(reading.depth()).unwrap_or(0.5).clamp(0.0, 1.0);
    // A pause that costs all of itself, where more depth brings nothing: no target does both.
    let conflicts = reading.delay().is_some_and(|delay| delay >= super::latency::DELAY_ALL)
        && reading.depth().is_some_and(|depth| depth <= DEPTH_NONE);
    if conflicts || !(PART_MIN..=1.0 - PART_MIN).contains(&own) {
        return None;
    }
    let is_of_bytes = reading.block().is_some_and(|block| block < BY_BYTES_REMOTE);
    let (latency, full) = match (reading.is_remote, is_of_bytes) {
        (true, true) if !network(reading).is_empty() => (Limiter::RemoteLatency, Limiter::NetworkBandwidth),
        (true, _) => (Limiter::RemoteLatency, Limiter::ServerSaturated),
        (false, true) => (Limiter::DeviceLatency, Limiter::DeviceBandwidth),
        (false, false) => (Limiter::DeviceLatency, Limiter::DeviceOps),
    };
    let blocked = reading.budget.blocked;
    // A ring's thread that is busier than it waits is the other half.
    if reading.on_cpu() > blocked {
        let waits = if own > 0.5 { latency } else { full };
        let parts = [(Limiter::KernelCpu, reading.on_cpu()), (waits, blocked)];
        return Some(Verdict::mixed(parts, evidence).advise([Advice::MoreThreads {}]));
    }
    let parts = [(latency, blocked * own), (full, blocked * (1.0 - own))];
    Some(Verdict::mixed(parts, evidence))
}

/// Bytes that crossed the network for the bytes asked for, by direction; nothing where they are few.
fn network(reading: &Reading<'_>) -> Vec<Observation> {
    let Some(network) = reading.system().and_then(|system| system.network.as_ref()) else {
        return Vec::new();
    };
    let record = reading.input.record;
    let seconds = reading.input.seconds().max(1e-9);
    let crossed = |asked: u64, crossed: u64| {
        let share = crossed as f64 / asked as f64;
        let rate = BytesPerSecond(crossed as f64 / seconds);
        (asked > 0 && share >= NETWORK).then(|| (network.interface.as_str().into(), rate, Share(share)))
    };
    let received = crossed(record.app_bytes_read, network.received_bytes);
    let sent = crossed(record.app_bytes_written, network.sent_bytes);
    seen![
        received.map(|(interface, bytes_per_second, asked_share)| Observation::Received {
            interface,
            bytes_per_second,
            asked_share
        }),
        sent.map(|(interface, bytes_per_second, asked_share)| Observation::Sent {
            interface,
            bytes_per_second,
            asked_share
        }),
    ]
}

/// Whether the device is one that a hypervisor made: what it does is what the host lets it.
fn is_virtual_disk(reading: &Reading<'_>) -> bool {
    let is_made = |device: &Device| {
        // Loops and compressed memory are made by this system itself.
        matches!(device.kind, DeviceKind::Disk | DeviceKind::Partition)
    };
    let environment = reading.input.environment;
    environment.virtualisation.is_some()
        && environment.target.device_stack.iter().any(|device| device.is_leaf() && is_made(device))
}
