//! What more load brings, and how tests on files compare.

use askama::Template;
use model::Run;
use model::run::{Latency, PhaseRecord};
use model::size;

use super::test::Test;
use super::unit::Unit;
use super::{Figure, Markup, latency, rendered};
use crate::numbers::amount;
use crate::printable;
use crate::svg::{Anchor, Bar, Drawing, Plot, Scale, Side, bars, compact};
use crate::text::{Kind, is_knee, missing_reason};

/// Fewest points that make a sweep.
const POINTS_MIN: usize = 2;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 246.0;

#[derive(Template)]
#[template(path = "figures.html", whitespace = "minimize")]
struct Figures {
    anchor: &'static str,
    heading: &'static str,
    lead: &'static str,
    figures: Vec<Figure>,
}

/// The section on sweeps; `None` where there is none.
pub(super) fn section(run: &Run) -> Option<Markup> {
    let mut groups: Vec<(&str, u32, Vec<usize>)> = Vec::new();
    for (index, phase) in run.phases.iter().enumerate() {
        let Some(group) = phase.group.as_deref().filter(|_| missing_reason(phase).is_none()) else {
            continue;
        };
        match groups
            .iter_mut()
            .find(|(name, repetition, _)| (*name, *repetition) == (group, phase.repetition))
        {
            Some((.., points)) => points.push(index),
            None => groups.push((group, phase.repetition, vec![index])),
        }
    }
    let figures: Vec<_> = groups
        .iter()
        .filter(|(.., points)| points.len() >= POINTS_MIN)
        .filter_map(|(_, repetition, points)| sweep(&run.phases, points, *repetition))
        .collect();
    (!figures.is_empty()).then(|| {
        rendered(&Figures {
            anchor: "scaling",
            heading: "Sweeps",
            lead: "What more load brings: to the right more work, upwards longer waiting.",
            figures,
        })
    })
}

/// The latency that a sweep is drawn by: all points have the same.
fn waits(latencies: &[Option<&Latency>]) -> Option<(&'static str, Vec<f64>)> {
    type Of = fn(&Latency) -> Option<u64>;
    let choices: [(&'static str, Of); 3] =
        [("p99 latency", |l| l.p99), ("median latency", |l| l.p50), ("mean latency", |l| Some(l.mean))];
    choices.into_iter().find_map(|(name, of)| {
        let values: Option<Vec<f64>> =
            latencies.iter().map(|latency| of((*latency)?).map(|ns| ns as f64)).collect();
        Some((name, values?))
    })
}

fn sweep(phases: &[PhaseRecord], points: &[usize], repetition: u32) -> Option<Figure> {
    let of = |index: &usize| &phases[*index];
    let first = of(&points[0]);
    let unit = Unit::of(first);
    let rates: Option<Vec<f64>> = points.iter().map(|index| unit.headline(of(index))).collect();
    let rates = rates?;
    let latencies: Vec<_> = points.iter().map(|index| of(index).latency_ns.as_ref()).collect();
    let (what, waits) = waits(&latencies)?;
    let words = loads(&points.iter().map(of).collect::<Vec<_>>());
    let knee = points.iter().position(|index| is_knee(phases, *index));
    let caption = caption(unit, &rates, &waits, &words, knee);
    let counted = if repetition > 1 { format!(" #{repetition}") } else { String::new() };
    let name = format!("{} {}{counted}", printable(&first.name), common(&first.label));
    let name = name.trim_end().to_owned();
    let mut drawing = Drawing::new(BOTTOM + 46.0, &name, &caption);
    let most = rates.iter().copied().fold(0.0, f64::max);
    let x = Side { scale: Scale::from_zero(most, 5, Plot::ACROSS), ticks: 5, label: compact };
    let [low, high] = [f64::min, f64::max].map(|pick| waits.iter().copied().reduce(pick).unwrap_or(1.0));
    let plot = Plot::new(x, [TOP, BOTTOM], |heights| Side {
        scale: Scale::log(low / 1.3, high * 1.3, heights),
        ticks: 7,
        label: latency::tick,
    });
    plot.axes(&mut drawing, what, true);
    drawing.text("t d", Anchor::End, Plot::ACROSS[1], BOTTOM + 36.0, unit.name());
    let path = rates.iter().copied().zip(waits.iter().copied());
    drawing.path("l s0", &crate::svg::Path::through(path.clone().map(|point| Some(plot.place(point)))));
    for (index, (point, word)) in path.zip(&words).enumerate() {
        let (x, y) = plot.place(point);
        let is_knee = knee == Some(index);
        let title =
            format!("{word}: {}, {what} {}", unit.shown(point.0), crate::numbers::latency(point.1 as u64));
        drawing.dot(if is_knee { "p s1" } else { "p s0" }, x, y, &title);
        let shown = if is_knee { format!("{word} knee") } else { word.clone() };
        // Beside the edge, there is room on the other side.
        let (anchor, x) =
            if x > Plot::ACROSS[1] - 60.0 { (Anchor::End, x - 8.0) } else { (Anchor::Start, x + 8.0) };
        drawing.text(if is_knee { "t b" } else { "t" }, anchor, x, y - 6.0, &shown);
    }
    Some(Figure { name, drawing: Markup(drawing.finish()), legend: Vec::new(), caption })
}

/// The first word of a label: what all points of a sweep over depth or threads have in common.
fn common(label: &str) -> String {
    printable(label.split_whitespace().next().unwrap_or_default())
}

/// What differs between the points, in a few characters each.
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
            } else {
                rate(point)
                    .and_then(amount)
                    .map_or_else(|| printable(&point.label), |rate| format!("{rate}/s"))
            }
        })
        .collect()
}

fn caption(unit: Unit, rates: &[f64], waits: &[f64], words: &[String], knee: Option<usize>) -> String {
    let (best, most) = rates
        .iter()
        .copied()
        .enumerate()
        .fold((0, 0.0), |best, (index, rate)| if rate > best.1 { (index, rate) } else { best });
    let wait = |index: usize| crate::numbers::latency(waits[index] as u64);
    match knee {
        Some(at) if at != best => format!(
            "Best at {}: {} at {}. Beyond it waiting grows faster than work: {} gives {} at {}.",
            words[at],
            unit.shown(rates[at]),
            wait(at),
            words[best],
            unit.shown(most),
            wait(best)
        ),
        Some(at) => format!(
            "Best at {}: {} at {}. More load buys more waiting and no more work.",
            words[at],
            unit.shown(rates[at]),
            wait(at)
        ),
        None => format!(
            "No knee within this range; the most is {} at {}, with {}.",
            unit.shown(most),
            words[best],
            wait(best)
        ),
    }
}

/// The section on files; `None` where no test on files has a number.
pub(super) fn files(tests: &[Test<'_>]) -> Option<Markup> {
    let is_shown =
        |test: &&Test<'_>| Kind::of(test.phase) == Kind::Files && missing_reason(test.phase).is_none();
    let known: Vec<(String, f64)> = tests
        .iter()
        .filter(is_shown)
        .filter_map(|test| {
            Some((test.name(), Unit::Operations.headline(test.phase).filter(|rate| *rate >= 0.0)?))
        })
        .collect();
    let fastest = known.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let slowest = known.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let caption = match known.len() {
        1 => format!("{} at {}.", fastest.0, Unit::Operations.shown(fastest.1)),
        _ => {
            let times = amount(fastest.1 / slowest.1)
                .map_or(String::new(), |times| format!(", {times} times as many as {}", slowest.0));
            format!("{} is the fastest at {}{times}.", fastest.0, Unit::Operations.shown(fastest.1))
        }
    };
    let all: Vec<_> = known
        .iter()
        .map(|(name, rate)| Bar {
            name: name.clone(),
            value: *rate,
            shown: Unit::Operations.shown(*rate),
            class: "s0",
            title: format!("{name}: {}", Unit::Operations.shown(*rate)),
        })
        .collect();
    let name = "Operations per second".to_owned();
    let drawing = Markup(bars(&name, &caption, &all, fastest.1, false));
    let figures = vec![Figure { name, drawing, legend: Vec::new(), caption }];
    Some(rendered(&Figures { anchor: "files", heading: "Files", lead: "", figures }))
}
