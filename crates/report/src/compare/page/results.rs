//! What differs between the sides, and the table of all rows with the chart of their changes.

use askama::Template;
use model::comparison::{Change, Measured, Row as Compared};
use model::run::{Confidence, Trust};

use super::cards::Cards;
use super::{Page, SENTENCE_MAX, SIDES_MAX, answer, class_of, forest, name, sentence};
use crate::compare::words::{MISSING, ends, p, signed, spread, value};
use crate::html::test::Chip;
use crate::html::{Figure, Markup, rendered};
use crate::text::{fit, is_of_device};

/// Settings that differ that are shown at most; there are about forty.
const DIFFERENCES_MAX: usize = 100;
/// Most characters of one of their values.
const VALUE_MAX: usize = 300;

#[derive(Template)]
#[template(path = "compare_differs.html", whitespace = "minimize")]
struct Differs {
    sides: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
    same: Vec<String>,
}

/// What differs, and what is the same.
pub(super) fn differs(page: &Page<'_>) -> Markup {
    let comparison = page.comparison;
    let shown = |value: &Option<String>| {
        value.as_ref().map_or("not known".to_owned(), |value| fit(&crate::printable(value), VALUE_MAX))
    };
    let rows = comparison
        .differs
        .iter()
        .take(DIFFERENCES_MAX)
        .map(|one| (name(&one.name), one.values.iter().take(SIDES_MAX).map(shown).collect()));
    let same = comparison.same.iter().take(DIFFERENCES_MAX);
    rendered(&Differs {
        sides: (0..comparison.sides.len().min(SIDES_MAX)).map(|side| page.name(side)).collect(),
        rows: rows.collect(),
        same: same
            .map(|one| fit(&crate::printable(&format!("{} {}", one.name, one.value)), VALUE_MAX))
            .collect(),
    })
}

#[derive(Template)]
#[template(path = "compare_results.html", whitespace = "minimize")]
struct Results {
    sides: Vec<String>,
    rows: Vec<Row>,
    means: Vec<String>,
    has_means: bool,
    has_limiters: bool,
    left: usize,
    figures: Vec<Figure>,
}

struct Row {
    anchor: Option<String>,
    name: String,
    label: String,
    /// Whether it is the latency of the test above it.
    continues: bool,
    is_warned_of: bool,
    sides: Vec<Cell>,
    limiters: Vec<Chip>,
    /// What is said against its numbers, and of which sides.
    trust: Vec<Chip>,
}

/// What stands in the columns of a side.
struct Cell {
    value: String,
    spread: String,
    /// Nothing for the first side.
    change: Option<Told>,
    is_first: bool,
}

struct Told {
    chip: Chip,
    small: String,
    ends: String,
    p: String,
}

/// The table and the charts of changes.
pub(super) fn section(page: &Page<'_>, cards: &Cards) -> Markup {
    let comparison = page.comparison;
    let shown = page.rows_max();
    let mut last = None;
    let rows = comparison.rows.iter().take(shown).map(|row| {
        let continues = last == Some(&row.spec) && !row.measure.is_rate();
        last = Some(&row.spec);
        row_of(page, cards, row, continues)
    });
    let means: Vec<_> = comparison
        .geomean_ratios
        .iter()
        .take(SIDES_MAX - 1)
        .map(|ratio| ratio.map_or(String::new(), signed))
        .collect();
    let rows: Vec<_> = rows.collect();
    rendered(&Results {
        has_limiters: rows.iter().any(|row| !row.limiters.is_empty() || !row.trust.is_empty()),
        sides: (0..comparison.sides.len().min(SIDES_MAX)).map(|side| page.name(side)).collect(),
        rows,
        has_means: means.iter().any(|mean| !mean.is_empty())
            && comparison.rows.iter().filter(|row| row.measure.is_rate()).count() > 1,
        means,
        left: comparison.rows.len().saturating_sub(shown),
        figures: forest::figures(page),
    })
}

fn row_of(page: &Page<'_>, cards: &Cards, row: &Compared, continues: bool) -> Row {
    let sides = row.sides.iter().enumerate().take(SIDES_MAX).map(|(side, measured)| Cell {
        value: measured.as_ref().map_or(MISSING.to_owned(), |measured| value(row, measured.mean)),
        spread: measured.as_ref().map_or(String::new(), spread_of),
        change: side
            .checked_sub(1)
            .and_then(|index| row.changes.get(index)?.as_ref())
            .map(|change| told(page, change)),
        is_first: side == 0,
    });
    Row {
        anchor: cards.anchor(&row.spec),
        name: name(&row.name),
        label: match (row.measure.is_rate(), continues) {
            (true, _) => name(&row.label),
            (false, true) => "p99".into(),
            (false, false) => name(&format!("{} p99", row.label)),
        },
        continues,
        is_warned_of: !row.warnings.is_empty(),
        sides: sides.collect(),
        limiters: if row.measure.is_rate() { limiters(row) } else { Vec::new() },
        trust: if continues { Vec::new() } else { trust(page, row) },
    }
}

fn told(page: &Page<'_>, change: &Change) -> Told {
    let (words, small) = answer(change, page.comparison);
    Told {
        chip: Chip { class: class_of(change), words, surely: "" },
        small: fit(&small, SENTENCE_MAX),
        ends: ends(change),
        p: p(change),
    }
}

/// How far the interval of a side reaches. What the intervals of two runs have for bounds says no more than that they are
/// far away.
fn spread_of(measured: &Measured) -> String {
    let is_wide = measured.ci95_high.is_some_and(|high| high > measured.mean * 2.0);
    if is_wide { "beyond ±100 %".into() } else { spread(measured) }
}

/// Whether the numbers are what they look like; the sides are named where it is not all of them.
fn trust(page: &Page<'_>, row: &Compared) -> Vec<Chip> {
    let measured =
        || row.sides.iter().enumerate().take(SIDES_MAX).filter_map(|(side, one)| Some((side, one.as_ref()?)));
    let kinds = [(Trust::Invalid, "dull", "not to be trusted"), (Trust::Suspect, "other", "suspect")];
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
        Some(Chip { class, words, surely: "" })
    };
    kinds.into_iter().filter_map(chip).collect()
}

/// What limited the sides, in their order; what limited one as the one before it stands once.
fn limiters(row: &Compared) -> Vec<Chip> {
    let mut chips: Vec<Chip> = Vec::new();
    let mut last = None;
    for measured in row.sides.iter().take(SIDES_MAX).flatten() {
        let Some(limiter) = measured.limiter.filter(|limiter| last != Some(*limiter)) else { continue };
        last = Some(limiter);
        let (class, surely) = match measured.confidence {
            None | Some(Confidence::Undetermined) => ("dull", ""),
            Some(confidence) => (
                if is_of_device(limiter) { "good" } else { "other" },
                if confidence == Confidence::Confirmed { "confirmed" } else { "likely" },
            ),
        };
        chips.push(Chip { class, words: sentence(limiter.title()), surely });
    }
    chips
}
