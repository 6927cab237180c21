//! A card for each test: every run of every side, and charts of the median runs.

use std::collections::{HashMap, HashSet};

use askama::Template;
use model::comparison::Row;
use model::run::PhaseRecord;

use super::{Page, SIDES_MAX, answer, class_of, name, overlay, strip};
use crate::compare::side::is_measured;
use crate::html::test::{Chip, middle};
use crate::html::{Figure, Markup, rendered};
use wording::comparison::{subject, value};

/// Most characters of an anchor that come from the test.
const ANCHOR_MAX: usize = 40;

/// The cards that there is room for.
#[derive(Debug, Default)]
pub(super) struct Cards {
    cards: Vec<Markup>,
    /// Anchors of the cards, by the specs of their tests.
    anchors: HashMap<String, String>,
    /// Number of tests for which there was no room.
    left: usize,
}

#[derive(Template)]
#[template(path = "compare_cards.html", whitespace = "minimize")]
struct Section<'a> {
    cards: &'a [Markup],
    left: usize,
    /// Place of their numbers.
    all: Markup,
}

#[derive(Template)]
#[template(path = "compare_card.html", whitespace = "minimize")]
struct Card {
    anchor: String,
    /// True for the card that is open when the page is opened.
    is_first: bool,
    name: String,
    /// Name and mean of each side.
    sides: Vec<(String, String)>,
    chips: Vec<Chip>,
    figures: Vec<Figure>,
    spec: String,
    is_runnable: bool,
}

impl Cards {
    /// Makes cards in at most `bytes_max` bytes, for all tests that have something to draw.
    pub(super) fn new(page: &Page<'_>, bytes_max: usize) -> Self {
        let mut cards = Self::default();
        let (mut bytes, mut taken) = (0, HashSet::new());
        for group in page.comparison.rows.chunk_by(|one, other| one.spec == other.spec) {
            let spec = &group[0].spec;
            let anchor = anchor(spec, &mut taken);
            let Some(card) = card(page, group, &anchor, cards.cards.is_empty()) else { continue };
            if cards.left > 0 || bytes + card.0.len() > bytes_max {
                cards.left += 1;
                continue;
            }
            bytes += card.0.len();
            cards.cards.push(card);
            cards.anchors.entry(spec.clone()).or_insert(anchor);
        }
        cards
    }

    /// Returns the anchor of a test's card; `None` if it has no card.
    pub(super) fn anchor(&self, spec: &str) -> Option<String> {
        self.anchors.get(spec).cloned()
    }

    /// The section of all cards; `None` if there are none.
    pub(super) fn section(&self, page: &Page<'_>) -> Option<Markup> {
        let section = Section { cards: &self.cards, left: self.left, all: page.csv() };
        (!self.cards.is_empty() || self.left > 0).then(|| rendered(&section))
    }
}

fn anchor(spec: &str, taken: &mut HashSet<String>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let mut anchor = format!("test-{}", spec.chars().take(ANCHOR_MAX).map(plain).collect::<String>());
    if !taken.insert(anchor.clone()) {
        // No test has a name that ends like this.
        anchor.push_str(&format!("--{}", taken.len()));
        taken.insert(anchor.clone());
    }
    anchor
}

/// Makes the card of one test from its rows: its rate, and its latency if there is one.
fn card(page: &Page<'_>, rows: &[Row], anchor: &str, is_first: bool) -> Option<Markup> {
    let row = &rows[0];
    let median_runs: Vec<Option<&PhaseRecord>> =
        (0..page.comparison.sides.len()).map(|side| median_run(page, side, &row.spec)).collect();
    let mut figures: Vec<Figure> = rows.iter().filter_map(|row| strip::figure(page, row)).collect();
    figures.extend(overlay::over_time(page, &median_runs));
    figures.extend(overlay::latencies(page, &median_runs));
    if figures.is_empty() {
        return None;
    }
    let sides =
        row.sides.iter().enumerate().take(SIDES_MAX).filter_map(|(side, measured)| {
            Some((page.short_name(side), value(row, measured.as_ref()?.mean)))
        });
    let chips = row.changes.iter().take(SIDES_MAX).flatten().map(|change| {
        let (words, _) = answer(change, page.comparison);
        Chip { class: class_of(change), words, confidence_text: "" }
    });
    let test = Row { measure: model::comparison::Measure::OpsPerSecond, ..row.clone() };
    Some(rendered(&Card {
        anchor: anchor.to_owned(),
        is_first,
        name: name(&subject(&test)),
        sides: sides.collect(),
        chips: chips.collect(),
        spec: name(&row.spec),
        is_runnable: median_runs.iter().any(Option::is_some),
        figures,
    }))
}

/// Returns the run of a side with the median rate; `None` if no document has the test.
fn median_run<'a>(page: &Page<'a>, side: usize, spec: &str) -> Option<&'a PhaseRecord> {
    let phases = page.runs.get(side)?.iter().flat_map(|run| &run.phases);
    let of_test: Vec<_> =
        phases.filter(|phase| phase.spec == spec && is_measured(phase)).enumerate().collect();
    (!of_test.is_empty()).then(|| middle(&of_test).1)
}
