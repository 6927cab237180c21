//! Charts of sweeps, which show the effect of more load, and of tests on files.

use std::collections::HashMap;

use askama::Template;
use model::Run;
use model::run::{Latency, PhaseRecord};
use model::size;

use super::test::Test;
use super::unit::Unit;
use super::{Figure, Markup, latency, rendered};
use crate::numbers::amount;
use crate::printable;
use crate::text::{Kind, is_knee, missing_reason};
use draw::{Anchor, Bar, Drawing, Plot, Scale, Side, bars, compact};

/// Fewest points that make a sweep.
const POINTS_MIN: usize = 2;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 246.0;

#[derive(Template)]
#[template(path = "figures.html", whitespace = "minimize")]
pub(super) struct Figures {
    pub anchor: &'static str,
    pub heading: &'static str,
    pub lead: &'static str,
    pub figures: Vec<Figure>,
}

/// The section on sweeps; `None` if there are none. Each point is drawn once, by its median repetition.
pub(super) fn section(run: &Run, tests: &[Test<'_>]) -> Option<Markup> {
    let mut groups: Vec<Vec<&Test<'_>>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for test in tests.iter().filter(|test| missing_reason(test.phase).is_none()) {
        let Some(group) = test.phase.group.as_deref() else { continue };
        let place = *places.entry(group).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(points) => points.push(test),
            None => groups.push(vec![test]),
        }
    }
    let figures: Vec<_> = groups
        .iter()
        .filter(|points| points.len() >= POINTS_MIN)
        .filter_map(|points| sweep(&run.phases, points))
        .collect();
    (!figures.is_empty()).then(|| {
        rendered(&Figures {
            anchor: "scaling",
            heading: "Sweeps",
            lead: "Effect of load: throughput to the right, latency upwards.",
            figures,
        })
    })
}

/// Position of a sweep's knee. Each repetition of the sweep is judged by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Knee {
    /// No repetition has a knee.
    Absent,
    /// More than half of the repetitions have their knee at this point.
    At(usize),
    /// Repetitions have their knees at these points, but no point has more than half of them.
    Ambiguous(Vec<usize>),
}

impl Knee {
    fn find(phases: &[PhaseRecord], points: &[&Test<'_>]) -> Self {
        let knee_count =
            |point: &&Test<'_>| point.all.iter().filter(|(index, _)| is_knee(phases, *index)).count();
        let counts: Vec<usize> = points.iter().map(knee_count).collect();
        let repetitions = points.iter().map(|point| point.all.len()).max().unwrap_or_default();
        if let Some(at) = counts.iter().position(|count| count * 2 > repetitions) {
            return Self::At(at);
        }
        let apart: Vec<_> = (0..counts.len()).filter(|at| counts[*at] > 0).collect();
        if apart.is_empty() { Self::Absent } else { Self::Ambiguous(apart) }
    }
}

/// Chooses the kind of latency to draw, one that all points have. Returns its name and values.
fn waits(latencies: &[Option<&Latency>]) -> Option<(&'static str, Vec<f64>)> {
    type LatencyField = fn(&Latency) -> Option<u64>;
    let choices: [(&'static str, LatencyField); 3] =
        [("p99 latency", |l| l.p99), ("median latency", |l| l.p50), ("mean latency", |l| Some(l.mean))];
    choices.into_iter().find_map(|(name, of)| {
        let values: Option<Vec<f64>> =
            latencies.iter().map(|latency| of((*latency)?).map(|ns| ns as f64)).collect();
        Some((name, values?))
    })
}

fn sweep(phases: &[PhaseRecord], points: &[&Test<'_>]) -> Option<Figure> {
    let first = points.first()?.phase;
    let unit = Unit::from_phase(first);
    let rates: Option<Vec<f64>> = points.iter().map(|point| unit.headline(point.phase)).collect();
    let rates = rates?;
    let latencies: Vec<_> = points.iter().map(|point| point.phase.figures.latency_ns.as_ref()).collect();
    let (what, waits) = waits(&latencies)?;
    let words = loads(&points.iter().map(|point| point.phase).collect::<Vec<_>>());
    let knee = Knee::find(phases, points);
    let mut caption = caption(unit, &rates, &waits, &words, &knee);
    let measured = || points.iter().map(|point| point.rates().len());
    if let (Some(fewest), Some(most)) = (measured().min(), measured().max().filter(|most| *most > 1)) {
        let counted = if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
        caption.push_str(&format!(" Each point is the median of {counted} repetitions."));
    }
    let knee = if let Knee::At(at) = knee { Some(at) } else { None };
    let name = format!("{} {}", printable(&first.name), common(&first.label)).trim_end().to_owned();
    let mut drawing = Drawing::new(BOTTOM + 46.0, &name, &caption);
    let most = rates.iter().copied().fold(0.0, f64::max);
    let x = Side { scale: Scale::from_zero(most, 5, Plot::X_RANGE), ticks: 5, label: compact };
    let [low, high] = [f64::min, f64::max].map(|pick| waits.iter().copied().reduce(pick).unwrap_or(1.0));
    let plot = Plot::new(x, [TOP, BOTTOM], |y_range| Side {
        scale: Scale::log(low / 1.3, high * 1.3, y_range),
        ticks: 7,
        label: latency::tick,
    });
    plot.axes(&mut drawing, &format!("{what}; the axis is logarithmic"), true);
    drawing.text("t d", Anchor::End, Plot::X_RANGE[1], BOTTOM + 36.0, unit.name());
    let path = rates.iter().copied().zip(waits.iter().copied());
    drawing.path("l s0", &draw::Path::polyline(path.clone().map(|point| Some(plot.place(point)))));
    for (index, (point, word)) in path.zip(&words).enumerate() {
        let (x, y) = plot.place(point);
        let is_knee = knee == Some(index);
        let title = format!(
            "{word}: {}, {what} {}",
            unit.format_rate(point.0),
            crate::numbers::latency(point.1 as u64)
        );
        drawing.dot(if is_knee { "p s1" } else { "p s0" }, x, y, &title);
        let point_label = if is_knee { format!("{word} knee") } else { word.clone() };
        // Near the right edge, the text goes to the left of its point.
        let (anchor, x) =
            if x > Plot::X_RANGE[1] - 60.0 { (Anchor::End, x - 8.0) } else { (Anchor::Start, x + 8.0) };
        drawing.text(if is_knee { "t b" } else { "t" }, anchor, x, y - 6.0, &point_label);
    }
    Some(Figure { name, drawing: Markup(drawing.finish()), legend: Vec::new(), caption })
}

/// The first word of a label, which all points of a sweep over depth or threads have in common.
fn common(label: &str) -> String {
    printable(label.split_whitespace().next().unwrap_or_default())
}

/// Returns the load of each point in a few characters: the parameter that differs between the points.
fn loads(points: &[&PhaseRecord]) -> Vec<String> {
    let differs =
        |value: &dyn Fn(&PhaseRecord) -> u64| points.iter().any(|point| value(point) != value(points[0]));
    let rate = |point: &PhaseRecord| point.workload.rate_ops_per_second;
    points
        .iter()
        .map(|point| {
            let workload = &point.workload;
            if differs(&|p| u64::from(p.workload.iodepth)) {
                format!("Q{}", workload.iodepth)
            } else if differs(&|p| u64::from(p.workload.threads)) {
                format!("T{}", workload.threads)
            } else if differs(&|p| p.workload.block_bytes.unwrap_or_default()) {
                size::binary(workload.block_bytes.unwrap_or_default())
            } else if differs(&|p| p.hosts.len() as u64) {
                format!("×{}", point.hosts.len())
            } else {
                rate(point)
                    .and_then(amount)
                    .map_or_else(|| printable(&point.label), |rate| format!("{rate}/s"))
            }
        })
        .collect()
}

fn caption(unit: Unit, rates: &[f64], waits: &[f64], words: &[String], knee: &Knee) -> String {
    let (best, most) = rates
        .iter()
        .copied()
        .enumerate()
        .fold((0, 0.0), |best, (index, rate)| if rate > best.1 { (index, rate) } else { best });
    let wait = |index: usize| crate::numbers::latency(waits[index] as u64);
    match knee {
        Knee::At(at) if *at != best => format!(
            "Knee at {}: {} at {}. Beyond it, latency grows faster than throughput: {} reaches {} at {}.",
            words[*at],
            unit.format_rate(rates[*at]),
            wait(*at),
            words[best],
            unit.format_rate(most),
            wait(best)
        ),
        Knee::At(at) => format!(
            "Knee at {}: {} at {}. More load adds latency without throughput.",
            words[*at],
            unit.format_rate(rates[*at]),
            wait(*at)
        ),
        Knee::Ambiguous(points) => {
            let named: Vec<_> = points.iter().map(|at| words[*at].as_str()).collect();
            format!(
                "The repetitions have different knees: {}; the maximum is {} at {}, with {}.",
                named.join(", "),
                unit.format_rate(most),
                words[best],
                wait(best)
            )
        }
        Knee::Absent => format!(
            "No knee in this range; the maximum is {} at {}, with {}.",
            unit.format_rate(most),
            words[best],
            wait(best)
        ),
    }
}

/// The section on files; `None` if no test on files has a number.
pub(super) fn files(tests: &[Test<'_>]) -> Option<Markup> {
    let is_file_test = |test: &&Test<'_>| {
        Kind::from_phase(test.phase) == Kind::Files && missing_reason(test.phase).is_none()
    };
    let known: Vec<(String, f64)> = tests
        .iter()
        .filter(is_file_test)
        .filter_map(|test| {
            Some((test.name(), Unit::Operations.headline(test.phase).filter(|rate| *rate >= 0.0)?))
        })
        .collect();
    let fastest = known.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let slowest = known.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let caption = match known.len() {
        1 => format!("{} at {}.", fastest.0, Unit::Operations.format_rate(fastest.1)),
        _ => {
            let times = amount(fastest.1 / slowest.1)
                .map_or(String::new(), |times| format!(", {times} times as many as {}", slowest.0));
            format!("{} is the fastest at {}{times}.", fastest.0, Unit::Operations.format_rate(fastest.1))
        }
    };
    let all: Vec<_> = known
        .iter()
        .map(|(name, rate)| Bar {
            name: name.clone(),
            value: *rate,
            value_text: Unit::Operations.format_rate(*rate),
            class: "s0",
            title: format!("{name}: {}", Unit::Operations.format_rate(*rate)),
        })
        .collect();
    let name = "Operations per second".to_owned();
    let drawing = Markup(bars(&name, &caption, &all, fastest.1, false));
    let figures = vec![Figure { name, drawing, legend: Vec::new(), caption }];
    Some(rendered(&Figures { anchor: "files", heading: "Files", lead: "", figures }))
}
