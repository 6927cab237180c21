//! What a reader should know: warnings, what cannot be told, what was left out, what follows.

use askama::Template;
use model::Comparison;
use model::comparison::Row;

use super::cards::Cards;
use super::{Page, name, sentence};
use crate::compare::text::unsettled;
use crate::compare::words::{conclusions, subject};
use crate::html::{Markup, rendered};

/// Sentences of each kind that are shown at most.
const SHOWN_MAX: usize = 100;
/// Tests that are named before a sentence at most.
const SUBJECTS_MAX: usize = 12;

#[derive(Template)]
#[template(path = "compare_findings.html", whitespace = "minimize")]
struct Findings {
    warnings: Vec<Item>,
    unsettled: Vec<Item>,
    left_out: Vec<Item>,
    conclusions: Vec<String>,
}

struct Item {
    subject: String,
    /// The card of its test, where there is one.
    anchor: Option<String>,
    text: String,
}

/// The section.
pub(super) fn section(page: &Page<'_>, cards: &Cards) -> Markup {
    let comparison = page.comparison;
    let of_rows = warned(comparison).into_iter().map(|(rows, warning)| Item {
        subject: listed(&rows.iter().map(|row| subject(row)).collect::<Vec<_>>()),
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
    rendered(&Findings {
        warnings: of_all.chain(of_rows).take(SHOWN_MAX).collect(),
        unsettled: open(comparison),
        left_out: left_out.take(SHOWN_MAX).collect(),
        conclusions: conclusions(comparison).iter().map(|text| sentence(text)).collect(),
    })
}

/// Rates of which nothing can be told; with one run a side that is all of them, and is said once for all.
fn open(comparison: &Comparison) -> Vec<Item> {
    if !comparison.has_claims() {
        return Vec::new();
    }
    let item = |(subjects, text): (Vec<String>, String)| Item {
        subject: listed(&subjects),
        anchor: None,
        text: sentence(&format!("{text}.")),
    };
    unsettled(comparison).into_iter().take(SHOWN_MAX).map(item).collect()
}

/// Warnings of rows, those together of which the same is said.
fn warned(comparison: &Comparison) -> Vec<(Vec<&Row>, &str)> {
    let mut said: Vec<(Vec<&Row>, &str)> = Vec::new();
    for row in &comparison.rows {
        for warning in &row.warnings {
            match said.iter_mut().find(|(_, known)| known == warning) {
                Some((rows, _)) => rows.push(row),
                None => said.push((vec![row], warning)),
            }
        }
    }
    said
}

fn listed(subjects: &[String]) -> String {
    let mut names: Vec<_> = subjects.iter().take(SUBJECTS_MAX).map(|one| name(one)).collect();
    if subjects.len() > SUBJECTS_MAX {
        names.push(format!("{} more", subjects.len() - SUBJECTS_MAX));
    }
    names.join(", ")
}
