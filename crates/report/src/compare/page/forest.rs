//! Charts of all changes on one axis: each with its interval, beside the line of no change and the span that counts as
//! none.

use model::comparison::{Change, Row};

use super::page_limits::{escaped, fitting};
use super::{Page, answer, class_of, name};
use crate::html::{Figure, Markup};
use draw::{Anchor, Drawing, Path, Scale, WIDTH, fitted};
use wording::comparison::{ends, margin, signed, subject};

/// Left and right end of the axis, which is between the test's name and the decision.
const X_RANGE: [f64; 2] = [160.0, 324.0];
/// Heights: above the first row, of a row, and below the last.
const HEAD: f64 = 24.0;
const ROW: f64 = 22.0;
const LABELS_HEIGHT: f64 = 26.0;
/// Maximum extent of drawn intervals, as a multiple of the largest change. Intervals of two runs have meaningless
/// bounds.
const DRAWN_EXTENT_MAX: f64 = 2.5;
/// Minimum extent of the axis to either side, as a multiple of the effect.
const AXIS_EXTENT_MIN: f64 = 2.0;
/// Farthest change on an axis of shares. If changes go farther, the axis shows ratios.
const SHARES_MAX: f64 = 0.9;
/// Most sides that have charts; the table shows all.
const SIDES_MAX: usize = 8;

/// Markup around a figure, and around a key of its legend, in bytes.
const FIGURE_BYTES: usize = 150;
const KEY_BYTES: usize = 60;

/// The charts of each side but the first: of its rates, and of its latencies.
#[derive(Debug, Default)]
pub(super) struct Charts {
    pub figures: Vec<Figure>,
    /// Number of sides with changes that lack charts.
    pub sides_omitted: usize,
}

impl Charts {
    /// Makes the charts that fit into `bytes_max` bytes.
    pub(super) fn new(page: &Page<'_>, bytes_max: usize) -> Self {
        let sides = page.comparison.sides.len();
        let all = (1..sides.min(SIDES_MAX + 1))
            .flat_map(|side| [true, false].map(|is_rate| Some((side, figure(page, side, is_rate)?))))
            .flatten();
        let all: Vec<_> = all.collect();
        let drawable = all.len();
        let numbers: Vec<_> = all.iter().map(|(side, _)| *side).collect();
        let (figures, left) = fitting(all, bytes_max, |(_, figure)| bytes(figure));
        let mut cut = numbers[drawable - left..].to_vec();
        cut.dedup();
        let beyond = sides.saturating_sub(SIDES_MAX + 1);
        let figures = figures.into_iter().map(|(_, figure)| figure).collect();
        Self { figures, sides_omitted: cut.len() + beyond }
    }

    /// Returns the most bytes that the charts take in the page.
    pub(super) fn bytes(&self) -> usize {
        self.figures.iter().map(bytes).sum()
    }
}

fn bytes(figure: &Figure) -> usize {
    let legend = figure.legend.iter().map(|(_, words)| KEY_BYTES + escaped(words)).sum::<usize>();
    FIGURE_BYTES + figure.drawing.0.len() + escaped(&figure.name) + escaped(&figure.caption) + legend
}

fn figure(page: &Page<'_>, side: usize, is_rate: bool) -> Option<Figure> {
    let comparison = page.comparison;
    let rows = comparison.rows.iter().take(page.rows_max()).filter(|row| row.measure.is_rate() == is_rate);
    let changes: Vec<(&Row, &Change)> =
        rows.filter_map(|row| Some((row, row.changes.get(side - 1)?.as_ref()?))).collect();
    if changes.is_empty() {
        return None;
    }
    let what = if is_rate { "Changes of rates" } else { "Changes of p99" };
    let name = match comparison.sides.len() {
        2 => what.to_owned(),
        _ => format!("{what}: {}", page.short_name(side)),
    };
    let axis = Axis::new(&changes, comparison.effect);
    let (caption, is_cut) = caption(page, &changes, &axis, is_rate);
    let bottom = HEAD + changes.len() as f64 * ROW;
    let mut drawing = Drawing::new(bottom + LABELS_HEIGHT, &name, &caption);
    let [low, high] =
        [1.0 / (1.0 + comparison.effect), 1.0 + comparison.effect].map(|ratio| axis.place(ratio));
    let title = format!("within ± {}: equivalent", margin(comparison.effect));
    drawing.area("within", [low, HEAD, high - low, bottom - HEAD], &title);
    axis.draw(&mut drawing, bottom);
    let [left, right] =
        if is_rate { ["← slower", "faster →"] } else { ["← lower latency", "higher →"] };
    drawing.text("t d", Anchor::Start, X_RANGE[0] - 20.0, 14.0, left);
    drawing.text("t d", Anchor::End, X_RANGE[1] + 20.0, 14.0, right);
    for (index, (row, change)) in changes.iter().enumerate() {
        let middle = HEAD + (index as f64 + 0.5) * ROW;
        draw(&mut drawing, &axis, row, change, middle, &tooltip(page, row, change));
    }
    let present =
        |class: &&(&'static str, String)| changes.iter().any(|(_, change)| class_of(change) == class.0);
    let keys = [
        ("better", "better".to_owned()),
        ("worse", "worse".to_owned()),
        ("same", "same".to_owned()),
        ("unknown", "undecided".to_owned()),
    ];
    let mut legend: Vec<_> = keys.iter().filter(present).cloned().collect();
    legend.push(("within", format!("within ± {}", margin(comparison.effect))));
    let caption = if is_cut { format!("{caption} Lines that end in an arrow continue.") } else { caption };
    Some(Figure { name, drawing: Markup(drawing.finish()), legend, caption })
}

/// The axis of changes: shares if all changes are moderate, else ratios on a logarithmic scale.
struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    shows_ratios: bool,
}

impl Axis {
    fn new(changes: &[(&Row, &Change)], effect: f64) -> Self {
        let sound = |value: f64| if value.is_finite() { value.abs().min(20.0) } else { 0.0 };
        let dots = changes.iter().map(|(_, change)| sound(change.ratio.ln())).fold(0.0, f64::max);
        let least = (effect.clamp(0.001, 10.0) * AXIS_EXTENT_MIN).ln_1p();
        let limit = (dots * DRAWN_EXTENT_MAX).max(least * DRAWN_EXTENT_MAX);
        let ends = changes.iter().flat_map(|(_, change)| [change.ci95_low_ratio, change.ci95_high_ratio]);
        let farthest = |is_low: bool| {
            let points = changes.iter().map(|(_, change)| Some(change.ratio)).chain(ends.clone());
            let logs = points.flatten().map(f64::ln).filter(|log| log.is_finite() && (*log < 0.0) == is_low);
            logs.map(f64::abs).fold(least, f64::max).min(limit) * 1.06
        };
        let (low, high) = ((-farthest(true)).exp(), farthest(false).exp());
        let shows_ratios = high - 1.0 > SHARES_MAX || low < 1.0 / (1.0 + SHARES_MAX);
        let scale = match shows_ratios {
            true => Scale::log(low, high, X_RANGE),
            false => Scale::linear((low - 1.0) * 100.0, (high - 1.0) * 100.0, X_RANGE),
        };
        Self { scale, low, high, shows_ratios }
    }

    fn place(&self, ratio: f64) -> f64 {
        self.scale.place(if self.shows_ratios { ratio } else { (ratio - 1.0) * 100.0 })
    }

    fn draw(&self, drawing: &mut Drawing, bottom: f64) {
        let mut rules = Path::default();
        // There are few ticks, because labels of ratios are long.
        for value in self.scale.ticks(4) {
            let x = self.scale.place(value);
            rules.go(x, HEAD);
            rules.line(x, bottom);
            drawing.text("t d", Anchor::Middle, x, bottom + 17.0, &self.label(value));
        }
        drawing.path("rule", &rules);
        let mut zero = Path::default();
        zero.go(self.place(1.0), HEAD - 4.0);
        zero.line(self.place(1.0), bottom);
        drawing.path("tick", &zero);
    }

    fn label(&self, value: f64) -> String {
        if self.shows_ratios {
            return format!("×{}", draw::compact(value));
        }
        let text = draw::compact(value.abs());
        match () {
            () if text == "0" => text,
            () if value < 0.0 => format!("-{text} %"),
            () => format!("+{text} %"),
        }
    }
}

/// Draws one row: the test, the interval with its dot, the answer.
fn draw(drawing: &mut Drawing, axis: &Axis, row: &Row, change: &Change, middle: f64, title: &str) {
    let class = class_of(change);
    // The measure is in the heading of the chart.
    let test = name(format!("{} {}", row.name, row.label).trim_end());
    drawing.text("t", Anchor::Start, 0.0, middle + 4.5, &fitted(&test, X_RANGE[0] - 4.0));
    drawing.text("t", Anchor::End, WIDTH, middle + 4.5, &in_short(change));
    if let Some((low, high)) = change.ci95_low_ratio.zip(change.ci95_high_ratio) {
        let (from, to) = (axis.place(low), axis.place(high));
        let mut path = Path::default();
        path.go(from, middle);
        path.line(to, middle);
        // An interval that goes on beyond the axis ends in an arrow.
        for (is_cut, x, back) in [(low < axis.low, from, 5.0), (high > axis.high, to, -5.0)] {
            let tips = if is_cut {
                [(x + back, middle - 4.0), (x, middle), (x + back, middle + 4.0)]
            } else {
                [(x, middle - 4.0), (x, middle), (x, middle + 4.0)]
            };
            path.go(tips[0].0, tips[0].1);
            tips[1..].iter().for_each(|(x, y)| path.line(*x, *y));
        }
        drawing.path_with_tooltip(&format!("l w {class}"), &path, title);
    }
    drawing.dot(&format!("p {class}"), axis.place(change.ratio), middle, title);
    // The whole row has the tooltip.
    drawing.area("at", [0.0, middle - ROW / 2.0, WIDTH, ROW], title);
}

/// Returns the short answer behind a row: the change, if one can be claimed.
fn in_short(change: &Change) -> String {
    match class_of(change) {
        "same" => "same".into(),
        "unknown" if change.p.is_some() => "?".into(),
        _ => wording::comparison::answer(change),
    }
}

fn tooltip(page: &Page<'_>, row: &Row, change: &Change) -> String {
    let (words, small) = answer(change, page.comparison);
    let mut parts = vec![format!("{}: {words}", name(&subject(row)))];
    parts.extend((!small.is_empty()).then_some(small));
    let ends = ends(change);
    parts.extend((!ends.is_empty()).then(|| format!("95 % interval {ends}")));
    let p = wording::comparison::p(change);
    parts.extend((!p.is_empty()).then_some(p));
    parts.join(", ")
}

/// Returns the caption, and true if an interval is cut.
fn caption(page: &Page<'_>, changes: &[(&Row, &Change)], axis: &Axis, is_rate: bool) -> (String, bool) {
    let is_cut = changes.iter().any(|(_, change)| {
        change.ci95_low_ratio.is_some_and(|low| low < axis.low)
            || change.ci95_high_ratio.is_some_and(|high| high > axis.high)
    });
    let of = |class: &str| changes.iter().filter(|(_, change)| class_of(change) == class).collect::<Vec<_>>();
    if !page.comparison.has_p_values() {
        return ("With one run per side, the spread between runs is unknown.".into(), false);
    }
    let far = |(_, change): &&&(&Row, &Change)| change.ratio.ln().abs();
    let most = |class: &str| {
        let all = of(class);
        let farthest = all
            .iter()
            .max_by(|one, other| far(one).total_cmp(&far(other)))
            .map(|(row, change)| format!(", largest: {} ({})", name(&subject(row)), signed(change.ratio)));
        let word = match (class, is_rate) {
            ("better", true) => "faster",
            ("better", false) => "with lower latency",
            (_, true) => "slower",
            (_, false) => "with higher latency",
        };
        (!all.is_empty()).then(|| format!("{} {word}{}", all.len(), farthest.unwrap_or_default()))
    };
    let mut parts: Vec<_> = [most("better"), most("worse")].into_iter().flatten().collect();
    if parts.is_empty() {
        parts.push("No significant change".into());
    }
    let (same, unknown) = (of("same").len(), of("unknown").len());
    parts.extend((same > 0).then(|| format!("{same} the same")));
    parts.extend((unknown > 0).then(|| format!("{unknown} undecided")));
    (format!("{}.", parts.join("; ")), is_cut)
}
