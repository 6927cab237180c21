//! Rows of real runs, kept as documents. Each is judged again. A snapshot contains all text about it: read it.
//!
//! `rows/NAME.json.gz` is the document of a run. Documents of a selftest are named after its cases and come from `skye
//! selftest --keep DIR`. The others are runs of presets on the named place, by `skye run --json FILE`.
#![allow(missing_docs, clippy::unwrap_used)]

mod generated;
mod laws;
mod rule;

use std::fmt::Write;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use model::Run;
use model::run::{PhaseRecord, Status, Trust};

/// Returns the runs with their names, judged by the rules of today.
fn runs() -> Vec<(String, Run)> {
    let rows = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/rows");
    let mut paths: Vec<PathBuf> = fs::read_dir(rows).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| (name(path), rejudge(path))).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().trim_end_matches(".json.gz").to_owned()
}

fn rejudge(path: &Path) -> Run {
    let mut text = String::new();
    GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let mut run = report::json::read(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    judge::rejudge(&mut run);
    run.phases.iter_mut().for_each(wording::fill);
    run
}

fn measured(run: &Run) -> impl Iterator<Item = &PhaseRecord> {
    run.phases.iter().filter(|phase| phase.status == Status::Done && phase.counts.ops > 0)
}

#[test]
fn corpus_has_40_rows_and_15_limiters() {
    let runs = runs();
    let rows: usize = runs.iter().map(|(_, run)| measured(run).count()).sum();
    assert!(rows >= 40, "{rows} rows");
    let mut limiters: Vec<_> = runs
        .iter()
        .flat_map(|(_, run)| measured(run))
        .filter_map(|row| row.judged.verdict.as_ref()?.limiter)
        .collect();
    limiters.sort_unstable();
    limiters.dedup();
    assert!(limiters.len() >= 15, "{limiters:?}");
}

/// Applies the rule to the rows. Applies it also to other documents, as they were judged, if `SKYE_TEST_DOCUMENTS` is a
/// directory of them.
#[test]
fn verdicts_never_contradict_recorded_measurements() {
    let mut runs = runs();
    if let Some(directory) = std::env::var_os("SKYE_TEST_DOCUMENTS") {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            runs.push((path.display().to_string(), report::json::read(&text).unwrap()));
        }
    }
    let all: Vec<_> = runs
        .iter()
        .flat_map(|(name, run)| {
            let of_rows = measured(run).flat_map(|row| rule::contradictions(row, run));
            of_rows.map(move |contradiction| format!("{name}: {contradiction}"))
        })
        .collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn contradiction_rule_finds_refuted_verdicts() {
    let (_, run) = runs().into_iter().find(|(name, _)| name == "latency").unwrap();
    let row = measured(&run).find(|row| row.spec == "read:rnd4k:q32").unwrap();
    assert_eq!(rule::contradictions(row, &run), Vec::<String>::new());
    let mut full = row.clone();
    let verdict = full.judged.verdict.as_mut().unwrap();
    verdict.limiter = Some(model::Limiter::DeviceOps);
    let found = rule::contradictions(&full, &run);
    assert!(found.iter().any(|sentence| sentence.contains("more depth gave 4.0")), "{found:?}");
    let mut busy = row.clone();
    busy.judged.verdict.as_mut().unwrap().limiter = Some(model::Limiter::KernelCpu);
    busy.seen.budget.as_mut().unwrap().run_queue = 0.68;
    assert_eq!(rule::contradictions(&busy, &run).len(), 1);
}

/// Verdicts, evidence, advice and findings of each row: to be read from top to bottom.
#[test]
fn row_verdicts_and_findings_snapshot() {
    let mut output_text = String::new();
    for (name, run) in runs() {
        let target = &run.environment.target;
        let devices: Vec<_> = target.device_stack.iter().map(|device| device.name.as_str()).collect();
        let place = if devices.is_empty() { "no device".to_owned() } else { devices.join(" on ") };
        writeln!(output_text, "== {name}: {} on {place}", target.file_system).unwrap();
        for row in measured(&run) {
            let rate = row.figures.rate.ops_per_second.map_or("–".into(), |rate| format!("{rate:.1}/s"));
            writeln!(output_text, "\n{}: {rate}", row.spec).unwrap();
            let verdict = row.judged.verdict.as_ref().filter(|verdict| verdict.limiter.is_some());
            let limit = verdict.map(|verdict| wording::verdict_paragraph(verdict, 3));
            writeln!(output_text, "  {}", limit.unwrap_or_else(|| wording::NO_LIMITER.into())).unwrap();
            for note in &row.judged.notes {
                writeln!(output_text, "  {} {}: {}", note.mark.sign(), note.code, note.text).unwrap();
            }
        }
        output_text.push('\n');
    }
    insta::assert_snapshot!(output_text);
}

/// The recorded runs of presets on a real disk each fit on one screen.
#[test]
fn preset_report_fits_on_one_screen() {
    use report::text::{Detail, Style, saved, screen};
    for (preset, lines_max) in [("standard", 30), ("quick", 24), ("disk", 20)] {
        let file = format!("tests/corpus/runs/{preset}.json.gz");
        let run = rejudge(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
        let output_text = |width| {
            let style = Style { has_unicode: true, width };
            let parts =
                [screen(&run, Detail::Screen, &style), saved(&run, "1122-otter", Path::new(""), &style)];
            anstream::adapter::strip_str(&parts.join("\n\n")).to_string()
        };
        let text = output_text(100);
        assert!(text.lines().count() <= lines_max, "{} lines\n{text}", text.lines().count());
        // A small terminal's last screen shows everything from the answer on.
        let narrow = output_text(80);
        let rest: Vec<_> = narrow.lines().skip_while(|line| !line.contains("the limit in")).collect();
        let table = rest.iter().rposition(|line| line.contains(" 4K ") || line.contains("unlink")).unwrap();
        assert!(table < 24, "{narrow}");
        assert!(text.lines().chain(narrow.lines()).all(|line| line.chars().count() <= 100), "{text}");
        // The work of others is marked; planned work is not.
        let marked =
            run.phases.iter().filter(|phase| phase.judged.verdict.as_ref().unwrap().trust != Trust::Ok);
        assert!(marked.count() <= 1, "{text}");
    }
}

/// A default run can be mailed, pasted into a ticket, and kept by the hundred.
#[test]
fn default_run_document_and_markdown_are_small() {
    let run = rejudge(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/runs/standard.json.gz"));
    let document = report::json::write(&run);
    assert!(document.len() < 400_000, "{} bytes", document.len());
    assert_eq!(report::json::read(&document).unwrap(), run);
    let markdown = report::markdown::write(&run);
    assert!(markdown.lines().count() <= 30, "{markdown}");
}
