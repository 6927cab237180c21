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
mod existing_target;
mod files;
mod fio;
mod foreign;
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
mod waits;
mod workers;
mod zram;
mod zram_file;

use std::convert::Infallible;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::Usage;
use crate::pairs::{Median, PAIRS_MIN, PAIRS_QUICK, median};

/// One benchmark.
#[derive(Debug)]
pub struct Bench {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the measurement.
    pub measures: &'static str,
    /// Measures, and hands each figure over once it is known.
    pub run: fn(&Setting, &mut Rows<'_>) -> Result<()>,
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
    existing_target::BENCH,
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

/// Benchmarks that `--quick` leaves out unless they are named: few pairs make them no shorter.
const NOT_QUICK: [&str; 2] = ["build", "clients"];

/// Settings of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Number of pairs, or of single measurements if nothing is compared.
    pub pairs: usize,
    /// True if so few pairs are wanted that no limit counts as met.
    pub is_quick: bool,
    /// True if the measured values become the baseline of later measurements.
    pub updates_baseline: bool,
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

    /// Compares the median with the limit. A few quick pairs can miss a limit; to meet it is a claim, which needs more.
    fn outcome(&self, found: &Median, is_quick: bool) -> Outcome {
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
            (true, _) if is_quick && (2..PAIRS_MIN).contains(&self.values.len()) => Outcome::Open,
            (true, _) => Outcome::Met,
            (_, true) => Outcome::Missed,
            _ => Outcome::Open,
        }
    }
}

/// Sink of the figures of a benchmark. Each row is printed once it is known, and all notes after the last row.
pub struct Rows<'a> {
    bench: &'static str,
    is_quick: bool,
    to: &'a mut dyn Write,
    notes: Vec<String>,
    results: Vec<Value>,
    is_missed: bool,
}

impl<'a> Rows<'a> {
    fn new(is_quick: bool, to: &'a mut dyn Write) -> Self {
        Self { bench: "", is_quick, to, notes: Vec::new(), results: Vec::new(), is_missed: false }
    }

    /// Prints a row.
    fn push(&mut self, row: Row) -> Result<()> {
        let found = median(&row.values);
        let outcome = found.as_ref().map(|found| row.outcome(found, self.is_quick));
        self.is_missed |= outcome == Some(Outcome::Missed);
        self.print(&line(self.bench, &row, found.as_ref().zip(outcome)))?;
        self.results.push(document(self.bench, &row, found.as_ref().zip(outcome)));
        // A row without values has printed its note.
        let note = row.note.filter(|note| found.is_some() && !self.notes.contains(note));
        self.notes.extend(note);
        Ok(())
    }

    /// Prints rows.
    fn extend(&mut self, rows: impl IntoIterator<Item = Row>) -> Result<()> {
        rows.into_iter().try_for_each(|row| self.push(row))
    }

    /// Ends a benchmark: prints its notes, each one once.
    fn end(&mut self) -> Result<()> {
        let notes = std::mem::take(&mut self.notes);
        notes.iter().try_for_each(|note| self.print(&format!("           {note}")))
    }

    fn print(&mut self, line: &str) -> Result<()> {
        writeln!(self.to, "{line}").and_then(|()| self.to.flush()).context("print a row")
    }
}

/// Runs the command, and returns true if no limit was missed.
///
/// # Errors
/// The command line is not understood, or a benchmark cannot be run.
pub fn command(arguments: &[String]) -> Result<bool> {
    let Some((chosen, setting)) = understood(arguments)? else {
        BENCHES.iter().for_each(|bench| println!("{:<12} {}", bench.name, bench.measures));
        return Ok(true);
    };
    if cfg!(debug_assertions) {
        match rerun_optimised(arguments)? {}
    }
    run(&chosen, &setting)
}

/// Parses the command line. Returns the benchmarks and their setting, or `None` if `--list` is given.
fn understood(arguments: &[String]) -> Result<Option<(Vec<&'static Bench>, Setting)>> {
    let mut chosen = Vec::new();
    let (mut pairs, mut is_quick, mut updates_baseline) = (None, false, false);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--list" => return Ok(None),
            "--bless" => updates_baseline = true,
            "--quick" => is_quick = true,
            "--pairs" => {
                let number = words.next().and_then(|text| text.parse().ok());
                let enough = number.filter(|pairs| *pairs >= PAIRS_MIN);
                pairs =
                    Some(enough.ok_or_else(|| Usage(format!("--pairs takes a number from {PAIRS_MIN}")))?);
            }
            name => chosen.push(
                BENCHES
                    .iter()
                    .find(|bench| bench.name == name)
                    .ok_or_else(|| Usage(format!("no benchmark `{name}`; --list shows them")))?,
            ),
        }
    }
    let pairs = match (pairs, is_quick) {
        (Some(_), true) => {
            return Err(Usage(format!("--quick measures {PAIRS_QUICK} pairs; leave --pairs out")).into());
        }
        (pairs, false) => pairs.unwrap_or(PAIRS_MIN),
        (None, true) => PAIRS_QUICK,
    };
    if chosen.is_empty() {
        chosen.extend(BENCHES.iter().filter(|bench| !is_quick || !NOT_QUICK.contains(&bench.name)));
    }
    Ok(Some((chosen, Setting { pairs, is_quick, updates_baseline })))
}

/// Replaces this process by the same command, compiled as the program is released.
fn rerun_optimised(arguments: &[String]) -> Result<Infallible> {
    let mut command = Command::new(crate::cargo());
    command.args(["run", "--release", "--quiet", "--package", "xtask", "--manifest-path"]);
    command.arg(crate::root().join("Cargo.toml")).args(["--", "bench"]).args(arguments);
    Err(command.exec()).context("run cargo run --release")
}

fn run(chosen: &[&Bench], setting: &Setting) -> Result<bool> {
    let mut stdout = io::stdout();
    let mut rows = Rows::new(setting.is_quick, &mut stdout);
    rows.print(HEADING)?;
    for bench in chosen {
        rows.bench = bench.name;
        (bench.run)(setting, &mut rows).with_context(|| format!("benchmark {}", bench.name))?;
        rows.end()?;
    }
    let directory = crate::target_directory();
    fs::create_dir_all(&directory).with_context(|| format!("make {}", directory.display()))?;
    let path = directory.join("bench.json");
    let document = json!({
        "schema": "skye.bench/1", "pairs": setting.pairs, "quick": setting.is_quick, "results": rows.results
    });
    fs::write(&path, format!("{document:#}\n")).with_context(|| format!("write {}", path.display()))?;
    rows.print(&format!("\nsaved {}", path.display()))?;
    Ok(!rows.is_missed)
}

const HEADING: &str = "\
bench        figure                                              median   interval           covers      n   asked for";

fn line(name: &str, row: &Row, found: Option<(&Median, Outcome)>) -> String {
    let mut line = format!("{name:<12} {:<44}", row.what);
    let limit_text = match row.limit {
        Limit::AtLeast(limit) => format!("≥ {}", number(limit, row.unit)),
        Limit::AtMost(limit) => format!("≤ {}", number(limit, row.unit)),
        Limit::AtLeastBoth(median, low) => {
            format!("≥ {}, from {}", number(median, row.unit), number(low, ""))
        }
        Limit::AtMostBoth(median, high) => format!("≤ {}, to {}", number(median, row.unit), number(high, "")),
        Limit::Reaches(limit) => format!("reaches {}", number(limit, row.unit)),
        Limit::None => String::new(),
    };
    let Some((found, outcome)) = found else {
        let _ = write!(line, " skipped: {}", row.note.as_deref().unwrap_or("nothing was measured"));
        return line;
    };
    let (interval, covers) = match row.values.len() {
        1 => (String::from("–"), String::new()),
        _ => (
            format!("{} … {}", number(found.low, ""), number(found.high, "")),
            format!("{:.1} %", found.coverage * 100.0),
        ),
    };
    let value = number(found.value, row.unit);
    let _ = write!(line, " {value:>11}   {interval:<18} {covers:>6}  {:>5}", row.values.len());
    let outcome = match outcome {
        Outcome::Met => ": met",
        Outcome::Missed => ": MISSED",
        Outcome::Open => ": not clear",
        Outcome::NoLimit => "",
    };
    let _ = write!(line, "   {limit_text}{outcome}");
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

fn document(name: &str, row: &Row, found: Option<(&Median, Outcome)>) -> Value {
    let (limit_kind, limit) = match row.limit {
        Limit::AtLeast(limit) => (Some("at_least"), Some(limit)),
        Limit::AtMost(limit) => (Some("at_most"), Some(limit)),
        Limit::AtLeastBoth(limit, _) => (Some("at_least"), Some(limit)),
        Limit::AtMostBoth(limit, _) => (Some("at_most"), Some(limit)),
        Limit::Reaches(limit) => (Some("reaches"), Some(limit)),
        Limit::None => (None, None),
    };
    let outcome = found.map(|(_, outcome)| outcome);
    let found = found.map(|(found, _)| found);
    let outcome = match outcome {
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
        row(values, limit).outcome(&median(values).unwrap(), false)
    }

    /// Returns the text that a benchmark of these rows prints, and the results that it saves.
    fn output(rows: Vec<Row>, is_quick: bool) -> (String, Vec<Value>) {
        let mut text = Vec::new();
        let mut sink = Rows::new(is_quick, &mut text);
        sink.bench = "files";
        sink.extend(rows).and_then(|()| sink.end()).unwrap();
        let results = sink.results;
        (String::from_utf8(text).unwrap(), results)
    }

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn limit_within_interval_is_undecided() {
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
    fn quick_row_with_few_pairs_is_never_met() {
        let quick = |values: &[f64], limit| row(values, limit).outcome(&median(values).unwrap(), true);
        assert_eq!(quick(&[1.0, 1.1, 1.2, 1.3], Limit::AtLeast(0.9)), Outcome::Open);
        assert_eq!(quick(&[0.5, 0.6, 0.7, 0.8], Limit::AtLeast(0.9)), Outcome::Missed);
        assert_eq!(quick(&[130.0], Limit::AtMost(130.0)), Outcome::Met, "a count has no interval");
        assert_eq!(quick(&[1.0; PAIRS_MIN], Limit::AtLeast(0.9)), Outcome::Met, "these are enough");
    }

    #[test]
    fn line_shows_median_interval_count_and_outcome() {
        let values: Vec<f64> = (0..15).map(|i| 0.90 + f64::from(i) * 0.01).collect();
        let (text, _) = output(vec![row(&values, Limit::AtLeast(0.90))], false);
        let expected = "files create, ours over bare 0.970 × 0.930 … 1.01 96.5 % 15 ≥ 0.900 ×: met";
        assert_eq!(words(&text).join(" "), expected);
        let (text, _) = output(vec![row(&values[..4], Limit::AtLeast(0.90))], true);
        let expected = "files create, ours over bare 0.915 × 0.900 … 0.930 87.5 % 4 ≥ 0.900 ×: not clear";
        assert_eq!(words(&text).join(" "), expected);
    }

    #[test]
    fn skipped_rows_show_reason_and_notes_come_last() {
        let skipped = Row::skipped("reads, ours over fio", Limit::AtLeast(1.0), "fio is not installed");
        let noted = || row(&[1.0], Limit::Reaches(1.0)).noted("fio --name=x");
        let (text, results) = output(vec![noted(), skipped, noted()], false);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[1].ends_with("skipped: fio is not installed"), "{text}");
        assert_eq!((lines.len(), lines[3].trim()), (4, "fio --name=x"), "{text}");
        assert_eq!(results[1]["outcome"], "skipped");
        assert_eq!((&results[0]["note"], &results[0]["reaches"]), (&json!("fio --name=x"), &json!(1.0)));
    }

    /// A stdout that counts lines until it is flushed.
    #[derive(Default)]
    struct Flushed {
        waiting: usize,
        lines: Vec<usize>,
    }

    impl Write for Flushed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.waiting += bytes.iter().filter(|byte| **byte == b'\n').count();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            self.lines.push(std::mem::take(&mut self.waiting));
            Ok(())
        }
    }

    #[test]
    fn each_row_is_printed_before_the_next_is_measured() {
        let mut to = Flushed::default();
        let mut rows = Rows::new(false, &mut to);
        rows.push(row(&[1.0], Limit::None).noted("a")).unwrap();
        rows.push(row(&[0.0], Limit::AtLeast(1.0)).noted("b")).unwrap();
        assert!(rows.is_missed);
        rows.end().unwrap();
        assert_eq!(to.lines, [1, 1, 1, 1]);
    }

    #[test]
    fn quick_leaves_long_benches_out_unless_named() {
        let (all, setting) = understood(&words("--quick")).unwrap().unwrap();
        assert_eq!(setting, Setting { pairs: PAIRS_QUICK, is_quick: true, updates_baseline: false });
        assert_eq!(all.len(), BENCHES.len() - NOT_QUICK.len());
        assert!(all.iter().all(|bench| !NOT_QUICK.contains(&bench.name)));
        let (named, _) = understood(&words("--quick clients")).unwrap().unwrap();
        assert_eq!(named.len(), 1);
        let (all, setting) = understood(&[]).unwrap().unwrap();
        assert_eq!((all.len(), setting.pairs, setting.is_quick), (BENCHES.len(), PAIRS_MIN, false));
        assert!(understood(&words("--list")).unwrap().is_none());
    }

    #[test]
    fn unknown_words_are_refused() {
        for text in ["nothing", "--pairs 3", "--pairs", "--quick --pairs 15", "--pairs 15 --quick"] {
            assert!(command(&words(text)).unwrap_err().is::<Usage>(), "{text}");
        }
    }
}
