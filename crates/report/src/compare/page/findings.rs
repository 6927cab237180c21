//! Findings of a comparison: warnings, undecided rows, tests that were left out, conclusions.

use askama::Template;
use model::Comparison;
use model::comparison::Row;

use super::cards::Cards;
use super::page_limits::{escaped, fitting};
use super::{PAGE_MAX, Page, name, sentence};
use crate::html::{Markup, rendered};
use wording::comparison::unsettled;
use wording::comparison::{conclusions, subject};

/// Most sentences of each kind that are shown.
const ITEMS_MAX: usize = 100;
/// Most bytes of all sentences of one kind.
const KIND_BYTES: usize = PAGE_MAX / 40;
/// Markup around a sentence with a link, in bytes.
const MARKUP_BYTES: usize = 180;
/// Most tests that are named before a sentence.
const SUBJECTS_MAX: usize = 12;

#[derive(Template)]
#[template(path = "compare_findings.html", whitespace = "minimize")]
struct Findings {
    warnings: Vec<Item>,
    unsettled: Vec<Item>,
    left_out: Vec<Item>,
    conclusions: Vec<String>,
    /// Number of sentences for which there was no room.
    left: usize,
    all: Markup,
}

struct Item {
    subject: String,
    /// Anchor of its test's card, if there is one.
    anchor: Option<String>,
    text: String,
}

/// The section on findings.
pub(super) fn section(page: &Page<'_>, cards: &Cards) -> Markup {
    let comparison = page.comparison;
    let of_rows = warnings_with_rows(comparison).into_iter().map(|(rows, warning)| Item {
        subject: subject_list(&rows.iter().map(|row| subject(row)).collect::<Vec<_>>()),
        anchor: rows.first().and_then(|row| cards.anchor(&row.spec)),
        text: sentence(&format!("{warning}.")),
    });
    let of_all = comparison.warnings.iter().map(|warning| Item {
        subject: String::new(),
        anchor: None,
        text: sentence(&format!("{warning}.")),
    });
    let left_out = comparison.left_out.iter().map(|left| Item {
        subject: name(&left.what),
        anchor: None,
        text: sentence(&format!("{}.", left.reason)),
    });
    let [warnings, unsettled, left_out] =
        [of_all.chain(of_rows).collect(), open(comparison), left_out.collect()].map(limited);
    let follows = conclusions(comparison);
    let (conclusions, left) =
        fitting(follows.iter().map(|text| sentence(text)), KIND_BYTES, |text| MARKUP_BYTES + escaped(text));
    rendered(&Findings {
        left: warnings.1 + unsettled.1 + left_out.1 + left,
        warnings: warnings.0,
        unsettled: unsettled.0,
        left_out: left_out.0,
        conclusions,
        all: page.json(),
    })
}

/// Returns the sentences of a kind for which there is room, and the number of the others.
fn limited(mut items: Vec<Item>) -> (Vec<Item>, usize) {
    let beyond = items.len().saturating_sub(ITEMS_MAX);
    items.truncate(ITEMS_MAX);
    let (items, left) =
        fitting(items, KIND_BYTES, |item| MARKUP_BYTES + escaped(&item.subject) + escaped(&item.text));
    (items, left + beyond)
}

/// Returns the undecided rates. With one run a side all are undecided, which is stated once and not repeated here.
fn open(comparison: &Comparison) -> Vec<Item> {
    if !comparison.has_p_values() {
        return Vec::new();
    }
    let item = |(subjects, text): (Vec<String>, String)| Item {
        subject: subject_list(&subjects),
        anchor: None,
        text: sentence(&format!("{text}.")),
    };
    unsettled(comparison).into_iter().map(item).collect()
}

/// Returns the warnings, each with all rows that share it.
fn warnings_with_rows(comparison: &Comparison) -> Vec<(Vec<&Row>, &str)> {
    let mut grouped: Vec<(Vec<&Row>, &str)> = Vec::new();
    for row in &comparison.rows {
        for warning in &row.warnings {
            match grouped.iter_mut().find(|(_, known)| known == warning) {
                Some((rows, _)) => rows.push(row),
                None => grouped.push((vec![row], warning)),
            }
        }
    }
    grouped
}

fn subject_list(subjects: &[String]) -> String {
    let mut names: Vec<_> = subjects.iter().take(SUBJECTS_MAX).map(|one| name(one)).collect();
    if subjects.len() > SUBJECTS_MAX {
        names.push(format!("{} more", subjects.len() - SUBJECTS_MAX));
    }
    names.join(", ")
}
