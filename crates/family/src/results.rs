//! One common form for the results of all programs of the family: rates by test, so that any two results can be
//! compared.

use model::numbers::{amount, megabytes};
use model::printable::printable;

/// Results of one run of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// The program and its version: "bonnie 1.4".
    pub program: String,
    /// Label of the run, or the machine; empty if the output has neither.
    pub name: String,
    /// Rates in the program's order; tests that were too fast to be timed are absent.
    pub rates: Vec<Rate>,
}

/// Speed of one test.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    /// The test, in the program's words.
    pub test: String,
    /// Bytes or operations per second.
    pub per_second: f64,
    /// Unit of the rate.
    pub unit: Unit,
    /// CPU time over the time of the test, in percent of one CPU; `None` if the output does not have it.
    pub cpu_percent: Option<f64>,
}

/// Unit that a rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Operations.
    Operations,
}

impl Rate {
    /// A rate in bytes per second.
    pub fn from_bytes(test: impl Into<String>, per_second: f64) -> Self {
        Self { test: test.into(), per_second, unit: Unit::Bytes, cpu_percent: None }
    }

    /// A rate in operations per second.
    pub fn from_operations(test: impl Into<String>, per_second: f64) -> Self {
        Self { test: test.into(), per_second, unit: Unit::Operations, cpu_percent: None }
    }

    /// Adds the share of a CPU, in percent.
    #[must_use]
    pub fn with_cpu(mut self, percent: Option<f64>) -> Self {
        self.cpu_percent = percent;
        self
    }

    /// Formats the rate for people: "472.8 MB/s", "353,158 ops/s".
    pub fn text(&self) -> String {
        let absent = || "–".to_owned();
        match self.unit {
            Unit::Bytes => megabytes(self.per_second).unwrap_or_else(absent),
            Unit::Operations => {
                amount(self.per_second).map_or_else(absent, |number| format!("{number} ops/s"))
            }
        }
    }
}

/// Line of a run that has no rate.
const NONE: &str = "  all of it was too fast to be timed\n";

/// Formats results as text: the program and name of each run, then a line for each test.
pub fn table(results: &[Results]) -> String {
    let of = |results: &Results| {
        let tests: Vec<_> = results.rates.iter().map(|rate| printable(&rate.test)).collect();
        let rates: Vec<_> = results.rates.iter().map(Rate::text).collect();
        let width = |texts: &[String]| texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
        let (test_width, rate_width) = (width(&tests), width(&rates));
        let lines = tests.iter().zip(&rates).zip(&results.rates).map(|((test, rate), entry)| {
            let cpu = entry.cpu_percent.map_or(String::new(), |percent| format!("  {percent:5.1} % CPU"));
            format!("  {test:<test_width$}  {rate:>rate_width$}{cpu}\n")
        });
        let lines: String = if results.rates.is_empty() { NONE.into() } else { lines.collect() };
        let title = [&results.program, &results.name].map(|text| printable(text)).join("  ");
        format!("{}\n{}", title.trim_end(), lines)
    };
    results.iter().map(of).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_one_line_per_test() {
        let results = Results {
            program: "GoBonnieGo 1.0.10".into(),
            name: "a\u{1b}[31mda".into(),
            rates: vec![
                Rate::from_bytes("sequential write", 472.8e6).with_cpu(Some(80.0)),
                Rate::from_operations("IOPS", 353_158.0),
            ],
        };
        let text = table(&[results.clone(), results]);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("GoBonnieGo 1.0.10  a") && !text.contains('\u{1b}'), "{text}");
        assert_eq!(lines[1], "  sequential write       473 MB/s   80.0 % CPU");
        assert_eq!(lines[2], "  IOPS              353,158 ops/s");
        assert_eq!((lines[3], lines.len()), ("", 7));
        let nothing = Results { program: "zcav".into(), name: String::new(), rates: vec![] };
        assert_eq!(table(&[nothing]), format!("zcav\n{NONE}"));
    }
}
