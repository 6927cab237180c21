//! One test program that cargo starts through us: its tests as they end, with their times.
//!
//! The times, and the output of each test by itself, need the JSON form of results. Stable compilers call that form
//! unstable; the variable `RUSTC_BOOTSTRAP` opens it for this one process.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::outcome::{Outcome, Test};
use crate::Usage;

/// Environment variable: the file to which results are appended, a line each.
pub(super) const RESULTS_VARIABLE: &str = "SKYE_TEST_RESULTS";
/// Arguments that make a test program print its results as JSON, one event per line.
const AS_JSON: [&str; 5] = ["-Z", "unstable-options", "--report-time", "--format", "json"];

/// Tests of a program that run together: the words that choose them, and how many run at once.
type Part = (&'static [&'static str], u32);
/// Programs whose tests do not run one on each CPU. Known answers need the machine for themselves, but two that wait
/// leave each other enough of it. End-to-end tests wait for devices, for time limits and for each other's programs.
const PARTS: [(&str, &[Part]); 2] = [
    ("-p skye --test known_answers", &[(&["--skip", "waiting::"], 1), (&["waiting::"], 2)]),
    ("-p skye --test e2e", &[(&[], 10)]),
];

/// Runs `xtask test-program PROGRAM ARGS…`, and returns true if no test failed.
///
/// # Errors
/// The program cannot be run, or the results cannot be written.
pub fn command(arguments: &[String]) -> Result<bool> {
    let Some((program, rest)) = arguments.split_first() else {
        return Err(Usage("`test-program` needs the path of a test program".into()).into());
    };
    let program = Path::new(program);
    let (target, selection) = names(program);
    let begun = Instant::now();
    let parts = PARTS.iter().find(|(known, _)| *known == selection).map(|(_, parts)| *parts);
    let mut events = Events { target, selection, ..Events::default() };
    match parts {
        None => run(program, rest, &mut events)?,
        // The user's own words choose, too: then all runs as the first part does.
        Some([(_, threads), ..]) if !rest.is_empty() => {
            run(program, &[rest, &[threads_word(*threads)]].concat(), &mut events)?;
        }
        Some(parts) => {
            for (words, threads) in parts {
                let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
                run(program, &[words, vec![threads_word(*threads)]].concat(), &mut events)?;
            }
        }
    }
    write(&events.ended)?;
    let failed = events.ended.iter().filter(|test| test.outcome == Outcome::Failed).count();
    if !events.ended.is_empty() {
        let (count, took) = (events.ended.len() - failed, begun.elapsed().as_secs_f64());
        println!("{:<18} {count:4} passed, {failed} failed, {took:.1} s", events.target);
    }
    Ok(failed == 0)
}

fn threads_word(threads: u32) -> String {
    format!("--test-threads={threads}")
}

/// Runs a test program with these words, and takes its events.
fn run(program: &Path, words: &[String], events: &mut Events) -> Result<()> {
    let begun = Instant::now();
    let mut child = Command::new(program)
        .args(words)
        .args(AS_JSON)
        .env("RUSTC_BOOTSTRAP", "1")
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("run {}", program.display()))?;
    let stdout = child.stdout.take().context("read what the test program prints")?;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.context("read what the test program prints")?;
        events.take(&String::from_utf8_lossy(&line));
    }
    let status = child.wait().context("wait for the test program")?;
    // A test that began and did not end took the program down.
    for (name, since) in std::mem::take(&mut events.running) {
        events.end(&name, Outcome::Failed, since.elapsed(), &format!("the test program ended: {status}"));
    }
    if !status.success() && !events.has_failed() {
        events.end("(the program itself)", Outcome::Failed, begun.elapsed(), &format!("{status}"));
    }
    Ok(())
}

/// Returns the name of a test program, and the words that choose it for `cargo test`.
fn names(program: &Path) -> (String, String) {
    let stem = program.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    // Cargo appends a hash to the name.
    let target = stem.rsplit_once('-').map_or(stem.as_str(), |(name, _)| name).to_owned();
    // Cargo sets both variables for every program that it runs.
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let home = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let has = |path: &str| Path::new(&home).join(path).exists();
    let kind = if has(&format!("tests/{target}.rs")) || has(&format!("tests/{target}/main.rs")) {
        format!("--test {target}")
    } else if package == target && has("src/lib.rs") {
        "--lib".to_owned()
    } else {
        "--bins".to_owned()
    };
    (target, format!("-p {package} {kind}"))
}

#[derive(Debug, Default)]
struct Events {
    target: String,
    selection: String,
    running: BTreeMap<String, Instant>,
    ended: Vec<Test>,
}

impl Events {
    /// Takes a line: an event, or text that a test printed past its harness.
    fn take(&mut self, line: &str) {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        match (text("type"), text("event")) {
            ("test", "started") => {
                self.running.insert(text("name").to_owned(), Instant::now());
            }
            ("test", "ok") => self.end(text("name"), Outcome::Passed, took(&event), ""),
            ("test", "ignored") => self.end(text("name"), Outcome::Ignored, Duration::ZERO, ""),
            ("test", "failed") => {
                let said = [text("stdout"), text("message")].join("\n");
                self.end(text("name"), Outcome::Failed, took(&event), &said);
            }
            ("test" | "suite", _) => {}
            _ if line.is_empty() => {}
            _ => println!("{line}"),
        }
    }

    fn end(&mut self, name: &str, outcome: Outcome, took: Duration, said: &str) {
        self.running.remove(name);
        let Self { target, selection, .. } = &*self;
        let test = Test {
            target: target.clone(),
            selection: selection.clone(),
            name: name.to_owned(),
            outcome,
            took,
        };
        if outcome == Outcome::Failed {
            println!("--- FAILED {}\n{}\n---", test.full_name(), said.trim());
        }
        self.ended.push(test);
    }

    fn has_failed(&self) -> bool {
        self.ended.iter().any(|test| test.outcome == Outcome::Failed)
    }
}

fn took(event: &Value) -> Duration {
    Duration::from_secs_f64(event["exec_time"].as_f64().unwrap_or(0.0).max(0.0))
}

fn write(tests: &[Test]) -> Result<()> {
    let Some(path) = std::env::var_os(RESULTS_VARIABLE) else { return Ok(()) };
    let lines: String = tests.iter().map(Test::line).collect();
    let file = OpenOptions::new().append(true).create(true).open(&path);
    file.and_then(|mut file| file.write_all(lines.as_bytes())).context("write the results")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_become_tests_and_one_that_never_ends_is_known() {
        let mut events = Events { target: "e2e".into(), selection: "-p skye".into(), ..Events::default() };
        for line in [
            r#"{ "type": "suite", "event": "started", "test_count": 3 }"#,
            r#"{ "type": "test", "event": "started", "name": "a" }"#,
            r#"{ "type": "test", "event": "started", "name": "b" }"#,
            r#"{ "type": "test", "name": "a", "event": "ok", "exec_time": 0.25 }"#,
            r#"{ "type": "test", "name": "b", "event": "failed", "exec_time": 1.0, "stdout": "why" }"#,
            r#"{ "type": "test", "name": "c", "event": "ignored" }"#,
            r#"{ "type": "test", "event": "started", "name": "d" }"#,
            "",
        ] {
            events.take(line);
        }
        let ended: Vec<_> = events
            .ended
            .iter()
            .map(|test| (test.name.as_str(), test.outcome, test.took.as_millis()))
            .collect();
        assert_eq!(
            ended,
            [("a", Outcome::Passed, 250), ("b", Outcome::Failed, 1000), ("c", Outcome::Ignored, 0)]
        );
        assert_eq!(events.running.keys().collect::<Vec<_>>(), ["d"]);
    }

    #[test]
    fn a_program_is_named_as_cargo_chooses_it() {
        // Cargo sets the name of this package for this very test, too.
        let named = |path: &str| names(Path::new(path));
        assert_eq!(named("target/debug/deps/xtask-0123abcd"), ("xtask".into(), "-p xtask --lib".into()));
        assert_eq!(named("target/debug/deps/other-0123abcd").1, "-p xtask --bins");
    }
}
