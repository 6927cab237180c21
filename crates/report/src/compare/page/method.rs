//! The method behind the answers, and links to save the comparison itself.

use askama::Template;
use model::Comparison;

use super::page_limits::{escaped, fitting};
use super::{NAME_MAX, PAGE_MAX, Page, SIDES_MAX, name};
use crate::html::{Markup, embedded, rendered};
use crate::text::fit_end;
use wording::comparison::margin;

/// Most files of one side that are named.
const FILES_MAX: usize = 12;

/// Most bytes that the names of all files may take.
const NAMES_BYTES: usize = PAGE_MAX / 40;
/// Markup around the names of a side, in bytes.
const MARKUP_BYTES: usize = 50;

/// Download links of the comparison, as far as there is room.
#[derive(Debug, Default)]
pub(super) struct DownloadLinks {
    pub json: Option<Markup>,
    pub csv: Option<Markup>,
}

impl DownloadLinks {
    /// Makes both links in `bytes_max` bytes: the JSON, which has everything, in one half, and the CSV in the rest.
    pub(super) fn new(comparison: &Comparison, bytes_max: usize) -> Self {
        let json = embedded::comparison(comparison, bytes_max / 2);
        let left = bytes_max.saturating_sub(json.as_ref().map_or(0, String::len));
        let csv = embedded::csv("comparison.csv", &crate::compare::csv(comparison), left);
        Self { json: json.map(Markup), csv: csv.map(Markup) }
    }
}

#[derive(Template)]
#[template(path = "compare_method.html", whitespace = "minimize")]
struct Method<'a> {
    facts: Vec<(&'static str, String)>,
    files: Vec<(String, String)>,
    /// Number of sides whose files are not named.
    left: usize,
    all: Markup,
    held: &'a DownloadLinks,
}

/// The section on the method.
pub(super) fn section(page: &Page<'_>) -> Markup {
    let comparison = page.comparison;
    let Comparison { comparisons, runs_to_decide, effect, noise_floor, .. } = comparison;
    let (unit, test) = if comparison.is_interleaved {
        (
            "A pair: one run of each side on fresh files, in direct succession, so that slow drift affects both.",
            "An exact permutation test of the pairs' ratios, on logarithms",
        )
    } else {
        (
            "A whole run on fresh files. The spread within a run does not count as a spread between runs.",
            "An exact permutation test of whole runs, on logarithms",
        )
    };
    let each = if comparison.is_interleaved { "pairs" } else { "runs per side" };
    let mut facts = vec![
        ("unit", unit.to_owned()),
        ("change", "The geometric mean of the runs of a side over that of the first side, with its 95 % interval from Student's t on logarithms.".into()),
    ];
    if comparison.has_p_values() {
        facts.push((
            "p",
            format!("{test}, corrected by Holm's method for the {comparisons} rows that are tested together. This takes at least {runs_to_decide} {each}."),
        ));
    }
    facts.extend([
        (
            "changed",
            format!("The corrected p is at most 0.05, and the interval does not contain zero change. The change is more than {}: a rebooted machine differs by as much.", margin(*noise_floor)),
        ),
        ("same", format!("The whole interval is within ± {}.", margin(*effect))),
        ("undecided", "Neither of the two.".into()),
        ("schema", name(&comparison.schema)),
        ("skye", name(&comparison.skye_version)),
    ]);
    let files = comparison.sides.iter().enumerate().map(|(index, side)| {
        let mut names: Vec<_> = side
            .files
            .iter()
            .take(FILES_MAX)
            .map(|file| fit_end(&crate::printable(file), NAME_MAX))
            .collect();
        if side.files.len() > FILES_MAX {
            names.push(format!("{} more", side.files.len() - FILES_MAX));
        }
        (page.short_name(index), names.join(", "))
    });
    let files: Vec<_> = files.filter(|(_, files)| !files.is_empty()).collect();
    let all = files.len();
    let (files, _) = fitting(files.into_iter().take(SIDES_MAX), NAMES_BYTES, |(side, names)| {
        MARKUP_BYTES + escaped(side) + escaped(names)
    });
    rendered(&Method { facts, left: all - files.len(), files, all: page.json(), held: &page.held })
}
