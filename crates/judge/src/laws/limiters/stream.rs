//! Data to and from a server, where no experiment was made.

use model::Limiter;
use model::advice::Advice;
use model::figure::{BytesPerSecond, Figure, Share, Threshold, WaitClass};
use model::layer::Layer;
use model::observation::Observation;
use model::run::{Confidence, NetworkUse, PhaseRecord, Verdict};

use super::evidence::{is_at_target, seen, waits_for_target};
use crate::values::experiments::{Load, LoadEstimate};
use crate::values::reading::Reading;

/// A rate of at least this share of the line's capacity saturates the line.
const SATURATED: f64 = 0.85;
/// More than this multiple of a limit cannot have passed: part of the bytes followed after the measured time.
const LIMIT_EXCESS_MAX: f64 = 1.15;
/// A rate below this share does not saturate it.
const NOT_SATURATED: f64 = 0.8;
/// If the sum of both directions is at least this share, they saturate the line in turn.
const ALTERNATING_SHARE_MIN: f64 = 0.9;
/// Minimum duration of a test whose rate is compared with the line: a shorter one may fit into the burst of a limit.
const LEAST_SECONDS: f64 = 1.0;
/// A block that takes this long to transfer saturates the line alone, whatever the round-trip time.
const LONG_BLOCK_SECONDS: f64 = 0.01;

/// The thresholds that explanations name.
pub(crate) const THRESHOLDS: &[Threshold] = &[
    ("line_saturated", Figure::Share(SATURATED)),
    ("line_not_saturated", Figure::Share(NOT_SATURATED)),
    ("line_saturated_in_turn", Figure::Share(ALTERNATING_SHARE_MIN)),
];

/// Stores two facts about the line in all rows: the highest rate of a test, and the line's throughput. The throughput
/// is known if an experiment found the line saturated. Returns true if there is one of them. A test that also waits for
/// replies has saturated the line at the experiment's depth.
pub(crate) fn share_network_peaks(rows: &mut [PhaseRecord]) -> bool {
    let most = |bytes: fn(&NetworkUse) -> u64| {
        let rate = |row: &PhaseRecord| {
            let network = row.seen.system.as_ref()?.network.as_ref()?;
            let seconds = row.counts.elapsed_ns as f64 / 1e9;
            (seconds >= LEAST_SECONDS).then(|| bytes(network) as f64 / seconds)
        };
        rows.iter().filter_map(rate).reduce(f64::max)
    };
    let most = [most(|network| network.received_bytes), most(|network| network.sent_bytes)];
    let saturated = |row: &PhaseRecord| {
        let depth = row.judged.sensitivity.as_ref()?.depth.as_ref()?;
        let verdict = row.judged.verdict.as_ref()?;
        let is_part = verdict.ranking.iter().any(|part| part.limiter == Limiter::NetworkBandwidth);
        let times = match verdict.limiter? {
            Limiter::NetworkBandwidth => 1.0,
            Limiter::Mixed if is_part => depth.after_ops_per_second / depth.before_ops_per_second,
            _ => return None,
        };
        let rate = times * bytes_per_second(row.seen.system.as_ref()?.network.as_ref()?, row);
        Some(rate).filter(|rate| rate.is_finite())
    };
    let line = rows.iter().filter_map(saturated).reduce(f64::max);
    let systems = rows.iter_mut().filter_map(|row| row.seen.system.as_mut());
    for network in systems.filter_map(|system| system.network.as_mut()) {
        network.line_bytes_per_second = line;
        [network.peak_received_bytes_per_second, network.peak_sent_bytes_per_second] = most;
    }
    line.is_some() || most.iter().any(Option::is_some)
}

/// Returns the most that a test of the run moved over the line, in the direction in which this test comes closest to
/// it. The line carries at least that much.
fn moved(network: &NetworkUse, row: &PhaseRecord) -> Option<(f64, f64)> {
    let seconds = row.counts.elapsed_ns.max(1) as f64 / 1e9;
    let directions = [
        (row.counts.app_bytes_read, network.received_bytes, network.peak_received_bytes_per_second),
        (row.counts.app_bytes_written, network.sent_bytes, network.peak_sent_bytes_per_second),
    ];
    let shares = directions.into_iter().filter(|(requested, ..)| *requested > 0).map(|(_, bytes, most)| {
        let most = most.unwrap_or(0.0);
        (most, bytes as f64 / seconds / most)
    });
    shares.max_by(|one, other| one.1.total_cmp(&other.1))
}

/// Bytes per second that crossed an interface, in the direction with more of them.
fn bytes_per_second(network: &NetworkUse, row: &PhaseRecord) -> f64 {
    network.received_bytes.max(network.sent_bytes) as f64 * 1e9 / row.counts.elapsed_ns.max(1) as f64
}

/// Returns a readable limit that the network has reached: that of a queueing discipline on sent data, or the speed of
/// the interface.
fn reached(network: &NetworkUse, row: &PhaseRecord) -> Option<Observation> {
    let per_second = |bytes: u64| bytes as f64 * 1e9 / row.counts.elapsed_ns.max(1) as f64;
    let shaped = network.shaper.as_deref().zip(network.shaped_bytes_per_second);
    let shaped = shaped.map(|(kind, limit)| (kind.to_owned(), limit, per_second(network.sent_bytes)));
    let speed = network.speed_bits_per_second.map(|bits| bits as f64 / 8.0);
    let file = || format!("/sys/class/net/{}/speed", network.interface);
    let speed = speed.map(|limit| (file(), limit, bytes_per_second(network, row)));
    let (source, limit, rate) = [shaped, speed]
        .into_iter()
        .flatten()
        .find(|(_, limit, rate)| (SATURATED..=LIMIT_EXCESS_MAX).contains(&(rate / limit)))?;
    Some(Observation::BytesAllowed {
        source: source.into(),
        device: network.interface.as_str().into(),
        bytes_per_second: BytesPerSecond(limit),
        reached_bytes_per_second: BytesPerSecond(rate),
    })
}

/// A readable limit of the line to the server of a file system or device, which the rate has reached.
pub(super) fn readable_limit(reading: &Reading<'_>) -> Option<Verdict> {
    let is_over_line = reading.is_remote || reading.input.target().layers.iter().any(Layer::is_on_server);
    let load = reading.load();
    if !is_over_line || !waits_for_target(reading) || load.is(Load::Headroom) {
        return None;
    }
    let crossed = super::saturation::network(reading);
    let network = reading.system()?.network.as_ref().filter(|_| !crossed.is_empty())?;
    let reached = reached(network, reading.input.record)?;
    let evidence = seen![reading.time_spent(), crossed, Some(reached), reading.answers_if_saturated()];
    let found = Verdict::new(Limiter::NetworkBandwidth, reading.budget.blocked, evidence);
    let is_sure = matches!(load, LoadEstimate::Known { load: Load::Saturated, is_sure: true, .. });
    Some(if is_sure { found } else { found.at_most(Confidence::Likely) }.advise([Advice::FasterLink {}]))
}

/// Returns true if a test fills the line in turn: with each block that it reads, and then with the block that it writes.
/// A faster line and more depth help both: with more copies, both directions are busy at once.
fn alternates_directions(reading: &Reading<'_>, network: &NetworkUse, line: f64) -> bool {
    let both = (network.received_bytes + network.sent_bytes) as f64 * 1e9
        / reading.input.record.counts.elapsed_ns.max(1) as f64;
    reading.input.data().is_some_and(|data| {
        data.reads() && data.writes() && data.block_bytes as f64 >= LONG_BLOCK_SECONDS * line
    }) && both >= ALTERNATING_SHARE_MIN * line
}

/// A line that is saturated by pages which the kernel writes behind the test, while it holds the writers back.
pub(super) fn writeback_fills_line(reading: &Reading<'_>) -> Option<Verdict> {
    let network = reading.system()?.network.as_ref().filter(|_| reading.is_remote)?;
    let reached = reached(network, reading.input.record);
    let line = network
        .line_bytes_per_second
        .filter(|line| bytes_per_second(network, reading.input.record) >= SATURATED * line);
    if reached.is_none() && line.is_none() {
        return None;
    }
    let evidence = seen![
        reading.time_spent(),
        reading.dominant_wait(&[WaitClass::Dirty]),
        line.map(|line| line_use(network, line)),
        reached,
    ];
    let verdict = Verdict::new(Limiter::NetworkBandwidth, reading.budget.blocked, evidence);
    Some(verdict.at_most(Confidence::Likely).advise([Advice::FasterLink {}]))
}

fn line_use(network: &NetworkUse, line: f64) -> Observation {
    let interface = network.interface.as_str().into();
    Observation::LineCarried { interface, bytes_per_second: BytesPerSecond(line) }
}

/// Judges a test on data of a server without experiments. The line's throughput is known if an experiment on another
/// test of the run filled the line. Otherwise, a readable limit may tell it, and a faster test shows that it was not saturated
/// here. Of a buffered stream, the kernel reads ahead and writes behind: several requests are under way whatever the
/// caller's depth, and that depth says nothing.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    if !reading.is_remote
        || reading.input.data().is_none()
        || !is_at_target(reading)
        || reading.load() != LoadEstimate::Untested
    {
        return None;
    }
    let crossed = super::saturation::network(reading);
    let network = reading.system()?.network.as_ref().filter(|_| !crossed.is_empty())?;
    let reached = reached(network, reading.input.record);
    let line = network.line_bytes_per_second;
    let share = line.map(|line| bytes_per_second(network, reading.input.record) / line);
    let moved =
        moved(network, reading.input.record).filter(|(_, share)| line.is_none() && *share < NOT_SATURATED);
    let alternates_directions =
        line.or(moved.map(|moved| moved.0)).is_some_and(|line| alternates_directions(reading, network, line));
    let share = share.or(moved.map(|moved| moved.1));
    let (limiter, advice) = match share {
        _ if reached.is_some() => (Limiter::NetworkBandwidth, Advice::FasterLink {}),
        Some(share) if share >= SATURATED => (Limiter::NetworkBandwidth, Advice::FasterLink {}),
        Some(_) if alternates_directions => (Limiter::Mixed, Advice::DepthUntried {}),
        Some(share) if share < NOT_SATURATED => (Limiter::RemoteLatency, Advice::DepthUntried {}),
        None if !reading.is_stream() => return None,
        _ => (Limiter::RemoteUndetermined, Advice::DepthUntried {}),
    };
    let line_use = line.map(|line| line_use(network, line));
    let moved = moved.map(|(most, share)| Observation::LineMoved {
        interface: network.interface.as_str().into(),
        bytes_per_second: BytesPerSecond(most),
        share: Share(share),
    });
    let evidence = seen![
        reading.time_spent(),
        reading.dominant_wait(&[WaitClass::Remote, WaitClass::Page, WaitClass::Device]),
        crossed,
        line_use,
        moved,
        reached,
    ];
    let blocked = reading.budget.blocked;
    let found = match share.filter(|_| limiter == Limiter::Mixed) {
        // While one direction is busy, the other waits for it.
        Some(busy) => {
            let parts = [(Limiter::NetworkBandwidth, busy), (Limiter::RemoteLatency, 1.0 - busy)];
            Verdict::mixed(parts.map(|(limiter, share)| (limiter, share.clamp(0.0, 1.0) * blocked)), evidence)
        }
        None => Verdict::new(limiter, blocked, evidence),
    };
    Some(found.at_most(Confidence::Likely).advise([advice]))
}
