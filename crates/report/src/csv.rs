//! CSV with one line per phase, for spreadsheets and scripts: RFC 4180, units in the names of the columns.

pub mod long;

use model::run::{Confidence, Latency, PhaseRecord, Steady, Step};
use model::{Percentile, Run};

use crate::operations::is_sync;
use crate::{percentiles, printable, slug, zones};

/// One cell.
pub(crate) enum Cell {
    /// Text written by skye, or a number.
    Plain(String),
    /// Foreign text.
    Text(String),
}

pub(crate) fn text(value: impl AsRef<str>) -> Cell {
    Cell::Text(value.as_ref().to_owned())
}

pub(crate) fn number(value: impl ToString) -> Cell {
    Cell::Plain(value.to_string())
}

pub(crate) fn optional(value: Option<impl ToString>) -> Cell {
    Cell::Plain(value.map(|value| value.to_string()).unwrap_or_default())
}

/// Significant digits of rates and shares: more than any measurement has.
const DIGITS: usize = 6;

/// Formats a rate or a share; empty if it is unknown.
fn figure(value: Option<f64>) -> Cell {
    let rounded = |value: f64| format!("{value:.*e}", DIGITS - 1).parse::<f64>().unwrap_or(value);
    optional(value.map(rounded))
}

/// Writes the phases of the run as CSV with a heading. Unknown values are empty cells.
pub fn write(run: &Run) -> String {
    let others = percentiles::extra_percentiles(run);
    let names = columns().iter().map(|(name, _)| (*name).to_owned());
    let heading: Vec<_> = names.chain(others.iter().flat_map(other_names)).collect();
    let cells = |phase| {
        let usual = columns().iter().map(|(_, cell)| cell(run, phase));
        usual.chain(others.iter().flat_map(|wanted| other_cells(phase, *wanted))).collect()
    };
    let heading: Vec<_> = heading.iter().map(String::as_str).collect();
    to_csv(&heading, run.phases.iter().map(cells).collect())
}

/// Names of the last columns, for a percentile that the user chose: "latency_p99_99_ns" and those of the steps.
fn other_names(wanted: &Percentile) -> [String; 4] {
    let name = wanted.name().replace('.', "_");
    ["", "read_", "write_", "sync_"].map(|step| format!("{step}latency_{name}_ns"))
}

/// Cells of these columns.
fn other_cells(phase: &PhaseRecord, wanted: Percentile) -> [Cell; 4] {
    let of = |latency: Option<&Latency>| {
        optional(latency.and_then(|latency| percentiles::value_ns(latency, wanted)))
    };
    let of_step = |is_its| of(find_step(phase, is_its).and_then(|step| step.latency_ns.as_ref()));
    [of(phase.figures.latency_ns.as_ref()), of_step(is_read), of_step(is_write), of_step(is_sync)]
}

/// Writes a heading, and lines with the same number of cells, as CSV.
///
/// Spreadsheets take a cell that begins with `= + - @` for a formula, so such text gets a `'` before it.
pub(crate) fn to_csv(heading: &[&str], lines: Vec<Vec<Cell>>) -> String {
    let mut writer = ::csv::WriterBuilder::new()
        .terminator(::csv::Terminator::CRLF)
        .flexible(true)
        .from_writer(Vec::new());
    // Writing into memory does not fail.
    let mut result = writer.write_record(heading);
    for line in lines {
        let cells = line.into_iter().map(|cell| match cell {
            Cell::Plain(text) => text,
            Cell::Text(text) => escape_formula(&text),
        });
        result = result.and_then(|()| writer.write_record(cells.collect::<Vec<_>>()));
    }
    debug_assert!(result.is_ok());
    writer.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

/// Makes text harmless: no spreadsheet takes it for a formula, and no terminal for a command.
fn escape_formula(text: &str) -> String {
    let printable_text = printable(text);
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{printable_text}")
    } else {
        printable_text
    }
}

type Column = (&'static str, fn(&Run, &PhaseRecord) -> Cell);

/// Returns all columns: names, which end with the unit, and values. [`wording::COLUMNS`] has their meanings. New columns are added at the end.
const fn columns() -> &'static [Column] {
    &[
        ("host", |run, _| text(&run.environment.host)),
        ("started_at", |run, _| text(&run.started_at)),
        ("skye_version", |run, _| text(&run.skye_version)),
        ("run_label", |run, _| text(run.label.as_deref().unwrap_or_default())),
        ("preset", |run, _| text(&run.plan.preset)),
        ("seed", |run, _| number(run.seed)),
        ("target", |run, _| text(&run.environment.target.path)),
        ("file_system", |run, _| text(&run.environment.target.file_system)),
        ("id", |_, phase| text(&phase.id)),
        ("spec", |_, phase| text(&phase.spec)),
        ("name", |_, phase| text(&phase.name)),
        ("label", |_, phase| text(&phase.label)),
        ("group", |_, phase| text(phase.group.as_deref().unwrap_or_default())),
        ("repetition", |_, phase| number(phase.repetition)),
        ("status", |_, phase| number(word(phase.status))),
        ("reason", |_, phase| text(phase.reason.as_deref().unwrap_or_default())),
        ("pattern", |_, phase| optional(phase.workload.pattern)),
        ("block_bytes", |_, phase| optional(phase.workload.block_bytes)),
        ("iodepth", |_, phase| number(phase.workload.iodepth)),
        ("threads", |_, phase| number(phase.workload.threads)),
        ("direct", |_, phase| optional(phase.workload.direct)),
        ("sync", |_, phase| number(phase.workload.sync)),
        ("size_bytes", |_, phase| number(phase.workload.size_bytes)),
        ("files", |_, phase| number(phase.workload.files)),
        ("engine", |_, phase| text(&phase.engine.name)),
        ("ops", |_, phase| number(phase.counts.ops)),
        ("bytes", |_, phase| number(phase.counts.bytes)),
        ("app_read_bytes", |_, phase| number(phase.counts.app_bytes_read)),
        ("app_written_bytes", |_, phase| number(phase.counts.app_bytes_written)),
        ("elapsed_ns", |_, phase| number(phase.counts.elapsed_ns)),
        ("passes", |_, phase| figure(Some(phase.counts.passes))),
        ("ops_per_second", |_, phase| figure(phase.figures.rate.ops_per_second)),
        ("bytes_per_second", |_, phase| figure(phase.figures.rate.bytes_per_second)),
        ("steady_ops_per_second", |_, phase| figure(phase.figures.rate.steady_ops_per_second)),
        ("overall_ops_per_second", |_, phase| figure(phase.figures.rate.overall_ops_per_second)),
        ("durable_ops_per_second", |_, phase| figure(phase.figures.rate.durable_ops_per_second)),
        ("into_cache_ops_per_second", |_, phase| figure(phase.figures.rate.into_cache_ops_per_second)),
        ("ci95_low_ops_per_second", |_, phase| {
            // Older versions wrote bounds below zero.
            figure(phase.figures.rate.ci95_low_ops_per_second.map(|low| low.max(0.0)))
        }),
        ("ci95_high_ops_per_second", |_, phase| figure(phase.figures.rate.ci95_high_ops_per_second)),
        ("repeat_half_width", |_, phase| optional(phase.figures.rate.repeat_half_width)),
        ("effective_samples", |_, phase| optional(phase.figures.rate.effective_samples)),
        ("latency_min_ns", |_, phase| latency(phase, |l| Some(l.min))),
        ("latency_mean_ns", |_, phase| latency(phase, |l| Some(l.mean))),
        ("latency_p50_ns", |_, phase| latency(phase, |l| l.p50)),
        ("latency_p90_ns", |_, phase| latency(phase, |l| l.p90)),
        ("latency_p99_ns", |_, phase| latency(phase, |l| l.p99)),
        ("latency_p99_9_ns", |_, phase| latency(phase, |l| l.p99_9)),
        ("latency_max_ns", |_, phase| latency(phase, |l| Some(l.max))),
        ("device", |_, phase| text(phase.seen.device.as_ref().map_or("", |device| &device.name))),
        ("device_read_bytes", |_, phase| {
            optional(phase.seen.device.as_ref().map(|device| device.bytes_read))
        }),
        ("device_written_bytes", |_, phase| {
            optional(phase.seen.device.as_ref().map(|device| device.bytes_written))
        }),
        ("device_operations", |_, phase| {
            optional(phase.seen.device.as_ref().map(|device| device.operations))
        }),
        ("device_flushes", |_, phase| optional(phase.seen.device.as_ref().map(|device| device.flushes))),
        ("device_bytes_per_app_byte", |_, phase| {
            figure(phase.seen.device.as_ref().and_then(|device| device.bytes_per_app_byte))
        }),
        ("foreign_share", |_, phase| {
            figure(phase.seen.device.as_ref().and_then(|device| device.foreign_share))
        }),
        ("page_cache_share", |_, phase| figure(phase.seen.page_cache_share)),
        ("notes", |_, phase| text(notes(phase))),
        ("mean_batch", |_, phase| figure(phase.engine.mean_batch)),
        ("arrival", |_, phase| text(&phase.workload.arrival)),
        ("rate_ops_per_second", |_, phase| figure(phase.workload.rate_ops_per_second)),
        ("queueing_p50_ns", |_, phase| optional(phase.figures.queueing_ns.as_ref().and_then(|l| l.p50))),
        ("queueing_p99_ns", |_, phase| optional(phase.figures.queueing_ns.as_ref().and_then(|l| l.p99))),
        ("verified_blocks", |_, phase| number(phase.counts.verified_blocks)),
        ("own_cost_ns_per_op", |_, phase| figure(phase.figures.own_cost_ns_per_op)),
        ("trust", |_, phase| optional(phase.judged.verdict.as_ref().map(|verdict| verdict.trust.word()))),
        ("trust_reasons", |_, phase| {
            text(
                phase
                    .judged
                    .verdict
                    .as_ref()
                    .map_or(String::new(), |verdict| verdict.trust_reasons.join(" ")),
            )
        }),
        ("steady_from_ns", |_, phase| steady(phase, |steady| steady.from_ns)),
        ("steady_to_ns", |_, phase| steady(phase, |steady| steady.to_ns)),
        ("latency_p50_ci95_low_ns", |_, phase| latency(phase, |l| Some(l.ci95.as_ref()?.p50.as_ref()?.low))),
        ("latency_p50_ci95_high_ns", |_, phase| {
            latency(phase, |l| Some(l.ci95.as_ref()?.p50.as_ref()?.high))
        }),
        ("latency_p99_ci95_low_ns", |_, phase| latency(phase, |l| Some(l.ci95.as_ref()?.p99.as_ref()?.low))),
        ("latency_p99_ci95_high_ns", |_, phase| {
            latency(phase, |l| Some(l.ci95.as_ref()?.p99.as_ref()?.high))
        }),
        ("limiter", |_, phase| {
            optional(
                phase
                    .judged
                    .verdict
                    .as_ref()
                    .and_then(|verdict| verdict.limiter)
                    .map(|limiter| limiter.code()),
            )
        }),
        ("confidence", |_, phase| {
            let confidence = phase.judged.verdict.as_ref().and_then(|verdict| verdict.confidence);
            optional(confidence.map(|confidence| match confidence {
                Confidence::Undetermined => "undetermined",
                Confidence::Likely => "likely",
                Confidence::Confirmed => "confirmed",
            }))
        }),
        ("idle_slots", |_, phase| figure(phase.engine.idle_slots)),
        ("zones_fastest_bytes_per_second", |_, phase| zones(phase, 0)),
        ("zones_slowest_bytes_per_second", |_, phase| zones(phase, 1)),
        ("steady_round", |_, phase| {
            optional(phase.figures.until_steady.as_ref().and_then(|rounds| rounds.steady_round))
        }),
        ("handle", |_, phase| text(slug::from_phase(phase))),
        ("skye_build", |run, _| text(run.skye_build.as_deref().unwrap_or_default())),
        ("read_ops", |_, phase| step_ops(phase, is_read)),
        ("read_latency_p50_ns", |_, phase| step(phase, is_read, |l| l.p50)),
        ("read_latency_p99_ns", |_, phase| step(phase, is_read, |l| l.p99)),
        ("read_latency_p99_9_ns", |_, phase| step(phase, is_read, |l| l.p99_9)),
        ("write_ops", |_, phase| step_ops(phase, is_write)),
        ("write_latency_p50_ns", |_, phase| step(phase, is_write, |l| l.p50)),
        ("write_latency_p99_ns", |_, phase| step(phase, is_write, |l| l.p99)),
        ("write_latency_p99_9_ns", |_, phase| step(phase, is_write, |l| l.p99_9)),
        ("sync_ops", |_, phase| step_ops(phase, is_sync)),
        ("sync_latency_p50_ns", |_, phase| step(phase, is_sync, |l| l.p50)),
        ("sync_latency_p99_ns", |_, phase| step(phase, is_sync, |l| l.p99)),
        ("sync_latency_p99_9_ns", |_, phase| step(phase, is_sync, |l| l.p99_9)),
        ("skye_libc", |run, _| text(run.skye_libc.as_deref().unwrap_or_default())),
    ]
}

/// A value of the steady part; empty if none was found.
fn steady(phase: &PhaseRecord, of: fn(&Steady) -> u64) -> Cell {
    optional(phase.figures.steady.as_ref().filter(|steady| steady.is_steady).map(of))
}

/// The rate of the fastest zones, or of the slowest; empty without zones.
fn zones(phase: &PhaseRecord, which: usize) -> Cell {
    let parts = zones::parts(phase);
    figure(zones::extremes(&parts).map(|extremes| extremes[which].bytes_per_second))
}

fn latency(phase: &PhaseRecord, of: fn(&Latency) -> Option<u64>) -> Cell {
    optional(phase.figures.latency_ns.as_ref().and_then(of))
}

/// A value of a test's step of that kind; empty for tests without one.
fn step_ops(phase: &PhaseRecord, is_its: fn(&Step) -> bool) -> Cell {
    optional(find_step(phase, is_its).map(|step| step.ops))
}

fn step(phase: &PhaseRecord, is_its: fn(&Step) -> bool, of: fn(&Latency) -> Option<u64>) -> Cell {
    optional(find_step(phase, is_its).and_then(|step| of(step.latency_ns.as_ref()?)))
}

fn find_step(phase: &PhaseRecord, is_its: fn(&Step) -> bool) -> Option<&Step> {
    phase.figures.steps.iter().find(|step| is_its(step))
}

fn is_read(step: &Step) -> bool {
    step.name == "read"
}

fn is_write(step: &Step) -> bool {
    step.name == "write"
}

fn word(status: model::run::Status) -> &'static str {
    use model::run::Status;
    match status {
        Status::Done => "done",
        Status::Partial => "partial",
        Status::Skipped => "skipped",
        Status::Failed => "failed",
    }
}

/// The notes of a phase with their marks, in one cell.
fn notes(phase: &PhaseRecord) -> String {
    let notes =
        phase.judged.notes.iter().map(|note| format!("{} {}", note.mark.sign(), note.text).trim().to_owned());
    notes.collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use model::run::ChosenPercentile;
    use proptest::prelude::*;

    #[test]
    fn each_column_has_its_meaning() {
        let names: Vec<_> = columns().iter().map(|(name, _)| *name).collect();
        assert_eq!(wording::COLUMNS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
    }

    #[test]
    fn default_run_as_csv() {
        insta::assert_snapshot!(write(&sample::run()));
    }

    #[test]
    fn reads_writes_and_syncs_have_columns() {
        let mut run = sample::run();
        run.phases = vec![sample::rw(), sample::phase("read:rnd4k")];
        let text = write(&run);
        let ends: Vec<_> =
            text.lines().map(|line| line.rsplitn(14, ',').skip(1).take(12).collect::<Vec<_>>()).collect();
        let all = "140000,88000,120000,340000,60000,31000,77000,410000,15000,402000,980000,5200000";
        assert_eq!(ends[1], all.rsplit(',').collect::<Vec<_>>());
        assert_eq!(ends[2], [""; 12]);
    }

    #[test]
    fn chosen_percentiles_are_the_last_columns() {
        let mut run = sample::run();
        run.phases = vec![sample::rw()];
        run.percentiles = vec![50.0, 99.99];
        let chosen = vec![ChosenPercentile { percent: 99.99, ns: 7_000_000 }];
        run.phases[0].figures.latency_ns.as_mut().unwrap().chosen = chosen.clone();
        run.phases[0].figures.steps[1].latency_ns.as_mut().unwrap().chosen = chosen;
        let text = write(&run);
        let ends: Vec<_> =
            text.lines().map(|line| line.rsplitn(5, ',').take(4).collect::<Vec<_>>()).collect();
        assert_eq!(ends[0][3], "latency_p99_99_ns");
        assert_eq!(ends[0][0], "sync_latency_p99_99_ns");
        assert_eq!(ends[1], ["", "7000000", "", "7000000"]);
    }

    #[test]
    fn hostile_cells_are_defused() {
        let run = sample::hostile_run();
        insta::assert_snapshot!(write(&run));
    }

    #[test]
    fn column_names_are_unique_and_lines_end_in_crlf() {
        let names: Vec<_> = columns().iter().map(|(name, _)| *name).collect();
        assert!(write(&sample::run()).lines().count() == 12 && write(&sample::run()).ends_with("\r\n"));
        assert!(names.iter().all(|name| names.iter().filter(|other| other == &name).count() == 1));
    }

    proptest! {
        #[test]
        fn any_run_parses_and_holds_no_formula(run in sample::any_run()) {
            let text = write(&run);
            let mut reader = ::csv::Reader::from_reader(text.as_bytes());
            let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
            prop_assert_eq!(rows.len(), run.phases.len());
            for (row, phase) in rows.iter().zip(&run.phases) {
                prop_assert_eq!(row.len(), columns().len());
                for ((_, cell), cell_text) in columns().iter().zip(row) {
                    if matches!(cell(&run, phase), Cell::Text(_)) {
                        prop_assert!(!cell_text.starts_with(['=', '+', '-', '@', '\t', '\r']), "{}", cell_text);
                    }
                }
            }
        }
    }
}
