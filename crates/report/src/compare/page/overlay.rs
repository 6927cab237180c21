//! Charts of the median runs of all sides, over each other: the rate over time, and latency by percentile.

use model::run::PhaseRecord;

use super::{Page, class, legend, truncation_note};
use crate::html::latency::{curve, percentile, steady_buckets, tick};
use crate::html::timeline::{INTERVALS_MIN, end_s, in_seconds, middle_s};
use crate::html::unit::Unit;
use crate::html::{Figure, Markup};
use crate::numbers::latency;
use draw::{Drawing, Plot, Scale, Side, compact};

/// Maximum number of drawn sides: more lines cannot be distinguished.
const SIDES_MAX: usize = 5;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 168.0;
const LABELS_HEIGHT: f64 = 26.0;
/// Top of the axis, as a multiple of the highest value.
const HEADROOM: f64 = 1.06;

type Points = Vec<(f64, f64)>;

/// Returns the first sides that have points, and the number of all sides that have some.
fn first_series<'a>(
    median_runs: &[Option<&'a PhaseRecord>],
    of: impl Fn(&PhaseRecord) -> Option<Points>,
) -> (Vec<(usize, &'a PhaseRecord, Points)>, usize) {
    let all = median_runs.iter().enumerate().filter_map(|(side, phase)| {
        let phase = (*phase)?;
        Some((side, phase, of(phase)?))
    });
    let mut all: Vec<_> = all.collect();
    let count = all.len();
    all.truncate(SIDES_MAX);
    (all, count)
}

/// The rates of the median runs over time; `None` if no side has enough intervals.
pub(super) fn over_time(page: &Page<'_>, median_runs: &[Option<&PhaseRecord>]) -> Option<Figure> {
    let unit = Unit::from_phase(median_runs.iter().flatten().next()?);
    let (series, count) = first_series(median_runs, |phase| {
        let rate =
            |interval: &model::run::Interval| unit.rate(interval.ops, interval.bytes, interval.length_ns);
        let points: Points =
            phase.figures.intervals.iter().filter_map(|i| Some((middle_s(i), rate(i)?))).collect();
        (points.len() >= INTERVALS_MIN).then_some(points)
    });
    if series.is_empty() {
        return None;
    }
    let end =
        series.iter().flat_map(|(_, phase, _)| phase.figures.intervals.iter().map(end_s)).fold(0.0, f64::max);
    let most =
        series.iter().flat_map(|(_, _, points)| points.iter().map(|(_, rate)| *rate)).fold(0.0, f64::max);
    let parts: Vec<_> = series
        .iter()
        .map(|(side, phase, points)| rate_text(&page.short_name(*side), phase, unit, points))
        .collect();
    let caption = format!("{}.{}", parts.join("; "), truncation_note(series.len(), count));
    let name = "Rate over time, median runs".to_owned();
    let mut drawing = Drawing::new(BOTTOM + LABELS_HEIGHT, &name, &caption);
    let x = Side { scale: Scale::linear(0.0, end, Plot::X_RANGE), ticks: 6, label: in_seconds };
    let plot = Plot::new(x, [TOP, BOTTOM], |y_range| Side {
        scale: Scale::linear(0.0, most * HEADROOM, y_range),
        ticks: 5,
        label: compact,
    });
    plot.axes(&mut drawing, unit.name(), true);
    for (side, _, points) in &series {
        plot.line(&mut drawing, &format!("l {}", class(*side)), points);
    }
    let sides = series.iter().map(|(side, ..)| *side);
    Some(Figure { name, drawing: Markup(drawing.finish()), legend: legend(page, sides), caption })
}

/// Describes the course of a run: "before: steady at 6,881 MB/s".
fn rate_text(name: &str, phase: &PhaseRecord, unit: Unit, points: &Points) -> String {
    let [low, high] = [f64::min, f64::max]
        .map(|pick| points.iter().map(|(_, rate)| *rate).reduce(pick).unwrap_or_default());
    let range = format!("between {} and {}", unit.format_rate(low), unit.format_rate(high));
    match &phase.figures.steady {
        _ if !phase.figures.rounds.is_empty() => {
            format!("{name}: {} rounds of new files, {range} within rounds", phase.figures.rounds.len())
        }
        Some(steady) if steady.is_steady => {
            let rate = phase
                .figures
                .rate
                .steady_ops_per_second
                .map(|rate| unit.format_rate(unit.rate_from_ops(phase, rate)));
            format!("{name}: steady{}", rate.map_or(String::new(), |rate| format!(" at {rate}")))
        }
        Some(_) => format!("{name}: not steady, {range}"),
        None => format!("{name}: too short for a steady state, {range}"),
    }
}

/// The latencies of the median runs; `None` if no side has them.
pub(super) fn latencies(page: &Page<'_>, median_runs: &[Option<&PhaseRecord>]) -> Option<Figure> {
    let (series, count) = first_series(median_runs, |phase| {
        phase.figures.latency_ns.as_ref()?;
        let points = curve(&steady_buckets(phase));
        (points.len() >= 3).then_some(points)
    });
    if series.is_empty() {
        return None;
    }
    let all = || series.iter().flat_map(|(_, _, points)| points.iter().copied());
    let last = all().map(|(one_in, _)| one_in).fold(10.0, f64::max);
    let [low, high] = [f64::min, f64::max].map(|pick| all().map(|(_, ns)| ns).reduce(pick).unwrap_or(1.0));
    let caption = format!("{}{}", latency_caption(page, &series), truncation_note(series.len(), count));
    let name = "Latency by percentile, median runs".to_owned();
    let mut drawing = Drawing::new(BOTTOM + LABELS_HEIGHT, &name, &caption);
    let x = Side {
        scale: Scale::log(1.0, last * 1.3, Plot::X_RANGE),
        ticks: last.log10().ceil() as usize + 1,
        label: percentile,
    };
    let plot = Plot::new(x, [TOP, BOTTOM], |y_range| Side {
        scale: Scale::log(low / 1.1, high * 1.1, y_range),
        ticks: 6,
        label: tick,
    });
    plot.axes(&mut drawing, "both axes log", true);
    for (side, _, points) in &series {
        plot.line(&mut drawing, &format!("l {}", class(*side)), points);
    }
    for (side, phase, _) in &series {
        let known = phase
            .figures
            .latency_ns
            .as_ref()
            .map(|whole| [("p50", 2.0, whole.p50), ("p99", 100.0, whole.p99)]);
        for (percentile, one_in, ns) in known.into_iter().flatten() {
            let Some(ns) = ns.filter(|_| one_in <= last) else { continue };
            let (x, y) = plot.place((one_in, ns as f64));
            drawing.dot(
                &format!("p {}", class(*side)),
                x,
                y,
                &format!("{} {percentile}: {}", page.short_name(*side), latency(ns)),
            );
        }
    }
    let sides = series.iter().map(|(side, ..)| *side);
    Some(Figure { name, drawing: Markup(drawing.finish()), legend: legend(page, sides), caption })
}

fn latency_caption(page: &Page<'_>, series: &[(usize, &PhaseRecord, Points)]) -> String {
    let each = |of: fn(&model::run::Latency) -> Option<u64>| -> Option<String> {
        let parts: Option<Vec<_>> = series
            .iter()
            .map(|(side, phase, _)| {
                Some(format!(
                    "{} on {}",
                    latency(of(phase.figures.latency_ns.as_ref()?)?),
                    page.short_name(*side)
                ))
            })
            .collect();
        Some(parts?.join(", "))
    };
    match (each(|whole| whole.p50), each(|whole| whole.p99)) {
        (Some(p50), Some(p99)) => format!("p50 {p50}; p99 {p99}."),
        (Some(p50), None) => format!("p50 {p50}."),
        (None, _) => {
            let slowest = each(|whole| Some(whole.max)).unwrap_or_default();
            format!("Too few operations for percentiles; the slowest took {slowest}.")
        }
    }
}
