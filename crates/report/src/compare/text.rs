//! A comparison on the terminal.

use std::collections::HashSet;

use model::Comparison;
use model::comparison::{Change, Decision, Direction, Measure, Row};

use crate::printable;
use crate::text::{
    BOLD, DIM, GREEN, Style, YELLOW, display_width, field, fit, fit_end, no_break, paint, remark, wrap,
};
use wording::comparison::{
    MISSING, answer, conclusions, difference, ends, first_distinct, headline, limiters, margin, p, runs,
    signed, spread, unsettled, value, warnings,
};

/// Blanks between columns, and before the first.
const GAP: usize = 2;
/// Longest fact, in characters, that is not broken.
const UNBROKEN_CHARS_MAX: usize = 44;
/// Most characters of a side's name above its column.
const NAME_MAX: usize = 20;

/// Renders the comparison as text, with a newline at the end.
pub fn text(comparison: &Comparison, style: &Style) -> String {
    let mut blocks = vec![title(comparison, style), facts(comparison, style), table(comparison, style)];
    blocks.push(remarks(comparison, style));
    let blocks: Vec<_> = blocks.into_iter().filter(|block| !block.is_empty()).collect();
    style.finish(format!("{}\n", blocks.join("\n\n")))
}

fn title(comparison: &Comparison, style: &Style) -> String {
    let of = |side: &model::comparison::Side| {
        no_break(&format!("{} ({})", printable(&side.name), runs(side.runs)))
    };
    let sides: Vec<_> = comparison.sides.iter().map(of).collect();
    let how = if comparison.is_interleaved { ", measured alternately" } else { "" };
    let title = format!("skye compare · {} against {}{how}", sides[1..].join(", "), sides[0]);
    let headline = wrap(&printable(&headline(comparison)), style.paragraph()).join("\n");
    format!("{}\n{}", wrap(&title, style.paragraph() - 2).join("\n  "), paint(BOLD, &headline))
}

/// Keeps a short text on one line.
fn keep_on_line(text: String) -> String {
    if display_width(&text) <= UNBROKEN_CHARS_MAX { no_break(&text) } else { text }
}

fn facts(comparison: &Comparison, style: &Style) -> String {
    let mut lines = Vec::new();
    let differs: Vec<_> = comparison
        .differs
        .iter()
        .map(|one| keep_on_line(printable(&format!("{} {}", one.name, difference(one)))))
        .collect();
    let differs = if differs.is_empty() { "nothing known".into() } else { differs.join(" · ") };
    lines.push(field("differs", &differs, style));
    let same: Vec<_> = comparison
        .same
        .iter()
        .map(|setting| match setting.name.as_str() {
            // These values need no name.
            "host" | "kernel" | "file system" | "device" | "program" | "source" => setting.value.clone(),
            name => format!("{name} {}", setting.value),
        })
        .map(|text| keep_on_line(printable(&text)))
        .collect();
    if !same.is_empty() {
        lines.push(field("same", &same.join(" · "), style));
    }
    lines.join("\n")
}

/// A cell with its style and alignment.
struct Cell {
    text: String,
    style: anstyle::Style,
    is_right_aligned: bool,
}

impl Cell {
    fn left_aligned(text: impl Into<String>) -> Self {
        Self { text: text.into(), style: anstyle::Style::new(), is_right_aligned: false }
    }

    fn right_aligned(text: impl Into<String>) -> Self {
        Self { is_right_aligned: true, ..Self::left_aligned(text) }
    }

    fn styled(self, style: anstyle::Style) -> Self {
        Self { style, ..self }
    }
}

/// Columns that there is room for. Other output formats have those that are left out.
#[derive(Clone, Copy)]
struct Columns {
    has_limiters: bool,
    has_ends: bool,
    has_p: bool,
    has_spread: bool,
}

const LAYOUTS: [Columns; 5] = [
    Columns { has_limiters: true, has_ends: true, has_p: true, has_spread: true },
    Columns { has_limiters: true, has_ends: false, has_p: true, has_spread: true },
    Columns { has_limiters: false, has_ends: true, has_p: true, has_spread: true },
    Columns { has_limiters: false, has_ends: false, has_p: true, has_spread: true },
    Columns { has_limiters: false, has_ends: false, has_p: false, has_spread: false },
];

fn table(comparison: &Comparison, style: &Style) -> String {
    let render_columns = |columns| render_columns(comparison, columns, style);
    let fitting = LAYOUTS.into_iter().map(render_columns).find(|text| widest(text) <= style.width);
    match fitting {
        Some(text) => text,
        // If the sides do not fit beside each other, each gets its own table against the first.
        None if comparison.sides.len() > 2 => {
            let pairs = (1..comparison.sides.len()).map(|side| table(&single_side(comparison, side), style));
            pairs.collect::<Vec<_>>().join("\n\n")
        }
        None => render_columns(LAYOUTS[LAYOUTS.len() - 1]),
    }
}

/// Returns the comparison of one side with the first, without the others.
fn single_side(comparison: &Comparison, side: usize) -> Comparison {
    let row = |row: &Row| {
        let change = row.changes[side - 1].clone();
        change.as_ref()?;
        let sides = vec![row.sides[0].clone(), row.sides[side].clone()];
        Some(Row { sides, changes: vec![change], ..row.clone() })
    };
    Comparison {
        sides: vec![comparison.sides[0].clone(), comparison.sides[side].clone()],
        rows: comparison.rows.iter().filter_map(row).collect(),
        geomean_ratios: vec![comparison.geomean_ratios[side - 1]],
        ..comparison.clone()
    }
}

/// The widest line without its escape sequences.
fn widest(text: &str) -> usize {
    let plain = anstream::adapter::strip_str(text).to_string();
    plain.lines().map(display_width).max().unwrap_or_default()
}

fn render_columns(comparison: &Comparison, columns: Columns, style: &Style) -> String {
    let mut grid = vec![heading(comparison, columns)];
    let visible_rows = comparison.rows.iter().filter(|row| row.measure.is_rate() || is_worth_a_line(row));
    let mut before: Option<&Row> = None;
    for row in visible_rows {
        let is_continuation =
            before.is_some_and(|before| before.spec == row.spec && row.measure == Measure::P99Ns);
        grid.push(cells(row, is_continuation, columns));
        before = Some(row);
    }
    if comparison.geomean_ratios.iter().any(Option::is_some)
        && comparison.rows.iter().filter(|row| row.measure.is_rate()).count() > 1
    {
        grid.push(mean(comparison));
    }
    let count = grid.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        grid.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| display_width(&style.finish(cell.text.clone())))
            .max()
    };
    let widths: Vec<_> = (0..count).map(|column| width(column).unwrap_or_default()).collect();
    let line = |cells: &Vec<Cell>| {
        let mut line = String::new();
        // Blanks before the next cell. They are only written if a cell follows.
        let mut blanks = 0;
        for (cell, width) in cells.iter().zip(&widths).filter(|(_, width)| **width > 0) {
            let text = style.finish(cell.text.clone());
            let gap = width - display_width(&text);
            let (left, right) = if cell.is_right_aligned { (gap, 0) } else { (0, gap) };
            if text.is_empty() {
                blanks += gap + GAP;
                continue;
            }
            line.push_str(&" ".repeat(blanks + GAP + left));
            line.push_str(&paint(cell.style, &text));
            blanks = right;
        }
        line
    };
    grid.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns true if a latency changed: only then does it have a line. Every other output format has all latencies.
fn is_worth_a_line(row: &Row) -> bool {
    row.changes.iter().flatten().any(|change| change.answer == Decision::Changed)
}

/// Returns the headings of the sides: as much of each name as there is room for, and no two the same.
fn names(comparison: &Comparison) -> Vec<String> {
    let names: Vec<_> = comparison.sides.iter().map(|side| printable(&side.name)).collect();
    let cut = |cut: fn(&str, usize) -> String| names.iter().map(|name| cut(name, NAME_MAX)).collect();
    let (heads, tails) = (cut(fit), cut(fit_end));
    // The end of a path says most.
    let are_paths = names.iter().any(|name| name.contains('/'));
    let choices: [Vec<String>; 2] = if are_paths { [tails, heads] } else { [heads, tails] };
    first_distinct(choices)
        .unwrap_or_else(|| (1..=names.len()).map(|number| format!("side {number}")).collect())
}

fn heading(comparison: &Comparison, columns: Columns) -> Vec<Cell> {
    let mut cells = vec![Cell::left_aligned(""), Cell::left_aligned("")];
    for (index, name) in names(comparison).into_iter().enumerate() {
        cells.push(Cell::right_aligned(name));
        cells.push(Cell::left_aligned(""));
        if index > 0 {
            cells.push(Cell::right_aligned("change"));
            let has_ends = columns.has_ends && comparison.has_p_values();
            cells.push(Cell::left_aligned(if has_ends { "95 %" } else { "" }));
            cells.push(Cell::left_aligned(""));
        }
    }
    let has_limiters = columns.has_limiters && comparison.rows.iter().any(|row| !limiters(row).is_empty());
    cells.push(Cell::left_aligned(if has_limiters { "limited by" } else { "" }));
    cells
}

fn cells(row: &Row, is_continuation: bool, columns: Columns) -> Vec<Cell> {
    let (name, label) = match (row.measure, is_continuation) {
        (Measure::P99Ns, true) => (String::new(), "p99".to_owned()),
        (Measure::P99Ns, false) => (row.name.clone(), format!("{} p99", row.label)),
        _ => (row.name.clone(), row.label.clone()),
    };
    let mut cells = vec![Cell::left_aligned(printable(&name)), Cell::left_aligned(printable(&label))];
    for (index, side) in row.sides.iter().enumerate() {
        let (number, spread) = side.as_ref().map_or_else(
            || (MISSING.to_owned(), String::new()),
            |measured| (value(row, measured.mean), spread(measured)),
        );
        cells.push(Cell::right_aligned(number));
        cells.push(Cell::left_aligned(if columns.has_spread { spread } else { String::new() }).styled(DIM));
        if let Some(change) = index.checked_sub(1).map(|index| &row.changes[index]) {
            cells.extend(change_cells(change.as_ref(), row.is_invalid(), columns));
        }
    }
    let limiters = if row.measure.is_rate() && columns.has_limiters { limiters(row) } else { String::new() };
    let moved = (1..row.sides.len()).any(|side| row.moved(side).is_some());
    cells.push(Cell::left_aligned(limiters).styled(if moved { YELLOW } else { anstyle::Style::new() }));
    cells
}

fn change_cells(change: Option<&Change>, is_invalid: bool, columns: Columns) -> [Cell; 3] {
    let Some(change) = change else {
        return [Cell::right_aligned(""), Cell::left_aligned(""), Cell::left_aligned("")];
    };
    let colour = match change.direction {
        _ if is_invalid => DIM,
        Some(Direction::Better) => GREEN,
        Some(Direction::Worse) => YELLOW,
        None => anstyle::Style::new(),
    };
    let known = if change.p.is_none() { "n=1".to_owned() } else { p(change) };
    [
        Cell::right_aligned(format!("{}{}", answer(change), if is_invalid { " !" } else { "" }))
            .styled(colour),
        Cell::left_aligned(if columns.has_ends { ends(change) } else { String::new() }).styled(DIM),
        Cell::left_aligned(if columns.has_p { known } else { String::new() }).styled(DIM),
    ]
}

fn mean(comparison: &Comparison) -> Vec<Cell> {
    let mut cells = vec![
        Cell::left_aligned("geomean"),
        Cell::left_aligned(""),
        Cell::left_aligned(""),
        Cell::left_aligned(""),
    ];
    for ratio in &comparison.geomean_ratios {
        let ratio = ratio.map_or(String::new(), signed);
        cells.extend([
            Cell::left_aligned(""),
            Cell::left_aligned(""),
            Cell::right_aligned(ratio),
            Cell::left_aligned(""),
            Cell::left_aligned(""),
        ]);
    }
    cells
}

/// Renders the remarks below the table: warnings, undecided rows, omitted tests, conclusions.
fn remarks(comparison: &Comparison, style: &Style) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut say = |sign: &str, text: &str| lines.push(remark(sign, &printable(text), style));
    for (subjects, warning) in warnings(comparison) {
        say("!", &format!("{}: {warning}.", subjects.join(", ")));
    }
    for warning in &comparison.warnings {
        say("!", &format!("{warning}."));
    }
    if comparison.has_p_values() {
        for (subjects, sentence) in unsettled(comparison) {
            say("~", &format!("{}: {sentence}.", subjects.join(", ")));
        }
        let same = comparison.rows.iter().flat_map(|row| row.changes.iter().flatten());
        if same.clone().any(|change| change.answer == Decision::Equivalent) {
            say("~", &format!("same: equivalent within ± {}.", margin(comparison.effect)));
        }
    }
    let mut reasons: Vec<&str> = comparison.left_out.iter().map(|left| left.reason.as_str()).collect();
    let mut unique = HashSet::new();
    reasons.retain(|reason| unique.insert(*reason));
    for reason in reasons {
        let tests: Vec<_> = comparison.left_out.iter().filter(|left| left.reason == reason).collect();
        match &tests[..] {
            [only] => say("-", &format!("{}: {reason}.", only.what)),
            several => say("-", &format!("{} tests: {reason}.", several.len())),
        }
    }
    for sentence in conclusions(comparison) {
        say("·", &sentence);
    }
    lines.join("\n")
}
