//! Finds the output of GoBonnieGo in any text: its JSON, and its lines.

use std::fmt;

use model::printable::printable;
use serde_json::{Map, Value};

use super::line::{self, UnexpectedText};
use super::{Line, LineContent, Report, RunResult, Test};
use crate::results::{Rate, Results};

/// Most characters of foreign text that a problem repeats.
const EXCERPT_CHARS_MAX: usize = 60;
/// Keys that identify the JSON of GoBonnieGo.
const KEYS: [&str; 3] =
    ["\"gobonniego_directory\"", "\"num_readers_and_writers\"", "\"write_megabytes_per_second\""];

/// Unexpected text in the output of GoBonnieGo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line of the text, counted from 1.
    pub line: usize,
    /// Character of the line, counted from 1; `None` if a key says more.
    pub column: Option<usize>,
    /// Key of the JSON, such as "results[0].iops"; `None` in lines of text.
    pub key: Option<String>,
    /// Description of the problem, harmless for a terminal.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some(column) = self.column {
            write!(f, ", column {column}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ", {key}")?;
        }
        write!(f, ": {}", self.text)
    }
}

impl std::error::Error for Problem {}

/// Output of GoBonnieGo that was found in a text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// All JSON reports, in their order.
    pub reports: Vec<Report>,
    /// All lines of text, in their order.
    pub lines: Vec<Line>,
    /// Problems of text that looks like either and is neither.
    pub problems: Vec<Problem>,
}

/// Finds the output of GoBonnieGo in a text: JSON on one line or many, lines of text with or without those of `-v`, or
/// both. All other text is skipped, and so are unknown keys.
pub fn read(text: &str) -> Reading {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reading = Reading::default();
    if KEYS.iter().any(|key| text.contains(key)) {
        reading.read_json(text);
    }
    for (index, row) in text.lines().enumerate() {
        match line::parse(row) {
            Some(Ok(line)) => reading.lines.push(line),
            Some(Err(wrong)) => reading.problems.push(line_problem(index + 1, row, &wrong)),
            None => {}
        }
    }
    reading.problems.sort_by_cached_key(|problem| problem.line);
    reading
}

fn line_problem(line: usize, row: &str, wrong: &UnexpectedText) -> Problem {
    let before = row.get(..wrong.at_byte).unwrap_or_default();
    Problem {
        line,
        column: Some(1 + before.chars().count()),
        key: None,
        text: format!("has {}, expected {}", quoted(&wrong.has), wrong.expected),
    }
}

/// Formats foreign text for a message.
fn quoted(text: &str) -> String {
    let mut short: String = text.chars().take(EXCERPT_CHARS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("`{}`", printable(&short))
}

impl Reading {
    /// True if nothing of GoBonnieGo was found.
    pub fn is_empty(&self) -> bool {
        self.reports.is_empty() && self.lines.is_empty() && self.problems.is_empty()
    }

    /// Returns the results of each run.
    pub fn results(&self) -> Vec<Results> {
        self.reports.iter().flat_map(Report::to_results).chain(text_results(&self.lines)).collect()
    }

    fn read_json(&mut self, text: &str) {
        let (mut at, mut line) = (0, 1);
        while let Some(start) = next_object_offset(text, at) {
            line += text[at..start].matches('\n').count();
            let rest = &text[start..];
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            match values.next() {
                Some(Ok(Value::Object(keys))) if is_report(&keys) => self.take(line, &keys),
                // JSON of other programs is skipped.
                Some(Ok(_)) | None => {}
                Some(Err(error)) => {
                    // JSON that broke before the first of these keys is from another program.
                    let mut understood = rest.lines().take(error.line());
                    if understood.any(|row| KEYS.iter().any(|key| row.contains(key))) {
                        self.problems.push(json_problem(line, &error));
                    }
                    let end = rest.find('\n').unwrap_or(rest.len());
                    at = start + end;
                    continue;
                }
            }
            let end = start + values.byte_offset();
            line += text[start..end].matches('\n').count();
            at = end;
        }
    }

    fn take(&mut self, line: usize, keys: &Map<String, Value>) {
        let mut object = Object { line, place: String::new(), keys, problems: &mut self.problems };
        let mut report = Report {
            version: object.text("version"),
            start_time: object.text("start_time"),
            directory: object.text("gobonniego_directory"),
            disk_space_used_gib: object.real("disk_space_used_gib"),
            threads: object.integer("num_readers_and_writers"),
            physical_memory_bytes: object.integer("physical_memory_bytes"),
            iops_duration_seconds: object.real("iops_duration_seconds"),
            results: Vec::new(),
        };
        for (index, value) in object.list("results").iter().enumerate() {
            let place = format!("results[{index}]");
            let Value::Object(keys) = value else {
                self.problems.push(expected(line, place, value, "an object with the results of a run"));
                continue;
            };
            let mut object = Object { line, place: place + ".", keys, problems: &mut self.problems };
            report.results.push(RunResult {
                write_megabytes_per_second: object.rate("write_megabytes_per_second"),
                read_megabytes_per_second: object.rate("read_megabytes_per_second"),
                iops: object.rate("iops"),
                write_seconds: object.real("write_seconds"),
                read_seconds: object.real("read_seconds"),
                io_seconds: object.real("io_seconds"),
                start_time: object.text("start_time"),
                write_bytes: object.integer("write_bytes"),
                read_bytes: object.integer("read_bytes"),
                io_operations: object.integer("io_operations"),
            });
        }
        self.reports.push(report);
    }
}

/// Returns the offset of the next object at the beginning of a line.
fn next_object_offset(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    if rest.starts_with('{') && (at == 0 || text[..at].ends_with('\n')) {
        return Some(at);
    }
    rest.find("\n{").map(|found| at + found + 1)
}

/// Returns true if an object is a report of GoBonnieGo. A document of skye has a schema.
fn is_report(keys: &Map<String, Value>) -> bool {
    let has = |key: &str| keys.contains_key(key);
    !has("schema") && (has("gobonniego_directory") || has("num_readers_and_writers") || has("results"))
}

fn json_problem(line: usize, error: &serde_json::Error) -> Problem {
    let what = error.to_string();
    // The message ends with the place, which the problem shows in another way.
    let what = what.split(" at line ").next().unwrap_or_default();
    let text = match error.is_eof() {
        true => format!("the JSON is truncated ({what}); copy the whole line that gobonniego printed"),
        false => format!("the JSON is invalid ({what}); copy the line as gobonniego printed it"),
    };
    Problem { line: line + error.line().saturating_sub(1), column: Some(error.column()), key: None, text }
}

fn expected(line: usize, key: String, value: &Value, expected: &str) -> Problem {
    let has = quoted(&value.to_string());
    Problem { line, column: None, key: Some(key), text: format!("has {has}, expected {expected}") }
}

/// An object of the JSON, while it is read.
struct Object<'a, 'p> {
    line: usize,
    /// Text before the keys of the object in messages.
    place: String,
    keys: &'a Map<String, Value>,
    problems: &'p mut Vec<Problem>,
}

impl<'a> Object<'a, '_> {
    /// Returns the value of a key if it is of this kind. A value of another kind is a problem.
    fn value<T>(&mut self, key: &str, kind: &str, read: impl FnOnce(&'a Value) -> Option<T>) -> Option<T> {
        let value = self.keys.get(key)?;
        let found = read(value);
        if found.is_none() {
            self.problems.push(expected(self.line, format!("{}{key}", self.place), value, kind));
        }
        found
    }

    fn text(&mut self, key: &str) -> Option<String> {
        self.value(key, "text", |value| value.as_str().map(str::to_owned))
    }

    fn real(&mut self, key: &str) -> Option<f64> {
        self.value(key, "a number", |value| value.as_f64().filter(|number| *number >= 0.0))
    }

    fn integer(&mut self, key: &str) -> Option<u64> {
        self.value(key, "a whole number", Value::as_u64)
    }

    /// Returns a number that every result needs; a missing key is a problem.
    fn rate(&mut self, key: &str) -> Option<f64> {
        if !self.keys.contains_key(key) {
            self.add_missing_key(key, "a number");
        }
        self.real(key)
    }

    fn list(&mut self, key: &str) -> &'a [Value] {
        if !self.keys.contains_key(key) {
            self.add_missing_key(key, "a list with the results of each run");
        }
        self.value(key, "a list with the results of each run", Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn add_missing_key(&mut self, key: &str, kind: &str) {
        let key = Some(format!("{}{key}", self.place));
        self.problems.push(Problem {
            line: self.line,
            column: None,
            key,
            text: format!("is missing, expected {kind}"),
        });
    }
}

/// Name of the program, with its version if known.
fn program(version: Option<&str>) -> String {
    version.map_or("GoBonnieGo".to_owned(), |version| format!("GoBonnieGo {version}"))
}

/// The known rates of a run; the first two are given in 10^6 bytes per second.
fn rates(rates: [Option<f64>; 3]) -> Vec<Rate> {
    let of = |(test, rate): (Test, Option<f64>)| match test {
        Test::Write | Test::Read => Some(Rate::from_bytes(test.title(), rate? * 1e6)),
        Test::Iops => Some(Rate::from_operations(test.title(), rate?)),
    };
    Test::ALL.into_iter().zip(rates).filter_map(of).collect()
}

/// Name of a run: the conditions of the measurement, and the number of the run if there are several.
fn name(mut parts: Vec<String>, index: usize, of: usize) -> String {
    if of > 1 {
        parts.push(format!("run {} of {of}", index + 1));
    }
    parts.join(", ")
}

impl Report {
    /// Returns the results of each run.
    pub fn to_results(&self) -> Vec<Results> {
        let described = || {
            let size = self.disk_space_used_gib.map(|gib| format!("{gib} GiB"));
            let threads = self.threads.map(|threads| match threads {
                1 => "1 thread".to_owned(),
                _ => format!("{threads} threads"),
            });
            self.directory.clone().into_iter().chain(size).chain(threads).collect()
        };
        let of = |(index, run): (usize, &RunResult)| Results {
            program: program(self.version.as_deref()),
            name: name(described(), index, self.results.len()),
            rates: rates([run.write_megabytes_per_second, run.read_megabytes_per_second, run.iops]),
        };
        self.results.iter().enumerate().map(of).collect()
    }
}

/// Returns the results of each run in lines of text. A line begins a new run if the run already has that test, or one
/// that comes later in the order of tests.
fn text_results(lines: &[Line]) -> Vec<Results> {
    #[derive(Default)]
    struct Session {
        version: Option<String>,
        directory: Option<String>,
        runs: Vec<[Option<f64>; 3]>,
    }
    let mut sessions = vec![Session::default()];
    for line in lines {
        let Some(session) = sessions.last_mut() else { continue };
        let (place, rate) = match line {
            Line::WriteMbPerSecond(rate) => (0, *rate),
            Line::ReadMbPerSecond(rate) => (1, *rate),
            Line::Iops(rate) => (2, *rate),
            Line::Stamped { content: LineContent::Starting { version, .. }, .. } => {
                sessions.push(Session { version: Some(version.clone()), ..Session::default() });
                continue;
            }
            Line::Stamped { content: LineContent::Directory(path), .. } => {
                session.directory = Some(path.clone());
                continue;
            }
            Line::Stamped { .. } => continue,
        };
        let is_next = session.runs.last().is_none_or(|run| run[place..].iter().any(Option::is_some));
        if is_next {
            session.runs.push([None; 3]);
        }
        if let Some(run) = session.runs.last_mut() {
            run[place] = Some(rate);
        }
    }
    let of = |session: Session| {
        let of = session.runs.len();
        session.runs.into_iter().enumerate().map(move |(index, run)| Results {
            program: program(session.version.as_deref()),
            name: name(session.directory.clone().into_iter().collect(), index, of),
            rates: rates(run),
        })
    };
    sessions.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests;
