//! The rate of a test over time, and below it the activity of the machine.

use crate::numbers::percent;
use model::run::{Frame, Interval, PhaseRecord};

use super::unit::Unit;
use super::{Figure, Markup, ceiling_notes};
use crate::numbers::{amount, latency};
use draw::{Drawing, Plot, Scale, Side, compact};

/// Maximum number of columns with tooltips.
const COLUMNS_MAX: usize = 40;
/// Heights of the rate, of each track below it, of the text above each, and of the labels at the bottom.
const RATE_HEIGHT: f64 = 108.0;
const TRACK_HEIGHT: f64 = 40.0;
const HEAD: f64 = 26.0;
const LABELS_HEIGHT: f64 = 26.0;
/// Top of an axis, as a multiple of its highest value.
const HEADROOM: f64 = 1.06;
/// Minimum number of intervals for a line.
pub(crate) const INTERVALS_MIN: usize = 3;

/// A chart below the rate, over the same time.
struct Track {
    name: String,
    points: Vec<(f64, f64)>,
    /// Points and name of a second line.
    second: Option<(Vec<(f64, f64)>, &'static str)>,
    most: f64,
    label: fn(f64) -> String,
}

/// Returns the intervals whose rate means something. In a last moment, operations end and none begins.
fn full_intervals(intervals: &[Interval]) -> &[Interval] {
    match intervals {
        [rest @ .., last] if rest.last().is_some_and(|before| last.length_ns < before.length_ns / 2) => rest,
        all => all,
    }
}

/// The figure; `None` if there are too few intervals. A small one shows only the rate.
pub(super) fn figure(phase: &PhaseRecord, is_small: bool) -> Option<Figure> {
    let unit = Unit::from_phase(phase);
    let rate = |interval: &Interval| unit.rate(interval.ops, interval.bytes, interval.length_ns);
    let rates: Vec<_> = full_intervals(&phase.figures.intervals)
        .iter()
        .filter_map(|i| Some((middle_s(i), rate(i)?)))
        .collect();
    if rates.len() < INTERVALS_MIN {
        return None;
    }
    let tracks = if is_small { Vec::new() } else { tracks(phase) };
    let end_s = phase.figures.intervals.iter().map(end_s).fold(0.0, f64::max);
    let height = HEAD + RATE_HEIGHT + tracks.len() as f64 * (HEAD + TRACK_HEIGHT) + LABELS_HEIGHT;
    let caption = caption(phase, unit, &rates);
    let name = "Rate over time".to_owned();
    let mut drawing = Drawing::new(height, &name, &caption);
    let x = Side { scale: Scale::linear(0.0, end_s, Plot::X_RANGE), ticks: 6, label: in_seconds };
    let most = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let top = Plot::new(x, [HEAD, HEAD + RATE_HEIGHT], |y_range| Side {
        scale: Scale::linear(0.0, most * HEADROOM, y_range),
        ticks: 5,
        label: compact,
    });
    let below: Vec<_> = (0..)
        .zip(&tracks)
        .map(|(index, track)| {
            let top = HEAD + RATE_HEIGHT + HEAD + f64::from(index) * (HEAD + TRACK_HEIGHT);
            Plot::new(x, [top, top + TRACK_HEIGHT], |y_range| Side {
                scale: Scale::linear(0.0, track.most * HEADROOM, y_range),
                ticks: 3,
                label: track.label,
            })
        })
        .collect();
    let steady = phase.figures.steady.as_ref().filter(|steady| steady.is_steady);
    if let Some(steady) = steady {
        let [from, to] = [steady.from_ns, steady.to_ns].map(|ns| ns as f64 / 1e9);
        for plot in std::iter::once(&top).chain(&below) {
            plot.span(&mut drawing, "steady", from, to, "");
        }
    }
    top.axes(&mut drawing, unit.name(), below.is_empty());
    top.line(&mut drawing, "l s0", &rates);
    for (index, (plot, track)) in below.iter().zip(&tracks).enumerate() {
        plot.axes(&mut drawing, &track.name, index + 1 == tracks.len());
        plot.area(&mut drawing, "f s0", &track.points);
        if let Some((points, _)) = &track.second {
            plot.area(&mut drawing, "f s1", points);
        }
    }
    for change in phase.figures.steady.iter().flat_map(|steady| &steady.change_points) {
        let rate_texts = [change.before_ops_per_second, change.after_ops_per_second]
            .map(|rate| unit.format_rate(unit.rate_from_ops(phase, rate)));
        let at_s = change.at_ns as f64 / 1e9;
        let title = format!("{} s: from {} to {}", seconds(at_s), rate_texts[0], rate_texts[1]);
        top.vertical_line(&mut drawing, "change", at_s, &title);
    }
    if !is_small {
        columns(&mut drawing, phase, unit, below.last().unwrap_or(&top).y_range()[1]);
    }
    let legend = legend(phase, &tracks);
    Some(Figure { name, drawing: Markup(drawing.finish()), legend, caption })
}

/// Lists the classes of the drawing that need an explanation.
fn legend(phase: &PhaseRecord, tracks: &[Track]) -> Vec<(&'static str, String)> {
    let mut legend = Vec::new();
    if phase.figures.steady.as_ref().is_some_and(|steady| steady.is_steady) {
        legend.push(("steady", "steady part".to_owned()));
    }
    if phase.figures.steady.as_ref().is_some_and(|steady| !steady.change_points.is_empty()) {
        legend.push(("change", "the rate changed".to_owned()));
    }
    legend.extend(
        tracks.iter().find_map(|track| track.second.as_ref()).map(|(_, name)| ("s1", (*name).to_owned())),
    );
    legend
}

/// The middle of an interval in seconds after the start of its test.
pub(crate) fn middle_s(interval: &Interval) -> f64 {
    (interval.start_ns as f64 + interval.length_ns as f64 / 2.0) / 1e9
}

/// The end of an interval in seconds after the start of its test.
pub(crate) fn end_s(interval: &Interval) -> f64 {
    (interval.start_ns as f64 + interval.length_ns as f64) / 1e9
}

fn seconds(s: f64) -> String {
    let text = format!("{s:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats seconds at a tick: "2.5 s".
pub(crate) fn in_seconds(s: f64) -> String {
    format!("{} s", seconds(s))
}

fn axis_percent(value: f64) -> String {
    format!("{value:.0} %")
}

fn tracks(phase: &PhaseRecord) -> Vec<Track> {
    let over_time = |value: fn(&Frame) -> Option<u64>| -> Vec<(f64, f64)> {
        let value = |interval: &Interval| {
            let length = interval.length_ns as f64;
            let value = value(interval.frame.as_ref()?)? as f64 / length;
            (length > 0.0).then_some((middle_s(interval), value))
        };
        phase.figures.intervals.iter().filter_map(value).collect()
    };
    let most = |points: &[(f64, f64)]| points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let mut tracks = Vec::new();
    let device = ceiling_notes::device(phase).unwrap_or_else(|| "device".into());
    let busy = over_time(|frame| Some(frame.devices.first()?.busy_ns));
    if !busy.is_empty() {
        let points = busy.into_iter().map(|(at, share)| (at, (share * 100.0).min(100.0))).collect();
        tracks.push(Track {
            name: format!("{device} busy"),
            points,
            second: None,
            most: 100.0,
            label: axis_percent,
        });
    }
    let queued = over_time(|frame| Some(frame.devices.first()?.in_flight_ns));
    if !queued.is_empty() {
        let most = most(&queued).max(1.0);
        tracks.push(Track {
            name: format!("requests in flight at {device}"),
            points: queued,
            second: None,
            most,
            label: compact,
        });
    }
    let cpu = over_time(|frame| frame.cpu.user_ns.checked_add(frame.cpu.kernel_ns));
    if !cpu.is_empty() {
        let workers = over_time(|frame| Some(frame.workers.cpu_ns));
        let most = most(&cpu).max(1.0);
        let second = Some((workers, "this test's threads"));
        tracks.push(Track {
            name: "CPUs busy in the whole machine".into(),
            points: cpu,
            second,
            most,
            label: compact,
        });
    }
    tracks
}

/// Draws transparent columns over all tracks. Pointing at a column shows its line, and its values as a tooltip.
fn columns(drawing: &mut Drawing, phase: &PhaseRecord, unit: Unit, bottom: f64) {
    let all = &phase.figures.intervals;
    let end = all.iter().map(end_s).fold(0.0, f64::max);
    let x = Scale::linear(0.0, end, Plot::X_RANGE);
    for part in all.chunks(all.len().div_ceil(COLUMNS_MAX).max(1)) {
        let [.., last] = part else { continue };
        let (from, to) = (part[0].start_ns as f64 / 1e9, end_s(last));
        let (left, right) = (x.place(from), x.place(to));
        drawing.area(
            "at",
            [left, HEAD, (right - left).max(0.5), bottom - HEAD],
            &tooltip(part, unit, from, to),
        );
    }
}

fn tooltip(part: &[Interval], unit: Unit, from: f64, to: f64) -> String {
    let sum =
        |value: &dyn Fn(&Interval) -> u64| part.iter().map(|interval| value(interval) as f64).sum::<f64>();
    let [ops, bytes, length] = [sum(&|i| i.ops), sum(&|i| i.bytes), sum(&|i| i.length_ns)];
    let mut text = format!("{} to {} s", seconds(from), seconds(to));
    if let Some(rate) = unit.rate(ops as u64, bytes as u64, length as u64) {
        text.push_str(&format!(": {}", unit.format_rate(rate)));
    }
    let framed = |value: &dyn Fn(&Frame) -> Option<f64>| {
        let of = |interval: &Interval| Some((value(interval.frame.as_ref()?)?, interval.length_ns as f64));
        let (value, length) = part
            .iter()
            .filter_map(of)
            .fold((0.0, 0.0), |sum, (value, length)| (sum.0 + value, sum.1 + length));
        (length > 0.0).then_some(value / length)
    };
    if let Some(busy) = framed(&|frame| Some(frame.devices.first()?.busy_ns as f64)) {
        text.push_str(&format!(", {} busy", percent(busy.min(1.0))));
    }
    if let Some(queued) = framed(&|frame| Some(frame.devices.first()?.in_flight_ns as f64)) {
        text.push_str(&format!(", {} in flight", amount(queued).unwrap_or_default()));
    }
    if let Some(cpus) = framed(&|frame| Some(frame.cpu.user_ns as f64 + frame.cpu.kernel_ns as f64)) {
        text.push_str(&format!(", {} CPUs", amount(cpus).unwrap_or_default()));
    }
    text
}

fn caption(phase: &PhaseRecord, unit: Unit, rates: &[(f64, f64)]) -> String {
    let [low, high] =
        [f64::min, f64::max].map(|pick| rates.iter().map(|(_, rate)| *rate).reduce(pick).unwrap_or(0.0));
    if !phase.figures.rounds.is_empty() {
        return rounds(phase, unit);
    }
    let Some(steady) = &phase.figures.steady else {
        if !phase.figures.zones.is_empty() {
            return format!(
                "Zones in sequence: between {} and {}.",
                unit.format_rate(low),
                unit.format_rate(high)
            );
        }
        return format!(
            "Too short for a steady state: {} intervals, between {} and {}.",
            rates.len(),
            unit.format_rate(low),
            unit.format_rate(high)
        );
    };
    let changes = match steady.change_points.len() {
        0 => String::new(),
        1 => "; one earlier change".to_owned(),
        count => format!("; {count} earlier changes"),
    };
    if steady.is_steady {
        let rate = phase.figures.rate.steady_ops_per_second.map(|rate| unit.rate_from_ops(phase, rate));
        let at = rate.map_or(String::new(), |rate| format!(" at {}", unit.format_rate(rate)));
        return match steady.from_ns {
            0 if steady.change_points.is_empty() => format!("Steady from the start{at}."),
            from_ns => format!("Steady after {}{at}{changes}.", latency(from_ns)),
        };
    }
    let changed = match steady.change_points.as_slice() {
        [] => String::new(),
        [one] => {
            let [from, to] = [one.before_ops_per_second, one.after_ops_per_second]
                .map(|rate| unit.format_rate(unit.rate_from_ops(phase, rate)));
            format!(" It changed from {from} to {to} at {}.", latency(one.at_ns))
        }
        [.., last] => {
            format!(" It changed {} times, last at {}.", steady.change_points.len(), latency(last.at_ns))
        }
    };
    format!("Not steady: between {} and {}.{changed}", unit.format_rate(low), unit.format_rate(high))
}

/// Returns the caption for a test on files. The time between its rounds is not measured, so only rounds have a rate.
fn rounds(phase: &PhaseRecord, unit: Unit) -> String {
    let rates: Vec<_> =
        phase.figures.rounds.iter().filter_map(|round| unit.rate(round.ops, 0, round.elapsed_ns)).collect();
    let ends = [f64::min, f64::max]
        .map(|pick| rates.iter().copied().reduce(pick).map(|rate| unit.format_rate(rate)));
    match (rates.len(), ends) {
        (2.., [Some(low), Some(high)]) => format!(
            "{} rounds of {low} to {high}; the time between rounds is not part of the result.",
            rates.len()
        ),
        _ => "The time between rounds is not part of the result.".into(),
    }
}
