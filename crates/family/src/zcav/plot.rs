//! A drawing of logs: rate over offset, a line for each file.

use super::{Line, Log};
use draw::{Scale, element, escape};

/// Title of each drawing, by which drawings are recognized.
pub const TITLE: &str = "Rate over offset";
/// Lengths in the units of the drawing.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 936.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 440.0;
/// Top of the legend, and height of each of its rows.
const LEGEND_TOP: f64 = 512.0;
const LEGEND_ROW: f64 = 22.0;
/// Ticks that fit beside and below the drawing.
const Y_TICKS: usize = 6;
const X_TICKS: usize = 9;
/// Most steps of one line in the drawing: more are not visible.
const STEPS_MAX: usize = 1000;
/// Most characters of a name in the legend.
const NAME_MAX: usize = 72;
/// Number of colours; further lines are dashed.
const COLOURS: usize = 7;
const DASHES: [&str; 4] = ["none", "8 4", "2 3", "10 3 2 3"];

/// The palette is that of Okabe and Ito, made for people who do not tell all colours apart; it is lighter on black.
const STYLE: &str = include_str!("plot.css");

/// A part of a file with its rate.
#[derive(Debug, Clone, Copy)]
struct Step {
    start_gib: f64,
    end_gib: f64,
    mib_per_second: f64,
}

/// Draws the logs as one self-contained SVG document. Lines without a rate are gaps.
pub fn plot(logs: &[Log]) -> String {
    let series: Vec<Vec<Step>> = logs.iter().map(|log| joined(&steps(log))).collect();
    let all = || series.iter().flatten();
    let from = all().map(|step| step.start_gib).fold(f64::INFINITY, f64::min);
    let to = all().map(|step| step.end_gib).fold(0.0, f64::max);
    let most = all().map(|step| step.mib_per_second).fold(0.0, f64::max);
    let height = LEGEND_TOP + LEGEND_ROW * logs.len() as f64 + 12.0;
    let body = if from < to && most > 0.0 {
        let x = Scale::linear(from, to, [LEFT, RIGHT]);
        let y = Scale::from_zero(most, Y_TICKS, [BOTTOM, TOP]);
        let lines: String = (0..)
            .zip(logs)
            .zip(&series)
            .map(|((index, log), steps)| line(index, log, steps, &x, &y))
            .collect();
        format!("{}{lines}", axes(&x, &y))
    } else {
        format!(
            "<text class=\"text\" x=\"{LEFT}\" y=\"{TOP}\">Everything was too fast to have a rate.</text>\n"
        )
    };
    let legend: String =
        (0..).zip(logs).zip(&series).map(|((index, log), steps)| legend(index, log, steps)).collect();
    let attributes = format!(
        " xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\""
    );
    let inside = format!(
        "\n<title>{TITLE}</title>\n<style>\n{STYLE}</style>\n\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n{body}{legend}"
    );
    format!("{}\n", element("svg", &attributes, &inside))
}

fn steps(log: &Log) -> Vec<Step> {
    let step = |(line, end_gib): (&Line, f64)| {
        let rate = line.mib_per_second?;
        let is_sound = [rate, end_gib, line.offset_gib].iter().all(|number| number.is_finite());
        is_sound.then_some(Step { start_gib: line.offset_gib, end_gib, mib_per_second: rate })
    };
    log.timed().filter_map(step).collect()
}

/// Joins neighbours to as many steps as are visible, with the rate of all their bytes in all their time.
fn joined(steps: &[Step]) -> Vec<Step> {
    let join = |part: &[Step]| {
        let (first, last) = (part.first()?, part.last()?);
        let mean = mean_mib_per_second(part).filter(|_| part.len() > 1).unwrap_or(first.mib_per_second);
        Some(Step { start_gib: first.start_gib, end_gib: last.end_gib, mib_per_second: mean })
    };
    steps.chunks(steps.len().div_ceil(STEPS_MAX).max(1)).filter_map(join).collect()
}

/// Rate of all bytes in all their time; `None` without any.
fn mean_mib_per_second(steps: &[Step]) -> Option<f64> {
    let sums =
        steps.iter().filter(|step| step.mib_per_second > 0.0).fold((0.0, 0.0), |(gib, times), step| {
            let step_gib = (step.end_gib - step.start_gib).max(0.0);
            (gib + step_gib, times + step_gib / step.mib_per_second)
        });
    Some(sums.0 / sums.1).filter(|mean| mean.is_finite())
}

/// Returns about `count` round values of the scale, each with its text.
fn labelled_ticks(scale: &Scale, count: usize) -> Vec<(f64, String)> {
    let decimals = (-scale.step(count).log10().floor()).clamp(0.0, 9.0) as usize;
    let label = |value: f64| (value, format!("{:.decimals$}", value.max(0.0)));
    scale.ticks(count).into_iter().map(label).collect()
}

fn axes(x: &Scale, y: &Scale) -> String {
    let mut text = String::new();
    for (value, label) in labelled_ticks(y, Y_TICKS) {
        let at = y.place(value);
        text += &format!("<path class=\"rule\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/>\n");
        text += &format!(
            "<text class=\"text\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\n",
            LEFT - 8.0,
            at + 4.5
        );
    }
    for (value, label) in labelled_ticks(x, X_TICKS) {
        let at = x.place(value);
        text += &format!("<path class=\"tick\" d=\"M{at:.1} {BOTTOM}v6\"/>\n");
        text += &format!(
            "<text class=\"text\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>\n",
            BOTTOM + 22.0
        );
    }
    text += &format!("<path class=\"tick\" d=\"M{LEFT} {BOTTOM}H{RIGHT}\"/>\n");
    text += &format!(
        "<text class=\"unit\" x=\"{}\" y=\"{}\" text-anchor=\"end\">MiB/s</text>\n",
        LEFT - 8.0,
        TOP - 18.0
    );
    text += &format!(
        "<text class=\"unit\" x=\"{RIGHT}\" y=\"{}\" text-anchor=\"end\">offset in GiB</text>\n",
        BOTTOM + 44.0
    );
    text
}

fn dash(index: usize) -> &'static str {
    DASHES[index / COLOURS % DASHES.len()]
}

/// Draws a file: its steps as one path with a name, and the rate of each step as a tooltip.
fn line(index: usize, log: &Log, steps: &[Step], x: &Scale, y: &Scale) -> String {
    let Some(first) = steps.first() else { return String::new() };
    let mut path = format!("M{:.1} {:.1}", x.place(first.start_gib), y.place(first.mib_per_second));
    let mut parts = String::new();
    for step in steps {
        let (from, to, at) = (x.place(step.start_gib), x.place(step.end_gib), y.place(step.mib_per_second));
        path += &format!("L{from:.1} {at:.1}H{to:.1}");
        parts += &format!(
            "<path class=\"point\" d=\"M{from:.1} {at:.1}H{to:.1}\"><title>{}: {:.2} to {:.2} GiB, {:.1} MiB/s</title></path>\n",
            escape(&shortened(&log.name)),
            step.start_gib,
            step.end_gib,
            step.mib_per_second
        );
    }
    let attributes = format!(" class=\"line c{}\" stroke-dasharray=\"{}\"", index % COLOURS, dash(index));
    let title = element("title", "", &escape(&log.name));
    format!("<g{attributes}>{title}\n<path d=\"{path}\"/>\n{parts}</g>\n")
}

fn legend(index: usize, log: &Log, steps: &[Step]) -> String {
    let at = LEGEND_TOP + LEGEND_ROW * index as f64;
    let name = escape(&shortened(&log.name));
    let low = steps.iter().map(|step| step.mib_per_second).fold(f64::INFINITY, f64::min);
    let high = steps.iter().map(|step| step.mib_per_second).fold(0.0, f64::max);
    let range = match mean_mib_per_second(steps) {
        None => "too fast to be timed".into(),
        Some(mean) => format!("{mean:.1} MiB/s, from {low:.1} to {high:.1}"),
    };
    format!(
        "<g><path class=\"line c{}\" stroke-dasharray=\"{}\" d=\"M{LEFT} {:.1}h32\"/>\
         <text class=\"text\" x=\"{}\" y=\"{:.1}\">{name}: {range}</text></g>\n",
        index % COLOURS,
        dash(index),
        at - 4.5,
        LEFT + 42.0,
        at
    )
}

/// Shortens a path at its beginning, because the end says more.
fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= NAME_MAX {
        return text.into();
    }
    std::iter::once('…').chain(text.chars().skip(count - NAME_MAX + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn log(name: &str, rates: &[f64]) -> Log {
        let line = |(index, rate): (usize, &f64)| Line {
            offset_gib: index as f64 * 8.0,
            mib_per_second: (*rate > 0.0).then_some(*rate),
            seconds: 8192.0 / rate,
        };
        let lines = rates.iter().enumerate().map(line).collect();
        Log { name: name.into(), lines, offset_decimals: 2, ..Log::default() }
    }

    /// Asserts that tags close in their order, and that no other content would act.
    fn assert_well_formed(text: &str) {
        let mut open = Vec::new();
        for part in text.split('<').skip(1) {
            let (tag, _) = part.split_once('>').expect("a tag that ends");
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name.to_owned()), "{text}");
            } else if !tag.ends_with('/') {
                open.push(tag.split(' ').next().unwrap_or_default().to_owned());
            }
        }
        assert!(open.is_empty(), "{open:?}");
        for foreign in ["<script", "href", "@import", "url(", "NaN", "inf"] {
            assert!(!text.contains(foreign), "{foreign}: {text}");
        }
    }

    #[test]
    fn ticks_are_round() {
        let axis = |low, high| Scale::linear(low, high, [0.0, 100.0]);
        let labels =
            |axis: Scale| labelled_ticks(&axis, 6).into_iter().map(|(_, label)| label).collect::<Vec<_>>();
        assert_eq!(labels(axis(0.0, 300.0)), ["0", "50", "100", "150", "200", "250", "300"]);
        assert_eq!(labels(axis(0.0, 0.1)), ["0.00", "0.02", "0.04", "0.06", "0.08", "0.10"]);
        assert_eq!(labels(axis(1.3, 7.9)), ["2", "4", "6"]);
    }

    #[test]
    fn hostile_device_names_are_escaped_in_the_plot() {
        let name = "</title><script>alert(1)</script>\" onload=\"x\u{1b}[31m\u{202e}";
        let text = plot(&[log(name, &[100.0, 200.0])]);
        assert_well_formed(&text);
        assert!(text.contains("&lt;script&gt;") && text.contains(r"\u{202e}"), "{text}");
    }

    #[test]
    fn plot_has_line_and_legend_entry_per_file() {
        let names: Vec<_> = (0..9).map(|index| format!("/dev/sd{index}")).collect();
        let logs: Vec<_> = names.iter().map(|name| log(name, &[100.0, 80.0, 60.0])).collect();
        let text = plot(&logs);
        assert_well_formed(&text);
        for name in &names {
            assert!(text.contains(&format!(">{name}: 76.6 MiB/s, from 60.0 to 100.0<")), "{name}");
        }
        // The eighth line has the colour of the first, and is dashed.
        assert_eq!(
            (
                text.matches("line c0\" stroke-dasharray=\"none\"").count(),
                text.matches("line c0\" stroke-dasharray=\"8 4\"").count()
            ),
            (2, 2)
        );
        assert!(
            text.contains(">0<")
                && text.contains(">100<")
                && text.contains(">MiB/s<")
                && text.contains("GiB")
        );
        assert!(text.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn plot_without_rates_shows_explanation() {
        for logs in [vec![], vec![log("x", &[0.0])]] {
            let text = plot(&logs);
            assert_well_formed(&text);
            assert!(text.contains("Everything was too fast"), "{text}");
        }
    }

    #[test]
    fn plot_of_many_lines_has_a_thousand_points() {
        let rates: Vec<_> = (0..5000).map(|index| 100.0 + f64::from(index % 2) * 100.0).collect();
        let text = plot(&[log("x", &rates)]);
        assert_eq!(text.matches("class=\"point\"").count(), 1000);
        let few = steps(&log("x", &[100.0, 300.0]));
        assert_eq!(joined(&few).len(), 2, "few stay as they are");
        assert_eq!(mean_mib_per_second(&few).map(f64::round), Some(150.0));
        let long = "x".repeat(NAME_MAX) + "end";
        assert!(shortened(&long).starts_with('…') && shortened(&long).ends_with("end"));
    }

    proptest! {
        #[test]
        fn any_logs_can_be_drawn(
            names in prop::collection::vec(any::<String>(), 1..4),
            lines in prop::collection::vec((0.0f64..1e9, prop::option::of(0.0f64..1e9), 0.0f64..1e9), 0..20),
        ) {
            let lines: Vec<_> = lines
                .iter()
                .map(|(offset_gib, mib_per_second, seconds)| Line { offset_gib: *offset_gib, mib_per_second: *mib_per_second, seconds: *seconds })
                .collect();
            let logs: Vec<_> = names.iter().map(|name| Log { name: name.clone(), lines: lines.clone(), ..Log::default() }).collect();
            let text = plot(&logs);
            prop_assert!(!text.contains("NaN\"") && text.ends_with("</svg>\n"));
        }
    }
}
