//! `cargo xtask bench`: what performance is asked for, measured on this machine.
//!
//! A benchmark is one file below and one line in [`BENCHES`]. Speed is compared by alternating pairs
//! ([`crate::pairs`]); what has an absolute limit is measured as often, and its median stands for it.
//!
//! Some benchmarks run the engine's loops in this process, so that they have to be compiled as in the program: in a
//! build without optimisation the command runs itself again in the release profile.

mod build;
mod drained;
mod files;
mod memory;
mod pinned;
mod program;
mod startup;
mod tmpfs;
mod zram;

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
    /// What it measures.
    pub measures: &'static str,
    /// Measures it.
    pub run: fn(&Setting) -> Result<Vec<Row>>,
}

/// Every benchmark.
pub const BENCHES: &[Bench] = &[startup::BENCH, memory::BENCH, files::BENCH, zram::BENCH, build::BENCH];

/// How to measure.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Pairs, or single measurements where nothing is compared.
    pub pairs: usize,
}

/// What a median is held against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// It should be this or more.
    AtLeast(f64),
    /// It should be this or less.
    AtMost(f64),
    /// It is only shown.
    None,
}

/// Whether a limit is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Met,
    Missed,
    /// The limit lies within the interval, or the median of too few values beyond it.
    Open,
    NoLimit,
}

/// One figure: what was measured, how often, and what was asked for.
#[derive(Debug, Clone)]
pub struct Row {
    /// What it is.
    pub what: String,
    /// Its unit; "×" for a ratio.
    pub unit: &'static str,
    /// What was measured, in the order of the measurements.
    pub values: Vec<f64>,
    /// What was asked for.
    pub limit: Limit,
}

impl Row {
    fn outcome(&self, found: &Median) -> Outcome {
        // A count or a single measurement has no interval; its value decides.
        let (good, bad) = match self.limit {
            Limit::None => return Outcome::NoLimit,
            Limit::AtLeast(limit) => (found.low >= limit, found.high < limit),
            Limit::AtMost(limit) => (found.high <= limit, found.low > limit),
        };
        match (good, bad) {
            (true, _) => Outcome::Met,
            (_, true) => Outcome::Missed,
            _ => Outcome::Open,
        }
    }
}

/// Runs the command; the answer is whether no limit was missed.
///
/// # Errors
/// Where the command line is not understood or a benchmark cannot be run.
pub fn command(arguments: &[String]) -> Result<bool> {
    let mut chosen = Vec::new();
    let mut setting = Setting { pairs: PAIRS_MIN };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--list" => {
                BENCHES.iter().for_each(|bench| println!("{:<12} {}", bench.name, bench.measures));
                return Ok(true);
            }
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

/// Becomes the same command, compiled as the program is released.
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
        for row in rows {
            let Some(found) = median(&row.values) else { continue };
            kept &= row.outcome(&found) != Outcome::Missed;
            println!("{}", line(bench.name, &row, &found));
            results.push(document(bench.name, &row, &found));
        }
    }
    let path = crate::target_directory().join("bench.json");
    let document = json!({ "schema": "skye.bench/1", "pairs": setting.pairs, "results": results });
    fs::write(&path, format!("{document:#}\n")).with_context(|| format!("write {}", path.display()))?;
    println!("\nsaved {}", path.display());
    Ok(kept)
}

const HEADING: &str = "\
bench      figure                                              median   95 % interval          n   asked for";

fn line(name: &str, row: &Row, found: &Median) -> String {
    let mut line = format!("{name:<10} {:<44} {:>11}", row.what, number(found.value, row.unit));
    let interval = match row.values.len() {
        1 => String::from("–"),
        _ => format!("{} … {}", number(found.low, ""), number(found.high, "")),
    };
    let _ = write!(line, "   {interval:<18} {:>5}", row.values.len());
    let asked = match row.limit {
        Limit::AtLeast(limit) => format!("≥ {}", number(limit, row.unit)),
        Limit::AtMost(limit) => format!("≤ {}", number(limit, row.unit)),
        Limit::None => String::new(),
    };
    let outcome = match row.outcome(found) {
        Outcome::Met => ": met",
        Outcome::Missed => ": MISSED",
        Outcome::Open => ": not clear",
        Outcome::NoLimit => "",
    };
    let _ = write!(line, "   {asked}{outcome}");
    line.trim_end().to_owned()
}

/// Three significant digits or all of a whole number, with the unit behind.
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

fn document(name: &str, row: &Row, found: &Median) -> Value {
    let (at_least, at_most) = match row.limit {
        Limit::AtLeast(limit) => (Some(limit), None),
        Limit::AtMost(limit) => (None, Some(limit)),
        Limit::None => (None, None),
    };
    let outcome = match row.outcome(found) {
        Outcome::Met => Some("met"),
        Outcome::Missed => Some("missed"),
        Outcome::Open => Some("not_clear"),
        Outcome::NoLimit => None,
    };
    json!({
        "bench": name, "figure": row.what, "unit": row.unit, "values": row.values,
        "median": found.value, "low": found.low, "high": found.high, "coverage": found.coverage,
        "at_least": at_least, "at_most": at_most, "outcome": outcome,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[f64], limit: Limit) -> Row {
        Row { what: String::from("create, ours over bare"), unit: "×", values: values.to_vec(), limit }
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
    }

    #[test]
    fn a_line_says_median_interval_count_and_outcome() {
        let values: Vec<f64> = (0..15).map(|i| 0.90 + f64::from(i) * 0.01).collect();
        let row = row(&values, Limit::AtLeast(0.90));
        let line = line("files", &row, &median(&values).unwrap());
        let words: Vec<_> = line.split_whitespace().collect();
        let expected = "files create, ours over bare 0.970 × 0.930 … 1.01 15 ≥ 0.900 ×: met";
        assert_eq!(words.join(" "), expected);
    }

    #[test]
    fn unknown_words_are_refused() {
        for words in [&["nothing"][..], &["--pairs", "3"], &["--pairs"]] {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            assert!(command(&words).unwrap_err().is::<Usage>(), "{words:?}");
        }
    }
}
