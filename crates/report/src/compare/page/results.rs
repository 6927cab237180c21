//! The differences between the sides, and the table of all rows with the charts of their changes.

use askama::Template;
use model::comparison::{Change, Row as ComparisonRow, SideResult};
use model::run::{Confidence, Trust};

use super::cards::Cards;
use super::forest::Charts;
use super::page_limits::{escaped, fitting};
use super::{PAGE_MAX, Page, SENTENCE_MAX, SIDES_MAX, answer, class_of, name, sentence};
use crate::html::test::Chip;
use crate::html::{Markup, rendered};
use crate::text::fit;
use wording::comparison::{MISSING, ends, p, signed, spread, value};

/// Most differing settings that are shown; there are about forty settings.
const DIFFERENCES_MAX: usize = 100;
/// Most characters of a setting's value.
const VALUE_MAX: usize = 300;
/// Most bytes of the settings that differ, of those that do not, and of the table of results.
const DIFFERS_BYTES: usize = PAGE_MAX / 12;
const SAME_BYTES: usize = PAGE_MAX / 40;
const TABLE_BYTES: usize = PAGE_MAX / 10 * 3;
/// Markup around a row, around the cell of a side, and around its change, in bytes.
const ROW_BYTES: usize = 230;
const CELL_BYTES: usize = 95;
const CHANGE_BYTES: usize = 90;
/// Markup around a coloured word, and around a setting, in bytes.
const CHIP_BYTES: usize = 60;
const VALUE_BYTES: usize = 14;

#[derive(Template)]
#[template(path = "compare_differs.html", whitespace = "minimize")]
struct DifferencesSection {
    sides: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
    same: Vec<String>,
    /// Numbers of settings and of sides for which there was no room.
    left: usize,
    sides_omitted: usize,
    all: Markup,
}

/// The section on settings that differ, and on those that are the same.
pub(super) fn differs(page: &Page<'_>) -> Markup {
    let comparison = page.comparison;
    let display = |value: &Option<String>| {
        value.as_ref().map_or("not known".to_owned(), |value| fit(&crate::printable(value), VALUE_MAX))
    };
    let rows = comparison
        .differs
        .iter()
        .take(DIFFERENCES_MAX)
        .map(|one| (name(&one.name), one.values.iter().take(SIDES_MAX).map(display).collect()));
    let bytes = |(name, values): &(String, Vec<String>)| {
        let values = values.iter().map(|value| VALUE_BYTES + escaped(value)).sum::<usize>();
        ROW_BYTES + escaped(name) + values
    };
    let (rows, _) = fitting(rows, DIFFERS_BYTES, bytes);
    let same = comparison.same.iter().take(DIFFERENCES_MAX);
    let same = same.map(|one| fit(&crate::printable(&format!("{} {}", one.name, one.value)), VALUE_MAX));
    let (same, _) = fitting(same, SAME_BYTES, |fact| VALUE_BYTES + escaped(fact));
    rendered(&DifferencesSection {
        sides: (0..comparison.sides.len().min(SIDES_MAX)).map(|side| page.name(side)).collect(),
        left: (comparison.differs.len() - rows.len()) + (comparison.same.len() - same.len()),
        sides_omitted: page.sides_omitted(),
        all: page.json(),
        rows,
        same,
    })
}

#[derive(Template)]
#[template(path = "compare_results.html", whitespace = "minimize")]
struct Results<'a> {
    sides: Vec<String>,
    rows: Vec<Row>,
    means: Vec<String>,
    has_means: bool,
    has_limiters: bool,
    left: usize,
    sides_omitted: usize,
    all: Markup,
    charts: &'a Charts,
}

struct Row {
    anchor: Option<String>,
    name: String,
    label: String,
    /// True if the row is the latency of the test above it.
    is_continuation: bool,
    has_warning: bool,
    sides: Vec<Cell>,
    limiters: Vec<Chip>,
    /// Labels of distrust in its numbers, with the sides concerned.
    trust: Vec<Chip>,
}

/// Contents of a side's columns.
struct Cell {
    /// Name of the side, which narrow screens show in the cell.
    name: String,
    value: String,
    spread: String,
    /// Change against the first side; `None` for that side itself.
    change: Option<ChangeCell>,
    is_first: bool,
}

struct ChangeCell {
    chip: Chip,
    small: String,
    ends: String,
    p: String,
}

/// The table and the charts of changes.
pub(super) fn section(page: &Page<'_>, cards: &Cards, charts: &Charts) -> Markup {
    let comparison = page.comparison;
    let row_count = page.rows_max();
    let mut last = None;
    let rows = comparison.rows.iter().take(row_count).map(|row| {
        let is_continuation = last == Some(&row.spec) && !row.measure.is_rate();
        last = Some(&row.spec);
        row_of(page, cards, row, is_continuation)
    });
    let means: Vec<_> = comparison
        .geomean_ratios
        .iter()
        .take(SIDES_MAX - 1)
        .map(|ratio| ratio.map_or(String::new(), signed))
        .collect();
    let (rows, _) = fitting(rows, TABLE_BYTES, bytes_of);
    rendered(&Results {
        has_limiters: rows.iter().any(|row| !row.limiters.is_empty() || !row.trust.is_empty()),
        sides: (0..comparison.sides.len().min(SIDES_MAX)).map(|side| page.name(side)).collect(),
        left: comparison.rows.len() - rows.len(),
        rows,
        has_means: means.iter().any(|mean| !mean.is_empty())
            && comparison.rows.iter().filter(|row| row.measure.is_rate()).count() > 1,
        means,
        sides_omitted: page.sides_omitted(),
        all: page.csv(),
        charts,
    })
}

/// Returns the most bytes that a row takes, with or without a link to a card.
fn bytes_of(row: &Row) -> usize {
    let chip = |chip: &Chip| CHIP_BYTES + escaped(&chip.words);
    let cell = |cell: &Cell| {
        let change = cell.change.as_ref().map_or(0, |change_cell| {
            CHANGE_BYTES
                + chip(&change_cell.chip)
                + escaped(&change_cell.small)
                + escaped(&change_cell.ends)
                + escaped(&change_cell.p)
        });
        CELL_BYTES + escaped(&cell.name) + escaped(&cell.value) + escaped(&cell.spread) + change
    };
    let chips = row.limiters.iter().chain(&row.trust).map(chip).sum::<usize>();
    ROW_BYTES + escaped(&row.name) + escaped(&row.label) + chips + row.sides.iter().map(cell).sum::<usize>()
}

fn row_of(page: &Page<'_>, cards: &Cards, row: &ComparisonRow, is_continuation: bool) -> Row {
    let sides = row.sides.iter().enumerate().take(SIDES_MAX).map(|(side, measured)| Cell {
        name: page.name(side),
        value: measured.as_ref().map_or(MISSING.to_owned(), |measured| value(row, measured.mean)),
        spread: measured.as_ref().map_or(String::new(), spread_of),
        change: side
            .checked_sub(1)
            .and_then(|index| row.changes.get(index)?.as_ref())
            .map(|change| change_cell(page, change)),
        is_first: side == 0,
    });
    Row {
        anchor: cards.anchor(&row.spec),
        name: name(&row.name),
        label: match (row.measure.is_rate(), is_continuation) {
            (true, _) => name(&row.label),
            (false, true) => "p99".into(),
            (false, false) => name(&format!("{} p99", row.label)),
        },
        is_continuation,
        has_warning: !row.warnings.is_empty(),
        sides: sides.collect(),
        limiters: if row.measure.is_rate() { limiters(row) } else { Vec::new() },
        trust: if is_continuation { Vec::new() } else { trust(page, row) },
    }
}

fn change_cell(page: &Page<'_>, change: &Change) -> ChangeCell {
    let (words, small) = answer(change, page.comparison);
    ChangeCell {
        chip: Chip { class: class_of(change), words, confidence_text: "" },
        small: fit(&small, SENTENCE_MAX),
        ends: ends(change),
        p: p(change),
    }
}

/// Returns the reach of a side's interval in words. The bounds of two runs' intervals say only that they are far away.
fn spread_of(measured: &SideResult) -> String {
    let is_wide = measured.ci95_high.is_some_and(|high| high > measured.mean * 2.0);
    if is_wide { "beyond ±100 %".into() } else { spread(measured) }
}

/// Returns labels for numbers that are not to be trusted. The sides are named unless all are concerned.
fn trust(page: &Page<'_>, row: &ComparisonRow) -> Vec<Chip> {
    let measured =
        || row.sides.iter().enumerate().take(SIDES_MAX).filter_map(|(side, one)| Some((side, one.as_ref()?)));
    let kinds = [(Trust::Invalid, "dull", "invalid"), (Trust::Suspect, "other", "suspect")];
    let chip = |(trust, class, words): (Trust, &'static str, &str)| {
        let of: Vec<_> = measured()
            .filter(|(_, one)| one.trust == Some(trust))
            .map(|(side, _)| page.short_name(side))
            .collect();
        let words = match of.len() {
            0 => return None,
            count if count == measured().count() => words.to_owned(),
            _ => format!("{words}: {}", of.join(", ")),
        };
        Some(Chip { class, words, confidence_text: "" })
    };
    kinds.into_iter().filter_map(chip).collect()
}

/// Returns labels for the sides' limiters, in the order of the sides. Neighbours with the same limiter share a label.
fn limiters(row: &ComparisonRow) -> Vec<Chip> {
    let mut chips: Vec<Chip> = Vec::new();
    let mut last = None;
    for measured in row.sides.iter().take(SIDES_MAX).flatten() {
        let Some(limiter) = measured.limiter.filter(|limiter| last != Some(*limiter)) else { continue };
        last = Some(limiter);
        let (class, confidence_text) = match measured.confidence {
            None | Some(Confidence::Undetermined) => ("dull", ""),
            Some(confidence) => (
                if limiter.is_of_device() { "good" } else { "other" },
                if confidence == Confidence::Confirmed { "confirmed" } else { "likely" },
            ),
        };
        chips.push(Chip { class, words: sentence(limiter.title()), confidence_text });
    }
    chips
}
