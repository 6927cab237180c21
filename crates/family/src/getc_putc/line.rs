//! The output of getc_putc: a CSV line, or a row under eight headings.

use std::fmt;

use super::Test;
use crate::results::{Rate, Results};

/// Sign for a rate that was too fast to be timed.
const TOO_FAST: &str = "++++++";
/// Width of the name in the text, in columns.
const NAME_COLUMNS: usize = 21;
/// Most fields of a name that has commas.
const NAME_FIELDS_MAX: usize = 4;
/// Version of getc_putc that has these formats.
const VERSION: &str = "2.00a";

/// Results of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Label of the run, or the machine.
    pub name: String,
    /// Rates in the order of [`Test::ALL`]; `None` if too fast to be timed.
    pub kib_per_second: [Option<u64>; Test::ALL.len()],
}

impl Line {
    /// A line without any timed test.
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), kib_per_second: [None; Test::ALL.len()] }
    }

    fn cells(&self) -> [String; Test::ALL.len()] {
        self.kib_per_second.map(|rate| rate.map_or_else(|| TOO_FAST.to_owned(), |rate| rate.to_string()))
    }

    /// Returns the line as CSV, without a newline.
    pub fn to_csv(&self) -> String {
        format!("{},{}", self.name, self.cells().join(","))
    }

    /// Returns a table of two lines, each with its newline.
    pub fn to_text(&self) -> String {
        let row = |cells: &[&str]| cells.iter().map(|cell| format!(" {cell:>6}")).collect::<String>();
        let heads = Test::ALL.map(Test::head);
        let cells = self.cells();
        let first = format!("Version {VERSION}");
        format!(
            "{first:NAME_COLUMNS$}{}\n{:NAME_COLUMNS$}{}\n",
            row(&heads),
            self.name,
            row(&cells.each_ref().map(String::as_str))
        )
    }

    /// Returns the rates that were timed.
    pub fn results(&self) -> Results {
        let timed = Test::ALL.iter().zip(self.kib_per_second);
        let rates =
            timed.filter_map(|(test, rate)| Some(Rate::from_bytes(test.title(), rate? as f64 * 1024.0)));
        Results { program: format!("getc_putc {VERSION}"), name: self.name.clone(), rates: rates.collect() }
    }
}

/// A problem in a line that looks like one of getc_putc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line number, from 1.
    pub line: usize,
    /// Number of the rate in the line, from 1.
    pub field: usize,
    /// Text of the field.
    pub found: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = Test::ALL.get(self.field - 1).map_or("", |test| test.head());
        write!(
            f,
            "line {}: `{}` is not a rate of {head}: expected KiB/s as a whole number, or {TOO_FAST}",
            self.line, self.found
        )
    }
}

/// Finds runs in CSV lines or in the whole output. A CSV line replaces the table that was printed with it.
pub fn read(text: &str) -> (Vec<Line>, Vec<Problem>) {
    let mut lines = Vec::new();
    let mut problems = Vec::new();
    let mut rows: Vec<Line> = Vec::new();
    let mut is_headed = false;
    // A table of another program's numbers has headings of its own.
    if text.lines().any(is_foreign_heading) {
        return (lines, problems);
    }
    for (index, row) in text.lines().enumerate() {
        let found = if std::mem::replace(&mut is_headed, heads(row)) {
            cells_of_row(row).map(|(name, cells)| (name, cells, true))
        } else {
            cells_of_csv(row).map(|(name, cells)| (name, cells, false))
        };
        let Some((name, cells, is_row)) = found else { continue };
        match rates(&cells) {
            Ok(kib_per_second) => {
                let line = Line { name, kib_per_second };
                if is_row { rows.push(line) } else { lines.push(line) }
            }
            Err(field) => {
                problems.push(Problem { line: index + 1, field: field + 1, found: cells[field].clone() });
            }
        }
    }
    // Names are never cut, so table and CSV line of one run are equal.
    rows.retain(|row| !lines.contains(row));
    rows.append(&mut lines);
    (rows, problems)
}

/// True if a line has as many fields as a result, and words in place of all rates.
fn is_foreign_heading(row: &str) -> bool {
    let fields: Vec<_> = row.split(',').collect();
    let is_word = |field: &&str| field.contains(char::is_alphabetic);
    fields.len() > Test::ALL.len() && fields[fields.len() - Test::ALL.len()..].iter().all(is_word)
}

/// True if the headings of the table end a line; progress may come before them.
fn heads(row: &str) -> bool {
    let mut words = row.split_whitespace().rev();
    Test::ALL.iter().rev().all(|test| words.next() == Some(test.head()))
}

fn cells_of_row(row: &str) -> Option<(String, Vec<String>)> {
    let words: Vec<_> = row.split_whitespace().collect();
    let (name, cells) = words.split_at_checked(words.len().checked_sub(Test::ALL.len())?)?;
    Some((name.join(" "), cells.iter().map(|cell| (*cell).to_owned()).collect()))
}

/// Name and fields of a line with enough fields, at least half of them rates. A name may have a few commas.
fn cells_of_csv(row: &str) -> Option<(String, Vec<String>)> {
    let fields: Vec<_> = row.trim_end_matches('\r').split(',').collect();
    let (name, cells) = fields.split_at_checked(fields.len().checked_sub(Test::ALL.len())?)?;
    let are_rates = cells.iter().filter(|cell| rate(cell).is_some()).count();
    let is_named = name.iter().any(|part| part.contains(char::is_alphabetic));
    (is_named && name.len() <= NAME_FIELDS_MAX && are_rates * 2 >= cells.len())
        .then(|| (name.join(","), cells.iter().map(|cell| cell.trim().to_owned()).collect()))
}

/// A rate; the inner `None` is for one that was too fast.
fn rate(cell: &str) -> Option<Option<u64>> {
    let cell = cell.trim();
    if !cell.is_empty() && cell.bytes().all(|byte| byte == b'+') {
        return Some(None);
    }
    let is_number = !cell.is_empty() && cell.bytes().all(|byte| byte.is_ascii_digit());
    cell.parse().ok().filter(|_| is_number).map(Some)
}

/// All rates, or the index of the first field that is no rate.
fn rates(cells: &[String]) -> Result<[Option<u64>; Test::ALL.len()], usize> {
    let mut found = [None; Test::ALL.len()];
    for (index, (slot, cell)) in found.iter_mut().zip(cells).enumerate() {
        *slot = rate(cell).ok_or(index)?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn malformed_field_is_reported_and_other_lines_are_kept() {
        let (lines, problems) =
            read("a,1,2,3,4,5,6,7,8\nb,1,2,x,4,5,6,7,8\r\nnothing\nc,1,2,3\nd,1,+++++,3,4,5,6,7,8\r\n");
        assert_eq!(lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), ["a", "d"]);
        assert_eq!(lines[1].kib_per_second[1], None);
        let [problem] = problems.as_slice() else { panic!("{problems:?}") };
        let message = problem.to_string();
        assert!(message.starts_with("line 2: `x` is not a rate of putcNT"), "{message}");
    }

    #[test]
    fn foreign_tables_are_ignored() {
        for text in [
            "1700000000,1,0,812,3,99,0,0,12\n",
            "host,user,nice,sys,idle,iowait,irq,soft,steal\nada,1,2,3,4,5,6,7,8\n",
        ] {
            assert_eq!(read(text), (vec![], vec![]), "{text}");
        }
    }

    #[test]
    fn fast_columns_do_not_run_together() {
        let line = Line { name: "ada".into(), kib_per_second: [Some(12_345_678); 8] };
        let (read, problems) = read(&line.to_text());
        assert_eq!((read, problems), (vec![line], vec![]));
    }

    proptest! {
        #[test]
        fn lines_are_read_as_they_were_written(
            name in "[a-z][a-z0-9.-]{0,12}(,[a-z0-9.-]{0,4}){0,3}",
            rates in proptest::array::uniform8(proptest::option::of(0u64..10_000_000)),
        ) {
            let line = Line { name, kib_per_second: rates };
            prop_assert_eq!(read(&line.to_csv()), (vec![line.clone()], vec![]));
            let both = format!("{}done\n{}\n", line.to_text(), line.to_csv());
            prop_assert_eq!(read(&both), (vec![line], vec![]));
        }

        #[test]
        fn any_text_parses_without_panic(text in "\\PC{0,80}(\n\\PC{0,80}){0,4}", csv in "[0-9+x,\r\n]{0,80}") {
            let _ = read(&text);
            let _ = read(&csv);
        }
    }
}
