//! Whether there is one rate, how well it is known, and what its course tells.

use model::numbers::{MISSING, amount, latency, megabytes, percent};
use model::run::Interval;
use model::size;

use crate::{Case, Finding};

/// How well a rate must be known where nobody said.
const PRECISION: f64 = 0.05;
/// A rate that falls by this share was kept up by something that ran out.
const DROP: f64 = 0.2;
/// How much wider than wanted an interval may be: a test ends as soon as it is narrow enough, and what its last
/// operations add may widen it a little.
const SLACK: f64 = 1.25;
/// Fewest intervals of the time axis that can be called steady.
const STEADY_INTERVALS: usize = 20;
/// An interval of the rate with half of its width above this share is why there is no steady part.
const HALF_WIDTH_MAX: f64 = 0.25;
/// Half seconds under a limit differ from each other by less than this; those of devices differ by percents.
const CAP_VARIATION: f64 = 0.005;
/// Half seconds that tell how much they differ.
const CAP_HALVES: usize = 4;
/// So many times less than operations with these latencies would vary if each had its latency from the device.
const CAP_EVENNESS: f64 = 5.0;
/// Under a limit, the slowest operations wait for the next slice of it, which is a matter of milliseconds.
const CAP_SPREAD: u64 = 20;

/// Too short to tell how sure the number is.
pub(super) fn too_few_samples(case: &Case<'_>) -> Option<Finding> {
    if case.rate_is_given() || case.record.rate.ops_per_second.is_none() {
        return None;
    }
    let (record, is_short) = (case.record, is_short(case));
    if !is_short && (case.half_width().is_some() || not_steady(case).is_some() || is_older(case)) {
        return None;
    }
    // All bytes over all the time is what it says, though nobody knows how far another would lie from it.
    if has_long_sync(case) || record.rate.into_cache_ops_per_second.is_some() {
        return Some(Finding::info(format!(
            "the sync at the end took {} of {:.1} s, so the rate is one observation without an interval; --repeat 3 shows how far others lie from it",
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
    let remedy = match (case.files(), case.phase.stop.passes) {
        (Some(_), Some(_)) => "Ask for more --files",
        (Some(_), None) => "Ask for fewer files or a longer --time",
        (None, _) => longer(case),
    };
    Some(Finding::suspect(format!(
        "{counted} of {} operations are too few to tell how sure the rate is. {remedy}.",
        model::numbers::thousands(record.ops)
    )))
}

/// Whether no steady part was found because there was no time for one, and for no other reason.
fn is_short(case: &Case<'_>) -> bool {
    let Some(steady) = case.record.steady.as_ref().filter(|steady| !steady.found) else { return false };
    let ended = |interval: &&Interval| interval.start_ns.saturating_add(interval.length_ns) <= steady.to_ns;
    let intervals = case.record.intervals.iter().filter(ended).count();
    steady.change_points.is_empty() && intervals < STEADY_INTERVALS
}

/// Whether it is of a version that did not look for a steady part.
fn is_older(case: &Case<'_>) -> bool {
    let record = case.record;
    record.steady.is_none() && record.rounds.is_empty() && record.intervals.len() >= STEADY_INTERVALS
}

/// What makes a test last longer.
fn longer(case: &Case<'_>) -> &'static str {
    match case.phase.stop.time_ns {
        None if case.data().is_some_and(|data| data.fresh) => "Ask for a larger --size",
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
    // What memory took is not the number of the row.
    let is_cached = case.record.rate.into_cache_ops_per_second.is_some();
    let is_elsewhere = is_short(case) || case.rate_is_given() || (is_cached && has_long_sync(case));
    if is_elsewhere {
        return None;
    }
    let course = match (steady.change_points.first(), steady.change_points.len()) {
        (None, _) => match case.half_width().filter(|half| *half > HALF_WIDTH_MAX) {
            Some(half) => format!("its rate is only known within ± {} of it", percent(half)),
            None => format!("its rate drifted for {:.1} s", case.seconds()),
        },
        (Some(first), 1) => format!(
            "its rate went from {} to {} per second after {:.1} s",
            shown(amount(first.before_ops_per_second)),
            shown(amount(first.after_ops_per_second)),
            first.at_ns as f64 / 1e9
        ),
        (Some(first), changes) => {
            let rates = || {
                let after = steady.change_points.iter().map(|change| change.after_ops_per_second);
                std::iter::once(first.before_ops_per_second).chain(after)
            };
            format!(
                "its rate changed {changes} times, between {} and {} per second",
                shown(amount(rates().fold(f64::INFINITY, f64::min))),
                shown(amount(rates().fold(0.0, f64::max)))
            )
        }
    };
    let text = format!("not steady: {course}, so this is a mean over all of it. {}.", longer(case));
    Some(match case.half_width() {
        None if !is_cached => Finding::invalid(text),
        _ => Finding::suspect(text),
    })
}

/// A figure, or that it is none.
fn shown(figure: Option<String>) -> String {
    figure.unwrap_or_else(|| MISSING.into())
}

/// Known less well than was asked for.
pub(super) fn wide_interval(case: &Case<'_>) -> Option<Finding> {
    let half = case.half_width()?;
    let wanted = case.plan.until.map_or(PRECISION, |until| until.precision);
    // Whoever is told that it has no one rate need not be told how well that is known.
    let is_told = not_steady(case).is_some() || too_few_samples(case).is_some();
    if half <= wanted * SLACK || is_told || case.rate_is_given() {
        return None;
    }
    Some(Finding::suspect(format!(
        "the rate is only known within ± {} of it; {} was wanted. {}.",
        percent(half),
        percent(wanted),
        longer(case)
    )))
}

/// A single run on a disk that the guests of a host share.
pub(super) fn one_run(case: &Case<'_>) -> Option<Finding> {
    let is_shared = case.environment.virtualisation.is_some() && case.is_on_devices();
    let half = case.half_width()?;
    (is_shared && case.plan.repetitions == 1 && !case.rate_is_given()).then(|| {
        Finding::info(format!(
            "± {} is of this run; on a disk of a virtual machine another run may lie further away, which --repeat 3 shows",
            percent(half)
        ))
    })
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
    if last.after_ops_per_second > change.before_ops_per_second * (1.0 - DROP) {
        return None;
    }
    // Who takes a share of the device takes it from the rate.
    if super::disturbance::foreign_io(case).is_some() {
        return None;
    }
    let bytes = case.record.workload.block_bytes.filter(|_| change.bytes > 0);
    let (first, then) = (change.before_ops_per_second, last.after_ops_per_second);
    let told = match bytes {
        Some(block) => format!(
            "the first {} went at {}, the rest at {}",
            size::decimal(change.bytes),
            shown(megabytes(first * block as f64)),
            shown(megabytes(then * block as f64))
        ),
        None => format!(
            "for {:.1} s it went at {} per second, then at {}",
            change.at_ns as f64 / 1e9,
            shown(amount(first)),
            shown(amount(then))
        ),
    };
    if case.record.rate.into_cache_ops_per_second.is_some() {
        return Some(Finding::info(format!(
            "{told}: after {:.1} s memory was full of what waits to be written. The row has all of it, with the sync",
            change.at_ns as f64 / 1e9
        )));
    }
    let is_after = steady.found && case.record.rate.steady_ops_per_second.is_some();
    let row = if is_after { "The row has the rate after it" } else { "The row is a mean over both" };
    Some(Finding::act(format!(
        "{told}: a cache or a credit ran out after {:.1} s. {row}.",
        change.at_ns as f64 / 1e9
    )))
}

/// A rate more even than its own latencies allow, which only a rule makes.
pub(super) fn rate_capped(case: &Case<'_>) -> Option<Finding> {
    let record = case.record;
    let steady = record.steady.as_ref().filter(|steady| steady.found)?;
    let is_closed = record.workload.arrival == "closed_loop";
    if !is_closed || case.data().is_none() {
        return None;
    }
    let latencies = record.latency_ns.as_ref()?;
    let (p50, p99) = latencies.p50.zip(latencies.p99)?;
    let is_inside = |interval: &&Interval| {
        interval.start_ns >= steady.from_ns
            && interval.start_ns.saturating_add(interval.length_ns) <= steady.to_ns
    };
    let inside: Vec<&Interval> = record.intervals.iter().filter(is_inside).collect();
    // By half seconds: slices of a limit and intervals of ours beat against each other.
    let (mut rates, mut counts) = (Vec::new(), Vec::new());
    let (mut ops, mut ns) = (0.0, 0.0);
    for interval in &inside {
        (ops, ns) = (ops + interval.ops as f64, ns + interval.length_ns as f64);
        if ns >= 5e8 {
            rates.push((ops / ns, 1.0));
            counts.push((ops, 1.0));
            (ops, ns) = (0.0, 0.0);
        }
    }
    let varies = typical_variation(rates.iter().map(|(rate, _)| *rate).collect())?;
    // If each operation took its time in the device, counts of them would vary by this.
    let buckets: Vec<(f64, f64)> = inside
        .iter()
        .flat_map(|interval| &interval.histogram)
        .map(|(upper_ns, count)| (*upper_ns as f64, *count as f64))
        .collect();
    let ops_mean = counts.iter().map(|(ops, _)| ops).sum::<f64>() / counts.len() as f64;
    let expected = variation(&buckets)? / ops_mean.sqrt();
    let is_even = varies < CAP_VARIATION && varies * CAP_EVENNESS < expected;
    (rates.len() >= CAP_HALVES && is_even && p99 > CAP_SPREAD.saturating_mul(p50)).then(|| {
        Finding::act(format!(
            "half a second differed from another by {} while latencies differ from {} to {}: this looks like a limit that somebody set (cgroup, volume type, provider), not like a device. Look for one.",
            percent(varies),
            latency(p50),
            latency(p99)
        ))
    })
}

/// How far half of the values lie from their median, as a share of it, scaled to a standard deviation. One lot of a limit
/// that falls to the other side of a boundary moves two values far, and this not at all.
fn typical_variation(mut values: Vec<f64>) -> Option<f64> {
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let middle = median(&mut values)?;
    let mut distances = values.iter().map(|value| (value - middle).abs()).collect();
    median(&mut distances)
        .map(|distance| 1.4826 * distance / middle)
        .filter(|variation| variation.is_finite())
}

/// Standard deviation over mean of values with weights; `None` where there is none.
fn variation(weighted: &[(f64, f64)]) -> Option<f64> {
    let weight: f64 = weighted.iter().map(|(_, weight)| weight).sum();
    let mean = weighted.iter().map(|(value, weight)| value * weight).sum::<f64>() / weight;
    let squares: f64 = weighted.iter().map(|(value, weight)| weight * (value - mean).powi(2)).sum();
    let variation = (squares / weight).sqrt() / mean;
    variation.is_finite().then_some(variation)
}

/// Two kinds of operations, of which a mean says nothing.
pub(super) fn several_modes(case: &Case<'_>) -> Option<Finding> {
    let modes = &case.record.latency_ns.as_ref()?.modes;
    if modes.len() < 2 {
        return None;
    }
    let told = modes.iter().map(|mode| format!("{} took {}", percent(mode.share), latency(mode.at_ns)));
    let kinds = if modes.len() == 2 { "two".to_owned() } else { modes.len().to_string() };
    Some(Finding::info(format!("{kinds} kinds of operations: {}", told.collect::<Vec<_>>().join(", "))))
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
