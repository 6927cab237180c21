//! CSV in long form, as statistics programs take it: a line for each number of a test, of its clients and of its operations.

use model::Run;
use model::run::{ClientShare, Counts, EngineRecord, Figures, Observations, PhaseRecord, Rate, Step};

use super::{Cell, Column, columns, figure, number, other_cells, other_names, text, to_csv};
use crate::operations::{has_operations, operations};
use crate::percentiles;

/// Columns of the ordinary form that each line has.
const KEYS: [&str; 8] = ["host", "started_at", "run_label", "id", "spec", "handle", "repetition", "trust"];
/// Columns of numbers that describe a test, and are no results.
const SETTINGS: &[&str] = &[
    "seed",
    "repetition",
    "block_bytes",
    "iodepth",
    "threads",
    "sync",
    "size_bytes",
    "files",
    "rate_ops_per_second",
];

/// Writes each number of the run in a separate line, with a heading. Unknown values have no line.
pub fn write(run: &Run) -> String {
    let heading: Vec<_> = wording::LONG_COLUMNS.iter().map(|(name, _)| *name).collect();
    to_csv(&heading, run.phases.iter().flat_map(|phase| test_lines(run, phase)).collect())
}

fn test_lines(run: &Run, phase: &PhaseRecord) -> Vec<Vec<Cell>> {
    let mut lines = Part { run, record: phase, scope: "all", name: "" }.lines(|_| true);
    for share in &phase.hosts {
        let record = client_record(phase, share);
        lines.extend(Part { run, record: &record, scope: "client", name: &share.name }.lines(|_| true));
    }
    // Other values of a step are those of the whole test.
    let is_of_step =
        |column: &str| matches!(column, "ops" | "ops_per_second") || column.starts_with("latency_");
    let mut add_step = |step: &Step, scope, ops_per_second, time_share: Option<f64>| {
        let record = step_record(phase, step, ops_per_second);
        let part = Part { run, record: &record, scope, name: &step.name };
        lines.extend(part.lines(is_of_step));
        lines.extend(time_share.and_then(|share| part.line("time_share", figure(Some(share)))));
    };
    let scope = if has_operations(&phase.name) { "operation" } else { "call" };
    let operations = operations(phase);
    for one in &operations {
        add_step(one.step, scope, Some(one.ops_per_second), one.time_share);
    }
    for step in phase.figures.steps.iter().filter(|_| operations.is_empty()) {
        add_step(step, scope, None, None);
    }
    lines
}

/// The whole test or a part of it.
struct Part<'a> {
    run: &'a Run,
    record: &'a PhaseRecord,
    scope: &'static str,
    name: &'a str,
}

impl Part<'_> {
    fn lines(&self, has_column: impl Fn(&str) -> bool) -> Vec<Vec<Cell>> {
        let results = columns().iter().filter(|(name, _)| has_column(name) && !SETTINGS.contains(name));
        let results = results.filter_map(|(name, cell)| self.line(name, cell(self.run, self.record)));
        let chosen = percentiles::extra_percentiles(self.run).into_iter().filter_map(|wanted| {
            let [name, ..] = other_names(&wanted);
            self.line(&name, other_cells(self.record, wanted).into_iter().next()?)
        });
        results.chain(chosen).collect()
    }

    /// Returns the line of a value; `None` if it is no number.
    fn line(&self, quantity: &str, value: Cell) -> Option<Vec<Cell>> {
        let Cell::Plain(value) = value else { return None };
        value.parse::<f64>().ok().filter(|value| value.is_finite())?;
        let key = |key: &&str| columns().iter().find(|(name, _)| name == key);
        let keys = KEYS.iter().filter_map(key).map(|(_, cell): &Column| cell(self.run, self.record));
        let own = [
            number(self.scope),
            text(self.name),
            number(quantity),
            number(value),
            number(wording::unit(quantity)),
        ];
        Some(keys.chain(own).collect())
    }
}

/// Returns the share of a client as a record of the test.
fn client_record(phase: &PhaseRecord, share: &ClientShare) -> PhaseRecord {
    let (rate, latency_ns) = (share.rate.clone(), share.latency_ns.clone());
    let figures = Figures { rate, latency_ns, ..Figures::default() };
    PhaseRecord { judged: share.judged.clone(), ..part_record(phase, share.counts.clone(), figures) }
}

/// Returns a step of the operations as a record of the test.
fn step_record(phase: &PhaseRecord, step: &Step, ops_per_second: Option<f64>) -> PhaseRecord {
    let rate = Rate { ops_per_second, ..Rate::default() };
    let figures = Figures { rate, latency_ns: step.latency_ns.clone(), ..Figures::default() };
    part_record(phase, Counts { ops: step.ops, ..Counts::default() }, figures)
}

/// Returns a record of a part of the test, without observations: those are of the whole.
fn part_record(phase: &PhaseRecord, counts: Counts, figures: Figures) -> PhaseRecord {
    PhaseRecord {
        id: phase.id.clone(),
        spec: phase.spec.clone(),
        name: phase.name.clone(),
        label: phase.label.clone(),
        handle: phase.handle.clone(),
        group: phase.group.clone(),
        repetition: phase.repetition,
        workload: phase.workload.clone(),
        engine: EngineRecord { mean_batch: None, idle_slots: None, ..phase.engine.clone() },
        status: phase.status,
        reason: None,
        hosts: Vec::new(),
        counts,
        figures,
        seen: Observations::default(),
        judged: phase.judged.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::sample;

    /// Returns the lines of a CSV, each as values by columns.
    fn read(csv: &str) -> Vec<BTreeMap<String, String>> {
        let mut reader = ::csv::Reader::from_reader(csv.as_bytes());
        let heading = reader.headers().unwrap().clone();
        let line = |record: ::csv::StringRecord| {
            heading.iter().zip(&record).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        reader.records().map(|record| line(record.unwrap())).collect()
    }

    fn mixed_run() -> Run {
        let mut run = sample::run();
        let mut sum = sample::phase("write:seq1m");
        sum.figures.steps.clear();
        sum.hosts = vec![sample::client("ada", &sum), sample::client("=bob", &sum)];
        sum.hosts[1].rate.ops_per_second = None;
        run.phases = vec![sum, sample::mix()];
        run
    }

    #[test]
    fn clients_and_operations_have_lines() {
        insta::assert_snapshot!(write(&mixed_run()));
    }

    #[test]
    fn calls_of_an_operation_are_no_operations() {
        let mut run = mixed_run();
        let step = run.phases[1].figures.steps[0].clone();
        run.phases[0].figures.steps = vec![Step { name: "fdatasync".into(), ..step }];
        let lines = read(&write(&run));
        let calls: Vec<_> = lines.iter().filter(|line| line["scope"] == "call").collect();
        assert!(calls.iter().all(|line| line["scope_name"] == "fdatasync" && line["id"] == run.phases[0].id));
        let quantities: BTreeSet<_> = calls.iter().map(|line| line["quantity"].as_str()).collect();
        assert!(quantities.contains("latency_p99_ns") && quantities.contains("ops"), "{quantities:?}");
        assert!(!quantities.contains("bytes") && !quantities.contains("ops_per_second"), "{quantities:?}");
    }

    #[test]
    fn keys_are_columns_of_both_forms() {
        let long: Vec<_> = wording::LONG_COLUMNS.iter().map(|(name, _)| *name).collect();
        assert_eq!(long[..KEYS.len()], KEYS);
        let ordinary: Vec<_> = columns().iter().map(|(name, _)| *name).collect();
        assert!(KEYS.iter().chain(SETTINGS).all(|name| ordinary.contains(name)));
    }

    proptest! {
        #[test]
        fn numbers_of_both_forms_agree(run in sample::any_run()) {
            let (long, ordinary) = (read(&write(&run)), read(&crate::csv::write(&run)));
            let mut of_tests = long.iter().filter(|line| line["scope"] == "all");
            for (row, phase) in ordinary.iter().zip(&run.phases) {
                for (name, cell) in columns().iter().filter(|(name, _)| !SETTINGS.contains(name)) {
                    let is_number = row[*name].parse::<f64>().is_ok_and(f64::is_finite);
                    if !is_number || matches!(cell(&run, phase), Cell::Text(_)) {
                        continue;
                    }
                    let line = of_tests.next().unwrap();
                    prop_assert_eq!([&line["quantity"], &line["value"]], [*name, &row[*name]]);
                    prop_assert!(KEYS.iter().all(|key| line[*key] == row[*key]));
                }
            }
            prop_assert!(of_tests.next().is_none());
        }
    }
}
