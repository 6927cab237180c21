//! `cargo xtask bench`: the requirements on performance, measured on this machine.
//!
//! A benchmark is one file below and one line in [`BENCHES`]. Speed is compared by alternating pairs
//! ([`crate::pairs`]). A value with an absolute limit is measured as often, and its median is compared with the limit.
//!
//! Some benchmarks run the engine's loops in this process, so these must be compiled as in the program. In a build
//! without optimisation, the command runs itself again in the release profile.
//!
//! A figure is a [`Row`] with its limit. A figure that this machine cannot show is `Row::skipped` and says why.

mod bare_ring;
mod bonnie;
mod build;
mod bytes;
mod cache;
mod callgrind;
mod clients;
mod disk;
mod drained;
mod files;
mod fio;
mod foreign;
mod given;
mod instructions;
mod looped;
mod memory;
mod mixes;
mod null;
mod observing;
mod openloop;
mod pinned;
mod program;
mod queued;
mod report;
mod rigs;
mod ring;
mod stamps;
mod startup;
mod tmpfs;
mod workers;
mod zram;
mod zram_file;

use std::convert::Infallible;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::Usage;
use crate::pairs::{Median, PAIRS_MIN, median};

/// One benchmark.
#[derive(Debug)]
pub struct Bench {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the measurement.
    pub measures: &'static str,
    /// Measures and returns the figures.
    pub run: fn(&Setting) -> Result<Vec<Row>>,
}

/// Every benchmark.
pub const BENCHES: &[Bench] = &[
    startup::BENCH,
    memory::BENCH,
    null::BENCH,
    files::BENCH,
    mixes::BENCH,
    zram::BENCH,
    ring::BENCH,
    disk::DISK,
    disk::LOOP,
    disk::SERVED,
    given::BENCH,
    workers::BENCH,
    cache::BENCH,
    stamps::BENCH,
    observing::BENCH,
    openloop::BENCH,
    rigs::BENCH,
    queued::BENCH,
    instructions::BENCH,
    bytes::BENCH,
    bonnie::BENCH,
    build::BENCH,
    clients::BENCH,
    report::BENCH,
];

/// Settings of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Number of pairs, or of single measurements if nothing is compared.
    pub pairs: usize,
    /// True if the measured values become the baseline of later measurements.
    pub bless: bool,
}

/// Limit of a median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// The value should be this or more.
    AtLeast(f64),
    /// The value should be this or less.
    AtMost(f64),
    /// The median should be the first or more, and its interval should not reach below the second.
    AtLeastBoth(f64, f64),
    /// The median should be the first or less, and its interval should not reach above the second.
    AtMostBoth(f64, f64),
    /// The value may be this or more: its interval reaches so far.
    Reaches(f64),
    /// The value is only shown.
    None,
}

/// Comparison of a value with its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Met,
    Missed,
    /// The limit lies within the interval, or too few values have their median beyond it.
    Open,
    NoLimit,
}

/// One figure: its measured values and its limit.
#[derive(Debug, Clone)]
pub struct Row {
    /// Name of the figure.
    pub what: String,
    /// Unit; "×" for a ratio.
    pub unit: &'static str,
    /// Measured values, in the order of the measurements.
    pub values: Vec<f64>,
    /// Limit of the median.
    pub limit: Limit,
    /// Origin of the values, such as the command line of the other side. A row without values has the reason here.
    pub note: Option<String>,
}

impl Row {
    fn new(what: impl Into<String>, unit: &'static str, values: Vec<f64>, limit: Limit) -> Self {
        Self { what: what.into(), unit, values, limit, note: None }
    }

    /// A figure that this machine cannot show, with the reason.
    fn skipped(what: impl Into<String>, limit: Limit, why: impl Into<String>) -> Self {
        Self { note: Some(why.into()), ..Self::new(what, "", Vec::new(), limit) }
    }

    /// Adds the origin of the values. It is printed once below the table, however many rows have it.
    fn noted(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }

    fn outcome(&self, found: &Median) -> Outcome {
        // A count or a single measurement has no interval; its value decides.
        let (good, bad) = match self.limit {
            Limit::None => return Outcome::NoLimit,
            Limit::AtLeast(limit) => (found.low >= limit, found.high < limit),
            Limit::AtMost(limit) => (found.high <= limit, found.low > limit),
            Limit::AtLeastBoth(median, low) => {
                (found.value >= median && found.low >= low, found.high < median)
            }
            Limit::AtMostBoth(median, high) => {
                (found.value <= median && found.high <= high, found.low > median)
            }
            Limit::Reaches(limit) => (found.high >= limit, found.high < limit),
        };
        match (good, bad) {
            (true, _) => Outcome::Met,
            (_, true) => Outcome::Missed,
            _ => Outcome::Open,
        }
    }
}

/// Runs the command, and returns true if no limit was missed.
///
/// # Errors
/// The command line is not understood, or a benchmark cannot be run.
pub fn command(arguments: &[String]) -> Result<bool> {
    let mut chosen = Vec::new();
    let mut setting = Setting { pairs: PAIRS_MIN, bless: false };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--list" => {
                BENCHES.iter().for_each(|bench| println!("{:<12} {}", bench.name, bench.measures));
                return Ok(true);
            }
            "--bless" => setting.bless = true,
            "--pairs" => {
                let number = words.next().and_then(|text| text.parse().ok());
                let enough = number.filter(|pairs| *pairs >= PAIRS_MIN);
                setting.pairs =
                    enough.ok_or_else(|| Usage(format!("--pairs takes a number from {PAIRS_MIN}")))?;
            }
            name => chosen.push(
                BENCHES
                    .iter()
                    .find(|bench| bench.name == name)
                    .ok_or_else(|| Usage(format!("no benchmark `{name}`; --list shows them")))?,
            ),
        }
    }
    if chosen.is_empty() {
        chosen.extend(BENCHES);
    }
    if cfg!(debug_assertions) {
        match optimised(arguments)? {}
    }
    run(&chosen, &setting)
}

/// Replaces this process by the same command, compiled as the program is released.
fn optimised(arguments: &[String]) -> Result<Infallible> {
    let mut command = Command::new(crate::cargo());
    command.args(["run", "--release", "--quiet", "--package", "xtask", "--manifest-path"]);
    command.arg(crate::root().join("Cargo.toml")).args(["--", "bench"]).args(arguments);
    Err(command.exec()).context("run cargo run --release")
}

fn run(chosen: &[&Bench], setting: &Setting) -> Result<bool> {
    let mut results = Vec::new();
    let mut kept = true;
    println!("{HEADING}");
    for bench in chosen {
        let rows = (bench.run)(setting).with_context(|| format!("benchmark {}", bench.name))?;
        for row in &rows {
            let found = median(&row.values);
            kept &= found.is_none_or(|found| row.outcome(&found) != Outcome::Missed);
            println!("{}", line(bench.name, row, found.as_ref()));
            results.push(document(bench.name, row, found.as_ref()));
        }
        notes(&rows).iter().for_each(|note| println!("           {note}"));
    }
    let directory = crate::target_directory();
    fs::create_dir_all(&directory).with_context(|| format!("make {}", directory.display()))?;
    let path = directory.join("bench.json");
    let document = json!({ "schema": "skye.bench/1", "pairs": setting.pairs, "results": results });
    fs::write(&path, format!("{document:#}\n")).with_context(|| format!("write {}", path.display()))?;
    println!("\nsaved {}", path.display());
    Ok(kept)
}

/// Notes of the rows with values, each one once.
fn notes(rows: &[Row]) -> Vec<&str> {
    let mut notes: Vec<&str> = Vec::new();
    for note in rows.iter().filter(|row| !row.values.is_empty()).filter_map(|row| row.note.as_deref()) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

const HEADING: &str = "\
bench        figure                                              median   95 % interval          n   asked for";

fn line(name: &str, row: &Row, found: Option<&Median>) -> String {
    let mut line = format!("{name:<12} {:<44}", row.what);
    let asked = match row.limit {
        Limit::AtLeast(limit) => format!("≥ {}", number(limit, row.unit)),
        Limit::AtMost(limit) => format!("≤ {}", number(limit, row.unit)),
        Limit::AtLeastBoth(median, low) => {
            format!("≥ {}, from {}", number(median, row.unit), number(low, ""))
        }
        Limit::AtMostBoth(median, high) => format!("≤ {}, to {}", number(median, row.unit), number(high, "")),
        Limit::Reaches(limit) => format!("reaches {}", number(limit, row.unit)),
        Limit::None => String::new(),
    };
    let Some(found) = found else {
        let _ = write!(line, " skipped: {}", row.note.as_deref().unwrap_or("nothing was measured"));
        return line;
    };
    let interval = match row.values.len() {
        1 => String::from("–"),
        _ => format!("{} … {}", number(found.low, ""), number(found.high, "")),
    };
    let value = number(found.value, row.unit);
    let _ = write!(line, " {value:>11}   {interval:<18} {:>5}", row.values.len());
    let outcome = match row.outcome(found) {
        Outcome::Met => ": met",
        Outcome::Missed => ": MISSED",
        Outcome::Open => ": not clear",
        Outcome::NoLimit => "",
    };
    let _ = write!(line, "   {asked}{outcome}");
    line.trim_end().to_owned()
}

/// Formats three significant digits, or all digits of a whole number, and appends the unit.
fn number(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 || v.fract() == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    let space = if unit.is_empty() { "" } else { " " };
    format!("{value:.digits$}{space}{unit}")
}

fn document(name: &str, row: &Row, found: Option<&Median>) -> Value {
    let (limit_kind, limit) = match row.limit {
        Limit::AtLeast(limit) => (Some("at_least"), Some(limit)),
        Limit::AtMost(limit) => (Some("at_most"), Some(limit)),
        Limit::AtLeastBoth(limit, _) => (Some("at_least"), Some(limit)),
        Limit::AtMostBoth(limit, _) => (Some("at_most"), Some(limit)),
        Limit::Reaches(limit) => (Some("reaches"), Some(limit)),
        Limit::None => (None, None),
    };
    let outcome = match found.map(|found| row.outcome(found)) {
        Some(Outcome::Met) => Some("met"),
        Some(Outcome::Missed) => Some("missed"),
        Some(Outcome::Open) => Some("not_clear"),
        Some(Outcome::NoLimit) => None,
        None => Some("skipped"),
    };
    let mut document = json!({
        "bench": name, "figure": row.what, "unit": row.unit, "values": row.values,
        "median": found.map(|found| found.value), "low": found.map(|found| found.low),
        "high": found.map(|found| found.high), "coverage": found.map(|found| found.coverage),
        "at_least": null, "at_most": null, "outcome": outcome, "note": row.note,
    });
    if let Some(kind) = limit_kind {
        document[kind] = json!(limit);
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[f64], limit: Limit) -> Row {
        Row::new("create, ours over bare", "×", values.to_vec(), limit)
    }

    fn outcome(values: &[f64], limit: Limit) -> Outcome {
        row(values, limit).outcome(&median(values).unwrap())
    }

    #[test]
    fn a_limit_within_the_interval_is_neither_met_nor_missed() {
        let around: Vec<f64> = (0..15).map(|i| 0.90 + f64::from(i) * 0.01).collect();
        assert_eq!(outcome(&around, Limit::AtLeast(0.95)), Outcome::Open);
        assert_eq!(outcome(&around, Limit::AtLeast(0.90)), Outcome::Met);
        assert_eq!(outcome(&around, Limit::AtLeast(1.05)), Outcome::Missed);
        assert_eq!(outcome(&[130.0], Limit::AtMost(130.0)), Outcome::Met);
        assert_eq!(outcome(&[131.0], Limit::AtMost(130.0)), Outcome::Missed);
        assert_eq!(outcome(&[1.0], Limit::None), Outcome::NoLimit);
        assert_eq!(outcome(&around, Limit::Reaches(1.0)), Outcome::Met, "the upper end decides");
        assert_eq!(outcome(&around, Limit::Reaches(1.05)), Outcome::Missed);
    }

    #[test]
    fn a_line_says_median_interval_count_and_outcome() {
        let values: Vec<f64> = (0..15).map(|i| 0.90 + f64::from(i) * 0.01).collect();
        let row = row(&values, Limit::AtLeast(0.90));
        let line = line("files", &row, median(&values).as_ref());
        let words: Vec<_> = line.split_whitespace().collect();
        let expected = "files create, ours over bare 0.970 × 0.930 … 1.01 15 ≥ 0.900 ×: met";
        assert_eq!(words.join(" "), expected);
    }

    #[test]
    fn what_was_not_measured_says_why_and_notes_are_said_once() {
        let skipped = Row::skipped("reads, ours over fio", Limit::AtLeast(1.0), "fio is not installed");
        let text = line("ring", &skipped, None);
        assert!(text.ends_with("skipped: fio is not installed"), "{text}");
        assert_eq!(document("ring", &skipped, None)["outcome"], "skipped");
        let noted = || row(&[1.0], Limit::Reaches(1.0)).noted("fio --name=x");
        assert_eq!(notes(&[noted(), skipped, noted()]), ["fio --name=x"]);
        let document = document("ring", &noted(), median(&[1.0]).as_ref());
        assert_eq!((&document["note"], &document["reaches"]), (&json!("fio --name=x"), &json!(1.0)));
    }

    #[test]
    fn unknown_words_are_refused() {
        for words in [&["nothing"][..], &["--pairs", "3"], &["--pairs"]] {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            assert!(command(&words).unwrap_err().is::<Usage>(), "{words:?}");
        }
    }
}
