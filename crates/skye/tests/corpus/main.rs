//! Rows of real runs, kept as documents. Each is judged anew, and a snapshot has all that is said of it: read it.
//!
//! `rows/NAME.json.gz` is the document of a run. Those that a selftest made are named after its cases and come from `skye
//! selftest --keep DIR`; the others are runs of presets on the named place, by `skye run --json FILE`.
#![allow(missing_docs, clippy::unwrap_used)]

use std::fmt::Write;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use model::Run;
use model::run::{PhaseRecord, Status};

/// The names of the runs with the runs, judged by the rules of today.
fn runs() -> Vec<(String, Run)> {
    let rows = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/rows");
    let mut paths: Vec<PathBuf> = fs::read_dir(rows).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| (name(path), judged(path))).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().trim_end_matches(".json.gz").to_owned()
}

fn judged(path: &Path) -> Run {
    let mut text = String::new();
    GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let mut run = report::json::read(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    judge::again(&mut run);
    run.phases.iter_mut().for_each(wording::fill);
    run
}

fn measured(run: &Run) -> impl Iterator<Item = &PhaseRecord> {
    run.phases.iter().filter(|phase| phase.status == Status::Done && phase.ops > 0)
}

#[test]
fn there_are_enough_rows_of_enough_kinds() {
    let runs = runs();
    let rows: usize = runs.iter().map(|(_, run)| measured(run).count()).sum();
    assert!(rows >= 40, "{rows} rows");
    let mut limiters: Vec<_> = runs
        .iter()
        .flat_map(|(_, run)| measured(run))
        .filter_map(|row| row.verdict.as_ref()?.limiter)
        .collect();
    limiters.sort_unstable();
    limiters.dedup();
    assert!(limiters.len() >= 15, "{limiters:?}");
}

/// Verdicts, evidence, advice and findings of each row: to be read from top to bottom.
#[test]
fn what_is_said_of_each_row() {
    let mut told = String::new();
    for (name, run) in runs() {
        let target = &run.environment.target;
        let devices: Vec<_> = target.device_stack.iter().map(|device| device.name.as_str()).collect();
        let place = if devices.is_empty() { "no device".to_owned() } else { devices.join(" on ") };
        writeln!(told, "== {name}: {} on {place}", target.file_system).unwrap();
        for row in measured(&run) {
            let rate = row.rate.ops_per_second.map_or("–".into(), |rate| format!("{rate:.1}/s"));
            writeln!(told, "\n{}: {rate}", row.spec).unwrap();
            let verdict = row.verdict.as_ref().filter(|verdict| verdict.limiter.is_some());
            let limit = verdict.map(|verdict| wording::verdict_paragraph(verdict, 3));
            writeln!(told, "  {}", limit.unwrap_or_else(|| wording::NO_LIMITER.into())).unwrap();
            for note in &row.notes {
                writeln!(told, "  {} {}: {}", note.mark.sign(), note.code, note.text).unwrap();
            }
        }
        told.push('\n');
    }
    insta::assert_snapshot!(told);
}
