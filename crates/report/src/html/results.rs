//! The tables: one row per test, with its bar and its limiter.

use std::collections::HashMap;

use askama::Template;
use model::Run;

use super::test::{Chip, Test, chip, trust_word};
use super::unit::Unit;
use super::{Markup, rendered};
use crate::text::{
    Kind, interval_cell, is_knee, latency_cells, mark, megabytes_cell, missing_reason, ops_cell,
};
use crate::{percentiles, printable};

#[derive(Template)]
#[template(path = "results.html", whitespace = "minimize")]
struct Results {
    tables: Vec<Table>,
}

struct Table {
    is_data: bool,
    /// Columns between the name and the limiter.
    numbers: usize,
    /// Names of the percentiles.
    percentiles: Vec<String>,
    rows: Vec<Row>,
}

struct Row {
    anchor: String,
    name: String,
    label: String,
    /// "the middle of 3, 944 MB/s to 1,153 MB/s"
    repetitions: Option<String>,
    /// Reason why there are no numbers.
    missing: Option<String>,
    by_bytes: bool,
    megabytes: String,
    ops: String,
    /// Length of the bar, in percent of its room.
    bar: String,
    class: &'static str,
    interval: String,
    /// The percentiles with their names.
    latencies: Vec<(String, String)>,
    chip: Option<Chip>,
    trust: Option<Chip>,
    sign: &'static str,
    is_knee: bool,
    /// True if a sweep begins or ends before this row.
    starts_group: bool,
}

/// The section; `None` for a run without tests.
pub(super) fn section(run: &Run, tests: &[Test<'_>]) -> Option<Markup> {
    let wanted = percentiles::in_files(run);
    let names: Vec<_> = wanted.iter().map(|wanted| wanted.name()).collect();
    let table = |kind: Kind| {
        let of_kind: Vec<_> = tests.iter().filter(|test| Kind::from_phase(test.phase) == kind).collect();
        // Only bars of the same unit can be compared.
        let most = highest_rates(of_kind.iter().copied());
        let mut last: Option<&Test<'_>> = None;
        let rows = of_kind.iter().map(|test| {
            let starts_group =
                last.is_some_and(|last| crate::text::is_group_boundary(last.phase, test.phase));
            last = Some(test);
            let cells = latency_cells(test.phase, &wanted);
            let latencies = names.iter().cloned().zip(cells).collect();
            Row { starts_group, latencies, ..row(run, test, &most) }
        });
        let is_data = kind == Kind::Data;
        let numbers = names.len() + if is_data { 4 } else { 3 };
        Table { is_data, numbers, percentiles: names.clone(), rows: rows.collect() }
    };
    let tables: Vec<_> =
        [Kind::Data, Kind::Files].into_iter().map(table).filter(|table| !table.rows.is_empty()).collect();
    (!tables.is_empty()).then(|| rendered(&Results { tables }))
}

fn row(run: &Run, test: &Test<'_>, most: &HashMap<Unit, f64>) -> Row {
    let phase = test.phase;
    let unit = Unit::from_phase(phase);
    let bar = rate(test).map_or(0.0, |rate| rate / most.get(&unit).copied().unwrap_or_default() * 100.0);
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
        latencies: Vec::new(),
        chip,
        trust: trust_word(phase),
        sign: mark(phase).sign(),
        is_knee: is_knee(&run.phases, test.index),
        starts_group: false,
    }
}

/// Returns the highest rate of each unit; tests without a rate do not count.
fn highest_rates<'a>(tests: impl Iterator<Item = &'a Test<'a>>) -> HashMap<Unit, f64> {
    let mut most = HashMap::new();
    for test in tests {
        let known = most.entry(Unit::from_phase(test.phase)).or_insert(0.0);
        *known = rate(test).map_or(*known, |rate| rate.max(*known));
    }
    most
}

fn rate(test: &Test<'_>) -> Option<f64> {
    Unit::from_phase(test.phase).headline(test.phase).filter(|_| missing_reason(test.phase).is_none())
}

/// Describes the range of rates of a test's repetitions.
pub(super) fn repetitions(test: &Test<'_>) -> Option<String> {
    if test.all.len() < 2 {
        return None;
    }
    let rates = test.rates();
    let failed = test.all.len() - rates.len();
    let failed = if failed > 0 { format!(", {failed} without a number") } else { String::new() };
    let unit = Unit::from_phase(test.phase);
    let [low, high] = [f64::min, f64::max]
        .map(|pick| rates.iter().copied().reduce(pick).map(|rate| unit.format_rate(rate)));
    let (Some(low), Some(high)) = (low, high) else {
        return Some(format!("{} repetitions{failed}", test.all.len()));
    };
    // State both ends: a distance would need a centre, and the rate that is shown is not the mean.
    Some(match rates.len() {
        1 => format!("{} repetitions{failed}", test.all.len()),
        count if low == high => format!("the median of {count}, all {high}{failed}"),
        count => format!("the median of {count}, {low} to {high}{failed}"),
    })
}
