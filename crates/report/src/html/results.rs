//! The tables: a row each test, with its bar and what limited it.

use askama::Template;
use model::Run;

use super::test::{Chip, Test, chip, trust_word};
use super::unit::Unit;
use super::{Markup, rendered};
use crate::numbers::percent;
use crate::printable;
use crate::text::{
    Kind, interval_cell, is_knee, latency_cells, mark, megabytes_cell, missing_reason, ops_cell,
};

#[derive(Template)]
#[template(path = "results.html", whitespace = "minimize")]
struct Results {
    tables: Vec<Table>,
}

struct Table {
    is_data: bool,
    rows: Vec<Row>,
}

struct Row {
    anchor: String,
    name: String,
    label: String,
    /// "median of 3, within ± 2 %"
    repetitions: Option<String>,
    /// Why there are no numbers.
    missing: Option<String>,
    by_bytes: bool,
    megabytes: String,
    ops: String,
    /// How long the bar is, in percent of its room.
    bar: String,
    class: &'static str,
    interval: String,
    latencies: [String; 3],
    chip: Option<Chip>,
    trust: Option<Chip>,
    sign: &'static str,
    is_knee: bool,
    /// Whether a sweep begins or ends before it.
    is_apart: bool,
}

/// The section; `None` for a run without tests.
pub(super) fn section(run: &Run, tests: &[Test<'_>]) -> Option<Markup> {
    let table = |kind: Kind| {
        let of_kind: Vec<_> = tests.iter().filter(|test| Kind::of(test.phase) == kind).collect();
        let mut last: Option<&Test<'_>> = None;
        let rows = of_kind.iter().map(|test| {
            let is_apart = last.is_some_and(|last| crate::text::apart(last.phase, test.phase));
            last = Some(test);
            Row { is_apart, ..row(run, test, &of_kind) }
        });
        Table { is_data: kind == Kind::Data, rows: rows.collect() }
    };
    let tables: Vec<_> =
        [Kind::Data, Kind::Files].into_iter().map(table).filter(|table| !table.rows.is_empty()).collect();
    (!tables.is_empty()).then(|| rendered(&Results { tables }))
}

fn row(run: &Run, test: &Test<'_>, others: &[&Test<'_>]) -> Row {
    let phase = test.phase;
    let unit = Unit::of(phase);
    let rate = |test: &Test<'_>| unit.headline(test.phase).filter(|_| missing_reason(test.phase).is_none());
    // Bars of one unit can be compared, and no others.
    let most = others
        .iter()
        .filter(|other| Unit::of(other.phase) == unit)
        .filter_map(|other| rate(other))
        .fold(0.0, f64::max);
    let bar = rate(test).map_or(0.0, |rate| rate / most * 100.0);
    let chip = chip(phase);
    Row {
        anchor: test.anchor.clone(),
        name: printable(&phase.name),
        label: printable(&phase.label),
        repetitions: repetitions(test),
        missing: missing_reason(phase),
        by_bytes: unit == Unit::Megabytes,
        megabytes: megabytes_cell(phase),
        ops: ops_cell(phase),
        bar: format!("{:.1}", if bar.is_finite() { bar.clamp(0.0, 100.0) } else { 0.0 }),
        class: chip.as_ref().map_or("dull", |chip| chip.class),
        interval: interval_cell(phase),
        latencies: latency_cells(phase),
        chip,
        trust: trust_word(phase),
        sign: mark(phase).sign(),
        is_knee: is_knee(&run.phases, test.index),
        is_apart: false,
    }
}

/// How far the repetitions of a test lie apart.
pub(super) fn repetitions(test: &Test<'_>) -> Option<String> {
    if test.all.len() < 2 {
        return None;
    }
    let rates = test.rates();
    let failed = test.all.len() - rates.len();
    let failed = if failed > 0 { format!(", {failed} without a number") } else { String::new() };
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let farthest = rates.iter().map(|rate| (rate - mean).abs()).fold(0.0, f64::max);
    if rates.len() < 2 || mean <= 0.0 {
        return Some(format!("{} repetitions{failed}", test.all.len()));
    }
    Some(format!("the middle of {}, within ± {}{failed}", rates.len(), percent(farthest / mean)))
}
