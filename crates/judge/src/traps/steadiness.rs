//! Whether there is one rate, how well it is known, and what its course tells.

use model::numbers::{amount, latency, percent};
use model::size;

use crate::{Case, Finding};

/// How well a rate must be known where nobody said.
const PRECISION: f64 = 0.05;
/// A rate that falls by this share was kept up by something that ran out.
const DROP: f64 = 0.2;
/// Intervals of a stable limit differ from each other by less than this; devices differ by percents.
const CAP_VARIATION: f64 = 0.005;
/// Fewest intervals of the steady part that tell how much they differ.
const CAP_INTERVALS: usize = 20;
/// Under a limit on the rate, the slowest operations wait for the next slice of it.
const CAP_SPREAD: u64 = 5;

/// Too short to tell how sure the number is.
pub(super) fn too_few_samples(case: &Case<'_>) -> Option<Finding> {
    let is_known = case.half_width().is_some() || not_steady(case).is_some();
    if !case.is_measured() || is_known || case.record.rate.ops_per_second.is_none() {
        return None;
    }
    let record = case.record;
    if has_long_sync(case) {
        return Some(Finding::suspect(format!(
            "the sync at the end took {} of {:.1} s, so it is one observation without an interval. Repeat it with --repeat 3.",
            percent(1.0 - record.rate.last_done_ns as f64 / record.elapsed_ns.max(1) as f64),
            case.seconds()
        )));
    }
    let counted = match case.files() {
        Some(_) => match record.rounds.len() {
            1 => "1 round".to_owned(),
            rounds => format!("{rounds} rounds"),
        },
        None => format!("{:.1} s", case.seconds()),
    };
    let remedy = match case.files() {
        Some(_) => "Ask for fewer files or a longer --time",
        None => longer(case),
    };
    Some(Finding::suspect(format!(
        "{counted} of {} operations are too few to tell how sure the rate is. {remedy}.",
        model::numbers::thousands(record.ops)
    )))
}

/// What makes a test last longer.
fn longer(case: &Case<'_>) -> &'static str {
    match case.phase.stop.time_ns {
        None => "Ask for more operations",
        Some(_) if is_one_pass(case) => "Ask for a larger --size",
        Some(_) if write_limit(case).is_some() => "Raise --write-limit",
        Some(_) => "Ask for a longer --time",
    }
}

/// Whether making everything durable took so long that the rate before it is not the headline.
fn has_long_sync(case: &Case<'_>) -> bool {
    let (whole, durable) = (case.record.rate.whole_ops_per_second, case.record.rate.durable_ops_per_second);
    whole.zip(durable).is_some_and(|(whole, durable)| durable < whole * (1.0 - PRECISION))
}

/// No part of it had one rate for long enough.
pub(super) fn not_steady(case: &Case<'_>) -> Option<Finding> {
    let steady = case.record.steady.as_ref().filter(|steady| !steady.found)?;
    if !case.is_measured() {
        return None;
    }
    let course = match (steady.change_points.first(), steady.change_points.len()) {
        (None, _) => "its rate drifted".to_owned(),
        (Some(first), 1) => format!(
            "its rate went from {} to {} per second after {:.1} s",
            amount(first.before_ops_per_second).unwrap_or_default(),
            amount(first.after_ops_per_second).unwrap_or_default(),
            first.at_ns as f64 / 1e9
        ),
        (Some(first), changes) => {
            let rates = || {
                let after = steady.change_points.iter().map(|change| change.after_ops_per_second);
                std::iter::once(first.before_ops_per_second).chain(after)
            };
            format!(
                "its rate changed {changes} times, between {} and {} per second",
                amount(rates().fold(f64::INFINITY, f64::min)).unwrap_or_default(),
                amount(rates().fold(0.0, f64::max)).unwrap_or_default()
            )
        }
    };
    let text = format!("not steady: {course}, so this is a mean over all of it. {}.", longer(case));
    Some(match case.half_width() {
        Some(_) => Finding::suspect(text),
        None => Finding::invalid(text),
    })
}

/// Known less well than was asked for.
pub(super) fn wide_interval(case: &Case<'_>) -> Option<Finding> {
    let half = case.half_width()?;
    let wanted = case.plan.until.map_or(PRECISION, |until| until.precision);
    // Whoever is told that it has no one rate need not be told how well that is known.
    if half <= wanted || not_steady(case).is_some() || !case.is_measured() {
        return None;
    }
    Some(Finding::suspect(format!(
        "the rate is only known within ± {} of it; {} was wanted. {}.",
        percent(half),
        percent(wanted),
        longer(case)
    )))
}

/// A cache, or a credit, that ran out.
pub(super) fn rate_dropped(case: &Case<'_>) -> Option<Finding> {
    let steady = case.record.steady.as_ref()?;
    let change = steady
        .change_points
        .iter()
        .find(|change| change.after_ops_per_second < change.before_ops_per_second * (1.0 - DROP))?;
    let last = steady.change_points.last()?;
    // What came back was no store that ran out.
    if last.after_ops_per_second > change.before_ops_per_second * (1.0 - DROP) || !case.is_measured() {
        return None;
    }
    let bytes = case.record.workload.block_bytes.filter(|_| change.bytes > 0);
    let (first, then) = (change.before_ops_per_second, last.after_ops_per_second);
    let told = match bytes {
        Some(block) => format!(
            "the first {} went at {}, the rest at {}",
            size::decimal(change.bytes),
            model::numbers::megabytes(first * block as f64).unwrap_or_default(),
            model::numbers::megabytes(then * block as f64).unwrap_or_default()
        ),
        None => format!(
            "for {:.1} s it went at {} per second, then at {}",
            change.at_ns as f64 / 1e9,
            amount(first).unwrap_or_default(),
            amount(then).unwrap_or_default()
        ),
    };
    let is_after = steady.found && record_is_steady(case);
    let row = if is_after { "The row has the rate after it" } else { "The row is a mean over both" };
    Some(Finding::act(format!(
        "{told}: a cache or a credit ran out after {:.1} s. {row}.",
        change.at_ns as f64 / 1e9
    )))
}

/// Whether the headline is the rate of the steady part.
fn record_is_steady(case: &Case<'_>) -> bool {
    case.record.rate.into_cache_ops_per_second.is_none() && case.record.rate.steady_ops_per_second.is_some()
}

/// A rate as even as only a rule makes it.
pub(super) fn rate_capped(case: &Case<'_>) -> Option<Finding> {
    let record = case.record;
    let steady = record.steady.as_ref().filter(|steady| steady.found)?;
    let is_open = record.workload.arrival != "closed_loop";
    if !case.is_measured() || is_open || case.files().is_some() {
        return None;
    }
    // Second by second: slices of a limit and intervals of ours beat against each other.
    let mut rates = Vec::new();
    let (mut ops, mut ns) = (0, 0);
    let inside = |start_ns: u64, end_ns: u64| start_ns >= steady.from_ns && end_ns <= steady.to_ns;
    let mut intervals = 0;
    for interval in &record.intervals {
        if !inside(interval.start_ns, interval.start_ns + interval.length_ns) {
            continue;
        }
        intervals += 1;
        (ops, ns) = (ops + interval.ops, ns + interval.length_ns);
        if ns >= 500_000_000 {
            rates.push(ops as f64 / ns as f64);
            (ops, ns) = (0, 0);
        }
    }
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / rates.len().max(1) as f64;
    let variation = variance.sqrt() / mean;
    let latencies = record.latency_ns.as_ref()?;
    let is_spread = latencies.p50.zip(latencies.p99).is_some_and(|(p50, p99)| p99 > CAP_SPREAD * p50);
    (intervals >= CAP_INTERVALS && rates.len() >= 4 && variation < CAP_VARIATION && is_spread).then(|| {
        Finding::act(format!(
            "half a second differed from another by {} while latencies differ from {} to {}: this looks like a limit that somebody set (cgroup, volume type, provider), not like a device. Look for one.",
            percent(variation),
            latencies.p50.map(latency).unwrap_or_default(),
            latencies.p99.map(latency).unwrap_or_default()
        ))
    })
}

/// Two kinds of operations, of which a mean says nothing.
pub(super) fn several_modes(case: &Case<'_>) -> Option<Finding> {
    let modes = &case.record.latency_ns.as_ref()?.modes;
    if modes.len() < 2 || !case.is_measured() {
        return None;
    }
    let told = modes.iter().map(|mode| format!("{} took {}", percent(mode.share), latency(mode.at_ns)));
    Some(Finding::info(format!("two kinds of operations: {}", told.collect::<Vec<_>>().join(", "))))
}

/// Ended with the set.
pub(super) fn one_pass(case: &Case<'_>) -> Option<Finding> {
    is_one_pass(case).then(|| {
        let why = match case.data().is_some_and(|data| data.writes()) {
            true => "a second would replace in memory what the first left there",
            false => "a second would be served from memory",
        };
        Finding::info(format!(
            "ended after one pass of {:.1} s: {why}; a larger --size lasts longer",
            case.seconds()
        ))
    })
}

fn is_one_pass(case: &Case<'_>) -> bool {
    let is_limited = case.data().is_some_and(|data| data.passes.is_none() && !data.direct);
    is_limited && case.phase.stop.passes == Some(1) && case.record.passes >= 1.0
}

/// Ended with its part of the write limit.
pub(super) fn write_limit(case: &Case<'_>) -> Option<Finding> {
    let limit = case.phase.stop.bytes.filter(|_| case.phase.stop.time_ns.is_some())?;
    (!is_one_pass(case) && case.record.bytes >= limit - limit / 50).then(|| {
        Finding::info(format!(
            "ended after {:.1} s, when it had written its part of the write limit, {}",
            case.seconds(),
            size::decimal(limit)
        ))
    })
}
