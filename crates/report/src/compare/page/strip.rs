//! Charts of every run of every side of a row, with the mean and its interval.

use model::comparison::{Measure, Row, SideResult};
use model::numbers::round_step;

use super::{Page, class, legend, row_caption, truncation_note};
use crate::html::{Figure, Markup};
use draw::{Anchor, Drawing, Path, Plot, Scale, Side, WIDTH, compact, fitted, thinned};
use wording::comparison::{spread, value};

/// Most pairs of runs of a side that are drawn. If there are more runs, these are lows and highs.
const BUCKETS: usize = 24;
/// Most sides that are drawn.
const SIDES_MAX: usize = 12;
/// Places in a side's part of the width: of the first and last run, and of the mean.
const RUNS: [f64; 2] = [0.1, 0.7];
const MEAN_X: f64 = 0.86;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 168.0;
const LABELS_HEIGHT: f64 = 26.0;
/// Length of the tip of an arrow.
const TIP: f64 = 5.0;
/// Number of parts between round values over the height.
const TICKS: f64 = 4.0;
/// If the lowest value is below this share of the highest, the axis begins at zero.
const ZERO_BASED_SHARE: f64 = 0.5;
/// Least height of an axis, as a share of its highest value. Smaller differences must not look large, and round values
/// have no more than three digits.
const AXIS_SPAN_MIN: f64 = 0.04;

/// One run: its place across, and its value on the axis.
#[derive(Debug, Clone, Copy)]
struct Point {
    at: f64,
    value: f64,
}

/// The figure; `None` if no side has two runs.
pub(super) fn figure(page: &Page<'_>, row: &Row) -> Option<Figure> {
    if row.sides.iter().flatten().all(|measured| measured.values.len() < 2) {
        return None;
    }
    let (factor, what) = unit(row);
    let sides: Vec<_> = row.sides.iter().enumerate().take(SIDES_MAX).collect();
    let all: Vec<Vec<Point>> = (0..sides.len()).map(|side| points(row, side, factor)).collect();
    let [low, high] = range(row, &all, factor);
    let axis = if low > 0.0 { format!("{what}, axis from {}", compact(low)) } else { what.to_owned() };
    let axis_range = AxisRange { low, high, factor };
    let ends: Vec<_> = sides.iter().filter_map(|(_, side)| ends(side.as_ref()?)).collect();
    let is_cut = ends.iter().any(|(from, to)| !axis_range.includes(*from) || !axis_range.includes(*to));
    let mut caption = row_caption(page, row);
    caption.push_str(&truncation_note(sides.len(), row.sides.len()));
    if is_cut {
        caption.push_str(" Lines that end in an arrow continue.");
    }
    if all.iter().any(|points| points.len() > BUCKETS * 2) {
        caption.push_str(&format!(
            " For more than {} runs per side, only lows and highs are drawn.",
            BUCKETS * 2
        ));
    }
    let name = if row.measure.is_rate() { "Every run".to_owned() } else { "Every run: p99".to_owned() };
    let mut drawing = Drawing::new(BOTTOM + LABELS_HEIGHT, &name, &caption);
    let x = Side { scale: Scale::linear(0.0, sides.len() as f64, Plot::X_RANGE), ticks: 0, label: compact };
    let plot = Plot::new(x, [TOP, BOTTOM], |y_range| Side {
        scale: Scale::linear(low, high, y_range),
        ticks: TICKS as usize + 1,
        label: compact,
    });
    plot.axes(&mut drawing, &axis, false);
    floor(&mut drawing, &plot, page, sides.len());
    if let Some(pairs) = pairs(page, row) {
        let mut path = Path::default();
        for (before, after) in pairs {
            let (Some(before), Some(after)) = (all[0].get(before), all[1].get(after)) else { continue };
            let [from, to] = [before, after].map(|point| plot.place((point.at, point.value)));
            path.go(from.0, from.1);
            path.line(to.0, to.1);
        }
        drawing.path("pair", &path);
    }
    for (side, measured) in &sides {
        let Some(measured) = measured else { continue };
        draw_side(&mut drawing, &plot, page, row, (*side, measured), &all[*side], &axis_range);
    }
    // If all names fit under their runs, no legend is needed.
    let fits = |side: usize| {
        let name = page.short_name(side);
        fitted(&name, side_width(sides.len())) == name
    };
    let legend = if (0..sides.len()).all(fits) { Vec::new() } else { legend(page, 0..sides.len()) };
    Some(Figure { name, drawing: Markup(drawing.finish()), legend, caption })
}

/// Values that an axis reaches, in its unit.
struct AxisRange {
    low: f64,
    high: f64,
    /// Size of the unit.
    factor: f64,
}

impl AxisRange {
    fn includes(&self, end: f64) -> bool {
        end.is_finite() && (self.low..=self.high).contains(&(end / self.factor))
    }
}

fn ends(side: &SideResult) -> Option<(f64, f64)> {
    side.ci95_low.zip(side.ci95_high)
}

/// Returns the places of the runs of a side.
fn points(row: &Row, side: usize, factor: f64) -> Vec<Point> {
    let values = row.sides.get(side).and_then(Option::as_ref).map_or(&[][..], |measured| &measured.values);
    let last = values.len().saturating_sub(1).max(1) as f64;
    let place = |index: usize| {
        RUNS[0] + (RUNS[1] - RUNS[0]) * if values.len() > 1 { index as f64 / last } else { 0.5 }
    };
    let numbered = values.iter().enumerate();
    numbered.map(|(index, value)| Point { at: side as f64 + place(index), value: value / factor }).collect()
}

/// Draws the runs of a side, and their mean with its interval.
fn draw_side(
    drawing: &mut Drawing,
    plot: &Plot,
    page: &Page<'_>,
    row: &Row,
    (side, measured): (usize, &SideResult),
    points: &[Point],
    range: &AxisRange,
) {
    let at: Vec<_> = points.iter().map(|point| (point.at, point.value)).collect();
    let mean = side as f64 + MEAN_X;
    let name = page.short_name(side);
    let title = format!("{name}: {} {}", value(row, measured.mean), spread(measured));
    if let Some((from, to)) = ends(measured) {
        let interval = [from / range.factor, to / range.factor];
        plot.whisker(drawing, "l w ink", mean, interval, title.trim_end());
        // An interval that goes on beyond the axis ends in an arrow. Heights grow downwards.
        for (end, back) in [(from, -TIP), (to, TIP)] {
            if range.includes(end) {
                continue;
            }
            let (x, y) = plot.place((mean, end / range.factor));
            let mut tip = Path::default();
            tip.go(x - 4.0, y + back);
            tip.line(x, y);
            tip.line(x + 4.0, y + back);
            drawing.path("l w ink", &tip);
        }
    }
    let (x, y) = plot.place((mean, measured.mean / range.factor));
    let mut path = Path::default();
    path.go(x - 7.0, y);
    path.line(x + 7.0, y);
    drawing.path_with_tooltip("l w ink", &path, title.trim_end());
    for (x, y) in thinned(&at, BUCKETS) {
        let title = format!("{name}: {}", value(row, y * range.factor));
        let (x, y) = plot.place((x, y));
        drawing.dot(&format!("p {}", class(side)), x, y, &title);
    }
}

/// Returns the size of the axis's unit, and its name. The longest latency decides on the unit of latencies.
fn unit(row: &Row) -> (f64, &'static str) {
    match row.measure {
        Measure::BytesPerSecond => (1e6, "MB/s"),
        Measure::OpsPerSecond => (1.0, "operations/s"),
        Measure::P99Ns => {
            let values = row.sides.iter().flatten().flat_map(|measured| &measured.values);
            let units = [(1e9, "p99 in s"), (1e6, "p99 in ms"), (1e3, "p99 in µs")];
            let most = values.copied().fold(0.0, f64::max);
            units.into_iter().find(|(factor, _)| most * 1.2 >= *factor).unwrap_or((1.0, "p99 in ns"))
        }
    }
}

/// Returns the ends of the axis: a round value below all runs, or zero, and a value above. Intervals of few runs may
/// reach beyond.
fn range(row: &Row, all: &[Vec<Point>], factor: f64) -> [f64; 2] {
    let values = || all.iter().flatten().map(|point| point.value).filter(|value| value.is_finite());
    let [low, high] = [f64::min, f64::max].map(|pick| values().reduce(pick).unwrap_or(1.0));
    let span = (high - low).max(high.abs() * AXIS_SPAN_MIN);
    let ends = row.sides.iter().flatten().flat_map(|side| [side.ci95_low, side.ci95_high]);
    let ends = ends.flatten().map(|end| end / factor).filter(|end| end.is_finite());
    let (low, high) = ends
        .fold((low, high), |(low, high), end| (low.min(end.max(low - span)), high.max(end.min(high + span))));
    if low < high * ZERO_BASED_SHARE {
        return [0.0, high * 1.06];
    }
    let step = round_step((high - low).max(high * AXIS_SPAN_MIN) / TICKS);
    [(low / step - 0.2).floor().max(0.0) * step, (high / step + 0.2).ceil() * step]
}

/// Returns the width of a side's part.
fn side_width(sides: usize) -> f64 {
    (Plot::X_RANGE[1] - Plot::X_RANGE[0]) / sides.max(1) as f64
}

/// Draws the line at the bottom with the names of the sides.
fn floor(drawing: &mut Drawing, plot: &Plot, page: &Page<'_>, sides: usize) {
    let bottom = plot.y_range()[1];
    let mut line = Path::default();
    line.go(Plot::X_RANGE[0], bottom);
    line.line(Plot::X_RANGE[1], bottom);
    drawing.path("tick", &line);
    for side in 0..sides {
        let (x, _) = plot.place((side as f64 + 0.5, 0.0));
        let name = fitted(&page.short_name(side), side_width(sides));
        drawing.text("t d", Anchor::Middle, x.min(WIDTH - 4.0), bottom + 18.0, &name);
    }
}

/// Returns the indices of runs of both sides that were measured next to each other; `None` if the sides were not
/// measured in turns. If they were, a row has only whole pairs, in their order.
fn pairs(page: &Page<'_>, row: &Row) -> Option<Vec<(usize, usize)>> {
    let [Some(before), Some(after)] = &row.sides[..] else { return None };
    let are_pairs = page.comparison.is_interleaved && before.values.len() == after.values.len();
    are_pairs.then(|| (0..before.values.len()).map(|index| (index, index)).collect())
}
