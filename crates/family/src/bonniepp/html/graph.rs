//! Bars that show how much the rates of each line differ from those of the first.

use super::super::{Cell, Line, Test};
use draw::{Scale, element, escape};

/// Longest bar, in percent. The number beside a bar that is cut says how long it would be.
const PERCENT_MAX: f64 = 300.0;
/// Least span of the scale, in percent, so that noise does not fill the page.
const PERCENT_SPAN_MIN: f64 = 10.0;

/// Lengths in the units of the drawing.
const WIDTH: f64 = 960.0;
const LABEL_WIDTH: f64 = 240.0;
/// Room for the number at either end of a bar.
const NUMBER_WIDTH: f64 = 84.0;
const HEADING_HEIGHT: f64 = 30.0;
const ROW_HEIGHT: f64 = 22.0;
const BAR_HEIGHT: f64 = 14.0;
/// Most characters of a name beside a bar.
const NAME_MAX: usize = 26;

/// A test that can be compared, with the change in percent for each line that has a number.
struct Group {
    test: Test,
    bars: Vec<Bar>,
}

struct Bar {
    /// Index of the line, from 0.
    line: usize,
    percent: f64,
}

/// Renders the section with the graph, or with the reason why there is none.
pub(super) fn section(lines: &[Line]) -> String {
    let heading = "<h2>Change against the first line</h2>\n";
    let Some((first, others)) = lines.split_first().filter(|(_, others)| !others.is_empty()) else {
        return format!("{heading}<p>There is no graph: it compares lines, and there is only one.</p>\n");
    };
    let groups = groups(first, others);
    let left_out = left_out(lines);
    if groups.is_empty() {
        let reason = "There is no graph: no test has a number both in the first line and in another.";
        return format!("{heading}<p>{reason}</p>\n{left_out}");
    }
    let cut = groups.iter().flat_map(|group| &group.bars).any(|bar| bar.percent > PERCENT_MAX);
    let cut = if cut {
        format!(" A bar of more than {PERCENT_MAX:.0} % is truncated and marked ».")
    } else {
        String::new()
    };
    let baseline = format!(
        "<p>Rates in percent more or less than in line 1, <b class=\"name\">{}</b>; longer to the right is faster.{cut}</p>\n",
        escape(&first.name)
    );
    let drawing = element("div", " class=\"wide\" tabindex=\"0\"", &drawing(lines, &groups));
    format!("{heading}<figure>\n{baseline}{drawing}\n</figure>\n{left_out}")
}

fn groups(first: &Line, others: &[Line]) -> Vec<Group> {
    let group = |test: Test| {
        let base = first[test].rate.number().filter(|rate| *rate > 0.0)?;
        let bar = |(index, line): (usize, &Line)| {
            let percent = (line[test].rate.number()? / base - 1.0) * 100.0;
            percent.is_finite().then_some(Bar { line: index + 1, percent })
        };
        let bars: Vec<_> = others.iter().enumerate().filter_map(bar).collect();
        (!bars.is_empty()).then_some(Group { test, bars })
    };
    Test::ALL.into_iter().filter_map(group).collect()
}

/// Lists the tests that are not in the graph, with reasons.
fn left_out(lines: &[Line]) -> String {
    let items: Vec<_> =
        Test::ALL.into_iter().filter_map(|test| Some((test, reasons(lines, test)?))).collect();
    if items.is_empty() {
        return String::new();
    }
    let item = |(test, reason): &(Test, String)| element("li", "", &format!("{}: {reason}", test.title()));
    let items: Vec<_> = items.iter().map(item).collect();
    format!("<p>Not in the graph, as there is no number to compare:</p>\n<ul>\n{}\n</ul>\n", items.join("\n"))
}

/// Reasons why lines cannot be compared: "too fast to be timed in line 1; not run in lines 2 and 4"; `None` if all can.
fn reasons(lines: &[Line], test: Test) -> Option<String> {
    let where_rate = |is: fn(Cell) -> bool, words: &str, everywhere: &str| {
        let numbers = (1..).zip(lines).filter(|(_, line)| is(line[test].rate)).map(|(number, _)| number);
        let numbers: Vec<_> = numbers.collect();
        match numbers.len() {
            0 => None,
            all if all == lines.len() => Some(format!("{words} {everywhere}")),
            _ => Some(format!("{words} in {}", enumerated(&numbers))),
        }
    };
    let zero_at_first = lines.first().is_some_and(|line| line[test].rate.number() == Some(0.0));
    let reasons: Vec<_> = [
        where_rate(|rate| rate == Cell::Absent, "not run", "in any line"),
        where_rate(|rate| rate == Cell::TooFast, "too fast to be timed", "in every line"),
        zero_at_first.then(|| "a rate of zero in line 1".into()),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// "line 2", "lines 2 and 4", "lines 2, 4 and 5".
fn enumerated(numbers: &[usize]) -> String {
    let words: Vec<_> = numbers.iter().map(usize::to_string).collect();
    match words.split_last() {
        None => String::new(),
        Some((only, [])) => format!("line {only}"),
        Some((last, others)) => format!("lines {} and {last}", others.join(", ")),
    }
}

/// Makes the scale from percent to places in the drawing; a longer bar ends at its end.
fn scale_over(groups: &[Group]) -> Scale {
    let all = || groups.iter().flat_map(|group| &group.bars).map(|bar| bar.percent.min(PERCENT_MAX));
    let (low, high) = (all().fold(0.0, f64::min), all().fold(0.0, f64::max));
    let missing = (PERCENT_SPAN_MIN - (high - low)).max(0.0);
    Scale::linear(low, high + missing, [LABEL_WIDTH + NUMBER_WIDTH, WIDTH - NUMBER_WIDTH])
}

fn drawing(lines: &[Line], groups: &[Group]) -> String {
    let scale = scale_over(groups);
    let zero = scale.place(0.0);
    let mut parts = Vec::new();
    let mut y = 0.0;
    for group in groups {
        let heading = group.test.title();
        parts.push(format!(
            "<text class=\"test\" x=\"0\" y=\"{:.1}\">{heading}</text>",
            y + HEADING_HEIGHT * 0.65
        ));
        y += HEADING_HEIGHT;
        for bar in &group.bars {
            parts.push(bar_svg(&lines[bar.line], bar, heading, &scale, y));
            y += ROW_HEIGHT;
        }
    }
    parts.push(format!("<line class=\"zero\" x1=\"{zero:.1}\" x2=\"{zero:.1}\" y1=\"0\" y2=\"{y:.1}\"/>"));
    let label = "Change of each rate against the first line, in percent";
    let attributes = format!(
        " xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y:.0}\" width=\"{WIDTH}\" height=\"{y:.0}\" \
         role=\"img\" aria-label=\"{label}\""
    );
    element("svg", &attributes, &format!("\n{}\n", parts.join("\n")))
}

fn bar_svg(line: &Line, bar: &Bar, test: &str, scale: &Scale, y: f64) -> String {
    let (zero, end) = (scale.place(0.0), scale.place(bar.percent));
    let text = percent_text(bar.percent);
    let middle = y + ROW_HEIGHT / 2.0 + 4.5;
    let is_more = bar.percent >= 0.0;
    let (class, anchor, at) = if is_more { ("more", "start", end + 6.0) } else { ("less", "end", end - 6.0) };
    let cut = if bar.percent > PERCENT_MAX { "» " } else { "" };
    let number = bar.line + 1;
    let name = escape(&line.name);
    let label = escape(&shortened(&format!("{number} {}", line.name)));
    format!(
        "<g><title>{test}: line {number}, {name}, {text}</title>\
         <text class=\"name\" x=\"12\" y=\"{middle:.1}\">{label}</text>\
         <rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BAR_HEIGHT}\"/>\
         <text x=\"{at:.1}\" y=\"{middle:.1}\" text-anchor=\"{anchor}\">{cut}{text}</text></g>",
        zero.min(end),
        y + (ROW_HEIGHT - BAR_HEIGHT) / 2.0,
        (end - zero).abs().max(1.0),
    )
}

/// Formats a change: "+23 %", "−2.3 %", "±0 %", and "×120" where percentages are hard to read.
fn percent_text(percent: f64) -> String {
    let sign = if percent < 0.0 { "−" } else { "+" };
    match percent.abs() {
        size if size < 0.05 => "±0 %".into(),
        size if size < 9.95 => format!("{sign}{size:.1} %"),
        size if size < 9999.5 => format!("{sign}{size:.0} %"),
        _ if percent < 1e8 => format!("×{:.0}", percent / 100.0 + 1.0),
        _ => format!("×{:.0e}", percent / 100.0 + 1.0),
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= NAME_MAX {
        return text.into();
    }
    text.chars().take(NAME_MAX - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::Layout;
    use super::*;

    fn line(name: &str, write: f64, seconds: f64) -> Line {
        let mut line = Line::new(Layout::V2_00, name);
        line.measure(Test::PutBlock, write, seconds, None, None);
        line
    }

    #[test]
    fn percents_are_signed() {
        let formatted: Vec<_> =
            [0.0, -0.01, 2.34, -2.34, 23.4, -99.96, 4321.0, 11900.0, 1e12].map(percent_text).into();
        assert_eq!(
            formatted,
            ["±0 %", "±0 %", "+2.3 %", "−2.3 %", "+23 %", "−100 %", "+4321 %", "×120", "×1e10"]
        );
    }

    #[test]
    fn single_comparable_line_has_reason_instead_of_graph() {
        let one = section(&[line("a", 100.0, 1.0)]);
        assert!(!one.contains("<svg") && one.contains("there is only one"), "{one}");
        let none = section(&[line("a", 100.0, 0.1), line("b", 100.0, 1.0)]);
        assert!(!none.contains("<svg") && none.contains("too fast to be timed in line 1"), "{none}");
    }

    #[test]
    fn lines_missing_from_graph_are_listed() {
        let lines =
            [line("a", 100.0, 1.0), line("b", 150.0, 1.0), line("c", 50.0, 0.1), line("d", 50.0, 0.0)];
        let text = section(&lines);
        assert!(text.contains("+50 %") && text.matches("<rect").count() == 1, "{text}");
        assert!(text.contains("Write blocks: not run in line 4; too fast to be timed in line 3"), "{text}");
        assert!(text.contains("Rewrite: not run in any line"), "{text}");
        assert_eq!(enumerated(&[2, 4, 5]), "lines 2, 4 and 5");
    }

    #[test]
    fn bars_stay_in_the_drawing() {
        for others in [[0.0, 1e9], [99.0, 100.0], [1.0, 400.0], [100.0, 100.0]] {
            let lines = [line("a", 100.0, 1.0), line("b", others[0], 1.0), line("c", others[1], 1.0)];
            let groups = groups(&lines[0], &lines[1..]);
            let scale = scale_over(&groups);
            for bar in groups.iter().flat_map(|group| &group.bars) {
                let place = scale.place(bar.percent);
                assert!((LABEL_WIDTH + NUMBER_WIDTH..=WIDTH - NUMBER_WIDTH).contains(&place), "{place}");
            }
        }
    }
}
