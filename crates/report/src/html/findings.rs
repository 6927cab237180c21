//! Findings of a run, each with the chart that shows it.

use std::collections::{HashMap, HashSet};

use askama::Template;
use model::Run;
use model::run::{Mark, PhaseRecord};
use model::target::Target;

use super::test::{Test, chip};
use super::{Figure, Markup, ceiling_notes, layers, rendered, timeline};
use crate::printable;
use crate::text::{remarks, row_limits};

/// Findings that the chart of the rate over time shows.
const TIMELINE_CODES: [&str; 6] =
    ["not_steady", "wide_interval", "rate_dropped", "rate_capped", "thermal", "maintenance"];
/// Findings that the chart of the threads' time shows.
const TIME_SHARE_CODES: [&str; 2] = ["cpu_contention", "steal"];
/// Findings that the chart of requested and moved bytes shows.
const BYTES_CODES: [&str; 9] = [
    "o_direct_ineffective",
    "device_disagrees",
    "counters_disagree",
    "absorbed_by_page_cache",
    "served_from_page_cache",
    "cache_not_cold",
    "amplification",
    "foreign_io",
    "nothing_durable",
];
/// Most charts beside one finding. Charts of further rows add nothing.
const CHARTS_MAX: usize = 2;

#[derive(Template)]
#[template(path = "findings.html", whitespace = "minimize")]
struct Findings {
    marked: Vec<Item>,
    limits: Vec<Item>,
    known: Vec<Item>,
}

struct Item {
    /// "!", "?" or empty.
    sign: &'static str,
    /// The sign in words, for screen readers.
    meaning: &'static str,
    class: &'static str,
    subject: String,
    /// Anchor of the first test's card.
    anchor: String,
    /// The limiter, before the sentences; empty for other items.
    head: String,
    text: String,
    figures: Vec<Figure>,
}

/// The section on findings, even if there are none; `None` for a run without tests.
pub(super) fn section(run: &Run, tests: &[Test<'_>]) -> Option<Markup> {
    let anchors: HashMap<usize, &str> = tests
        .iter()
        .flat_map(|test| test.all.iter().map(|(index, _)| (*index, test.anchor.as_str())))
        .collect();
    let anchor = |rows: &[usize]| {
        rows.first().and_then(|row| anchors.get(row)).map_or(String::new(), |anchor| (*anchor).to_owned())
    };
    let (mut marked, mut known) = (Vec::new(), Vec::new());
    let mut drawn = HashSet::new();
    for finding in remarks(&run.phases) {
        let (meaning, class) = match finding.mark {
            Mark::Invalid => ("invalid", "other"),
            Mark::Suspect => ("may be off by more than its ±", "other"),
            Mark::Remark => ("worth knowing", "dull"),
        };
        let item = Item {
            sign: finding.mark.sign(),
            meaning,
            class,
            subject: printable(&finding.subject),
            anchor: anchor(&finding.rows),
            head: String::new(),
            text: printable(&finding.text),
            figures: evidence(run, &finding.code, &finding.rows, &mut drawn),
        };
        if finding.mark == Mark::Remark { known.push(item) } else { marked.push(item) }
    }
    let limits = row_limits(&run.phases).into_iter().map(|limit| Item {
        sign: "",
        meaning: "",
        class: limit.rows.first().and_then(|row| chip(&run.phases[*row])).map_or("dull", |chip| chip.class),
        subject: printable(&limit.subject),
        anchor: anchor(&limit.rows),
        head: match limit.confidence_text {
            "" => printable(&limit.head),
            confidence_text => format!("{}, {confidence_text}", printable(&limit.head)),
        },
        text: printable(&limit.text),
        figures: Vec::new(),
    });
    let limits: Vec<_> = limits.collect();
    (!tests.is_empty()).then(|| rendered(&Findings { marked, limits, known }))
}

fn evidence(run: &Run, code: &str, rows: &[usize], drawn: &mut HashSet<(Chart, usize)>) -> Vec<Figure> {
    let Some(chart) = Chart::from_code(code) else { return Vec::new() };
    let several = rows.len() > 1;
    let mut figure = |row: &usize| {
        let phase = &run.phases[*row];
        // Several findings on a row may have the same chart, which is drawn once.
        let mut figure =
            drawn.insert((chart, *row)).then(|| chart.draw(phase, &run.environment.target))??;
        if several {
            let counted =
                if phase.repetition > 1 { format!(" #{}", phase.repetition) } else { String::new() };
            figure.name = printable(&format!("{} {}{counted}", phase.name, phase.label));
        }
        Some(figure)
    };
    rows.iter().take(CHARTS_MAX).filter_map(&mut figure).collect()
}

/// A chart that shows the evidence of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Chart {
    Timeline,
    Budget,
    Bytes,
}

impl Chart {
    fn from_code(code: &str) -> Option<Self> {
        let known = [
            (&TIMELINE_CODES[..], Self::Timeline),
            (&TIME_SHARE_CODES[..], Self::Budget),
            (&BYTES_CODES[..], Self::Bytes),
        ];
        known.into_iter().find(|(codes, _)| codes.contains(&code)).map(|(_, chart)| chart)
    }

    fn draw(self, phase: &PhaseRecord, target: &Target) -> Option<Figure> {
        match self {
            Self::Timeline => timeline::figure(phase, true),
            Self::Budget => ceiling_notes::budget(phase),
            Self::Bytes => layers::bytes(phase, target),
        }
    }
}
