//! A comparison as one page, similar to the page of a run. It has the answers in a table and on an axis, every run of
//! every test, and charts of median runs.
//!
//! Its words are those of the other output formats. Charts of runs come from the documents of the runs, if there are
//! any. All foreign text is shortened: a page must stay small however long names are.

mod cards;
mod findings;
mod forest;
mod method;
mod overlay;
mod page_limits;
mod results;
mod strip;

use cards::Cards;
use forest::Charts;
use method::DownloadLinks;
use model::comparison::{Change, Decision, Direction};
use model::{Comparison, Run};

use crate::html::{Frame, Markup, PAGE_MAX, rendered};
use crate::text::{fit, fit_end};
use crate::{printable, time};
use wording::comparison::{each, first_distinct, headline, margin, needed, runs, signed};

/// Maximum length of a foreign name.
const NAME_MAX: usize = 80;
/// Maximum length of a name under a chart, where it occurs several times.
const SHORT_MAX: usize = 28;
/// Maximum length of a sentence with such names.
const SENTENCE_MAX: usize = 600;
/// Maximum bytes of the embedded comparison in the page.
const EMBEDDED_BYTES_MAX: usize = PAGE_MAX / 4;
/// Bytes around the sections, mainly the style sheet.
const OVERHEAD_BYTES: usize = 30_000;
/// Maximum number of cells for sides, because rows of many sides are long.
const CELLS_MAX: usize = 800;
/// Most bytes of a link to a card.
const LINK_BYTES: usize = 100;
/// Most sides that are shown beside each other in a table.
const SIDES_MAX: usize = 40;

/// Places of all numbers: the link in the page, or the command that prints them.
const CSV_LINK: &str = "the <a href=\"#method\">CSV</a>";
const CSV_COMMAND: &str = "<code>skye compare --format csv</code>";
/// Places of everything that is known: the link in the page, or the command that prints it.
const JSON_LINK: &str = "the <a href=\"#method\">JSON</a>";
const JSON_COMMAND: &str = "<code>skye compare --format json</code>";

/// Classes of the sides' lines and dots; further sides share the last class.
const CLASSES: [&str; 6] = ["s0", "s1", "s2", "s3", "s4", "s6"];

/// Renders the comparison as a page that is complete by itself. The documents of each side are in `runs`, in their
/// order; charts of course and latencies come from them. A side without documents, as of an older program, has no such
/// charts.
pub fn html(comparison: &Comparison, runs: &[Vec<Run>]) -> String {
    let held = DownloadLinks::new(comparison, EMBEDDED_BYTES_MAX);
    let page = Page { comparison, runs, short_names: short_names(comparison), held };
    let (differs, method, facts) = (results::differs(&page), method::section(&page), page.facts());
    // Links lead only to cards that exist, so cards are made first, in the room that is left. Charts of all changes
    // take half of it at most.
    let without = [
        results::section(&page, &Cards::default(), &Charts::default()),
        findings::section(&page, &Cards::default()),
    ];
    let taken: usize = without.iter().chain([&differs, &method]).map(|section| section.0.len()).sum();
    let taken = taken + facts.iter().map(|fact| page_limits::escaped(fact)).sum::<usize>();
    let links = LINK_BYTES * 2 * comparison.rows.len().min(page.rows_max());
    let left = PAGE_MAX.saturating_sub(OVERHEAD_BYTES + taken + links);
    let charts = Charts::new(&page, left / 2);
    let cards = Cards::new(&page, left.saturating_sub(charts.bytes()));
    let results = results::section(&page, &cards, &charts);
    let findings = findings::section(&page, &cards);
    let tests = cards.section(&page);
    let mut contents = vec![("differs", "What differs"), ("results", "Results"), ("findings", "Findings")];
    let mut sections = vec![differs, results, findings];
    if let Some(tests) = tests {
        contents.push(("tests", "Each test"));
        sections.push(tests);
    }
    contents.push(("method", "Method"));
    sections.push(method);
    let heading = page.heading();
    let frame = Frame {
        title: format!("skye: {heading}"),
        heading,
        label: None,
        headline: sentence(&headline(comparison)),
        when: String::new(),
        facts,
        contents,
        sections,
    };
    rendered(&frame).0 + "\n"
}

/// Data that all parts of the page are made from.
struct Page<'a> {
    comparison: &'a Comparison,
    runs: &'a [Vec<Run>],
    short_names: Vec<String>,
    held: DownloadLinks,
}

impl Page<'_> {
    /// Returns the name of a side, as it is shown.
    fn name(&self, side: usize) -> String {
        self.comparison.sides.get(side).map_or(String::new(), |side| name(&side.name))
    }

    /// Returns the name of a side for places with less room.
    fn short_name(&self, side: usize) -> String {
        self.short_names.get(side).cloned().unwrap_or_default()
    }

    /// Returns the place of all rows and sides, as words of a sentence: in the page, if there was room for them.
    fn csv(&self) -> Markup {
        Markup(if self.held.csv.is_some() { CSV_LINK } else { CSV_COMMAND }.to_owned())
    }

    /// Returns the place of the whole comparison, which alone has all settings and sentences.
    fn json(&self) -> Markup {
        Markup(if self.held.json.is_some() { JSON_LINK } else { JSON_COMMAND }.to_owned())
    }

    /// Returns the number of sides for which tables have no column.
    fn sides_omitted(&self) -> usize {
        self.comparison.sides.len().saturating_sub(SIDES_MAX)
    }

    /// Returns the most rows that are shown.
    fn rows_max(&self) -> usize {
        (CELLS_MAX / self.comparison.sides.len().max(1)).max(20)
    }

    fn heading(&self) -> String {
        let sides = &self.comparison.sides;
        match sides.len() {
            2 => format!("{} against {}", self.name(1), self.name(0)),
            3 => format!("{} and {} against {}", self.name(1), self.name(2), self.name(0)),
            count => format!("{} sides against {}", count.saturating_sub(1), self.name(0)),
        }
    }

    fn facts(&self) -> Vec<String> {
        let of = |side: &model::comparison::Side| {
            let when = side.started_at.as_deref().map(|at| format!(", {}", fit(&time::minute(at), NAME_MAX)));
            format!("{}: {}{}", name(&side.name), runs(side.runs), when.unwrap_or_default())
        };
        let mut facts: Vec<_> = self.comparison.sides.iter().take(SIDES_MAX).map(of).collect();
        facts.extend(more_sides(self.sides_omitted()));
        if self.comparison.is_interleaved {
            facts.push("measured in turns".into());
        }
        facts.push(format!("skye {}", name(&self.comparison.skye_version)));
        facts
    }
}

/// Returns names of the sides for places with little room, no two of them the same. The ends of paths are tried first,
/// then beginnings, then ends of names. If none of them are unique, the names have numbers.
fn short_names(comparison: &Comparison) -> Vec<String> {
    let end = |text: &str| match text.rsplit_once('/') {
        Some((_, end)) if !end.trim().is_empty() => end.to_owned(),
        _ => text.to_owned(),
    };
    let of = |short: &dyn Fn(&str) -> String| -> Vec<String> {
        comparison.sides.iter().map(|side| short(&printable(&side.name))).collect()
    };
    let numbered = || {
        let names = of(&|text| fit(text, SHORT_MAX)).into_iter().enumerate();
        names.map(|(index, name)| format!("{} {name}", index + 1)).collect()
    };
    let choices = [
        of(&|text| fit(&end(text), SHORT_MAX)),
        of(&|text| fit(text, SHORT_MAX)),
        of(&|text| fit_end(text, SHORT_MAX)),
    ];
    first_distinct(choices).unwrap_or_else(numbered)
}

/// Returns a foreign name as it is shown.
fn name(text: &str) -> String {
    fit(&printable(text), NAME_MAX)
}

/// Returns a sentence with foreign names as it is shown.
fn sentence(text: &str) -> String {
    fit(&printable(text), SENTENCE_MAX)
}

/// Returns the class of a side's lines and dots.
fn class(side: usize) -> &'static str {
    CLASSES[side.min(CLASSES.len() - 1)]
}

/// Returns the class of an answer: of its chip, its line and its key.
fn class_of(change: &Change) -> &'static str {
    match (change.answer, change.direction) {
        (Decision::Changed, Some(Direction::Better)) => "better",
        (Decision::Changed, _) => "worse",
        (Decision::Equivalent, _) => "same",
        (Decision::CannotTell, _) => "unknown",
    }
}

/// Returns the answer in a few words, and a supplement: "better +13.2 %", "undecided" with "needs 16 runs per side".
fn answer(change: &Change, comparison: &Comparison) -> (String, String) {
    match class_of(change) {
        "same" => (format!("same within ± {}", margin(comparison.effect)), signed(change.ratio)),
        "unknown" if change.p.is_none() => (format!("{} ?", signed(change.ratio)), "one run".into()),
        "unknown" => ("undecided".into(), format!("needs {} {}", needed(change), each(comparison))),
        word => (format!("{word} {}", signed(change.ratio)), String::new()),
    }
}

/// Returns the caption of a row: the result of each side but the first, as a sentence.
fn row_caption(page: &Page<'_>, row: &model::comparison::Row) -> String {
    let parts = row.changes.iter().enumerate().take(SIDES_MAX).filter_map(|(index, change)| {
        let change = change.as_ref()?;
        let clause = match change.p {
            None => {
                format!("{} with one run per side, which cannot show a change", signed(change.ratio))
            }
            Some(_) => wording::comparison::sentence(change, page.comparison),
        };
        let p =
            if change.answer == Decision::Changed { wording::comparison::p(change) } else { String::new() };
        let p = if p.is_empty() { p } else { format!(", {p}") };
        Some(format!("{}: {clause}{p}", page.short_name(index + 1)))
    });
    let mut parts: Vec<_> = parts.collect();
    let left = row.changes.len().saturating_sub(SIDES_MAX);
    parts.extend(more_sides(left));
    if parts.is_empty() { "Measured on one side only.".into() } else { format!("{}.", parts.join("; ")) }
}

/// Returns the number of sides that do not fit into a list, as text; `None` if there are none.
fn more_sides(left: usize) -> Option<String> {
    (left > 0).then(|| format!("{left} more side{}", if left == 1 { "" } else { "s" }))
}

/// Returns the sentence of a caption if only the first sides are drawn; empty if all are.
fn truncation_note(drawn: usize, all: usize) -> String {
    if all > drawn { format!(" These are the first {drawn} of {all} sides.") } else { String::new() }
}

/// Returns the legend of the sides' colours.
fn legend(page: &Page<'_>, sides: impl Iterator<Item = usize>) -> Vec<(&'static str, String)> {
    sides.map(|side| (class(side), page.short_name(side))).collect()
}

#[cfg(test)]
mod tests;
