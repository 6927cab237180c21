//! One form for what all programs of the family found: rates by test, so that any result can stand beside any other.

use model::numbers::{amount, megabytes};
use model::printable::printable;

/// What one run of a program found.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// The program and its version: "bonnie 1.4".
    pub program: String,
    /// What the run was called, or the machine; empty where neither is told.
    pub name: String,
    /// What was found, in the program's order; what was too fast to be timed is absent.
    pub rates: Vec<Rate>,
}

/// How fast one test was.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    /// The test, in the program's words.
    pub test: String,
    /// How many a second.
    pub per_second: f64,
    /// Of what.
    pub unit: Unit,
    /// CPU time over the time of the test, in percent of one CPU; `None` where it is not told.
    pub cpu_percent: Option<f64>,
}

/// What a rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Operations.
    Operations,
}

impl Rate {
    /// A rate in bytes a second.
    pub fn of_bytes(test: impl Into<String>, per_second: f64) -> Self {
        Self { test: test.into(), per_second, unit: Unit::Bytes, cpu_percent: None }
    }

    /// A rate in operations a second.
    pub fn of_operations(test: impl Into<String>, per_second: f64) -> Self {
        Self { test: test.into(), per_second, unit: Unit::Operations, cpu_percent: None }
    }

    /// The same with its share of a CPU, in percent.
    #[must_use]
    pub fn with_cpu(mut self, percent: Option<f64>) -> Self {
        self.cpu_percent = percent;
        self
    }

    /// The rate as people read it: "472.8 MB/s", "353,158 ops/s".
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

/// Stands where a run has no rate.
const NONE: &str = "  nothing in it took long enough to be timed\n";

/// Results as text: for each run its program and name, and beneath it a line for each test.
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
    fn a_line_for_each_test() {
        let results = Results {
            program: "GoBonnieGo 1.0.10".into(),
            name: "a\u{1b}[31mda".into(),
            rates: vec![
                Rate::of_bytes("sequential write", 472.8e6).with_cpu(Some(80.0)),
                Rate::of_operations("IOPS", 353_158.0),
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
