//! What a reader should know, each with what shows it.

use std::collections::HashMap;

use askama::Template;
use model::Run;
use model::run::{Mark, PhaseRecord};
use model::size;

use super::test::{Test, chip};
use super::{Figure, Markup, near, rendered, timeline};
use crate::printable;
use crate::svg::{Bar, bars};
use crate::text::{remarks, told};

/// Findings that the rate over time shows.
const OVER_TIME: [&str; 6] =
    ["not_steady", "wide_interval", "rate_dropped", "rate_capped", "thermal", "upkeep"];
/// Findings that the threads' time shows.
const OF_TIME: [&str; 2] = ["cpu_contention", "steal"];
/// Findings that bytes asked for beside those of the device show.
const OF_BYTES: [&str; 9] = [
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
/// Charts beside one finding: more rows say no more.
const CHARTS_MAX: usize = 2;

#[derive(Template)]
#[template(path = "findings.html", whitespace = "minimize")]
struct Findings {
    marked: Vec<Item>,
    limits: Vec<Item>,
    known: Vec<Item>,
}

struct Item {
    /// "!", "?" or nothing.
    sign: &'static str,
    /// The sign in words, for whoever hears it.
    meaning: &'static str,
    class: &'static str,
    subject: String,
    /// Anchor of the first test's card.
    anchor: String,
    /// What limits, before the sentences; empty for others.
    head: String,
    text: String,
    figures: Vec<Figure>,
}

/// The section, also where there is nothing to tell; `None` for a run without tests.
pub(super) fn section(run: &Run, tests: &[Test<'_>]) -> Option<Markup> {
    let anchors: HashMap<usize, &str> = tests
        .iter()
        .flat_map(|test| test.all.iter().map(|(index, _)| (*index, test.anchor.as_str())))
        .collect();
    let anchor = |rows: &[usize]| {
        rows.first().and_then(|row| anchors.get(row)).map_or(String::new(), |anchor| (*anchor).to_owned())
    };
    let (mut marked, mut known) = (Vec::new(), Vec::new());
    for finding in remarks(&run.phases) {
        let (meaning, class) = match finding.mark {
            Mark::Invalid => ("not this number", "other"),
            Mark::Suspect => ("off by more than its ±", "other"),
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
            figures: evidence(&run.phases, &finding.code, &finding.rows),
        };
        if finding.mark == Mark::Remark { known.push(item) } else { marked.push(item) }
    }
    let limits = told(&run.phases).into_iter().map(|limit| Item {
        sign: "",
        meaning: "",
        class: limit.rows.first().and_then(|row| chip(&run.phases[*row])).map_or("dull", |chip| chip.class),
        subject: printable(&limit.subject),
        anchor: anchor(&limit.rows),
        head: match limit.surely {
            "" => printable(&limit.head),
            surely => format!("{}, {surely}", printable(&limit.head)),
        },
        text: printable(&limit.text),
        figures: Vec::new(),
    });
    let limits: Vec<_> = limits.collect();
    (!tests.is_empty()).then(|| rendered(&Findings { marked, limits, known }))
}

fn evidence(phases: &[PhaseRecord], code: &str, rows: &[usize]) -> Vec<Figure> {
    let drawn: fn(&PhaseRecord) -> Option<Figure> = match code {
        code if OVER_TIME.contains(&code) => |phase| timeline::figure(phase, true),
        code if OF_TIME.contains(&code) => near::budget,
        code if OF_BYTES.contains(&code) => bytes,
        _ => return Vec::new(),
    };
    let several = rows.len() > 1;
    let figure = |row: &usize| {
        let phase = &phases[*row];
        let mut figure = drawn(phase)?;
        if several {
            let counted =
                if phase.repetition > 1 { format!(" #{}", phase.repetition) } else { String::new() };
            figure.name = printable(&format!("{} {}{counted}", phase.name, phase.label));
        }
        Some(figure)
    };
    rows.iter().take(CHARTS_MAX).filter_map(figure).collect()
}

/// What was asked for beside what the device did.
fn bytes(phase: &PhaseRecord) -> Option<Figure> {
    let device = phase.device.as_ref()?;
    let name = printable(&device.name);
    let all = [
        ("read by the test".to_owned(), phase.app_bytes_read, "s0"),
        (format!("read from {name}"), device.bytes_read, "s5"),
        ("written by the test".to_owned(), phase.app_bytes_written, "s0"),
        (format!("written to {name}"), device.bytes_written, "s5"),
    ];
    // A direction in which nothing was asked for and little was moved says nothing.
    let most = all.iter().map(|(_, bytes, _)| *bytes).max().unwrap_or_default();
    let is_shown =
        |pair: &[(String, u64, &str)]| pair.iter().any(|(_, bytes, _)| *bytes as f64 > most as f64 * 0.01);
    let shown: Vec<_> = all
        .chunks(2)
        .filter(|pair| is_shown(pair))
        .flatten()
        .map(|(name, bytes, class)| {
            let shown = size::decimal(*bytes);
            Bar { name: name.clone(), value: *bytes as f64, title: format!("{name}: {shown}"), shown, class }
        })
        .collect();
    if shown.is_empty() {
        return None;
    }
    let caption = match device.bytes_per_app_byte.and_then(crate::numbers::amount) {
        Some(ratio) => format!("The device moved {ratio} bytes for each byte asked for."),
        None => "The device moved bytes that the test did not ask for.".into(),
    };
    let name = "Bytes asked for and moved".to_owned();
    let drawing = Markup(bars(&name, &caption, &shown, most as f64, false));
    Some(Figure { name, drawing, legend: Vec::new(), caption })
}
