//! Test programs: cargo hands over each of them, and they run once all are built, one after the other. Each test has its
//! time.
//!
//! The times, and the output of each test by itself, need the JSON form of results. Stable compilers call that form
//! unstable; the variable `RUSTC_BOOTSTRAP` opens it for these processes alone.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};

use super::outcome::{Outcome, Test};
use crate::Usage;

/// Environment variable: the file to which programs are appended, a line each.
pub(super) const PROGRAMS_VARIABLE: &str = "SKYE_TEST_PROGRAMS";
/// Arguments that make a test program print its results as JSON, one event per line.
const AS_JSON: [&str; 5] = ["-Z", "unstable-options", "--report-time", "--format", "json"];

/// Tests of a program that run together: the words that choose them, and how many run at once.
type Part = (&'static [&'static str], u32);
/// Programs whose tests do not run one on each CPU. Known answers need the machine for themselves, but three that wait
/// leave each other enough of it. End-to-end tests wait for devices, for time limits and for each other's programs.
const PARTS: [(&str, &[Part]); 2] =
    [(KNOWN_ANSWERS, &[(&["--skip", "waiting::"], 1), (&["waiting::"], 3)]), (LONGEST[0], &[(&[], 10)])];
/// Program that needs the machine for itself. Its parts run after all others, one after the other.
const KNOWN_ANSWERS: &str = "-p skye --test known_answers";
/// Programs that take longest. They begin first.
const LONGEST: [&str; 4] =
    ["-p skye --test e2e", "-p xtask --lib", "-p stats --test known_answers", "-p rig --test rigs"];

/// A test program as cargo starts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    path: PathBuf,
    arguments: Vec<String>,
    directory: PathBuf,
    environment: BTreeMap<String, String>,
}

/// Takes down a program for `xtask test-program PROGRAM ARGS…`, and returns true. [`run_all`] runs it.
///
/// # Errors
/// The command line has no program, or the program cannot be written down.
pub fn command(arguments: &[String]) -> Result<bool> {
    let Some((path, arguments)) = arguments.split_first() else {
        return Err(Usage("`test-program` needs the path of a test program".into()).into());
    };
    let file = std::env::var_os(PROGRAMS_VARIABLE)
        .ok_or_else(|| Usage(format!("`test-program` needs a file in {PROGRAMS_VARIABLE}")))?;
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let program = Program {
        path: path.into(),
        arguments: arguments.to_vec(),
        directory: std::env::current_dir().context("find the directory of the test program")?,
        environment: std::env::vars_os().filter_map(text).collect(),
    };
    let line = program.line();
    let file = OpenOptions::new().append(true).create(true).open(file);
    file.and_then(|mut file| file.write_all(line.as_bytes())).context("record the test program")?;
    Ok(true)
}

/// Reads the programs that were taken down.
///
/// # Errors
/// The text has another form.
pub(super) fn read(text: &str) -> Result<Vec<Program>> {
    text.lines().map(|line| Program::read(line).context("read the test programs")).collect()
}

/// Runs all programs, and `documentation` with the first of them. Returns their tests, and the result of `documentation`.
///
/// # Errors
/// A program cannot be run.
pub(super) fn run_all<T: Send>(
    programs: &[Program],
    documentation: impl FnOnce() -> Result<T> + Send,
) -> Result<(Vec<Test>, T)> {
    let (first, alone) = in_order(programs);
    let mut tests = Vec::new();
    let documented = thread::scope(|scope| {
        let documentation = scope.spawn(documentation);
        for job in first {
            tests.extend(job.run()?);
        }
        documentation.join().map_err(|_| anyhow!("a test thread panicked"))?
    })?;
    for job in alone {
        tests.extend(job.run()?);
    }
    Ok((tests, documented))
}

/// Returns what runs first, the longest before the others, and what needs the machine for itself.
fn in_order(programs: &[Program]) -> (Vec<Job<'_>>, Vec<Job<'_>>) {
    let mut programs: Vec<_> = programs.iter().collect();
    programs.sort_by_key(|program| {
        let (_, selection) = program.names();
        LONGEST.iter().position(|known| *known == selection).unwrap_or(LONGEST.len())
    });
    let jobs = programs.into_iter().flat_map(Program::jobs);
    jobs.partition(|job| job.program.names().1 != KNOWN_ANSWERS)
}

/// Tests of a program that run in one process.
#[derive(Debug, PartialEq, Eq)]
struct Job<'a> {
    program: &'a Program,
    arguments: Vec<String>,
}

impl Job<'_> {
    /// Runs the tests, and prints those that fail.
    fn run(&self) -> Result<Vec<Test>> {
        let (target, selection) = self.program.names();
        let start = Instant::now();
        let mut events = Events { target, selection, ..Events::default() };
        self.run_to_its_end(&mut events)?;
        let of = |outcome| events.ended.iter().filter(|test| test.outcome == outcome).count();
        let (passed, failed, took) =
            (of(Outcome::Passed), of(Outcome::Failed), start.elapsed().as_secs_f64());
        if passed + failed > 0 {
            println!("{:<18} {passed:4} passed, {failed} failed, {took:.1} s", events.target);
        }
        Ok(events.ended)
    }

    /// Runs the process, and takes its events.
    fn run_to_its_end(&self, events: &mut Events) -> Result<()> {
        let Program { path, directory, environment, .. } = self.program;
        let start = Instant::now();
        let with_long = environment.contains_key(crate::LONG_VARIABLE).then_some("--include-ignored");
        let mut child = Command::new(path)
            .args(&self.arguments)
            .args(with_long)
            .args(AS_JSON)
            .env_clear()
            .envs(environment)
            .env("RUSTC_BOOTSTRAP", "1")
            .current_dir(directory)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("run {}", path.display()))?;
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
            events.end("(the program itself)", Outcome::Failed, start.elapsed(), &format!("{status}"));
        }
        Ok(())
    }
}

impl Program {
    /// Returns its line in the file of programs.
    fn line(&self) -> String {
        let Self { path, arguments, directory, environment } = self;
        format!("{}\n", json!([path, arguments, directory, environment]))
    }

    /// Parses a program from its line.
    fn read(line: &str) -> Option<Self> {
        let (path, arguments, directory, environment) = serde_json::from_str(line).ok()?;
        Some(Self { path, arguments, directory, environment })
    }

    /// Returns the processes that run its tests.
    fn jobs(&self) -> Vec<Job<'_>> {
        let (_, selection) = self.names();
        let parts = PARTS.iter().find(|(known, _)| *known == selection).map_or(&[][..], |(_, parts)| *parts);
        let threads = |threads: u32| format!("--test-threads={threads}");
        let job = |arguments| Job { program: self, arguments };
        match parts {
            [] => vec![job(self.arguments.clone())],
            // The user's own words choose, too: then all runs as the first part does.
            [(_, count), ..] if !self.arguments.is_empty() => {
                vec![job([&self.arguments[..], &[threads(*count)]].concat())]
            }
            _ => parts
                .iter()
                .map(|(words, count)| {
                    let words = words.iter().map(|word| (*word).to_owned());
                    job(words.chain([threads(*count)]).collect())
                })
                .collect(),
        }
    }

    /// Returns its name, and the words that choose it for `cargo test`.
    fn names(&self) -> (String, String) {
        let stem = self.path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        // Cargo appends a hash to the name.
        let target = stem.rsplit_once('-').map_or(stem.as_str(), |(name, _)| name).to_owned();
        // Cargo sets both variables for every program that it runs.
        let of = |name: &str| self.environment.get(name).map_or("", String::as_str);
        let (package, home) = (of("CARGO_PKG_NAME"), Path::new(of("CARGO_MANIFEST_DIR")));
        let has = |path: &str| home.join(path).exists();
        let kind = if has(&format!("tests/{target}.rs")) || has(&format!("tests/{target}/main.rs")) {
            format!("--test {target}")
        } else if package == target && has("src/lib.rs") {
            "--lib".to_owned()
        } else {
            "--bins".to_owned()
        };
        (target, format!("-p {package} {kind}"))
    }
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
            ("test", "ok") => self.end(text("name"), Outcome::Passed, duration_of(&event), ""),
            ("test", "ignored") => self.end(text("name"), Outcome::Ignored, Duration::ZERO, ""),
            ("test", "failed") => {
                let output = [text("stdout"), text("message")].join("\n");
                self.end(text("name"), Outcome::Failed, duration_of(&event), &output);
            }
            ("test" | "suite", _) => {}
            _ if line.is_empty() => {}
            _ => println!("{line}"),
        }
    }

    fn end(&mut self, name: &str, outcome: Outcome, took: Duration, output: &str) {
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
            println!("--- FAILED {}\n{}\n---", test.full_name(), output.trim());
        }
        self.ended.push(test);
    }

    fn has_failed(&self) -> bool {
        self.ended.iter().any(|test| test.outcome == Outcome::Failed)
    }
}

fn duration_of(event: &Value) -> Duration {
    Duration::from_secs_f64(event["exec_time"].as_f64().unwrap_or(0.0).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_give_outcomes_and_unfinished_tests() {
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

    /// Returns a program of a package, as cargo starts it.
    fn program(path: &str, package: &str, directory: &str) -> Program {
        let directory = crate::root().join(directory);
        let environment = [("CARGO_PKG_NAME", package), ("CARGO_MANIFEST_DIR", directory.to_str().unwrap())]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        Program { path: path.into(), arguments: Vec::new(), directory, environment: environment.into() }
    }

    #[test]
    fn program_path_gives_target_and_cargo_flags() {
        let named = |path: &str| program(path, "xtask", "xtask").names();
        assert_eq!(named("target/debug/deps/xtask-0123abcd"), ("xtask".into(), "-p xtask --lib".into()));
        assert_eq!(named("target/debug/deps/other-0123abcd").1, "-p xtask --bins");
    }

    #[test]
    fn long_test_programs_run_first_and_known_answers_last() {
        let of = |name: &str| program(&format!("deps/{name}-0123abcd"), "skye", "crates/skye");
        let others = [of("skye"), program("deps/xtask-0123abcd", "xtask", "xtask")];
        let all = [&others[..], &[of("known_answers"), of("e2e")]].concat();
        let (first, alone) = in_order(&all);
        let names = |jobs: &[Job<'_>]| jobs.iter().map(|job| job.program.names().0).collect::<Vec<_>>();
        assert_eq!(names(&first), ["e2e", "xtask", "skye"]);
        assert_eq!(names(&alone), ["known_answers", "known_answers"]);
        assert_eq!(first[0].arguments, ["--test-threads=10"]);
        let lines: String = all.iter().map(Program::line).collect();
        assert_eq!(read(&lines).unwrap(), all);
    }

    #[test]
    fn user_filter_selects_from_all_parts() {
        let mut chosen = program("deps/e2e-0123abcd", "skye", "crates/skye");
        chosen.arguments = vec!["browser::".into()];
        let (jobs, _) = in_order(std::slice::from_ref(&chosen));
        assert_eq!(jobs.len(), 1);
        assert_eq!(jobs[0].arguments, ["browser::", "--test-threads=10"]);
    }

    #[test]
    fn test_programs_run_in_cargo_environment() {
        let mut shell = program("/bin/sh", "xtask", "xtask");
        let event = r#"{\"type\":\"test\",\"event\":\"ok\",\"name\":\"$CARGO_PKG_NAME:${PWD##*/}\"}"#;
        shell.arguments = ["-c".to_owned(), format!("echo \"{event}\"")].into();
        let (tests, documented) = run_all(&[shell.clone(), shell], || Ok(7)).unwrap();
        let names: Vec<_> = tests.iter().map(|test| (test.name.as_str(), test.outcome)).collect();
        assert_eq!((names, documented), (vec![("xtask:xtask", Outcome::Passed); 2], 7));
    }
}
