//! Charts that show how near a test comes to known limits, and where the time of its threads went.

use std::cmp::Reverse;

use model::numbers::rank;
use model::run::{PhaseRecord, TimeBreakdown};

use super::{Figure, Markup};
use crate::numbers::{amount, percent};
use crate::printable;
use draw::{Bar, Part, bars, stacked};

/// If a rate reaches this share of the rate of skye's own loop, skye is the limit. The limiter of that name has the
/// same threshold.
const OWN_LOOP_SHARE_MIN: f64 = 0.7;
/// Share at which a limit counts as saturated.
const FULL: f64 = 0.9;
/// Maximum number of shown limits; the nearest come first.
const LIMITS_MAX: usize = 6;

/// Kinds of limits whose texts differ when they are saturated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitKind {
    Memory,
    Device,
    Cpus,
    Other,
}

/// The chart of limits; `None` if no limit is known.
pub(super) fn limits(phase: &PhaseRecord) -> Option<Figure> {
    let mut all: Vec<(f64, LimitKind, String)> = Vec::new();
    let mut add = |what: LimitKind, share: Option<f64>, name: String| {
        all.extend(share.filter(|share| share.is_finite() && *share >= 0.0).map(|share| (share, what, name)));
    };
    let whole = phase.figures.rate.overall_ops_per_second;
    // The limit that the share refers to, as the judge saw it.
    let of = |share: Option<f64>| match whole
        .zip(share.filter(|share| *share > 0.0))
        .map(|(rate, share)| rate / share)
    {
        Some(rate) => amount(rate).map_or(String::new(), |rate| format!(", {rate}/s")),
        None => String::new(),
    };
    if let Some(shares) = &phase.figures.ceiling_shares {
        add(LimitKind::Other, shares.own_loop, format!("skye's loop without I/O{}", of(shares.own_loop)));
        add(LimitKind::Memory, shares.memory, format!("the same calls on memory{}", of(shares.memory)));
    }
    let seconds = phase.counts.elapsed_ns as f64 / 1e9;
    if let Some(system) = &phase.seen.system {
        for cap in &system.caps {
            let bytes =
                if cap.is_read { phase.counts.app_bytes_read } else { phase.counts.app_bytes_written };
            let share = match (cap.ops_per_second, cap.bytes_per_second) {
                (Some(ops), _) if bytes > 0 => whole.map(|rate| rate / ops),
                (_, Some(limit)) if bytes > 0 => Some(bytes as f64 / seconds / limit),
                _ => None,
            };
            add(LimitKind::Other, share, format!("{}, {}", printable(&cap.source), printable(&cap.device)));
        }
        if let Some(network) = &system.network {
            let bits = network.sent_bytes.max(network.received_bytes) as f64 * 8.0 / seconds;
            let share = network.speed_bits_per_second.map(|speed| bits / speed as f64);
            add(LimitKind::Other, share, format!("network {}", printable(&network.interface)));
        }
    }
    add(
        LimitKind::Device,
        busy(phase),
        format!("time with requests in flight at {}", device(phase).unwrap_or_else(|| "the device".into())),
    );
    add(
        LimitKind::Cpus,
        phase.seen.cpu.as_ref().map(|cpu| cpu.user + cpu.kernel + cpu.steal),
        "all CPUs of the machine".into(),
    );
    if all.is_empty() {
        return None;
    }
    all.sort_by_cached_key(|(of, ..)| Reverse(rank(*of)));
    all.truncate(LIMITS_MAX);
    let all_bars: Vec<_> = all
        .iter()
        .map(|(share, _, name)| Bar {
            name: name.clone(),
            value: *share,
            value_text: percent(*share),
            class: if *share >= FULL { "s1" } else { "s0" },
            title: format!("{name}: {}", percent(*share)),
        })
        .collect();
    let name = "Utilisation of known limits".to_owned();
    let caption = caption(phase, &all);
    let drawing = Markup(bars(&name, &caption, &all_bars, 1.0, true));
    Some(Figure { name, drawing, legend: Vec::new(), caption })
}

fn caption(phase: &PhaseRecord, all: &[(f64, LimitKind, String)]) -> String {
    let own = phase.figures.ceiling_shares.as_ref().and_then(|shares| shares.own_loop);
    if own.is_some_and(|own| own >= OWN_LOOP_SHARE_MIN) {
        return "Near the maximum of skye itself: this is not the speed of the storage.".into();
    }
    let (share, what, name) = &all[0];
    let share_text = percent(*share);
    match what {
        _ if *share < FULL => format!("No known limit is saturated; nearest is {name}, {share_text}."),
        LimitKind::Memory => {
            format!(
                "As fast as the same calls on memory ({share_text}): this is not the speed of the storage."
            )
        }
        LimitKind::Device => format!(
            "The device always had requests ({share_text}); a parallel device may still have headroom."
        ),
        LimitKind::Cpus => format!("All CPUs of the machine were busy ({share_text})."),
        LimitKind::Other => format!("Saturated: {name}, {share_text}."),
    }
}

/// Name of the device whose counters are shown: the mounted one.
pub(super) fn device(phase: &PhaseRecord) -> Option<String> {
    let named = phase.seen.device.as_ref().map(|device| &device.name);
    let first = || {
        phase
            .figures
            .intervals
            .iter()
            .find_map(|interval| Some(&interval.frame.as_ref()?.devices.first()?.name))
    };
    named.or_else(first).map(|name| printable(name))
}

/// Share of the time in which the device was busy.
fn busy(phase: &PhaseRecord) -> Option<f64> {
    let frames = phase.figures.intervals.iter().filter_map(|interval| {
        let device = interval.frame.as_ref()?.devices.first()?;
        Some((device.busy_ns as f64, interval.length_ns as f64))
    });
    let (busy, length) = frames.fold((0.0, 0.0), |sum, (busy, length)| (sum.0 + busy, sum.1 + length));
    (length > 0.0).then(|| (busy / length).min(1.0))
}

/// The chart of the threads' time; `None` if the kernel hides it.
pub(super) fn budget(phase: &PhaseRecord) -> Option<Figure> {
    let TimeBreakdown { user, kernel, run_queue, quota, steal, blocked } = phase.seen.budget.as_ref()?;
    let parts = [
        ("asleep", *blocked, "s5"),
        ("in the kernel", *kernel, "s1"),
        ("in skye", *user, "s2"),
        ("waiting for a CPU", *run_queue, "s3"),
        ("throttled by a quota", quota.unwrap_or(0.0), "s4"),
        ("taken by the hypervisor", *steal, "s6"),
    ];
    // Smaller shares cannot be seen.
    let parts: Vec<_> = parts
        .into_iter()
        .filter(|(_, share, _)| share.is_finite() && *share >= 0.0005)
        .map(|(name, share, class)| Part { name, share, value_text: percent(share), class })
        .collect();
    if parts.is_empty() {
        return None;
    }
    let legend =
        parts.iter().map(|part| (part.class, format!("{} {}", part.name, part.value_text))).collect();
    let most = parts.iter().max_by(|a, b| a.share.total_cmp(&b.share)).map(|part| (part.name, part.share));
    let caption = match most {
        Some((name, share)) if share >= 0.5 => {
            format!("Its threads were {} for most of the time.", wording(name))
        }
        Some((name, _)) => {
            format!("No state takes half of the time; the largest share goes {}.", where_time_goes(name))
        }
        None => String::new(),
    };
    let name = "Time of its threads".to_owned();
    let drawing = Markup(stacked(&name, &caption, &parts));

    Some(Figure { name, drawing, legend, caption })
}

fn wording(name: &str) -> &str {
    match name {
        "in the kernel" => "on a CPU in the kernel",
        "in skye" => "on a CPU in skye's own code",
        name => name,
    }
}

fn where_time_goes(name: &str) -> &str {
    match name {
        "asleep" => "into sleep",
        "in the kernel" => "into the kernel",
        "in skye" => "into skye's own code",
        "waiting for a CPU" => "into waiting for a CPU",
        "throttled by a quota" => "to the quota",
        _ => "to the hypervisor",
    }
}
