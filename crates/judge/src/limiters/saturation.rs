//! A target that can do no more, by operations or by bytes; and the knee before it.

use model::Limiter;
use model::numbers::{megabytes, percent};
use model::run::{Confidence, Evidence};
use model::target::{Device, DeviceKind};
use model::workload::Probing;

use super::{Found, budget_sentence, occupancy_sentence, waits_for_target};
use crate::reading::Reading;
use crate::wait_sites::Class;

/// A pause that lengthens turns by no more than this share of itself only shortens a wait.
const DELAY_NONE: f64 = 0.35;
/// A rate that follows the depth no further has nothing more to give.
pub(crate) const DEPTH_NONE: f64 = 0.25;
/// A rate that follows the size of blocks this far is one of bytes.
const BY_BYTES: f64 = -0.7;
/// A rate that follows it no further than this is one of operations.
const BY_OPS: f64 = -0.3;
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
/// Blocks from this size on are mostly held back by their bytes.
const LARGE_BYTES: u64 = 64 << 10;

/// A device, server or network that gives all that it has.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Found> {
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
    let network = network(reading).filter(|_| reading.is_remote && is_bandwidth);
    let is_tried = is_full.is_some();
    // It was tried, and the answers are uncertain: nothing is likely then.
    if !is_tried && reading.sensitivity().is_some() {
        return None;
    }
    let is_busy = reading.waits_in_target() == Some(true);
    // Nobody tried: only so much at once that few targets could take more is likely to fill one.
    let bytes_in_flight = reading.in_flight * block_bytes as f64;
    let is_deep = reading.in_flight >= DEEP || bytes_in_flight >= DEEP_BYTES;
    if !is_tried && !is_deep && network.is_none() {
        return None;
    }
    let waits_for_server = reading.is_remote && reading.waits(Class::Remote) > 0.5;
    if !(is_tried || is_busy || network.is_some() || waits_for_server) {
        return None;
    }
    let limiter = match (reading.is_remote, &network) {
        (true, Some(_)) => Limiter::NetworkBandwidth,
        (true, None) => Limiter::ServerSaturated,
        (false, _) if is_bandwidth => Limiter::DeviceBandwidth,
        (false, _) => Limiter::DeviceOps,
    };
    let classes = if reading.is_remote {
        [Class::Remote, Class::Page, Class::Device]
    } else {
        [Class::Device, Class::Page, Class::Sync]
    };
    let below = is_virtual_disk(reading);
    let counters = match (&network, occupancy_sentence(reading).filter(|_| is_busy)) {
        (Some(network), _) => Some(network.clone()),
        (None, Some(sentence)) if below => Some(format!(
            "{sentence}; it is a hypervisor's disk, so the limit may as well lie below this system"
        )),
        (None, sentence) => sentence,
    };
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        wait_site: reading.wait_sentence(&classes),
        counters,
        probe: reading.probe_sentence().filter(|_| is_tried),
        ..Evidence::default()
    };
    let advice = match limiter {
        Limiter::NetworkBandwidth => "The link is full in this direction. A faster link, several of them, or less data on it (compression) is what helps.".into(),
        Limiter::ServerSaturated => "The server gives all that it has: look there for what limits it.".into(),
        _ if !is_tried => untried(reading).into(),
        Limiter::DeviceBandwidth => "This is what the device moves; more depth or threads buy nothing.".into(),
        _ => "This is what the device does; more depth only makes each wait longer.".to_owned(),
    };
    let found = Found::new(limiter, reading.budget.blocked, evidence).advice(advice);
    // Nobody can see from inside whose limit a virtual disk has; and what was not tried is not confirmed.
    // A pause that costs something for sure, or depth that brings something for sure, says that there is room.
    let has_room = [reading.delay_bounds().filter(|_| reading.in_flight > 1.0), reading.depth_bounds()]
        .iter()
        .flatten()
        .any(|(low, _)| *low > DELAY_NONE);
    let found = found.unless(has_room);
    // The kernel does not tell how much a link could carry; blocks of another size do, where they were tried.
    let cpus = input.record.cpu.as_ref().map_or(0.0, |cpu| cpu.user + cpu.kernel);
    if limiter == Limiter::NetworkBandwidth && cpus > CPUS_BUSY && reading.block().is_none() {
        return Some(found.at_most(Confidence::Undetermined));
    }
    let is_sure = is_tried && is_one_of_both && !below;
    Some(if is_sure { found } else { found.at_most(Confidence::Likely) })
}

/// What would find out more about a row on which nothing was tried.
pub(super) fn untried(reading: &Reading<'_>) -> &'static str {
    let input = &reading.input;
    let changes = input.data().is_some_and(|data| data.writes())
        || input.files().is_some_and(|files| files.verb.changes());
    if changes && input.plan.probe != Probing::Writes {
        "Whether more depth would bring more was not tried, as it writes; --probe-writes does."
    } else {
        "Whether more depth would bring more was not tried, or could not be within the time and the bytes that it had."
    }
}

/// Between latency and saturation: both hold it back. `None` where the answers conflict.
fn knee(reading: &Reading<'_>) -> Option<Found> {
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        wait_site: reading.wait_sentence(&[Class::Device, Class::Page, Class::Sync, Class::Remote]),
        counters: occupancy_sentence(reading),
        probe: reading.probe_sentence(),
        ..Evidence::default()
    };
    let gain = reading.sensitivity().and_then(|known| known.depth.as_ref()).map_or(String::new(), |sensed| {
        let times = sensed.after_ops_per_second / sensed.before_ops_per_second;
        format!(" Four times the depth gave {times:.1} times as much.")
    });
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
        (true, true) if network(reading).is_some() => (Limiter::RemoteLatency, Limiter::NetworkBandwidth),
        (true, _) => (Limiter::RemoteLatency, Limiter::ServerSaturated),
        (false, true) => (Limiter::DeviceLatency, Limiter::DeviceBandwidth),
        (false, false) => (Limiter::DeviceLatency, Limiter::DeviceOps),
    };
    let blocked = reading.budget.blocked;
    // A ring's thread that is busier than it waits is the other half.
    if reading.on_cpu() > blocked {
        let waits = if own > 0.5 { latency } else { full };
        return Some(
            Found::mixed([(Limiter::KernelCpu, reading.on_cpu()), (waits, blocked)], evidence).advice(
                format!("Its threads are as busy as the target is slow; more of them may help.{gain}"),
            ),
        );
    }
    Some(Found::mixed([(latency, blocked * own), (full, blocked * (1.0 - own))], evidence).advice(format!(
        "It is at the knee: the time of an operation and the target's own limit both count.{gain}"
    )))
}

/// What crossed the network for what was asked for, as a sentence; `None` where that is little.
fn network(reading: &Reading<'_>) -> Option<String> {
    let network = reading.system()?.network.as_ref()?;
    let record = reading.input.record;
    let seconds = reading.input.seconds().max(1e-9);
    let ways = [
        (record.app_bytes_read, network.received_bytes, "received"),
        (record.app_bytes_written, network.sent_bytes, "sent"),
    ];
    let told: Vec<_> = ways
        .into_iter()
        .filter(|(asked, crossed, _)| *asked > 0 && *crossed as f64 >= NETWORK * *asked as f64)
        .map(|(asked, crossed, way)| {
            let rate = megabytes(crossed as f64 / seconds).unwrap_or_default();
            format!(
                "{} {way} {rate}, {} of the bytes asked for",
                network.interface,
                percent(crossed as f64 / asked as f64)
            )
        })
        .collect();
    (!told.is_empty()).then(|| told.join("; "))
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
